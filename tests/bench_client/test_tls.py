"""https: the same trial over TLS, with the kernel's stamps."""

from __future__ import annotations

import re
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator

import pytest
import trustme

from sweep.bench.client.trial import run
from sweep.bench.shown import AsTables
from sweep.bench.standalone import bench_url
from sweep.errors import HostUnreachable
from tests.bench_client.jobs import body, job
from tests.bench_client.server import StreamServer


@pytest.fixture
def authority(monkeypatch, tmp_path) -> trustme.CA:
    """One that this process, and what it starts, believes."""
    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return made


@pytest.fixture
def server(authority) -> Iterator[StreamServer]:
    with StreamServer(tls=context(authority, "127.0.0.1")) as started:
        yield started


def context(authority: trustme.CA, name: str) -> ssl.SSLContext:
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(made)
    return made


def errors(result: dict) -> list[str | None]:
    return [
        request["error"] for request in sorted(result["requests"], key=lambda one: one["index"])
    ]


def secure(server: StreamServer, requests: list[dict], *given: int, **more: object) -> dict:
    return run(job(server, requests, *given, https=True, **more))


def test_what_is_measured_agrees_with_what_the_server_did(server):
    result = secure(server, [body(tokens=30, per_chunk=4, gap_s=0.002) for _ in range(8)], 3)
    assert result["error"] is None
    assert errors(result) == [None] * 8
    assert [(one["tokens_out"], sum(one["n"])) for one in result["requests"]] == [(30, 30)] * 8
    client = result["client"]
    assert client["stamped"] == client["reads"] > 0
    assert len(result["ports"]) == 3
    begin = min(one.sent[0] for one in server.served)
    for one in result["requests"]:
        assert result["started"] + one["first"] / 1e6 >= begin


@pytest.mark.parametrize("tokens", [1, 4000])
def test_answers_of_any_size(server, tokens):
    result = secure(server, [body(tokens=tokens, glue=True) for _ in range(3)], 2)
    assert errors(result) == [None] * 3
    assert [one["tokens_out"] for one in result["requests"]] == [tokens] * 3


def test_a_long_request_goes_out_in_pieces(server):
    long = body(tokens=2)
    long["messages"][0]["content"] = "word " * 400_000
    result = secure(server, [long, body(tokens=2)])
    assert errors(result) == [None] * 2
    assert len(server.served[0].body["messages"][0]["content"]) == 2_000_000


@pytest.mark.parametrize("fault", ["drop", "short body", "503", "not http"])
def test_trouble_costs_its_own_request(server, fault):
    requests = [body(tokens=6), body(tokens=6, fault=fault, after=3), body(tokens=6)]
    result = secure(server, requests)
    assert result["error"] is None
    first, second, third = errors(result)
    assert (first, third) == (None, None)
    assert second is not None


def test_the_control_requests_go_over_it_too(authority):
    info = [{"version": "0.5.23"}]
    with StreamServer(tls=context(authority, "127.0.0.1"), info=info) as server:
        result = secure(server, [body(tokens=2)], flush=True)
    assert result["flush"] == 200
    assert result["server_before"]["version"] == "0.5.23"


@pytest.mark.parametrize(
    ("name", "trusted", "reason"),
    [
        ("other.example", True, "IP address mismatch"),
        ("127.0.0.1", False, "self-signed certificate in certificate chain|unable to get local"),
    ],
)
def test_a_certificate_that_proves_nothing(authority, name, trusted, reason):
    issuer = authority if trusted else trustme.CA()
    with StreamServer(tls=context(issuer, name)) as server:
        result = secure(server, [body(tokens=2)])
    assert result["error"]["phase"] == "measure"
    assert result["error"]["detail"].startswith(f"127.0.0.1:{server.port}: cannot connect: TLS: ")
    assert re.search(reason, result["error"]["detail"])


class Plain(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(65536)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")


def test_a_server_that_speaks_plain_http():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Plain) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asked = {"host": "127.0.0.1", "port": server.server_address[1], "https": True}
        shape = {"path": "/v1/chat/completions", "concurrency": 1, "timeout_s": 60}
        result = run({**asked, **shape, "requests": [body(tokens=2)]})
        server.shutdown()
    assert "cannot connect: TLS: [SSL" in result["error"]["detail"]


def test_a_server_that_never_answers_the_handshake(monkeypatch):
    monkeypatch.setattr("sweep.bench.client.loop.CONNECT_S", 0.3)
    monkeypatch.setattr("sweep.bench.client.control.CONTROL_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        asked = {"host": "127.0.0.1", "port": listener.getsockname()[1], "https": True}
        shape = {"path": "/v1/chat/completions", "concurrency": 2, "timeout_s": 60}
        result = run({**asked, **shape, "requests": [body(tokens=2)]})
    assert "cannot connect: no answer within 0.3 s" in result["error"]["detail"]


def test_the_command(server):
    lines: list[str] = []
    assert bench_url(server.url, [2], shown=AsTables(lines.append)) == 0
    assert any(line.lstrip().startswith("2") for line in lines)


def test_the_command_names_what_makes_a_certificate_known(authority):
    with (
        StreamServer(tls=context(trustme.CA(), "127.0.0.1")) as server,
        pytest.raises(HostUnreachable, match=r"SSL_CERT_FILE"),
    ):
        bench_url(server.url, [1], shown=AsTables([].append))
