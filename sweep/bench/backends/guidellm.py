"""GuideLLM, `guidellm run` (0.7 and newer; read in 0.8.1).

All it is told stands in a scenario file: a key has no place among words that `ps` shows. Where it
takes other words for the same: its inter_token_latency_ms is (last - first token) / (tokens - 1),
our tpot; its time_per_output_token_ms has the wait for the first token in it, which no column of
ours has; request_latency is in seconds. The mean of output_tokens_per_second is tokens / duration,
its percentiles are of something else.
"""

from __future__ import annotations

import json
from typing import Any

from sweep.bench.backends.client import Asked, Client, Files, Place, Words, json_lines, program
from sweep.inventory import ClientBenchmark

SCENARIO = "scenario.json"


def _of(metric: str, part: str, factor: float = 1.0) -> Place:
    return f"metrics.{metric}.successful.{part}", factor


def _spread(column: str, metric: str, factor: float = 1.0) -> dict[str, Place]:
    parts = (
        ("mean", "mean"), ("p50", "median"), ("p90", "percentiles.p90"), ("p99", "percentiles.p99"),
    )  # fmt: skip
    return {f"{column}_ms_{ours}": _of(metric, theirs, factor) for ours, theirs in parts}


PLACES: dict[str, Place] = {
    "requests_ok": "metrics.request_totals.successful",
    "output_tokens": _of("output_token_count", "total_sum"),
    "wall_s": "duration",
    "agg_tok_s": _of("output_tokens_per_second", "mean"),
    "concurrency_achieved": _of("request_concurrency", "mean"),
    **_spread("ttft", "time_to_first_token_ms"),
    **_spread("tpot", "inter_token_latency_ms"),
    **_spread("e2e", "request_latency", 1000.0),
}


def version(spec: ClientBenchmark, _python: str) -> Words:
    return (program(spec), "--version")


def command(asked: Asked) -> Words:
    return (
        program(asked.spec), "run", "--config", SCENARIO, "--disable-console", *asked.spec.args,
    )  # fmt: skip


def files(asked: Asked) -> Files:
    scenario = json.dumps({"spec": _scenario(asked)})
    return {SCENARIO: scenario.encode(), "prompts.jsonl": json_lines(asked.prompts, "prompt")}


def _scenario(asked: Asked) -> dict[str, Any]:
    spec = asked.spec
    backend: dict[str, Any] = {
        "kind": "openai_http",
        "target": asked.url,
        "model": asked.model,
        "request_format": "/v1/chat/completions",
        "http2": False,
        "max_tokens": spec.max_tokens,
        "extras": {
            "body": {
                "temperature": spec.temperature,
                "top_p": spec.top_p,
                "ignore_eos": spec.ignore_eos,
            }
        },
    }
    if asked.api_key:
        backend["api_key"] = asked.api_key
    return {
        "backend": backend,
        "data": [{"kind": "json_file", "path": "prompts.jsonl"}],
        "tokenizer": {"kind": "huggingface_auto", "model": asked.tokenizer},
        "profile": {"kind": "concurrent", "streams": [asked.concurrency]},
        "constraints": [{"kind": "max_requests", "count": len(asked.prompts)}],
        "seed": {"kind": "static", "value": spec.seed},
        "outputs": [{"kind": "json", "path": "guidellm.json"}],
        "metrics": {"kind": "generative", "sample_size": 0},
    }


def one_benchmark(data: bytes) -> object:
    return json.loads(data)["benchmarks"][0]


CLIENT = Client(
    result="guidellm.json",
    kept="guidellm.json",
    install="install guidellm 0.7 or newer (pip install guidellm) where the server's user may run "
    "it, and name it as the benchmark's program: /path/to/venv/bin/guidellm",
    version=version,
    command=command,
    files=files,
    places=PLACES,
    document=one_benchmark,
)
