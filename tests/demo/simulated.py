"""A simulated SGLang as a process, and a plain HTTP client for it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SPECULATIVE = (
    "--speculative-algorithm", "NEXTN", "--speculative-num-steps", "3",
    "--speculative-eagle-topk", "1",
)  # fmt: skip


@dataclass
class Answer:
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The JSON of every SSE event; asserts the framing, [DONE] last."""
        parts = self.body.decode().split("\n\n")
        assert parts[-2:] == ["data: [DONE]", ""]
        assert all(part.startswith("data: ") for part in parts[:-1])
        return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]


@dataclass
class Simulated:
    """One simulator process. `log` is what it has printed so far, both streams."""

    process: subprocess.Popen[bytes]
    port: int
    log_file: Path
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> str:
        return self.log_file.read_bytes().decode()

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        connection = self.open(method, path, body)
        with contextlib.closing(connection):
            response = connection.getresponse()
            return Answer(response.status, response.read())

    def open(self, method: str, path: str, body: Any = None) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        text = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection.request(method, path, text, self.headers)
        return connection

    def get(self, path: str) -> Answer:
        return self.call("GET", path)

    def post(self, path: str, body: Any = None) -> Answer:
        return self.call("POST", path, body)

    def chat(self, prompt: str = "hello", **more: Any) -> Answer:
        return self.post("/v1/chat/completions", chat_body(prompt, **more))

    @contextlib.contextmanager
    def streaming(self, tokens: int) -> Iterator[http.client.HTTPResponse]:
        """A chat of that many tokens whose stream has begun."""
        body = chat_body(f"{tokens}", max_tokens=tokens, stream=True)
        with contextlib.closing(self.open("POST", "/v1/chat/completions", body)) as connection:
            response = connection.getresponse()
            response.read(1)
            yield response

    def until_ready(self) -> None:
        self.until("ready to roll!")

    def until(self, text: str) -> None:
        while text not in self.log:
            assert self.process.poll() is None, self.log
            time.sleep(0.01)

    def ended(self) -> int:
        """Its exit status, negative for a signal, once it has ended."""
        return self.process.wait(60)


def chat_body(prompt: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}]
    return {"messages": messages, "max_tokens": 100, "ignore_eos": True, **more}


@contextlib.contextmanager
def simulated(
    tmp_path: Path, *flags: str, port: int | None = None, **environ: str
) -> Iterator[Simulated]:
    """A simulator with these flags; environment names without SWEEP_SIM_, in small letters."""
    port = port or free_port()
    env = os.environ | {"SWEEP_SIM_SPEED": "50", "SWEEP_SIM_START_S": "0"}
    env |= {f"SWEEP_SIM_{name.upper()}": value for name, value in environ.items()}
    log_file = tmp_path / f"simulated-{port}.log"
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sweep.demo.simulator", "--model-path", "/models/m",
             "--port", str(port), *flags],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
        )  # fmt: skip
    try:
        yield Simulated(process, port, log_file)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
