"""Several processes that measure as one: in a client of its own, as on a host."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sweep.bench.archive import NAME, client_archive
from sweep.bench.client.crew import PLACES, Crew, Member, Progress, in_turn, processes, queue
from sweep.bench.client.exchange import Exchange
from sweep.bench.client.guard import Clock, Guard, Spoilt, never
from sweep.bench.client.part import Part
from sweep.bench.client.trial import run, schedule
from sweep.bench.flight import empty_places
from tests.bench_client.jobs import body, job
from tests.bench_client.server import StreamServer

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@contextmanager
def client(
    folder: Path, described: dict[str, Any], before: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    (folder / NAME).write_bytes(client_archive())
    (folder / "job.json").write_text(json.dumps(described))
    command = [*before, sys.executable, "-I", NAME, "job.json", "result.json"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE) as running:
        try:
            yield running
        finally:
            running.kill()


@contextmanager
def measuring(folder: Path, processes: int) -> Iterator[subprocess.Popen[bytes]]:
    """A client with four requests in flight that do not end by themselves."""
    with StreamServer() as server:
        requests = [body(tokens=10_000, gap_s=0.01) for _ in range(4)]
        with client(folder, job(server, requests, 4, processes=processes)) as running:
            while len(server.served) < 4:
                assert running.poll() is None
            yield running


def result(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "result.json").read_text())
    told["requests"].sort(key=lambda request: request["index"])
    return told


def ran(folder: Path, described: dict[str, Any], before: Sequence[str] = ()) -> dict[str, Any]:
    """The result of a trial that leaves nothing to say beside it."""
    with client(folder, described, before) as running:
        _, said = running.communicate(timeout=60)
    assert said == b""
    return result(folder)


def children(process: subprocess.Popen[bytes]) -> list[int]:
    told = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return list(map(int, told.split()))


def gone(pids: list[int]) -> bool:
    """Are they, within ten seconds?"""
    until = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


NONE = {"done": 0, "failed": 0, "tokens": 0, "flying": 0}


class Mute:
    """The pipe of a process that takes everything and does nothing."""

    def send(self, word: str) -> None:
        """Nothing."""


def errors(told: dict[str, Any]) -> list[str | None]:
    return [request["error"] for request in told["requests"]]


def take_all(exchanges: list[Exchange], numbers: BinaryIO, pipe: Connection) -> None:
    pipe.send([exchange.index for exchange in in_turn(exchanges, numbers)])


@LINUX
def test_each_exchange_goes_to_one_of_the_processes():
    exchanges = [Exchange(index, {}, b"") for index in range(100_000)]
    context = get_context("fork")
    pipes = []
    with queue(len(exchanges)) as numbers:
        for _ in range(4):
            ours, theirs = context.Pipe(duplex=False)
            context.Process(target=take_all, args=(exchanges, numbers, theirs)).start()
            pipes.append(ours)
        taken = [pipe.recv() for pipe in pipes]
    assert sorted(chain.from_iterable(taken)) == list(range(100_000))
    assert all(mine == sorted(mine) for mine in taken)
    assert sum(map(bool, taken)) > 1


@pytest.mark.parametrize(
    ("places", "cores", "count"),
    [(1, 8, 1), (PLACES, 8, 1), (PLACES + 1, 8, 2), (4 * PLACES, 8, 4), (4 * PLACES, 2, 2)],
)
def test_how_many(monkeypatch, places, cores, count):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    assert processes({"concurrency": places}) == count


def test_as_many_as_asked_for_but_none_without_a_place():
    assert processes({"concurrency": 8, "processes": 3}) == 3
    assert processes({"concurrency": 2, "processes": 3}) == 2
    assert processes({"concurrency": 2, "processes": -1}) == 1


def test_a_machine_that_does_not_tell_its_cores(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert processes({"concurrency": 4096}) == 1


def test_all_is_answered_once_with_c_in_flight_over_kept_connections(tmp_path):
    with StreamServer() as server:
        requests = [body(tokens=8, gap_s=0.01) for _ in range(40)]
        told = ran(tmp_path, job(server, requests, 8, processes=3))
    assert told["error"] is None
    assert errors(told) == [None] * 40
    assert [request["index"] for request in told["requests"]] == list(range(40))
    assert told["client"]["processes"] == 3
    assert max(served.flying for served in server.served) == 8
    assert len({served.connection for served in server.served}) == 8
    assert len(set(told["ports"])) == 8
    assert told["client"]["stamped"] == told["client"]["reads"] >= 40
    assert told["client"]["lag_ms_max"] >= told["client"]["lag_ms_p99"] >= 0
    assert empty_places(told["requests"], 8) < 0.02


def test_none_is_out_of_work_before_the_others(tmp_path):
    """Every other answer is long: dealt out beforehand they would all be for one of two."""
    with StreamServer() as server:
        requests = [body(tokens=2 + 20 * (number % 2), gap_s=0.01) for number in range(40)]
        told = ran(tmp_path, job(server, requests, 4, processes=2))
    assert errors(told) == [None] * 40
    assert empty_places(told["requests"], 4) < 0.02


def test_times_of_all_of_them_are_on_one_clock(tmp_path):
    with StreamServer() as server:
        requests = [{**body(tokens=9, gap_s=0.004), "note": number} for number in range(12)]
        told = ran(tmp_path, job(server, requests, 4, processes=2))
    assert min(request["sent"] for request in told["requests"]) == 0
    assert told["started"] + max(r["end"] for r in told["requests"]) / 1e6 == pytest.approx(
        told["ended"], abs=1e-6
    )
    served = {one.body["note"]: one for one in server.served}
    for number, request in enumerate(told["requests"]):
        sent_at = told["started"] + request["sent"] / 1e6
        assert sent_at <= served[number].sent[0]
        first, last = served[number].sent[1], served[number].sent[-1]
        assert first <= told["started"] + request["first"] / 1e6 + 2e-6
        assert last <= told["started"] + request["end"] / 1e6 + 2e-6
        assert list(accumulate(request["t"]))[-1] <= request["end"] - request["sent"]


def test_an_open_loop_keeps_to_one_plan(tmp_path):
    with StreamServer() as server:
        requests = [body(tokens=2) for _ in range(30)]
        told = ran(tmp_path, job(server, requests, 6, processes=3, rate=100.0, seed=7))
    assert errors(told) == [None] * 30
    due = [request["due"] for request in told["requests"]]
    assert due == pytest.approx([at * 1e6 for at in schedule(100.0, 7, 30)], abs=20_000)
    assert all(request["sent"] >= request["due"] for request in told["requests"])


def test_failures_stay_with_their_requests(tmp_path):
    with StreamServer() as server:
        requests = [body(fault="drop" if number % 5 == 2 else "") for number in range(20)]
        told = ran(tmp_path, job(server, requests, 4, processes=2))
    assert told["error"] is None
    assert [number for number, error in enumerate(errors(told)) if error] == [2, 7, 12, 17]


@LINUX
def test_a_signal_ends_all_with_what_they_have(tmp_path):
    with StreamServer() as server:
        requests = [body(tokens=2), *[body(tokens=10_000, gap_s=0.01) for _ in range(5)]]
        with client(tmp_path, job(server, requests, 3, processes=3)) as running:
            while len(server.served) < 4:
                assert running.poll() is None
            pids = children(running)
            running.send_signal(signal.SIGTERM)
            assert running.wait(30) == 128 + signal.SIGTERM
            assert len(pids) == 3
            assert gone(pids)
    told = result(tmp_path)
    assert told["error"] == {"phase": "measure", "detail": "ended by a signal", "late": False}
    assert errors(told)[0] is None
    assert all("ended by a signal" in str(error) for error in errors(told)[1:])


@LINUX
def test_a_signal_to_all_of_them_is_one_signal(tmp_path):
    """A terminal and systemd send it to every process."""
    with measuring(tmp_path, processes=2) as running:
        for pid in [*children(running), running.pid]:
            os.kill(pid, signal.SIGINT)
        assert running.wait(30) == 128 + signal.SIGINT
        assert running.stderr is not None
        assert running.stderr.read() == b""
    assert result(tmp_path)["error"]["detail"] == "ended by a signal"


@LINUX
def test_one_that_dies_spoils_the_trial_and_leaves_nothing(tmp_path):
    with measuring(tmp_path, processes=2) as running:
        pids = children(running)
        os.kill(pids[0], signal.SIGKILL)
        assert running.wait(30) == 1
        assert gone(pids)
    detail = "a process of the client ended early (exit code -9)"
    assert result(tmp_path)["error"] == {"phase": "measure", "detail": detail, "late": False}


@LINUX
def test_none_outlives_the_one_that_started_them(tmp_path):
    with measuring(tmp_path, processes=3) as running:
        pids = children(running)
        running.kill()
        running.wait(30)
        assert len(pids) == 3
        assert gone(pids)


def test_a_deadline_ends_all(tmp_path):
    with StreamServer() as server:
        requests = [body(tokens=10_000, gap_s=0.01) for _ in range(4)]
        told = ran(tmp_path, job(server, requests, 2, processes=2, timeout_s=1.0))
    assert told["error"]["detail"] == "not done after 1 s (timeout_s)"
    assert told["error"]["late"] is True
    assert all(str(error).startswith("not done after 1 s") for error in errors(told)[:2])
    assert errors(told)[2:] == ["not sent: not done after 1 s (timeout_s)"] * 2


def test_silence_of_one_share_beside_others_that_flow_is_no_stall(tmp_path):
    with StreamServer() as server:
        requests = [body(tokens=1, gap_s=1.0), body(tokens=110, gap_s=0.05)]
        limits = {"stall_timeout_s": 0.8, "first_timeout_s": 30}
        told = ran(tmp_path, job(server, requests, 2, processes=2, **limits))
    assert told["error"] is None
    assert errors(told) == [None] * 2


def test_silence_of_all_of_them_is(tmp_path):
    with StreamServer() as server:
        requests = [body(tokens=2), body(tokens=2), body(tokens=20, gap_s=9), body(fault="silent")]
        limits = {"stall_timeout_s": 0.8, "first_timeout_s": 30}
        told = ran(tmp_path, job(server, requests, 2, processes=2, **limits))
    assert told["error"]["detail"] == "no byte from the server for 0.8 s (stall_timeout_s)"
    assert told["error"]["late"] is True
    assert errors(told)[:2] == [None] * 2


@pytest.mark.parametrize(
    ("silent", "idle_since", "late"),
    [
        ((1.2, 1.3), None, True),
        ((1.2, 0.9), None, False),
        # The other one is owed nothing: it reads answers, or waits until its next request is due.
        ((1.2, 0.0), 98.9, True),
        ((1.2, 0.0), 99.1, False),
        ((0.9, 0.0), 98.0, False),
    ],
)
def test_when_all_are_silent(silent, idle_since, late):
    guard = Guard({"timeout_s": 60, "stall_timeout_s": 1}, Clock(monotonic=lambda: 100.0), never)
    crew = Crew(guard, [])
    crew.members = [Member(None, Mute()) for _ in silent]
    for member, seconds in zip(crew.members, silent, strict=True):
        member.progress = Progress({**NONE, "flying": 1}, seconds, True)
    if idle_since is not None:
        crew.members[1].idle_since = idle_since
        crew.members[1].progress = Progress(NONE, 0.0, True)
    crew._judge()
    assert guard.late is late


def test_while_nothing_is_owed_nobody_is_silent():
    guard = Guard({"timeout_s": 60, "stall_timeout_s": 1}, Clock(monotonic=lambda: 100.0), never)
    crew = Crew(guard, [])
    crew.members = [Member(None, Mute()) for _ in "ab"]
    crew._judge()
    assert not guard.late


def test_silence_of_one_is_not_hidden_by_another_that_waits_for_its_time(tmp_path):
    with StreamServer() as server:
        requests = [body(tokens=3, fault="silent"), body(tokens=2)]
        limits = {"stall_timeout_s": 0.8, "first_timeout_s": 0.8, "rate": 0.1, "seed": 3}
        told = ran(tmp_path, job(server, requests, 2, processes=2, timeout_s=20, **limits))
    assert schedule(0.1, 3, 2)[1] > 5
    assert told["error"]["detail"] == "no byte from the server for 0.8 s (before the first byte)"


def test_one_that_had_nothing_to_do_is_not_busy(tmp_path):
    with StreamServer() as server:
        told = ran(tmp_path, job(server, [body(tokens=20, gap_s=0.02)], 2, processes=2))
    assert errors(told) == [None]
    assert told["client"]["cpu"] < 0.5


@LINUX
def test_a_disk_that_is_full_loses_no_request(tmp_path):
    small = ["prlimit", "--fsize=4096"]
    with StreamServer() as server:
        told = ran(tmp_path, job(server, [body(tokens=1)] * 700, 4, processes=2), small)
        assert not server.served
    assert told["error"]["detail"].startswith("cannot measure with 2 processes: ")


def test_requests_that_were_not_taken_once_are_told():
    guard = Guard({"timeout_s": 60}, Clock(), never)
    crew = Crew(guard, [Exchange(index, {}, b"") for index in range(2)])
    parts = [Part(0.0, [{"index": index}], [], 0, 0, [], 0.0, 1.0) for index in (0, 1)]
    assert crew._whole(parts) == parts
    with pytest.raises(Spoilt, match="2 requests were taken 3 times"):
        crew._whole([*parts, parts[0]])


def test_progress_is_that_of_all(tmp_path):
    with StreamServer() as server:
        requests = [body(tokens=2), body(tokens=2), *[body(tokens=60, gap_s=0.05) for _ in "ab"]]
        ran(tmp_path, job(server, requests, 2, processes=2, progress="progress.json"))
    said = json.loads((tmp_path / "progress.json").read_text())
    assert (said["requests"], said["done"], said["failed"], said["tokens"]) == (4, 2, 0, 4)


@LINUX
def test_what_keeps_one_of_them_from_connecting_spoils_the_trial(tmp_path):
    few = ["prlimit", "--nofile=40:40"]
    with StreamServer() as server:
        told = ran(tmp_path, job(server, [body()] * 4, 100, processes=2), few)
        assert not server.served
    detail = "cannot open a socket: Too many open files"
    assert told["error"] == {"phase": "measure", "detail": detail, "late": False}


@LINUX
def test_many_of_them_have_the_files_they_need(tmp_path):
    with StreamServer() as server:
        requests = [body(tokens=1) for _ in range(30)]
        limits = ["prlimit", "--nofile=64:4096"]
        told = ran(tmp_path, job(server, requests, 30, processes=30), limits)
    assert errors(told) == [None] * 30


def test_a_machine_that_starts_no_more_processes(monkeypatch):
    def fork() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    with StreamServer() as server:
        told = run(job(server, [body()], 4, processes=2))
    assert told["error"]["detail"] == (
        "cannot measure with 2 processes: [Errno 11] Resource temporarily unavailable"
    )
