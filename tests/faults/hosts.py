"""Faults of the host: it is started anew, its disk is full, its journal lies, somebody acts."""

from __future__ import annotations

from tests.faults.fault import ANY, STAGES, Act, Fault
from tests.faults.ground import Ground

DROP_IN = "/etc/systemd/system/sglang-sweep.service.d"
UNIT_FILE = "/run/systemd/system/sglang-sweep.service"


def reboot(*, hard: bool, noted: bool) -> Act:
    """Production was started by hand. Until the sweep has `noted` that, its owner has to again."""

    def strike(ground: Ground) -> None:
        ground.machine.reboot(hard=hard)
        if not noted:
            start_production(ground)

    return strike


def kill_and_reboot(ground: Ground) -> None:
    """Nobody is left who could tell the host what it ran."""
    ground.kill()
    ground.machine.reboot(hard=True)


def fill_disk(ground: Ground) -> None:
    ground.machine.fill_disk()


def free_disk(ground: Ground) -> None:
    ground.machine.free_disk()


def on_host(script: str) -> Act:
    def strike(ground: Ground) -> None:
        ground.machine.sh(script)

    return strike


def start_production(ground: Ground) -> None:
    ground.sh(f"{ground.host.login.systemctl} start router.service")


EDIT = f"sed -i 's/--speculative-num-steps [0-9]*/--speculative-num-steps 9/' {UNIT_FILE}"

FAULTS = (
    *(
        Fault(
            f"reboot-{'hard' if hard else 'soft'}-at-{stage.replace(' ', '-')}",
            stage, reboot(hard=hard, noted=stage != "connect"), later_s=0.3,
            short=int((stage, hard) in {("measure", True), ("wait healthy", False)}), long=2,
        )
        for stage in STAGES
        for hard in (False, True)
    ),
    Fault("kill-9-then-reboot", "measure", kill_and_reboot, later_s=0.5, alone=True),
    Fault("systemd-executed-anew", ANY,
          on_host("for turn in 1 2 3; do systemctl daemon-reexec; sleep 1; done"), long=6),
    Fault("sudo-refuses-for-3s", ANY,
          on_host("cd /etc/sudoers.d; mv ops ops~; sleep 3; mv ops~ ops"), short=0),
    Fault("journald-restarted", ANY, on_host("systemctl restart systemd-journald")),
    Fault("journald-rotated", ANY, on_host("journalctl --rotate"), short=0),
    Fault("journald-vacuumed", ANY,
          on_host("journalctl --quiet --rotate; journalctl --quiet --vacuum-time=1s")),
    Fault("host-disk-full", ANY, fill_disk, mend=free_disk, long=6),
    Fault("unit-gets-a-drop-in", ANY,
          on_host(f"mkdir -p {DROP_IN}; printf '[Service]\\nNice=5\\n' >{DROP_IN}/nice.conf; "
                  "systemctl daemon-reload"),
          mend=on_host(f"rm -rf {DROP_IN}; systemctl daemon-reload")),
    Fault("unit-is-edited", "start", on_host(f"{EDIT}; systemctl daemon-reload"),
          mend=on_host(f"rm -f {UNIT_FILE}; systemctl daemon-reload")),
    Fault("somebody-starts-production", "measure", start_production, later_s=0.5, long=6),
)  # fmt: skip
