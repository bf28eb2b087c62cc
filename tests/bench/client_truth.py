"""Clients side by side: how far each is from the truth, and what it costs. Judges nothing.

    python tests/bench/client_truth.py [--clients ours aiohttp rust] [--concurrency 1 32 128 512]
                                       [--per-chunk 1 4] [--runs 7] [--tokens 400] [--usage each]

Clients by name, too: sglang (its Python one), aiperf (set up by pip, 1.2 GB; the p99 of its ITL is
one over requests). GuideLLM is not among them: it needs torch and all of CUDA. All ask for the same
stream (aiperf for its own): usage with `each` chunk, as ours does for a trial, or at the `end`.

The truth is the log of `truth/server.py` (first token after 50 ms, then a chunk every 10 ms), on
one core; the client has another one for itself. Ours is run as on a host, by the system's Python.
Runs of the clients alternate. Per client the median of its runs, (the least and the most), and how
many times ours that is.

us/token    CPU of all its processes, user and system, per token; taken off: what it uses right
            after that for a single request of eight tokens, which is the start of its interpreter
of it timed the same without what is used once nothing is timed any more: reading the answers
TTFT, ITL   milliseconds that the client reports less what the server logged, of mean and p99: from
            the kernel having the request to the first sending; between sendings of one request
in flight   requests that the server had at a time, from the C-th arrival to the last one
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from truth.clients import CLIENTS, Client, Load, Summary, summary, surroundings
from truth.setups import Missing

from sweep.bench.flight import Request, empty_places

SERVER = Path(__file__).parent / "truth" / "server.py"
RUN_S = 300
FEW = 8
NOTHING = 0.02  # milliseconds: how many times as much says nothing
TITLES = ("us/token", "of it timed", "TTFT mean", "TTFT p99", "ITL mean", "ITL p99", "in flight")


@dataclass
class Server:
    """One truth server; `log` is complete once it has ended."""

    port: int
    log: dict[str, list[float]] = field(default_factory=dict)


@contextmanager
def serving(folder: Path, per_chunk: int) -> Iterator[Server]:
    log = folder / "log.json"
    core = str(min(os.sched_getaffinity(0)))
    command = [sys.executable, str(SERVER), str(log), "--per-chunk", str(per_chunk), "--cpu", core]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        server = Server(int(process.stdout.readline()))
        try:
            yield server
        finally:
            process.terminate()
            process.wait()
    server.log.update(json.loads(log.read_text()))


def run(client: Client, load: Load, folder: Path) -> float:
    """Runs it on the last core and returns the CPU seconds that it used."""
    core = str(max(os.sched_getaffinity(0)))
    command = ["taskset", "-c", core, *client.command(load, folder)]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=surroundings(client), stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
        signal.alarm(RUN_S)
        try:
            _, status, used = os.wait4(process.pid, 0)
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            signal.alarm(0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        said = (folder / "output").read_text(errors="replace")[-1500:]
        raise RuntimeError(f"{client.name} ended with {process.returncode}: {said}")
    return used.ru_utime + used.ru_stime


def zero(client: Client) -> float:
    """CPU seconds of a single request of a few tokens, which some clients insist on."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving(folder, 1) as server:
            return run(client, Load(server.port, 1, 1, FEW, each=True), folder)


def trial(client: Client, concurrency: int, per_chunk: int, shape: argparse.Namespace) -> Row:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving(folder, per_chunk) as server:
            requests = max(shape.least_requests, shape.rounds * concurrency)
            load = Load(server.port, concurrency, requests, shape.tokens, shape.usage == "each")
            cpu = run(client, load, folder)
        told = client.read(folder)
    served = [one for one in server.log.values() if len(one) > -(-shape.tokens // per_chunk)]
    if len(served) != requests:
        raise RuntimeError(f"{client.name}: {len(served)} of {requests} requests were answered")
    true = truth(served, per_chunk if told.per_token else 1)
    spans: list[Request] = [
        {"sent": round(one[0] * 1e6), "end": round(one[-1] * 1e6)} for one in served
    ]
    cpu -= zero(client)
    return (
        cpu / (requests * shape.tokens) * 1e6,
        (cpu if told.timed_s is None else told.timed_s) / (requests * shape.tokens) * 1e6,
        told.ttft_mean - true.ttft_mean,
        told.ttft_p99 - true.ttft_p99,
        told.itl_mean - true.itl_mean,
        told.itl_p99 - true.itl_p99,
        concurrency * (1 - (empty_places(spans, concurrency) or 0.0)),
    )


Row = tuple[float, float, float, float, float, float, float]


def truth(served: list[list[float]], divided: int) -> Summary:
    """What the server logged: per request its arrival, then every sending."""
    gaps = [after - before for one in served for before, after in pairwise(one[1:])]
    first = [(one[1] - one[0]) * 1e3 for one in served]
    return summary(first, [gap * 1e3 / divided for gap in gaps])


def line(name: str, rows: list[Row], ours: list[Row] | None) -> str:
    cells = []
    for place in range(len(TITLES)):
        values = sorted(row[place] for row in rows)
        median = statistics.median(values)
        text = f"{median:.2f} ({values[0]:.2f}..{values[-1]:.2f})"
        base = statistics.median(row[place] for row in ours) if ours else 0.0
        cells.append(f"{text} {abs(median / base):.1f}x" if abs(base) > NOTHING else text)
    return f"{name:<8} | " + " | ".join(f"{cell:>28}" for cell in cells)


def stop(*_: object) -> None:
    raise TimeoutError(f"a client was not done after {RUN_S} s")


def chosen(names: list[str]) -> list[Client]:
    clients = []
    for name in names:
        try:
            clients.append(CLIENTS[name]())
        except Missing as reason:
            print(f"{name}: not measured: {reason}", flush=True)
    return clients


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", nargs="+", default=["ours", "aiohttp", "rust"])
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 32, 128, 512])
    parser.add_argument("--per-chunk", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=2, help="requests per place in flight")
    parser.add_argument("--least-requests", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--usage", choices=("each", "end"), default="each")
    shape = parser.parse_args()
    signal.signal(signal.SIGALRM, stop)
    clients = chosen(shape.clients)
    for per_chunk in shape.per_chunk:
        for concurrency in shape.concurrency:
            rows: dict[str, list[Row]] = {client.name: [] for client in clients}
            for _ in range(shape.runs):
                for client in clients:
                    rows[client.name].append(trial(client, concurrency, per_chunk, shape))
            print(f"\nC={concurrency}, {per_chunk} tokens per chunk, {shape.runs} runs")
            print(f"{'':<8} | " + " | ".join(f"{title:>28}" for title in TITLES))
            for name, measured in rows.items():
                print(line(name, measured, rows.get("ours")), flush=True)


if __name__ == "__main__":
    main()
