"""SGLang's own client: `sglang.benchmark.serving`, in older releases `sglang.bench_serving`.

Read in 0.5.9 and 0.5.23. Both take these flags and append one line of JSON to the result file.
Its `--model` is looked up, in the Hub where it is no folder, so the name that the server goes by is
told apart from it. It sends temperature 0 unless the extra body says otherwise, and counts as many
tokens as were asked for unless a chunk tells its usage; 0.5.9 fails on the chunk without choices
that `include_usage` adds, so usage is asked for in each chunk instead. What is called accept_length
there is the server's average, which `Other` reads itself. It tells no failed requests, only how
many were completed.
"""

from __future__ import annotations

import json

from sweep.bench.backends.client import Asked, Client, Files, Words
from sweep.inventory import ClientBenchmark

MODULES = ("sglang.benchmark.serving", "sglang.bench_serving")
# Runs the first module that there is, with the words behind its names.
RUN = """
import importlib.util, runpy, sys
names = sys.argv.pop(1).split(",")
for name in names:
    try:
        if importlib.util.find_spec(name): break
    except ModuleNotFoundError as error:
        if not name.startswith(error.name + "."): raise
else:
    sys.exit("No module named " + " or ".join(names))
runpy.run_module(name, run_name="__main__", alter_sys=True)
"""
VERSION = "import importlib.metadata as m; print('sglang', m.version('sglang'))"
PLACES = {
    "requests_ok": "completed",
    "output_tokens": "total_output_tokens",
    "wall_s": "duration",
    "agg_tok_s": "output_throughput",
    "concurrency_achieved": "concurrency",
    **{
        f"{column}_ms_{ours}": f"{theirs}_{name}_ms"
        for column, name in (
            ("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2e", "e2e_latency"),
        )
        for ours, theirs in (("mean", "mean"), ("p50", "median"), ("p90", "p90"), ("p99", "p99"))
    },
}  # fmt: skip


def version(spec: ClientBenchmark, python: str) -> Words:
    return (spec.program or python, "-c", VERSION)


def command(asked: Asked) -> Words:
    return (
        asked.spec.program or asked.python, "-c", RUN, ",".join(MODULES), *flags(asked)
    )  # fmt: skip


def flags(asked: Asked) -> Words:
    """Those that its clients in Python and in Rust share."""
    spec = asked.spec
    body = {
        "temperature": spec.temperature,
        "top_p": spec.top_p,
        "stream_options": {"continuous_usage_stats": True},
    }
    return (
        "--backend", "sglang-oai-chat", "--base-url", asked.url, "--model", asked.tokenizer,
        "--served-model-name", asked.model, "--tokenizer", asked.tokenizer,
        "--dataset-name", "sharegpt",
        "--dataset-path", "prompts.json", "--sharegpt-output-len", str(spec.max_tokens),
        "--num-prompts", str(len(asked.prompts)), "--max-concurrency", str(asked.concurrency),
        "--request-rate", "inf", "--warmup-requests", "0", "--seed", str(spec.seed),
        "--extra-request-body", json.dumps(body), "--output-file", "result.jsonl",
        "--disable-tqdm", *(() if spec.ignore_eos else ("--disable-ignore-eos",)), *spec.args,
    )  # fmt: skip


def files(asked: Asked) -> Files:
    """Its ShareGPT form: the first turn is sent, the second has to be there."""
    talks = [
        {"conversations": [{"value": prompt}, {"value": "as long as asked for"}]}
        for prompt in asked.prompts
    ]
    return {"prompts.json": json.dumps(talks).encode()}


def last_line(data: bytes) -> object:
    return json.loads(data.splitlines()[-1])


CLIENT = Client(
    result="result.jsonl",
    kept="sglang.jsonl",
    install="install sglang, with what its benchmark needs, into that Python, or name another as "
    "the benchmark's program",
    version=version,
    command=command,
    files=files,
    places=PLACES,
    document=last_line,
)
