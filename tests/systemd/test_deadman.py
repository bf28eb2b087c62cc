"""A sweep that is silent: the host gives itself back."""

from __future__ import annotations

import pytest

from sweep.clock import SystemClock
from sweep.errors import HostTaken
from sweep.inventory import ProductionCommands
from sweep.systemd import HostRun, JobState, runs_on
from tests.systemd.targets import (
    NO_SECRETS,
    Target,
    http_server,
    me,
    rendered,
    service,
    taken,
    wait_for,
)


def fall_silent(target: Target, run_id: str) -> None:
    """From now on nothing is heard of the run, and its host has little patience."""
    target.with_(deadman_s=1.0).systemd(run_id).take(me())


def test_the_host_gives_itself_back_and_a_resume_takes_it_again(target: Target) -> None:
    target = target.with_(production=("llm.service",))
    units = {
        "llm.service": service("/bin/sleep 600"),
        "part.service": service("/bin/sleep 600", "PartOf=llm.service"),
    }
    target.add_units(units, start=[*units])
    try:
        with taken(target, "r-silent") as systemd:
            unit = rendered(target, http_server(target.port))
            systemd.install(unit, NO_SECRETS)
            systemd.start()
            job = systemd.jobs.start("j", ["sleep", "600"], {})
            assert systemd.poll(job).job == JobState(True, None)
            fall_silent(target, "r-silent")
            wait_for(lambda: target.active("llm.service") == "active", "the dead-man timer")
            wait_for(lambda: target.active("part.service") == "active", "what stopped with it")
            assert target.active(target.spec.unit) == "inactive"
            assert target.active(job.unit) == "inactive"
            assert systemd.poll().deadman == "fired"
            for verb in (lambda: systemd.install(unit, NO_SECRETS), systemd.start):
                with pytest.raises(HostTaken):
                    verb()
            wait_for(lambda: [run.restored for run in left(target)] == [True], "its end")
            journal = "journalctl --user" if target.spec.scope == "user" else "journalctl"
            log = target.sh(f"{journal} -o cat -u sweep-restore-r-silent.service")
            assert "nothing was heard of the sweep for 1 s" in log
            assert "llm.service is active" in log

            again = target.systemd("r-silent")
            assert again.take(me()).record.units == ("llm.service", "part.service")
            again.install(unit, NO_SECRETS)
            again.start()
            assert again.poll().deadman == "armed"
            assert again.poll().running
            assert again.jobs.state(job).running is False
            again.jobs.forget(job)
        assert [target.active(name) for name in units] == ["active", "active"]
    finally:
        target.remove_units(units)


def left(target: Target) -> tuple[HostRun, ...]:
    return runs_on(target.host, target.spec, SystemClock())


def test_a_poll_renews_the_timer_once_in_a_while(root: Target) -> None:
    with taken(root, hurried=True) as systemd:
        since = f"systemctl show -p ActiveEnterTimestampMonotonic {systemd.site.paths.timer}"
        armed = root.sh(since)
        systemd.poll()
        assert root.sh(since) == armed
        systemd.site.clock.sleep(root.spec.deadman_s / 50)  # counted five times
        assert systemd.poll().deadman == "armed"
        assert root.sh(since) != armed


def test_production_started_by_its_own_command_is_noticed_soon(target: Target) -> None:
    flag = f"{target.host.root}/tmp/llm-of-test-runs"
    commands = ProductionCommands(start=f"touch {flag}", stop=f"rm {flag}", check=f"test -e {flag}")
    target = target.with_(production=commands)
    target.sh(f"mkdir -p {target.host.root}/tmp")
    with taken(target, hurried=True) as systemd:
        assert systemd.poll().production_active == ()
        target.sh(commands.start)
        try:
            systemd.site.clock.sleep(10 / 5)  # counted five times
            assert systemd.poll().production_active == ("production",)
        finally:
            target.sh(commands.stop)


def test_a_renewal_does_not_wait_until_a_slow_server_has_stopped(target: Target) -> None:
    with taken(target, hurried=True) as systemd:
        unit = rendered(target, "/bin/sleep 600", service="ExecStop=/bin/sleep 4")
        systemd.install(unit, NO_SECRETS)
        systemd.start()
        target.sh(f"{target.systemctl} stop --no-block {unit.name}")
        systemd.site.clock.sleep(target.spec.deadman_s / 50)
        assert systemd.poll().deadman == "armed"
        assert systemd.poll().active == "deactivating"


def test_a_timer_that_somebody_stopped_is_armed_again(target: Target) -> None:
    with taken(target, hurried=True) as systemd:
        timer = systemd.site.paths.timer
        target.sh(f"{target.systemctl} stop {timer}")
        assert systemd.poll().deadman == "gone"
        systemd.site.clock.sleep(target.spec.deadman_s / 50)
        assert systemd.poll().deadman == "armed"
        assert target.active(timer) == "active"


def test_whoever_comes_after_a_silent_run_finds_the_host_free(target: Target) -> None:
    target = target.with_(production=("llm.service",))
    target.add_units({"llm.service": service("/bin/sleep 600")}, start=["llm.service"])
    try:
        first = target.systemd("r-silent")
        first.take(me())
        first.install(rendered(target, http_server(target.port)), NO_SECRETS)
        first.start()
        fall_silent(target, "r-silent")
        wait_for(lambda: [run.restored for run in left(target)] == [True], "the dead-man timer")
        with taken(target, "r-next") as second:
            assert second.take(me()).record.units == ("llm.service",)
            assert "r-silent" not in "\n".join(target.left_over())
            assert first.poll().deadman == "gone"
            assert second.poll().deadman == "armed", "the silent run does not disturb the next"
        assert target.active("llm.service") == "active"
    finally:
        target.remove_units(["llm.service"])
