"""vLLM's client, `vllm bench serve` (read in 0.33.0).

It is told to send the prompts as they are (its chat endpoint applies the template) in their order.
Its itl is per arrival, whatever an arrival brings, so it is our itl_chunk. It counts tokens by the
usage that the server tells.
"""

from __future__ import annotations

from sweep.bench.backends.client import Asked, Client, Files, Place, Words, json_lines, program
from sweep.inventory import ClientBenchmark

SPREAD = (("mean", "mean"), ("p50", "median"), ("p90", "p90"), ("p99", "p99"))
PLACES: dict[str, Place] = {
    "requests_ok": "completed",
    "output_tokens": "total_output_tokens",
    "wall_s": "duration",
    "agg_tok_s": "output_throughput",
    **{
        f"{column}_ms_{ours}": f"{theirs}_{name}_ms"
        for column, name in (("ttft", "ttft"), ("tpot", "tpot"), ("e2e", "e2el"))
        for ours, theirs in SPREAD
    },
    "itl_chunk_ms_p50": "median_itl_ms",
    "itl_chunk_ms_p99": "p99_itl_ms",
}


def version(spec: ClientBenchmark, _python: str) -> Words:
    return (program(spec), "--version")


def command(asked: Asked) -> Words:
    spec = asked.spec
    return (
        program(spec), "bench", "serve", "--backend", "openai-chat", "--base-url", asked.url,
        "--endpoint", "/v1/chat/completions", "--model", asked.tokenizer,
        "--served-model-name", asked.model, "--tokenizer", asked.tokenizer,
        "--dataset-name", "custom", "--dataset-path", "prompts.jsonl", "--skip-chat-template",
        "--disable-shuffle", "--custom-output-len", str(spec.max_tokens),
        "--num-prompts", str(len(asked.prompts)), "--max-concurrency", str(asked.concurrency),
        "--request-rate", "inf", "--num-warmups", "0", "--seed", str(spec.seed),
        "--temperature", str(spec.temperature), "--top-p", str(spec.top_p),
        *(("--ignore-eos",) if spec.ignore_eos else ()),
        "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "90,99",
        "--save-result", "--result-dir", ".", "--result-filename", "vllm.json", "--disable-tqdm",
        *spec.args,
    )  # fmt: skip


def files(asked: Asked) -> Files:
    return {"prompts.jsonl": json_lines(asked.prompts, "prompt")}


CLIENT = Client(
    result="vllm.json",
    kept="vllm.json",
    install="install vllm with its benchmark (pip install 'vllm[bench]') where the server's user "
    "may run it, and name it as the benchmark's program: /path/to/venv/bin/vllm",
    version=version,
    command=command,
    files=files,
    places=PLACES,
)
