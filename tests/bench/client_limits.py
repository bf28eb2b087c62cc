"""What a client that is held up costs: why `client_limited` begins where it does. Judges nothing.

    python tests/bench/client_limits.py [--concurrency 64] [--runs 3] [--hogs 0 1 2 4 8]

The client shares its core with processes that do nothing but count ("hogs"). The server logs when
it really got each request and sent each token (`truth/server.py`), and is on another core, so that
its own lateness is not charged to the client.

idle        share of its C places that held no request although more were to come, by the server's
            log: that much work, and that much throughput, is missing
empty       the same as the client sees it, which `EMPTY_PLACES_LIMIT` judges
lag p99     which `LAG_LIMIT_MS` judges: a read that comes so late joins several chunks, of which
            the kernel keeps the last one's time alone ("merged")
TTFT error  measured minus logged
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sweep.bench.archive import NAME, client_archive
from sweep.bench.flight import Request, empty_places
from sweep.bench.metrics import measure

SERVER = Path(__file__).parent / "truth" / "server.py"
TOKENS, ROUNDS = 100, 4
HOG = "while True: pass"


def pinned(stack: ExitStack, command: list[str], core: int, **more: Any) -> subprocess.Popen[str]:
    process = subprocess.Popen(["taskset", "-c", str(core), *command], text=True, **more)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def trial(concurrency: int, hogs: int) -> dict[str, float]:
    """One run of the client beside so many hogs."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        command = [sys.executable, str(SERVER), str(folder / "log.json")]
        server = pinned(stack, command, cores[0], stdout=subprocess.PIPE)
        assert server.stdout is not None
        (folder / NAME).write_bytes(client_archive())
        job = described(int(server.stdout.readline()), concurrency)
        (folder / "job.json").write_text(json.dumps(job))
        for _ in range(hogs):
            pinned(stack, [sys.executable, "-c", HOG], cores[-1])
        client = [sys.executable, "-I", NAME, "job.json", "result.json"]
        pinned(stack, client, cores[-1], cwd=folder).wait()
        server.terminate()
        server.wait()
        result = json.loads((folder / "result.json").read_text())
        log = json.loads((folder / "log.json").read_text())
    return figures(result, log, concurrency)


def figures(
    result: dict[str, Any], log: dict[str, list[float]], concurrency: int
) -> dict[str, float]:
    measured = measure(result)
    served: list[Request] = [
        {"sent": round(got * 1e6), "end": round(sendings[-1] * 1e6)}
        for got, *sendings in log.values()
    ]
    errors = []
    for one in measured.requests:
        got, first, *_ = log[str(one["index"])]
        errors.append((one["first"] - one["sent"]) / 1e3 - (first - got) * 1e3)
    return {
        "idle %": 100 * (empty_places(served, concurrency) or 0.0),
        "empty %": 100 * (empty_places(measured.requests, concurrency) or 0.0),
        "lag p99 ms": float(measured.values["client_lag_ms_p99"] or 0),
        "cpu": float(measured.values["client_cpu"] or 0),
        "TTFT error mean ms": statistics.fmean(errors),
        "merged %": 100 * sum(one["merged"] for one in measured.requests) / (TOKENS * len(errors)),
        "flagged": float("client_limited" in measured.flags),
    }


def described(port: int, concurrency: int) -> dict[str, Any]:
    body = {
        "model": "m", "messages": [], "max_tokens": TOKENS, "ignore_eos": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }  # fmt: skip
    return {
        "host": "127.0.0.1", "port": port, "path": "/v1/chat/completions", "headers": {},
        "concurrency": concurrency, "timeout_s": 300,
        "requests": [{**body, "user": str(index)} for index in range(ROUNDS * concurrency)],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--hogs", type=int, nargs="+", default=[0, 1, 2, 4, 8])
    options = parser.parse_args()
    for hogs in options.hogs:
        runs = [trial(options.concurrency, hogs) for _ in range(options.runs)]
        medians = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        told = ", ".join(f"{name} {value:.3g}" for name, value in medians.items())
        print(f"C={options.concurrency}, {hogs} hogs: {told}", flush=True)


if __name__ == "__main__":
    main()
