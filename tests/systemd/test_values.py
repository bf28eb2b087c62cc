"""What the scripts print, as values; who is held for dead; what may be a name."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from sweep.clock import SystemClock
from sweep.errors import HostRefused
from sweep.systemd import HostFacts, Listener, Owner
from sweep.systemd.facts import require_usable
from sweep.systemd.jobs import job_state
from sweep.systemd.lock import Found, Lock, why_dead
from sweep.systemd.owner import HIDDEN, process_started
from sweep.systemd.paths import Homes, Paths
from sweep.systemd.production import Record
from sweep.systemd.restore import is_up
from sweep.systemd.site import PATIENT, names
from sweep.systemd.state import JobState, listeners, unit_state
from sweep.systemd.stopping import span_s
from tests.systemd.targets import host_spec

ME = Owner.here(SystemClock().now())
BOOT = "b00t"


def found(owner: Owner, *, boot: str = BOOT, young: bool = False, timer: bool = True) -> Found:
    lock = Lock("r-1", "sglang-sweep.service", boot, owner)
    return Found(lock, lock.line, young=young, timer_armed=timer, restoring=False)


ELSEWHERE = dataclasses.replace(ME, machine="another")


@pytest.mark.parametrize(
    ("lock", "reason"),
    [
        (found(ME), None),
        (found(ME, timer=False), None),
        (found(ME, boot="older"), "the host was started anew since"),
        (found(dataclasses.replace(ME, boot_id="older")), "this machine was started anew since"),
        (found(dataclasses.replace(ME, pid_started="1")), "its process {pid} is gone"),
        (found(ELSEWHERE), None),
        (found(dataclasses.replace(ME, machine=f"{ME.machine} copied")), None),
        (found(ELSEWHERE, timer=False, young=True), None),
        (found(ELSEWHERE, timer=False), "its dead-man timer is armed no more"),
        (found(ELSEWHERE, boot="older"), "the host was started anew since"),
    ],
)
def test_when_an_owner_is_held_for_dead(lock: Found, reason: str | None) -> None:
    assert why_dead(lock, ME, BOOT) == (reason and reason.format(pid=ME.pid))


def test_a_process_that_may_not_be_seen_is_as_one_elsewhere() -> None:
    """/proc mounted with hidepid: another user's process is there, and cannot be looked at."""
    hidden = dataclasses.replace(ME, pid_started="1")
    assert why_dead(found(hidden), ME, BOOT, lambda _: HIDDEN) is None
    reason = why_dead(found(hidden, timer=False), ME, BOOT, lambda _: HIDDEN)
    assert reason == "its dead-man timer is armed no more"


def test_a_process_is_known_by_its_start_and_not_by_its_number() -> None:
    assert process_started(os.getpid()) == ME.pid_started
    with subprocess.Popen(["sleep", "60"]) as child:
        assert process_started(child.pid) not in (None, ME.pid_started)
        child.kill()
    assert process_started(child.pid) is None


def test_a_lock_reads_as_it_was_written() -> None:
    lock = Lock("r-1", "u.service", BOOT, dataclasses.replace(ME, user='o"b\nü'))
    assert Lock.parse(lock.line) == lock
    assert b"\n" not in lock.line
    for damaged in (b"", b"{}", b"[]", b'{"run_id": 1}', b"garbage"):
        with pytest.raises(ValueError, match=r"lock|JSON|Expecting"):
            Lock.parse(damaged)


def test_a_record_reads_as_it_was_written_and_debts_add_up() -> None:
    one = Record("r-1", "u.service", ("a.service",), ("a.service", "b.service"), healthy=False)
    other = Record("r-2", "u.service", ("c.service",), ("c.service",), True, True)
    assert Record.parse(one.to_bytes()) == one
    joined = one.joined(other)
    assert joined.run_id == "r-1"
    assert joined.units == ("c.service", "a.service")
    assert joined.judged == ("c.service", "a.service", "b.service")
    assert (joined.by_command, joined.healthy, joined.owed) == (True, True, True)
    assert not Record("r-3", "u.service").owed


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (b"", ()),
        (
            b'LISTEN 0 128 127.0.0.1:30900 0.0.0.0:* users:(("python3",pid=7,fd=3))\n'
            b'LISTEN 0 128 [::1]:30900 [::]:* users:(("python3",pid=7,fd=4))\n',
            (Listener(7, "python3"),),
        ),
        (
            b'LISTEN 0 5 *:30900 *:* users:(("a b",pid=8,fd=3),("sglang::http",pid=9,fd=3))\n',
            (Listener(8, "a b"), Listener(9, "sglang::http")),
        ),
        (b"LISTEN 0 128 0.0.0.0:30900 0.0.0.0:*\n", (Listener(None, ""),)),
    ],
)
def test_who_listens(printed: bytes, expected: tuple[Listener, ...]) -> None:
    assert listeners(printed) == expected


def test_a_unit_that_systemd_forgot_is_ended_without_a_status() -> None:
    shown = b"Id=u.service\nActiveState=inactive\nSubState=dead\nResult=success\n"
    shown += b"ExecMainCode=0\nExecMainStatus=0\nInvocationID=\nNRestarts=\nMainPID=0\n"
    state = unit_state({"unit": shown}, production_active=(), deadman="armed")
    assert (state.running, state.ended, state.invocation_id) == (False, True, "")
    assert (state.exit_code, state.exit_status) == (None, None)


def test_a_process_left_in_the_unit_is_no_end() -> None:
    shown = b"Id=u.service\nActiveState=failed\nSubState=failed\n"
    state = unit_state({"unit": shown, "cgroup": b"12\n13\n"}, production_active=(), deadman="gone")
    assert not state.ended
    assert state.cgroup_pids == {12, 13}


@pytest.mark.parametrize(
    ("active", "answer", "state"),
    [
        ("active", {"progress": b"1/8\r2/8\n"}, JobState(True, None, "2/8")),
        ("active", {"exit": b"0\n"}, JobState(False, 0)),
        ("inactive", {"exit": b""}, JobState(False, None)),
        ("deactivating", {}, JobState(True, None)),
    ],
)
def test_how_a_client_stands(active: str, answer: dict[str, bytes], state: JobState) -> None:
    assert job_state(answer, {"ActiveState": active}) == state


@pytest.mark.parametrize(
    ("shown", "seconds"),
    [
        ("1min 30s", 90),
        ("20s", 20),
        ("500ms", 0.5),
        ("2h 5min", 7500),
        ("infinity", 600),
        ("", 600),
    ],
)
def test_spans_as_systemctl_prints_them(shown: str, seconds: float) -> None:
    assert span_s(shown) == seconds


def test_lists_of_units_as_systemctl_prints_them() -> None:
    assert names(r'a.service "odd\\x2dname@a.service" b.target') == (
        "a.service", r"odd\x2dname@a.service", "b.target",
    )  # fmt: skip
    assert names("") == ()


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", "a b", "-x", ".x", "a\n", "x" * 200])
def test_what_may_not_be_a_name_on_a_host(run_id: str) -> None:
    with pytest.raises(ValueError, match="name"):
        Paths("", "system", 0, run_id, "u.service")


def test_where_things_lie() -> None:
    system = Paths("", "system", 0, "r-1", "u.service")
    user = Paths("/demo", "user", 1000, "r-1", "u.service")
    assert system.unit_file == "/run/systemd/system/u.service"
    assert user.unit_file == "/demo/run/user/1000/systemd/user/u.service"
    assert system.secrets_env == "/run/sweep/r-1/secrets.env"
    assert user.job("j") == "/demo/var/tmp/sweep-1000/r-1/j"


def test_where_lies_what_outlives_a_reboot() -> None:
    system = Paths("/demo", "system", 0, "r-1", "u.service")
    assert system.kept_record == "/demo/var/lib/sweep/r-1/record.json"
    assert system.boot_unit_file == "/demo/etc/systemd/system/sweep-boot-r-1.service"
    homes = Homes.parse("/home/o\n/home/o/state\n")
    user = Paths("", "user", 1000, "r-1", "u.service", homes).of_run("r-2")
    assert user.kept_record == "/home/o/state/sweep/r-2/record.json"
    wants = "/home/o/.config/systemd/user/default.target.wants"
    assert user.boot_link == f"{wants}/sweep-boot-r-2.service"


@pytest.mark.parametrize(
    ("shown", "up"),
    [
        ("simple active running", True),
        ("notify activating start", False),
        ("simple activating auto-restart", False),
        ("simple inactive dead", False),
        ("simple failed failed", False),
        ("oneshot active exited", True),
        ("oneshot activating start", True),
        ("oneshot inactive dead", True),
        ("oneshot inactive dead 17", False),
        ("oneshot failed failed", False),
        ("dbus reloading reload", True),
    ],
)
def test_what_counts_as_up_again(shown: str, up: bool) -> None:
    kind, active, sub, *job = shown.split()
    unit = {"Type": kind, "ActiveState": active, "SubState": sub, "Result": "success"}
    assert is_up({**unit, "Job": job[0] if job else "0"}) == up


def facts(**changes: object) -> HostFacts:
    usual = HostFacts(0, "root", BOOT, 252, "gpu1", "6.1", (), "3.11", 0.0, lingers=True)
    return dataclasses.replace(usual, **changes)  # type: ignore[arg-type]


class Named:
    name = "gpu1"


@pytest.mark.parametrize(
    ("changes", "settings", "reason"),
    [
        ({"systemd_version": 244}, {}, "systemd 244 is too old; 245"),
        ({"uid": 1000, "user": "ann"}, {}, "ann may not manage system units"),
        ({"lingers": False, "user": "ann"}, {"scope": "user"}, "enable-linger ann"),
    ],
)
def test_a_host_that_cannot_carry_a_sweep(
    changes: dict[str, object], settings: dict[str, object], reason: str
) -> None:
    spec = host_spec(address="gpu1", **settings)
    require_usable(Named(), spec, facts())  # type: ignore[arg-type]
    with pytest.raises(HostRefused, match=reason):
        require_usable(Named(), spec, facts(**changes))  # type: ignore[arg-type]


def test_a_look_at_a_deaf_systemd_is_repeated(tmp_path: Path) -> None:
    """What it printed before it fell silent is no answer. To start twice is another matter."""
    program, calls = tmp_path / "systemctl", tmp_path / "calls"
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {calls}; echo Id=a.service\n'
        f"[ $(wc -l < {calls}) -gt 2 ] || {{ echo $SAID >&2; exit 1; }}\n"
        "printf '\\nId=b.service\\n'\n"
    )
    program.chmod(0o755)
    deaf, failed = "Transport endpoint is not connected", "Unit a.service not loaded."
    for verb, said, answer in (
        ("show", deaf, (0, "Id=a.service\n\nId=b.service\n", 3)),
        ("stop", deaf, (0, "", 3)),
        ("stop", failed, (1, "Id=a.service\n", 2)),
        ("start", deaf, (1, "Id=a.service\n", 1)),
    ):
        calls.write_text("")
        script = f"{PATIENT}PATH={tmp_path}:$PATH; systemctl --user {verb} -- a b"
        done = subprocess.run(
            ["sh", "-c", script], env={**os.environ, "SAID": said},
            capture_output=True, check=False, text=True,
        )  # fmt: skip
        assert (done.returncode, done.stdout, len(calls.read_text().splitlines())) == answer
