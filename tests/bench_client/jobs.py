"""Jobs for the client, small enough to read."""

from __future__ import annotations

from typing import Any

from tests.bench_client.server import StreamServer


def body(**play: Any) -> dict[str, Any]:
    """One request; `play` says how the test server answers it."""
    tokens = play.get("tokens", 12)
    return {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": tokens,
        "ignore_eos": True,
        "stream": True,
        "play": play,
    }


def native_body(**play: Any) -> dict[str, Any]:
    """The same for /generate."""
    sampling = {"max_new_tokens": play.get("tokens", 12), "ignore_eos": True}
    return {"text": "hello", "sampling_params": sampling, "stream": True, "play": play}


def job(
    server: StreamServer, requests: list[dict[str, Any]], concurrency: int = 1, **more: Any
) -> dict[str, Any]:
    return {
        "host": "127.0.0.1",
        "port": server.port,
        "path": "/v1/chat/completions",
        "headers": {},
        "concurrency": concurrency,
        "warmup": [],
        "requests": requests,
        "flush": False,
        "timeout_s": 60,
        **more,
    }
