"""A connection that breaks after every script: each is run a second time, and nothing is harmed."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from functools import partial

from sweep.host import Host, Result
from sweep.systemd import Job, Systemd
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

HOSTS = ("demo", "bookworm-root", "trixie-sudo", "trixie-user")


class Twice:
    """A host over a connection that is lost whenever a script's answer was on its way."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.name = host.name
        self.root = host.root
        self.host_key = host.host_key

    def run(self, script: str, *, timeout_s: float = 30, stdin: bytes = b"") -> Result:
        self._host.run(script, timeout_s=timeout_s, stdin=stdin)
        return self._host.run(script, timeout_s=timeout_s, stdin=stdin)

    def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._host.put(path, data, mode=mode)
        self._host.put(path, data, mode=mode)

    def read(self, path: str) -> bytes | None:
        return self._host.read(path)

    def tunnel(self, port: int, *, direct: bool = False) -> AbstractContextManager[int]:
        return self._host.tunnel(port, direct=direct)

    def close(self) -> None:
        self._host.close()


def ended(systemd: Systemd, job: Job) -> bool:
    return not systemd.jobs.state(job).running


def test_a_whole_life_with_every_script_run_twice(target: Target) -> None:
    twice = dataclasses.replace(target, host=Twice(target.host))
    twice = twice.with_(production=("llm.service",))
    units = {
        "llm.service": service("/bin/sleep 600"),
        "part.service": service("/bin/sleep 600", "PartOf=llm.service"),
    }
    target.add_units(units, start=[*units])
    try:
        with taken(twice) as systemd:
            assert systemd.take(me()).record.units == ("llm.service", "part.service")
            for _ in range(2):
                systemd.install(rendered(twice, http_server(target.port)), NO_SECRETS)
                started = systemd.start()
                wait_for(lambda: systemd.poll().listeners, "the port")
                assert systemd.poll().invocation_id == started.invocation_id
                counting = ["sh", "-c", "echo once >> ../count; exit 4"]
                job = systemd.jobs.start(f"j-{started.invocation_id[:8]}", counting, {"f": b""})
                wait_for(partial(ended, systemd, job), "the job")
                assert systemd.jobs.state(job).exit_status == 4
                log = systemd.journal(started.invocation_id).decode()
                assert log.count("Started") == 1
                systemd.stop()
                assert systemd.poll().ended
                systemd.jobs.forget(job)
            count = f"{systemd.site.paths.work}/count"
            assert target.sh(f"cat {count}; rm {count}") == "once\nonce\n"
            assert [target.active(name) for name in units] == ["inactive", "inactive"]
            assert systemd.restore(within_s=30).units == ("llm.service", "part.service")
        assert [target.active(name) for name in units] == ["active", "active"]
    finally:
        target.remove_units(units)


def test_a_server_that_ended_at_once_is_not_started_again(target: Target) -> None:
    twice = dataclasses.replace(target, host=Twice(target.host))
    with taken(twice, "r-once") as systemd:
        count = f"{systemd.site.paths.work}/count"
        command = f"/bin/sh -c 'echo once >> {count}; exit 2'"
        systemd.install(rendered(target, command), NO_SECRETS)
        started = systemd.start()
        wait_for(lambda: not systemd.poll().running, "its end")
        assert systemd.poll().invocation_id == started.invocation_id
        assert target.sh(f"cat {count}; rm {count}") == "once\n"
