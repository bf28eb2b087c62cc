"""What a run does on its host, as commands a person can read: for the dry run. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sweep.inventory import HostSpec, ProductionCommands
from sweep.sglang.secrecy import without_secrets


def outline(spec: HostSpec, run_id: str) -> Iterator[str]:
    """The commands of a run: once at the start, for each launch, for each trial, at the end.

    UID is the number of the user who acts there. What is sent is a few scripts made of these, with
    their waits and guards.
    """
    user = " --user" if spec.scope == "user" else ""
    systemctl, unit = f"systemctl{user}", spec.unit
    scope = "user" if user else "system"
    runtime = "/run/user/UID" if user else "/run"
    state, work = f"{runtime}/sweep/{run_id}", f"/var/tmp/sweep-UID/{run_id}"  # noqa: S108
    timer = f"sweep-restore-{run_id}"
    kept, units = f"/var/lib/sweep/{run_id}", "/etc/systemd/system"
    if user:
        kept, units = f"~/.local/state/sweep/{run_id}", "~/.config/systemd/user"
    yield "once, at the start"
    yield f"  lock {runtime}/sweep/lock; write what production is to {state}/record.json"
    yield f"  the same, for a reboot, to {kept}; write {units}/sweep-boot-{run_id}.service"
    yield (
        f"  systemd-run{user} --unit={timer} --on-active={spec.deadman_s:g}s "
        f"/bin/sh {state}/restore.sh   (renewed while the sweep lives)"
    )
    yield from (f"  {without_secrets(one)}" for one in _stop_production(spec, systemctl))
    yield "each launch"
    yield f"  write {runtime}/systemd/{scope}/{unit} (above); {systemctl} daemon-reload"
    yield f"  {systemctl} reset-failed {unit}; {systemctl} start {unit}"
    yield f"  journalctl{user} -o cat --all _SYSTEMD_INVOCATION_ID=... ; GET /health, /server_info"
    yield "each trial"
    yield f"  systemd-run{user} --unit=sweep-job-{run_id}-... /bin/sh {work}/.../run.sh"
    yield "after each launch"
    yield f"  POST /abort_request; {systemctl} stop {unit}; wait until all is free"
    yield "at the end, in any case"
    yield f"  systemd-run{user} --unit={timer} /bin/sh {state}/restore.sh"
    yield from (f"  {without_secrets(one)}" for one in _start_production(spec, systemctl))
    yield f"  rm -r {state} {kept} {work}; rm {runtime}/sweep/lock {runtime}/systemd/{scope}/{unit}"


def _stop_production(spec: HostSpec, systemctl: str) -> Iterator[str]:
    if isinstance(spec.production, ProductionCommands):
        yield spec.production.stop
    elif spec.production:
        yield f"{systemctl} stop {' '.join(spec.production)}"


def _start_production(spec: HostSpec, systemctl: str) -> Iterator[str]:
    if isinstance(spec.production, ProductionCommands):
        yield f"{spec.production.start}   (if it ran before)"
    elif spec.production:
        yield f"{systemctl} start {' '.join(spec.production)}   (those that were active before)"
    if spec.production_health:
        yield f"wait for {spec.production_health}"
