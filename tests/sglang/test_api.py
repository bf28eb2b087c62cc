"""The HTTP client against a real server on a socket: every answer, and every way not to answer."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pytest

from sweep.sglang.api import Api, ApiError, Health, parse_metrics

Answer = Callable[[socket.socket, str], None]


@dataclass
class Server:
    """Answers each connection with `answer(connection, request line)`; keeps what was asked."""

    answer: Answer
    port: int = 0
    requests: list[bytes] = field(default_factory=list)

    def serve(self, listener: socket.socket) -> None:
        while True:
            with suppress(OSError):
                connection, _ = listener.accept()
                threading.Thread(target=self._one, args=(connection,), daemon=True).start()
                continue
            return

    def _one(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                piece = connection.recv(65536)
                if not piece:
                    return
                request += piece
            self.requests.append(request)
            self.answer(connection, request.split(b"\r\n", 1)[0].decode())


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(answer, listener.getsockname()[1])
    threading.Thread(target=server.serve, args=(listener,), daemon=True).start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def reply(status: int, body: object = b"", *, chunked: bool = False) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n"
    if chunked:
        half = len(content) // 2
        parts = [part for part in (content[:half], content[half:]) if part]
        sent = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts)
        return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + sent + b"0\r\n\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def routes(**answers: bytes) -> Answer:
    """Answers by path, `/a/b` written `a_b`; 404 for the rest."""

    def answer(connection: socket.socket, line: str) -> None:
        name = line.split()[1].lstrip("/").replace("/", "_")
        connection.sendall(answers.get(name, reply(404, b"Not Found")))

    return answer


@pytest.mark.parametrize(
    ("status", "detail"),
    [
        (200, "healthy"),
        (503, "starting, or not able to generate (HTTP 503)"),
        (500, "HTTP 500"),
    ],
)
def test_health(status: int, detail: str) -> None:
    with serving(routes(health_generate=reply(status))) as server:
        health = Api(server.port).health()
    assert health == Health(status, detail)
    assert health.ok is (status == 200)


def test_health_of_nobody_is_a_value() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    health = Api(port).health()
    assert health.status is None
    assert health.detail == (
        f"GET /health_generate of Api(127.0.0.1:{port}): nobody listens there (refused)"
    )


def test_the_newer_path_first_then_the_older() -> None:
    info = {"version": "0.5.23", "internal_states": [{}]}
    with serving(routes(server_info=reply(200, info))) as server:
        assert Api(server.port).server_info() == info
    with serving(routes(get_server_info=reply(200, info, chunked=True))) as server:
        assert Api(server.port).server_info() == info
        assert [request.split()[1] for request in server.requests] == [
            b"/server_info",
            b"/get_server_info",
        ]
    with serving(routes(get_model_info=reply(200, {"model_path": "/m"}))) as server:
        assert Api(server.port).model_info() == {"model_path": "/m"}


def test_models() -> None:
    with serving(routes(v1_models=reply(200, {"data": [{"id": "m"}, 3]}))) as server:
        assert Api(server.port).models() == [{"id": "m"}]


@pytest.mark.parametrize(("status", "flushed"), [(200, True), (400, False)])
def test_flush_cache(status: int, flushed: bool) -> None:
    with serving(routes(flush_cache=reply(status, b"text"))) as server:
        assert Api(server.port).flush_cache() is flushed
    assert server.requests[0].startswith(b"POST /flush_cache HTTP/1.1\r\n")


def test_abort_all() -> None:
    with serving(routes(abort_request=reply(200))) as server:
        assert Api(server.port).abort_all() is True
    assert json.loads(server.requests[0].split(b"\r\n\r\n")[1]) == {"rid": "", "abort_all": True}
    with serving(routes()) as server:
        assert Api(server.port).abort_all() is False


@pytest.mark.parametrize(
    ("answers", "idle"),
    [
        ({"v1_loads": {"loads": [{"num_running_reqs": 0, "num_waiting_reqs": 0}]}}, True),
        ({"v1_loads": {"loads": [{"num_running_reqs": 0, "num_waiting_reqs": 2}]}}, False),
        ({"get_load": [{"num_reqs": 0, "num_waiting_reqs": 0}]}, True),
        ({"get_load": [{"num_reqs": 0, "num_waiting_reqs": 0}, {"num_reqs": 3}]}, None),
        ({"get_load": [{"num_reqs": 1, "num_waiting_reqs": 0}]}, False),
        ({}, None),
    ],
)
def test_idle(answers: dict[str, object], idle: bool | None) -> None:
    with serving(routes(**{name: reply(200, body) for name, body in answers.items()})) as server:
        assert Api(server.port).idle() is idle


def test_metrics() -> None:
    text = (
        b"# HELP sglang:num_running_reqs x\n# TYPE sglang:num_running_reqs gauge\n"
        b'sglang:num_running_reqs{model_name="a }b",tp_rank="0"} 4.0\n'
        b'sglang:num_running_reqs{model_name="a }b",tp_rank="1"} 5.0 1700000000\n'
        b"up 1\nbroken\nodd nan\n"
    )
    with serving(routes(metrics=reply(200, text))) as server:
        found = Api(server.port).metrics()
    assert found is not None
    assert found["sglang:num_running_reqs"] == {
        'model_name="a }b",tp_rank="0"': 4.0,
        'model_name="a }b",tp_rank="1"': 5.0,
    }
    assert found["up"] == {"": 1.0}
    assert "broken" not in found
    with serving(routes()) as server:
        assert Api(server.port).metrics() is None
    assert parse_metrics("") == {}


def test_the_api_key_and_what_is_sent() -> None:
    with serving(routes(server_info=reply(200, {}))) as server:
        Api(server.port, api_key="secret").server_info()
    assert server.requests == [
        b"GET /server_info HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n"
        b"Authorization: Bearer secret\r\n\r\n" % server.port
    ]
    assert "secret" not in repr(Api(server.port, api_key="secret"))


def test_no_proxy_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(routes(health_generate=reply(200))) as server:
        assert Api(server.port).health().ok


@pytest.mark.parametrize(
    ("answer", "failure", "said"),
    [
        (reply(404), "wrong_configuration", "GET /get_server_info .*: HTTP 404"),
        (reply(401, b'{"error":"Unauthorized"}'), "wrong_configuration", "HTTP 401 .another api"),
        (reply(500, b"Internal"), "unknown", "HTTP 500: Internal"),
        (reply(200, b"<html>"), "wrong_configuration", "not JSON"),
        (reply(200, [1]), "wrong_configuration", "not a JSON object"),
        (reply(200, b"[" * 100_000), "wrong_configuration", "not JSON"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "unknown", "SSH-2.0"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "unknown", "IncompleteRead"),
        (b"", "unknown", "closed connection without response"),
    ],
)
def test_what_is_no_answer(answer: bytes, failure: str, said: str) -> None:
    with (
        serving(lambda connection, _: connection.sendall(answer)) as server,
        pytest.raises(ApiError, match=said) as raised,
    ):
        Api(server.port).server_info()
    assert raised.value.failure == failure


def _silent(connection: socket.socket, _: str) -> None:
    connection.recv(1)


def _drips(connection: socket.socket, _: str) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for number in range(1000):
        connection.sendall(b"X-%d: y\r\n" % number)
        time.sleep(0.02)


def _drips_body(connection: socket.socket, _: str) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
    for _number in range(5000):
        connection.sendall(b" ")
        time.sleep(0.02)


@pytest.mark.parametrize("answer", [_silent, _drips, _drips_body])
def test_one_deadline_for_everything(answer: Answer) -> None:
    with serving(answer) as server:
        api = Api(server.port, timeout_s=0.3)
        with pytest.raises(ApiError, match=r"no answer within 0\.3 s") as raised:
            api.server_info()
        assert raised.value.failure == "hang"
        assert api.health(timeout_s=0.2).status is None
