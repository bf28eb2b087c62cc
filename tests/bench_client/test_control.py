"""What is asked of the server outside the measurement: whatever it answers, the trial stands."""

from __future__ import annotations

import socket
import time

import pytest

from sweep.bench.client.trial import run
from tests.bench_client.jobs import body, job
from tests.bench_client.server import StreamServer, head

INFO = b'{"version": "0.5.23", "internal_states": [{}]}'
METRICS = b'sglang:num_requests_total{model_name="m"} %s\n'


def plain(content: bytes) -> bytes:
    return head("200 OK", f"content-length: {len(content)}") + content


class Odd(StreamServer):
    """Answers some control requests as it is told: with bytes, or (None) with drops without end."""

    def __init__(self, answers: dict[str, bytes | None], spared: int = 0) -> None:
        super().__init__()
        self.answers = answers
        self.spared = spared  # so many of them are answered well before that

    def _control(self, peer: socket.socket, request: str) -> bool:
        if request not in self.answers:
            return super()._control(peer, request)
        if self.spared:
            self.spared -= 1
            peer.sendall(plain(INFO))
            return True
        answer = self.answers[request]
        if answer is not None:
            peer.sendall(answer)
            return True
        peer.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while not self.closing.wait(0.1):
            peer.sendall(b"a")
        return False


def trial(server: StreamServer, **more: object) -> dict:
    return run(job(server, [body(tokens=4) for _ in range(3)], 2, **more))


def good(result: dict) -> bool:
    return [one["error"] for one in result["requests"]] == [None] * 3 and result["error"] is None


@pytest.mark.parametrize(
    "content", [b"[" * 200_000, b"\xff", b"3", b"{}", b'{"internal_states": 3}']
)
def test_information_that_is_none(content):
    with Odd({"GET /server_info": plain(content)}) as server:
        result = trial(server)
    assert good(result)


def test_a_size_that_is_none():
    odd = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n"
    with Odd({"GET /server_info": odd}) as server:
        result = trial(server)
    assert good(result)
    assert result["server_after"] is None


@pytest.mark.parametrize(
    ("number", "total"),
    [(b"12.0", 12), (b"1.5e+03", 1500), (b"1.2.3", None), (b"+Inf", None), (b"1e999", None)],
)
def test_a_count_of_requests(number, total):
    answers = {"GET /server_info": plain(INFO), "GET /metrics": plain(METRICS % number)}
    with Odd(answers) as server:
        result = trial(server)
    assert good(result)
    assert result["server_after"]["num_requests_total"] == total


@pytest.mark.parametrize("path", ["GET /server_info", "POST /flush_cache"])
def test_an_answer_that_drips_does_not_outlast_the_trial(path):
    began = time.monotonic()
    with Odd({path: None}) as server:
        result = trial(server, timeout_s=1.0, flush=True)
    assert "not done after 1 s" in result["error"]["detail"]
    assert time.monotonic() - began < 10


def test_an_answer_that_drips_behind_the_measurement_costs_nothing_of_it():
    with Odd({"GET /server_info": None}, spared=1) as server:
        result = trial(server, timeout_s=2.0)
    assert good(result)
    assert result["server_before"]["version"] == "0.5.23"
    assert result["server_after"] is None


def test_asked_to_stop_meanwhile():
    began = time.monotonic()
    with Odd({"GET /server_info": None}) as server:
        described = job(server, [body(tokens=4)], 1)
        result = run(described, stopped=lambda: time.monotonic() > began + 0.5)
    assert "ended by a signal" in result["error"]["detail"]
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("concurrency", [1, 8, 64])
def test_connections_that_are_all_closed_after_an_answer_cost_no_request(concurrency):
    """What is sent again goes over a new one: the next of the kept ones is closed as well."""
    with StreamServer() as server:
        server.hang_up_after = 1
        result = run(job(server, [body(tokens=4) for _ in range(150)], concurrency))
    assert result["error"] is None
    assert [one["error"] for one in result["requests"]] == [None] * 150
    assert result["client"]["resent"] > 0
