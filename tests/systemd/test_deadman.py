"""A sweep that is silent: the host gives itself back."""

from __future__ import annotations

import time

import pytest

from sweep.clock import SystemClock
from sweep.errors import HostTaken
from sweep.systemd import runs_on
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

SILENCE_S = 2.0


def test_the_host_gives_itself_back_and_a_resume_takes_it_again(target: Target) -> None:
    target = target.with_(production=("llm.service",), deadman_s=SILENCE_S)
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
            wait_for(lambda: target.active("llm.service") == "active", "the dead-man timer")
            wait_for(lambda: target.active("part.service") == "active", "what stopped with it")
            assert target.active(target.spec.unit) == "inactive"
            assert target.active(job.unit) == "inactive"
            assert systemd.poll().deadman == "fired"
            for verb in (lambda: systemd.install(unit, NO_SECRETS), systemd.start):
                with pytest.raises(HostTaken):
                    verb()
            restored = runs_on(target.host, target.spec, SystemClock())
            assert [(run.run_id, run.restored) for run in restored] == [("r-silent", True)]
            journal = "journalctl --user" if target.spec.scope == "user" else "journalctl"
            log = target.sh(f"{journal} -o cat -u sweep-restore-r-silent.service")
            assert "nothing was heard of the sweep for 2 s" in log
            assert "llm.service is active" in log

            again = target.with_(deadman_s=600.0).systemd("r-silent")
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


def test_polls_keep_it_from_firing(target: Target) -> None:
    target = target.with_(deadman_s=SILENCE_S)
    with taken(target) as systemd:
        systemd.install(rendered(target, http_server(target.port)), NO_SECRETS)
        systemd.start()
        until = time.monotonic() + 2 * SILENCE_S
        while time.monotonic() < until:
            state = systemd.poll()
            assert state.running
            assert state.deadman == "armed"


def test_a_timer_that_somebody_stopped_is_armed_again(root: Target) -> None:
    """Renewed once in a while: with a short time, at the next poll."""
    target = root.with_(deadman_s=20.0)
    with taken(target) as systemd:
        timer = systemd.site.paths.timer
        target.sh(f"systemctl stop {timer}")
        assert target.active(timer) == "inactive"
        wait_for(lambda: systemd.poll().deadman == "armed", "the renewal")


def test_whoever_comes_after_a_silent_run_finds_the_host_free(target: Target) -> None:
    target = target.with_(production=("llm.service",), deadman_s=SILENCE_S)
    target.add_units({"llm.service": service("/bin/sleep 600")}, start=["llm.service"])
    try:
        first = target.systemd("r-silent")
        first.take(me())
        first.install(rendered(target, http_server(target.port)), NO_SECRETS)
        first.start()
        wait_for(
            lambda: (
                [run.restored for run in runs_on(target.host, target.spec, SystemClock())] == [True]
            ),
            "the dead-man timer",
        )
        with taken(target.with_(deadman_s=600.0), "r-next") as second:
            assert second.take(me()).record.units == ("llm.service",)
            assert "r-silent" not in "\n".join(target.left_over())
            assert first.poll().deadman == "gone"
            assert second.poll().deadman == "armed", "the silent run does not disturb the next"
        assert target.active("llm.service") == "active"
    finally:
        target.remove_units(["llm.service"])
