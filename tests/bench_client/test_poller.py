"""Who can be read, and when the client rests rather than asks again."""

from __future__ import annotations

import select
import socket
import sys
from types import SimpleNamespace

import pytest

from sweep.bench.client import connection, trial
from sweep.bench.client.loop import Loop
from sweep.bench.client.poller import IN, MANY, REST_S, Poller
from tests.bench_client.jobs import body, job
from tests.bench_client.server import StreamServer

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the kernel gives no stamps")


@pytest.fixture(params=["epoll", "poll"])
def kind(request, monkeypatch):
    if request.param == "poll":
        monkeypatch.delattr(select, "epoll", raising=False)
    elif not hasattr(select, "epoll"):
        pytest.skip("not on Linux")


def test_who_can_be_read(kind):
    times = iter([1.0, 2.0])
    one, other = socket.socketpair()
    with one, other:
        asked = Poller(1, lambda: next(times))
        asked.register(one.fileno(), IN)
        assert asked.wait(0.01) == []
        other.send(b"x")
        assert asked.wait(10.0) == [(one.fileno(), IN)]
        assert asked.turns == [1.0, 2.0]
        asked.close()


@pytest.mark.parametrize(
    ("sockets", "passed", "rests"),
    [
        (MANY, 0.0, [REST_S]),
        (MANY, 0.4 * REST_S, [pytest.approx(0.6 * REST_S)]),
        (MANY, REST_S, []),
        (MANY, -3600.0, [REST_S]),  # the clock was set back
        (MANY - 1, 0.0, []),
    ],
)
def test_rests_until_the_next_turn_where_it_pays(monkeypatch, sockets, passed, rests):
    times = iter([0.0, passed])
    slept: list[float] = []
    monkeypatch.setattr("sweep.bench.client.poller.time.sleep", slept.append)
    asked = Poller(sockets, lambda: next(times))
    asked.wait(0.0)
    asked.rest()
    assert slept == rests


def rests(monkeypatch, **more: object) -> list[tuple[int, int]]:
    """A trial; requests not sent yet, and free places, each time the loop let arrivals gather."""
    found: list[tuple[int, int]] = []

    class Watched(Loop):
        def run(self, exchanges, waiting):
            def rest() -> None:
                found.append((sum(not exchange.sent for exchange in exchanges), len(self.idle)))

            monkeypatch.setattr(self.poller, "rest", rest)
            super().run(exchanges, waiting)

    monkeypatch.setattr(trial, "Loop", Watched)
    with StreamServer() as server:
        requests = [body(tokens=4, gap_s=0.002) for _ in range(9)]
        result = trial.run(job(server, requests, 3, **more))
    assert [request["error"] for request in result["requests"]] == [None] * 9
    return found


@ON_LINUX
def test_a_closed_loop_rests(monkeypatch):
    assert max(left for left, _ in rests(monkeypatch)) > 0


@ON_LINUX
def test_an_open_loop_does_not_while_something_is_to_be_sent(monkeypatch):
    assert not [free for left, free in rests(monkeypatch, rate=100.0) if left and free]


def test_a_client_without_stamps_reads_at_once(monkeypatch):
    """The time of reading is all it has."""
    monkeypatch.setattr(connection, "sys", SimpleNamespace(platform="other"))
    assert rests(monkeypatch) == []
