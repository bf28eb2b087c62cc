"""AIPerf, `aiperf profile` (read and run in 0.13.0).

Its inter_token_latency is (end - first) / (tokens - 1) of a request: our tpot. Tokens are taken
from the server's usage. A tokenizer has to be named all the same, and a path may not be its name:
the folder is linked under a short one. (With HF_HUB_OFFLINE set it takes no folder at all.)
"""

from __future__ import annotations

import json

from sweep.bench.backends.client import Asked, Client, Files, Place, Words, json_lines, program
from sweep.inventory import ClientBenchmark

TOKENIZER = "tokenizer"


def _spread(column: str, metric: str) -> dict[str, Place]:
    parts = (("mean", "avg"), ("p50", "p50"), ("p90", "p90"), ("p99", "p99"))
    return {f"{column}_ms_{ours}": f"{metric}.{theirs}" for ours, theirs in parts}


PLACES: dict[str, Place] = {
    "requests_ok": "request_count.avg",
    "output_tokens": "total_osl.avg",
    "wall_s": "benchmark_duration.avg",
    "agg_tok_s": "output_token_throughput.avg",
    "concurrency_achieved": "effective_concurrency.avg",
    **_spread("ttft", "time_to_first_token"),
    **_spread("tpot", "inter_token_latency"),
    **_spread("e2e", "request_latency"),
    "itl_chunk_ms_p50": "inter_chunk_latency.p50",
    "itl_chunk_ms_p99": "inter_chunk_latency.p99",
}


def version(spec: ClientBenchmark, _python: str) -> Words:
    return (program(spec), "--version")


def command(asked: Asked) -> Words:
    spec = asked.spec
    extra = {
        "temperature": spec.temperature, "top_p": spec.top_p, "max_tokens": spec.max_tokens,
        "ignore_eos": spec.ignore_eos,
    }  # fmt: skip
    return (
        program(spec), "profile", "--model", asked.model, "--url", asked.url,
        "--endpoint-type", "chat", "--streaming", "--concurrency", str(asked.concurrency),
        "--request-count", str(len(asked.prompts)), "--tokenizer", _name(asked.tokenizer),
        "--input-file", "prompts.jsonl", "--custom-dataset-type", "single_turn",
        "--dataset-sampling-strategy", "sequential", "--random-seed", str(spec.seed),
        *(word for name, value in extra.items()
          for word in ("--extra-inputs", f"{name}:{json.dumps(value)}")),
        "--use-server-token-count", "--ui", "none", "--artifact-dir", "artifacts", *spec.args,
    )  # fmt: skip


def _name(tokenizer: str) -> str:
    return TOKENIZER if tokenizer.startswith("/") else tokenizer


def links(asked: Asked) -> dict[str, str]:
    """Links to make in its folder: name -> target."""
    return {TOKENIZER: asked.tokenizer} if asked.tokenizer.startswith("/") else {}


def files(asked: Asked) -> Files:
    return {"prompts.jsonl": json_lines(asked.prompts, "text")}


CLIENT = Client(
    result="artifacts/profile_export_aiperf.json",
    kept="aiperf.json",
    install="install aiperf (pip install aiperf) where the server's user may run it, and name it "
    "as the benchmark's program: /path/to/venv/bin/aiperf",
    version=version,
    command=command,
    files=files,
    links=links,
    places=PLACES,
)
