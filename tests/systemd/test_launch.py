"""One launch after another: install, start, poll, journal, stop."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from sweep.errors import HostTaken, LaunchError
from sweep.systemd import Started, Systemd, UnitState
from sweep.unit import SecretFiles
from tests.systemd.targets import (
    NO_SECRETS,
    Target,
    http_server,
    rendered,
    service,
    taken,
    wait_for,
)
from tests.testhost import Machine


def launch(systemd: Systemd, target: Target, exec_start: str, **more: str) -> Started:
    systemd.install(rendered(target, exec_start, **more), NO_SECRETS)
    return systemd.start()


def ended(systemd: Systemd) -> UnitState:
    state = systemd.poll()

    def over() -> bool:
        nonlocal state
        state = systemd.poll()
        return not state.running

    wait_for(over, "the unit's end")
    return state


def test_a_server_is_started_seen_and_stopped(target: Target) -> None:
    with taken(target) as systemd:
        started = launch(systemd, target, http_server(target.port))
        wait_for(lambda: systemd.poll().listeners, "the port")
        state = systemd.poll()
        assert state.running
        assert state.invocation_id == started.invocation_id
        assert state.n_restarts == 0
        assert state.main_pid in state.cgroup_pids
        assert [one.pid for one in state.listeners] == [state.main_pid]
        assert state.listeners[0].process.startswith("python3")
        assert state.boot_id == systemd.facts.boot_id
        assert state.deadman == "armed"
        assert state.production_active == ()

        systemd.stop()
        state = systemd.poll()
        assert (state.active, state.cgroup_pids, state.listeners) == ("inactive", frozenset(), ())


def test_a_look_comes_when_a_server_is_ready(target: Target) -> None:
    with taken(target) as systemd, ThreadPoolExecutor(1) as beside:
        go = f"{systemd.site.paths.work}/go"
        server = f"until [ -e {go} ]; do sleep 0.1; done; exec {http_server(target.port)}"
        launch(systemd, target, f"/bin/sh -c '{server}'")
        assert not systemd.poll().listeners
        look = beside.submit(systemd.poll_when_ready, 50)
        target.sh(f": > {go}")
        assert look.result().listeners
        target.sh(f"rm {go}")


def test_a_look_comes_when_a_server_that_starts_has_ended(target: Target) -> None:
    with taken(target) as systemd, ThreadPoolExecutor(1) as beside:
        go = f"{systemd.site.paths.work}/go"
        launch(systemd, target, f"/bin/sh -c 'until [ -e {go} ]; do sleep 0.1; done; exit 3'")
        assert systemd.poll().running
        look = beside.submit(systemd.poll_when_ready, 50)
        target.sh(f": > {go}")
        assert look.result().exit_status == 3
        target.sh(f"rm {go}")


ENDS = [
    ("/no/such/program", "exited", 203, "exit-code"),
    ("/bin/true", "exited", 0, "success"),
    ("/bin/sh -c 'echo because >&2; exit 3'", "exited", 3, "exit-code"),
    ("/bin/sh -c 'kill -9 $$$$'", "killed", 9, "signal"),
]


def test_how_a_server_ended_can_still_be_told(target: Target) -> None:
    """Even when it ended before anybody could look, with exit 0 too."""
    with taken(target) as systemd:
        for command, code, status, result in ENDS:
            started = launch(systemd, target, command)
            state = ended(systemd)
            assert (state.exit_code, state.exit_status, state.result) == (code, status, result)
            assert state.invocation_id == started.invocation_id
            journal = systemd.journal(started.invocation_id, ended=True)
            assert (b"because" in journal) == (status == 3)
            assert journal.strip(), "systemd's own lines are part of it"


def test_each_start_has_its_own_journal(target: Target) -> None:
    with taken(target) as systemd:
        seen = []
        for number in range(3):
            words = f"number {number}: " + "x" * 200
            script = f"/bin/sh -c 'for i in 1 2 3 4 5 6 7 8 9; do echo {words} $$i; done'"
            started = launch(systemd, target, script)
            ended(systemd)
            lines = systemd.journal(started.invocation_id, ended=True).decode().splitlines()
            seen.append([line for line in lines if line.startswith("number")])
        assert [len(lines) for lines in seen] == [9, 9, 9]
        for number, lines in enumerate(seen):
            assert all(line.startswith(f"number {number}:") for line in lines)


def test_the_journal_is_bytes_as_they_were_written(target: Target) -> None:
    with taken(target) as systemd:
        bar = r"\\r 10%%%%|#   |\\r100%%%%|####|\\033[32mreally max_running_requests=48\\033[0m"
        long = "y" * 5000
        script = rf'printf "{bar}\\n{long}\\n\\377\\n"'
        started = launch(systemd, target, f"/bin/sh -c '{script}'")
        ended(systemd)
        journal = systemd.journal(started.invocation_id, ended=True)
        assert b"\r100%|####|\x1b[32mreally max_running_requests=48\x1b[0m" in journal
        assert b"y" * 5000 in journal
        assert b"\xff" in journal
        assert systemd.journal(started.invocation_id, lines=1).count(b"\n") == 1
        assert systemd.journal("0" * 32) == b""


def test_a_taken_port_is_refused_and_its_owner_named(target: Target) -> None:
    with taken(target) as systemd, squatter(target):
        with pytest.raises(LaunchError) as caught:
            launch(systemd, target, http_server(target.port))
        assert caught.value.failure == "port_in_use"
        assert f"port {target.port}" in caught.value.detail
        assert "http.server" in caught.value.detail
        assert systemd.poll().listeners, "nobody else's process is ended"


def test_who_answers_from_outside_the_unit_is_seen(target: Target) -> None:
    with taken(target, hurried=True) as systemd:
        launch(systemd, target, "/bin/sleep 60")
        with squatter(target):
            state = systemd.poll()
            assert [one.pid in state.cgroup_pids for one in state.listeners] == [False]
            with pytest.raises(LaunchError) as caught:
                systemd.stop()
            assert caught.value.failure == "port_in_use"


class squatter:  # noqa: N801 - reads as what it is in a with statement
    """Somebody else's server on our port."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __enter__(self) -> None:
        unit = service(http_server(self._target.port))
        self._target.add_units({"squatter.service": unit}, start=["squatter.service"])
        port = f"ss -Hltn 'sport = :{self._target.port}'"
        wait_for(lambda: self._target.sh(port), "the squatter")

    def __exit__(self, *_: object) -> None:
        self._target.remove_units(["squatter.service"])


def test_a_unit_that_systemd_does_not_take(root: Target) -> None:
    target = root
    with taken(target) as systemd:
        with pytest.raises(LaunchError) as caught:
            launch(systemd, target, "relative/path")
        assert caught.value.failure == "exec_failed"
        assert "sglang-sweep.service" in caught.value.detail


def test_stopping_ends_children_that_do_not_want_to(target: Target) -> None:
    child = "trap : TERM; sleep 60 & while :; do wait; done"
    with taken(target) as systemd:
        script = f"/bin/sh -c '({child}) & ({child}) & wait'"
        launch(systemd, target, script, service="TimeoutStopSec=1")
        wait_for(lambda: len(systemd.poll().cgroup_pids) >= 5, "the children")
        systemd.stop()
        assert systemd.poll().cgroup_pids == frozenset()
        assert systemd.poll().active == "inactive", "failed means nothing after our own stop"


def test_whoever_lost_the_host_stops_nobody_elses_server(root: Target) -> None:
    """As a laptop that wakes up in the middle of its stop: the unit is the next sweep's by now."""
    with taken(root) as systemd:
        launch(systemd, root, http_server(root.port))
        held = f"{root.runtime}/sweep/lock"
        root.sh(f"mv {held} {held}.mine; echo '{{}}' > {held}")
        assert not systemd.has_the_host()
        with pytest.raises(HostTaken):
            systemd.stop()
        assert root.active(root.spec.unit) == "active"
        root.sh(f"mv -f {held}.mine {held}")
        assert systemd.has_the_host()
        systemd.stop()
        assert root.active(root.spec.unit) == "inactive"


def test_a_server_left_running_is_stopped_before_the_next(target: Target) -> None:
    with taken(target) as systemd:
        first = launch(systemd, target, http_server(target.port))
        second = launch(systemd, target, http_server(target.port))
        assert first.invocation_id != second.invocation_id


def test_secrets_reach_the_server_and_nobody_else(target: Target) -> None:
    run_id = "r-secret"
    runtime = target.runtime
    directory = f"{runtime}/sweep/{run_id}"
    with taken(target, run_id) as systemd:
        unit = rendered(
            target,
            f"/bin/sh -c 'echo \"token=$$TOKEN\"; cat {directory}/secrets.yaml'",
            service=f"EnvironmentFile={directory}/secrets.env",
        )
        systemd.install(unit, SecretFiles(b"TOKEN='t 1'\n", b"api-key: k1\n"))
        modes = target.sh(f"stat -c '%a' {directory}/secrets.env {directory}/secrets.yaml")
        assert modes.split() == ["600", "600"]
        started = systemd.start()
        ended(systemd)
        journal = systemd.journal(started.invocation_id, ended=True)
        assert b"token=t 1" in journal
        assert b"api-key: k1" in journal


def test_a_service_user_reads_its_secret_and_writes_its_caches(root: Target) -> None:
    target = root.with_(server_user="plain")
    directory = f"{target.runtime}/sweep/r-user"
    with taken(target, "r-user") as systemd:
        command = f"/bin/sh -c 'cat {directory}/secrets.yaml && touch ~/.cache-of-test && id -un'"
        systemd.install(rendered(target, command), SecretFiles(None, b"api-key: k1\n"))
        started = systemd.start()
        assert ended(systemd).exit_status == 0
        said = systemd.journal(started.invocation_id, ended=True).splitlines()
        assert {b"api-key: k1", b"plain"} <= {*said}
    assert target.sh("stat -c %U /home/plain/.cache-of-test; rm /home/plain/.cache-of-test") == (
        "plain\n"
    )


def test_an_oom_kill_is_told(root: Target, bookworm: Machine) -> None:
    with taken(root) as systemd:
        launch(systemd, root, http_server(root.port))
        bookworm.oom_kill(root.spec.unit)
        state = ended(systemd)
        assert (state.active, state.result) == ("failed", "oom-kill")


def test_production_is_stopped_by_the_start_and_whoever_starts_it_again_wins(
    target: Target,
) -> None:
    target = target.with_(production=("llm.service",))
    target.add_units({"llm.service": service("/bin/sleep 600", more="Restart=always")})
    try:
        target.sh(f"{target.systemctl} start llm.service")
        with taken(target) as systemd:
            launch(systemd, target, http_server(target.port))
            assert target.active("llm.service") == "inactive"
            assert systemd.poll().production_active == ()

            target.sh(f"{target.systemctl} start llm.service")
            state = ended(systemd)
            assert state.production_active == ("llm.service",)
            with pytest.raises(HostTaken, match=r"llm\.service"):
                systemd.start()
            assert target.active("llm.service") == "active"
        assert target.active("llm.service") == "active"
    finally:
        target.remove_units(["llm.service"])
