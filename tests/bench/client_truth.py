"""How far the client is from the truth, and what it costs: printed, never asserted.

    python tests/bench/client_truth.py [--concurrency 1 32 128 512] [--runs 3] [--per-chunk 1]

The truth is the log of `truth_server.py` (first token after 50 ms, then one every 10 ms), which
runs on one core while the client runs on another. Errors are measured minus true: of the time to
the first token, and of every single arrival. CPU is that of the measuring loop, interpreter start
and the reading of the answers afterwards not included.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from itertools import accumulate
from pathlib import Path
from typing import Any

from sweep.bench.archive import NAME, client_archive
from sweep.bench.metrics import empty_places, measure, percentile

SERVER = Path(__file__).with_name("truth_server.py")


def trial(concurrency: int, options: argparse.Namespace) -> dict[str, float]:
    """One run of the client at one concurrency."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "log.json"
        arguments = [
            "--gap-ms", str(options.gap_ms), "--per-chunk", str(options.per_chunk),
            "--cpu", str(cores[0]),
        ]  # fmt: skip
        command = [sys.executable, str(SERVER), str(log), *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            described = job(int(server.stdout.readline()), concurrency, options)
            (folder / NAME).write_bytes(client_archive())
            (folder / "job.json").write_text(json.dumps(described))
            client = [options.python, "-I", NAME, "job.json", "result.json"]
            subprocess.run(
                client, cwd=folder, check=True,
                preexec_fn=lambda: os.sched_setaffinity(0, {cores[-1]}),
            )  # fmt: skip
            server.terminate()
        result = json.loads((folder / "result.json").read_text())
        return figures(result, json.loads(log.read_text()), options.per_chunk)


def job(port: int, concurrency: int, options: argparse.Namespace) -> dict[str, Any]:
    body = {
        "model": "m", "messages": [], "max_tokens": options.tokens, "ignore_eos": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }  # fmt: skip
    requests = [{**body, "user": str(index)} for index in range(options.rounds * concurrency)]
    return {
        "host": "127.0.0.1", "port": port, "path": "/v1/chat/completions", "headers": {},
        "concurrency": concurrency, "requests": requests, "timeout_s": 300,
    }  # fmt: skip


def figures(
    result: dict[str, Any], log: dict[str, list[float]], per_chunk: int
) -> dict[str, float]:
    """Costs and errors of one run; `log` holds per request its arrival and every sending."""
    first: list[float] = []
    every: list[float] = []
    for request in result["requests"]:
        assert request["error"] is None, request["error"]
        arrived, *sendings = log[str(request["index"])]
        times = list(accumulate(request["t"], initial=request["sent"]))[1:]
        first.append((request["first"] - request["sent"]) / 1e3 - (sendings[0] - arrived) * 1e3)
        # A read that joined several sendings is compared with the last of them.
        sent = [sendings[-(-count // per_chunk) - 1] for count in accumulate(request["n"])]
        every += [
            (result["started"] + time / 1e6 - true) * 1e3
            for time, true in zip(times, sent, strict=True)
        ]
    measured = measure(result)
    values = measured.values
    tokens, wall, client = values["output_tokens"], values["wall_s"], result["client"]
    return {
        "us/token": client["cpu"] * wall / tokens * 1e6,
        "cpu": client["cpu"],
        "lag p99": client["lag_ms_p99"],
        "ttft err mean": statistics.fmean(first),
        "ttft err p99": percentile(sorted(first), 99) or 0.0,
        "arrival err mean": statistics.fmean(every),
        "arrival err p99": percentile(sorted(every), 99) or 0.0,
        "merged": sum(request["merged"] for request in result["requests"]),
        "empty": empty_places(measured.requests, result["concurrency"]) or 0.0,
        "limited": float("client_limited" in measured.flags),
        "in flight": values["concurrency_achieved"],
        "tok/s": values["agg_tok_s"],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 32, 128, 512])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3, help="requests per place in flight")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--per-chunk", type=int, default=1)
    parser.add_argument("--gap-ms", type=float, default=10.0)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    for concurrency in options.concurrency:
        runs = [trial(concurrency, options) for _ in range(options.runs)]
        told = []
        for name in runs[0]:
            values = sorted(run[name] for run in runs)
            told.append(
                f"{name} {statistics.median(values):.4g} ({values[0]:.4g}..{values[-1]:.4g})"
            )
        print(f"C={concurrency}: " + ", ".join(told), flush=True)


if __name__ == "__main__":
    main()
