"""Who is measured: how each client is run on one load, and what its own report says.

Errors are taken between summaries (what the client reports of all requests, and what the server
logged of the same), as some clients report nothing else.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweep.bench.archive import NAME, client_archive
from sweep.bench.metrics import failures, measure, percentile
from truth.setups import engine, python_with, system_python


@dataclass(frozen=True)
class Load:
    """What is sent: `requests` of `tokens` each, `concurrency` at a time, to a port.

    `each`: the server is asked to tell the tokens with every chunk, not only at the end.
    """

    port: int
    concurrency: int
    requests: int
    tokens: int
    each: bool

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def stream_options(self) -> dict[str, bool]:
        return {"include_usage": True, "continuous_usage_stats": self.each}


@dataclass(frozen=True)
class Summary:
    """In ms. `per_token`: a gap is divided among the tokens that it brought.

    `timed_s`: CPU seconds while it measured; None: all of them, it reads answers as they come.
    """

    ttft_mean: float
    ttft_p99: float
    itl_mean: float
    itl_p99: float
    per_token: bool = False
    timed_s: float | None = None


@dataclass(frozen=True)
class Client:
    """`command` prepares its folder, in which it is then run; `read` finds its report there."""

    name: str
    command: Callable[[Load, Path], Sequence[str]]
    read: Callable[[Path], Summary]
    environment: Mapping[str, str] = field(default_factory=dict)


def summary(ttft: Sequence[float], itl: Sequence[float]) -> Summary:
    """Of single values in ms; chunks, not tokens. A lone token has no gap: 0."""
    gaps = itl or [0.0]
    return Summary(
        statistics.fmean(ttft), percentile(sorted(ttft), 99) or 0.0,
        statistics.fmean(gaps), percentile(sorted(gaps), 99) or 0.0,
    )  # fmt: skip


def job(load: Load) -> dict[str, Any]:
    body = {
        "model": "truth", "max_tokens": load.tokens, "ignore_eos": True, "stream": True,
        "stream_options": load.stream_options,
    }  # fmt: skip
    return {
        "host": "127.0.0.1", "port": load.port, "path": "/v1/chat/completions", "headers": {},
        "concurrency": load.concurrency, "timeout_s": 300,
        "requests": [{**body, "messages": [message(index)]} for index in range(load.requests)],
    }  # fmt: skip


def message(index: int) -> dict[str, str]:
    return {"role": "user", "content": f"{index}. Count upwards from here, please."}


# -- ours ------------------------------------------------------------------------------------------


def ours() -> Client:
    def command(load: Load, folder: Path) -> Sequence[str]:
        (folder / NAME).write_bytes(client_archive())
        (folder / "job.json").write_text(json.dumps(job(load)))
        return [system_python(), "-I", NAME, "job.json", "result.json"]

    return Client("ours", command, read_ours)


def read_ours(folder: Path) -> Summary:
    result = json.loads((folder / "result.json").read_text())
    measured = measure(result)
    problem = result["error"] or failures(measured.requests)
    if problem:
        raise RuntimeError(f"ours: {problem}")
    names = ("ttft_ms_mean", "ttft_ms_p99", "itl_ms_mean", "itl_ms_p99")
    values = [float(measured.values[name] or 0) for name in names]
    timed_s = result["client"]["cpu"] * float(measured.values["wall_s"] or 0)
    return Summary(values[0], values[1], values[2], values[3], per_token=True, timed_s=timed_s)


# -- the others ------------------------------------------------------------------------------------


def aiohttp_loop() -> Client:
    python = python_with("aiohttp==3.14.5")
    script = Path(__file__).with_name("aiohttp_loop.py")

    def command(load: Load, folder: Path) -> Sequence[str]:
        (folder / "job.json").write_text(json.dumps(job(load)))
        return [str(python), "-I", str(script), "job.json", "result.json"]

    def read(folder: Path) -> Summary:
        told = json.loads((folder / "result.json").read_text())
        return summary(told["ttft"], told["itl"])

    return Client("aiohttp", command, read)


# SGLang's Rust client is one extension module; `python -m sglang.benchmark.rust_client` hands it
# its command line, but imports torch before, whose start is longer than most of these runs.
RUST = """
import importlib.util, sys
found = importlib.util.spec_from_file_location("_bench", sys.argv.pop(1))
module = importlib.util.module_from_spec(found)
found.loader.exec_module(module)
module.run_argv(["bench", *sys.argv[1:]])
"""


def sglang(name: str, start: Sequence[str], *more: str) -> Client:
    """A client of SGLang's (0.5.23): both take the same flags and write the same keys."""
    python, path, model = engine()

    def command(load: Load, folder: Path) -> Sequence[str]:
        talks = [
            {"conversations": [{"value": message(index)["content"]}, {"value": "Yes. " * 8}]}
            for index in range(load.requests)
        ]
        (folder / "talks.json").write_text(json.dumps(talks))
        return [
            str(python), *start, "--backend", "sglang-oai-chat", "--base-url", load.url,
            "--dataset-name", "sharegpt", "--dataset-path", "talks.json", "--model", "truth",
            "--tokenizer", str(model), "--sharegpt-output-len", str(load.tokens),
            "--num-prompts", str(load.requests), "--max-concurrency", str(load.concurrency),
            "--warmup-requests", "0", "--output-file", "result.jsonl", "--disable-tqdm",
            "--extra-request-body", json.dumps({"stream_options": load.stream_options}), *more,
        ]  # fmt: skip

    return Client(name, command, read_sglang, {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1"})


def rust() -> Client:
    packages = engine()[1].rpartition(":")[2]
    module = next(Path(packages, "sglang/srt/rust_extensions").glob("_bench.*.so"))
    return sglang("rust", ("-I", "-c", RUST, str(module)), "--disable-retokenize")


def read_sglang(folder: Path) -> Summary:
    told = json.loads((folder / "result.jsonl").read_text().splitlines()[-1])
    names = ("mean_ttft_ms", "p99_ttft_ms", "mean_itl_ms", "p99_itl_ms")
    return Summary(*(told[name] for name in names))


def aiperf() -> Client:
    python = python_with("aiperf==0.13.0")
    _, _, model = engine()  # for its tokenizer, which has to have a short name

    def command(load: Load, folder: Path) -> Sequence[str]:
        lines = [json.dumps({"text": message(i)["content"]}) for i in range(load.requests)]
        (folder / "tokenizer").symlink_to(model)
        (folder / "prompts.jsonl").write_text("\n".join(lines) + "\n")
        return [
            str(python.with_name("aiperf")), "profile", "--model", "truth", "--url", load.url,
            "--endpoint-type", "chat", "--streaming", "--concurrency", str(load.concurrency),
            "--request-count", str(load.requests), "--tokenizer", "tokenizer",
            "--input-file", "prompts.jsonl", "--custom-dataset-type", "single_turn",
            "--extra-inputs", f"max_tokens:{load.tokens}", "--extra-inputs", "ignore_eos:true",
            "--use-server-token-count", "--ui", "none", "--artifact-dir", "artifacts",
        ]  # fmt: skip

    def read(folder: Path) -> Summary:
        told = json.loads(next(folder.rglob("profile_export_aiperf.json")).read_text())
        first, gap = told["time_to_first_token"], told["inter_token_latency"]
        return Summary(first["avg"], first["p99"], gap["avg"], gap["p99"], per_token=True)

    return Client("aiperf", command, read)


CLIENTS: Mapping[str, Callable[[], Client]] = {
    "ours": ours,
    "aiohttp": aiohttp_loop,
    "rust": rust,
    "sglang": lambda: sglang("sglang", ("-m", "sglang.benchmark.serving")),
    "aiperf": aiperf,
}


def surroundings(client: Client) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | dict(client.environment)
