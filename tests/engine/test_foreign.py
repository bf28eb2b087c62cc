"""What SGLang itself shows of its users: a client alone is never taken for several.

Our client measures twice on one server: alone, with health probes beside it, and with somebody
else's requests in the middle.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sweep.bench.client.trial import run
from sweep.sglang.foreign import Foreign, Ours, foreign
from tests.demo.simulated import chat_body, free_port
from tests.engine.build import Engine
from tests.engine.host import ARGUMENTS, SPECULATION

pytestmark = pytest.mark.timeout(900)

LIMIT_S = 600
CONCURRENCY, REQUESTS, STRANGERS = 4, 16, 3
CHAT = "/v1/chat/completions"


class Server:
    """SGLang with metrics, telling of every decode step."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self._log = log

    def said(self, since: int = 0) -> bytes:
        return self._log.read_bytes()[since:]

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        with contextlib.closing(connection):
            content = json.dumps(body) if body else None
            connection.request(method, path, content, {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            return response.status


@pytest.fixture(scope="module")
def server(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    port, log = free_port(), tmp_path_factory.mktemp("foreign") / "log"
    flags: dict[str, object] = {
        **ARGUMENTS, **SPECULATION, "speculative-num-steps": 2, "decode-log-interval": 1,
        "model-path": engine.models / "target", "port": port,
        "speculative-draft-model-path": engine.models / "draft",
    }  # fmt: skip
    words = [str(word) for flag, value in flags.items() for word in (f"--{flag}", value)]
    command = [engine.python, "-m", "sglang.launch_server", *words, "--enable-metrics"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["nice", "-n", "10", *command], env={**os.environ, **engine.environment},
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    made = Server(process, port, log)
    until = time.monotonic() + LIMIT_S
    try:
        while b"The server is fired up and ready to roll!" not in made.said():
            assert process.poll() is None, made.said().decode(errors="replace")[-2000:]
            assert time.monotonic() < until
            time.sleep(0.2)
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def measure(server: Server) -> tuple[Foreign | None, dict[str, Any]]:
    """One trial of our client, and who else was there."""
    since = len(server.said())

    def body(number: int) -> dict[str, Any]:
        return chat_body(f"{number}. Count the trees.", max_tokens=48, stream=True,
                         stream_options={"include_usage": True})  # fmt: skip

    job = {
        "host": "127.0.0.1", "port": server.port, "path": CHAT, "headers": {},
        "concurrency": CONCURRENCY, "flush": True, "timeout_s": LIMIT_S,
        "warmup": [body(100 + number) for number in range(CONCURRENCY)],
        "requests": [body(number) for number in range(REQUESTS)],
    }  # fmt: skip
    result = run(job)
    assert result["error"] is None
    assert [request["error"] for request in result["requests"]] == [None] * REQUESTS
    before, after = (result[f"server_{when}"]["num_requests_total"] for when in ("before", "after"))
    ours = Ours(
        ports=frozenset([*result["ports"], *result["warmup"]["ports"]]),
        sent=REQUESTS + CONCURRENCY,
        in_flight=CONCURRENCY,
        finished=REQUESTS,
    )
    return foreign(server.said(since), ours, after - before), result


def test_a_client_alone(server: Server) -> None:
    found, result = measure(server)
    assert found is None
    before, after = (result[f"server_{when}"]["num_requests_total"] for when in ("before", "after"))
    assert after - before == REQUESTS


def test_health_probes_are_nobodys_requests(server: Server) -> None:
    over = threading.Event()

    def probe() -> None:
        while not over.is_set():
            server.ask("GET", "/health_generate")

    prober = threading.Thread(target=probe)
    prober.start()
    try:
        found, _ = measure(server)
    finally:
        over.set()
        prober.join()
    assert found is None


def test_somebody_elses_requests(server: Server) -> None:
    def intrude() -> None:
        since = len(server.said())
        while server.said(since).count(b'"POST /v1/chat/completions') <= CONCURRENCY:
            time.sleep(0.02)  # the warm-up is over then
        for _ in range(STRANGERS):
            assert server.ask("POST", CHAT, chat_body("hello", max_tokens=8)) == 200

    stranger = threading.Thread(target=intrude)
    stranger.start()
    found, _ = measure(server)
    stranger.join()
    assert found is not None
    assert found.requests == STRANGERS
    assert any(text.startswith("access lines: 3 requests from 127.0.0.1") for text in found.seen)
    assert f"/metrics: {REQUESTS + STRANGERS} requests finished, {REQUESTS} were ours" in found.seen
