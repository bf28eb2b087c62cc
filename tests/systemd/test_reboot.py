"""A host that goes down in mid-sweep: what served before serves again after the boot."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sweep.clock import SystemClock
from sweep.errors import HostRefused
from sweep.host.opening import DemoSession
from sweep.inventory import ProductionCommands
from sweep.systemd import HostRun, runs_on
from sweep.unit import SecretFiles
from tests.systemd.conftest import Connections
from tests.systemd.targets import (
    NO_SECRETS,
    Target,
    dead,
    free_port,
    http_server,
    me,
    rendered,
    service,
    somebody,
    taken,
    wait_for,
)
from tests.testhost import Machine, Pool

HOSTS = ("demo", "bookworm-root", "trixie-user")
SLEEP = "/bin/sleep 600"
Boot = Callable[..., None]


@pytest.fixture
def boot(request: pytest.FixtureRequest) -> Boot:
    """Boots a target's host anew: by an orderly shutdown, or (hard) because the power went."""

    def reboot(target: Target, *, hard: bool = False) -> None:
        if isinstance(target.host, DemoSession):
            target.host.demo.reboot()
            return
        pool: Pool = request.getfixturevalue("testhost")
        pool.shared(target.release).reboot(hard=hard)

    return reboot


def sweeping(target: Target, run_id: str) -> None:
    """A run in the middle of a launch; its process will not come back."""
    systemd = target.systemd(run_id)
    systemd.take(dead())
    systemd.install(rendered(target, http_server(target.port)), NO_SECRETS)
    systemd.start()


def left(target: Target) -> tuple[HostRun, ...]:
    return runs_on(target.host, target.spec, SystemClock())


def kept(target: Target) -> str:
    """What outlives a reboot, in one list."""
    return target.sh(f"find {target.kept} {target.unit_directory} | grep sweep-boot; :")


@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
def test_production_that_nobody_enabled_is_back_after_a_boot(
    target: Target, boot: Boot, hard: bool
) -> None:
    target = target.with_(production=("llm.service",))
    units = {
        "llm.service": service(SLEEP),
        "part.service": service(SLEEP, "PartOf=llm.service"),
        "down.service": service(SLEEP, "PartOf=llm.service"),
    }
    target.add_units(units, start=["llm.service", "part.service"])
    try:
        with taken(target, "r-booted") as systemd:
            systemd.install(rendered(target, http_server(target.port)), NO_SECRETS)
            systemd.start()
            assert "llm.service is inactive" in (systemd.production_trouble() or "")
            boot(target, hard=hard)
            after = target.systemd("r-booted")
            wait_for(lambda: after.production_trouble() is None, "the host's own restore")
            states = [target.active(name) for name in units]
            assert states == ["active", "active", "inactive"]
            assert [(run.run_id, run.restored) for run in left(target)] == [("r-booted", True)]
            assert kept(target) == "", "nothing is owed any more"
            journal = "journalctl --user" if target.spec.scope == "user" else "journalctl"
            log = target.sh(f"{journal} -b -o cat -u sweep-restore-r-booted.service")
            found = "found: llm.service is inactive"
            for said in ("started anew in mid-sweep", found, "production serves again"):
                assert said in log

            again = target.systemd("r-booted")
            assert again.take(me()).record.units == ("llm.service", "part.service")
            assert again.poll().deadman == "armed"
    finally:
        target.remove_units(units)


def test_production_that_systemd_does_not_run_is_back_after_a_boot(
    target: Target, boot: Boot
) -> None:
    place = f"{target.kept}-of-test"
    port = free_port()
    commands = ProductionCommands(
        start=f"nohup {http_server(port)} >/dev/null 2>&1 & echo $! > {place}/pid",
        stop=f"kill $(cat {place}/pid); rm {place}/pid",
        check=f"kill -0 $(cat {place}/pid) && grep -q http.server /proc/$(cat {place}/pid)/cmdline",
    )
    target = target.with_(production=commands, production_health=f"http://127.0.0.1:{port}/")
    target.sh(f"mkdir -p {place}; {commands.start}")
    try:
        wait_for(lambda: target.sh(f"ss -Hltn 'sport = :{port}'"), "production")
        sweeping(target, "r-gone")
        assert not target.run(commands.check).ok
        boot(target, hard=True)
        systemd = target.systemd("r-gone")
        wait_for(lambda: systemd.production_trouble() is None, "the host's own restore")
        assert target.run(commands.check).ok
        assert "the host itself started" in systemd.restore(within_s=30).text
    finally:
        target.run(commands.stop)
        target.sh(f"rm -rf {place}")


def test_a_kept_record_is_found_where_nothing_ran_at_the_boot(target: Target, boot: Boot) -> None:
    """As on a host whose /etc is read-only, or where the boot unit was disabled."""
    target = target.with_(production=("llm.service",))
    target.add_units({"llm.service": service(SLEEP)}, start=["llm.service"])
    try:
        for come_back in ("restore", "same run", "another run"):
            sweeping(target, "r-gone")
            target.sh(f"find {target.unit_directory} -name 'sweep-boot-*' -delete")
            boot(target, hard=True)
            assert target.active("llm.service") == "inactive"
            (run,) = left(target)
            assert (run.run_id, run.owes, run.restored) == ("r-gone", "llm.service", False)
            if come_back != "restore":
                run_id = "r-gone" if come_back == "same run" else "r-heir"
                takeover = target.systemd(run_id).take(me())
                assert takeover.record.units == ("llm.service",)
                assert any("started anew" in note for note in takeover.notes)
                assert [one.run_id for one in left(target)] == [run_id]
            (run,) = left(target)
            assert target.systemd(run.run_id).restore(within_s=30).units == ("llm.service",)
            assert target.active("llm.service") == "active"
            assert target.left_over() == []
    finally:
        target.remove_units(["llm.service"])


def test_a_boot_unit_that_runs_in_mid_sweep_does_nothing(target: Target) -> None:
    """Whoever starts multi-user.target by hand starts what it wants."""
    target = target.with_(production=("llm.service",))
    target.add_units({"llm.service": service(SLEEP)}, start=["llm.service"])
    try:
        with taken(target, "r-alive") as systemd:
            systemd.install(rendered(target, http_server(target.port)), NO_SECRETS)
            systemd.start()
            target.sh(f"{target.systemctl} start sweep-boot-r-alive.service")
            state = systemd.poll()
            assert (state.deadman, state.running) == ("armed", True)
            assert target.active("llm.service") == "inactive"
    finally:
        target.remove_units(["llm.service"])


def test_a_take_that_is_refused_keeps_nothing(root: Target) -> None:
    root.sh("mkdir /var/tmp/sweep-0; chown plain /var/tmp/sweep-0")
    try:
        with pytest.raises(HostRefused):
            root.systemd("r-refused").take(me())
        assert kept(root) == ""
    finally:
        root.sh("rmdir /var/tmp/sweep-0")


@pytest.mark.parametrize(
    ("place", "way"),
    [("/var/lib", "only this sweep"), ("/etc/systemd/system", "`sweep restore")],
)
def test_a_host_that_cannot_keep_anything_is_swept_all_the_same(
    root: Target, place: str, way: str
) -> None:
    target = root.with_(production=("llm.service",))
    target.add_units({"llm.service": service(SLEEP)}, start=["llm.service"])
    root.sh(f"mount --bind {place} {place} && mount -o remount,bind,ro {place}")
    try:
        with taken(target, "r-immutable") as systemd:
            notes = systemd.take(me()).notes
            assert any("Read-only file system" in note and way in note for note in notes)
            systemd.install(rendered(target, http_server(target.port)), NO_SECRETS)
            systemd.start()
        assert target.active("llm.service") == "active"
    finally:
        root.sh(f"umount {place}")
        target.remove_units(["llm.service"])


def test_what_is_kept_holds_no_secrets(target: Target) -> None:
    with taken(target, "r-secret") as systemd:
        secrets = SecretFiles(b"TOKEN=canary-1\n", b"api-key: canary-2\n")
        systemd.install(rendered(target, SLEEP), secrets)
        assert target.sh(f"grep -r canary- {target.kept} {target.unit_directory}; :") == ""
        assert target.sh(f"ls {target.kept}/r-secret").split() == [
            "lock", "record.json", "restore.sh",
        ]  # fmt: skip


def test_who_was_before_a_boot_holds_nothing_after_it(
    root: Target, boot: Boot, bookworm: Machine
) -> None:
    """The lock comes back with the record, and says that its owner cannot be alive."""
    first = root.systemd("r-before")
    first.take(somebody())
    boot(root, hard=True)
    with taken(root, "r-after") as second:
        assert second.poll().deadman == "armed"
        assert first.poll().deadman == "gone"


def test_a_user_manager_that_is_started_anew_is_a_boot(
    connections: Connections, testhost: Pool
) -> None:
    """Its timers die with it, and with them ours: the boot unit does their work."""
    target = connections("trixie-user").with_(production=("llm.service",))
    target.add_units({"llm.service": service(SLEEP)}, start=["llm.service"])
    try:
        sweeping(target, "r-user")
        testhost.shared("trixie").sh("systemctl restart user@$(id -u plain)")
        systemd = target.systemd("r-user")
        wait_for(lambda: systemd.production_trouble() is None, "the host's own restore")
        assert target.active("llm.service") == "active"
        assert "the host itself started llm.service" in systemd.restore(within_s=30).text
        assert target.left_over() == []
    finally:
        target.remove_units(["llm.service"])
