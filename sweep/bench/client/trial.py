"""One trial, phase by phase, and the command."""

from __future__ import annotations

import gc
import itertools
import json
import os
import random
import resource
import signal
import socket
import sys
from typing import Any, Callable, Dict, List, Optional

from .answer import record
from .connection import said
from .control import flush, server_info
from .crew import Crew, Share, processes
from .exchange import Exchange, Target
from .guard import Clock, Guard, Late, Spoilt, never
from .loop import CONNECT_S, Loop
from .part import Part, described, part


def resolve(job: Dict[str, Any]) -> Target:
    """Finds the address that takes connections, so that names are looked up only once."""
    host, port, tls = str(job["host"]), int(job["port"]), None
    if job.get("https"):
        from .tls import over_tls  # noqa: PLC0415 - not every Python has ssl

        tls = over_tls(host)
    try:
        with socket.create_connection((host, port), CONNECT_S) as probe:
            family, address = probe.family, probe.getpeername()
    except OSError as error:
        raise Spoilt("%s:%d: cannot connect: %s" % (host, port, said(error))) from error
    prefix, headers = str(job.get("prefix", "")), job.get("headers", {})
    return Target(host, port, prefix, headers, family, address, tls)


def schedule(rate: float, seed: int, count: int) -> List[float]:
    """When so many requests are sent: a Poisson process, the first one at once; in seconds."""
    drawn = random.Random("arrivals:%d" % seed)  # noqa: S311 - not a secret
    return list(itertools.accumulate([0.0] + [drawn.expovariate(rate) for _ in range(count - 1)]))


def exchanges(
    job: Dict[str, Any],
    target: Target,
    bodies: List[Dict[str, Any]],
    rate: Optional[float] = None,
) -> List[Exchange]:
    """What is to be sent, with its times if there is a rate."""
    path = str(job["path"])
    made = [Exchange(i, body, target.payload(path, body)) for i, body in enumerate(bodies)]
    if rate and made:
        due = schedule(rate, int(job.get("seed", 0)), len(made))
        for exchange in made:
            exchange.due = due[exchange.index]
    return made


def drive(
    job: Dict[str, Any],
    target: Target,
    share: Share,
    guard: Guard,
    connected: Callable[[], None] = lambda: None,
) -> Loop:
    """Sends a share, so many at a time; returns the loop, done. `connected` is called between."""
    loop = Loop(target, share.places, float(job.get("idle_timeout_s", 300)), guard)
    try:
        loop.connect()
        connected()
        loop.run(share.exchanges, share.waiting)
    finally:
        loop.close()
    return loop


def warm_up(job: Dict[str, Any], target: Target, guard: Guard) -> Dict[str, Any]:
    """Runs the warm-up requests; Spoilt when none of them is ok."""
    planned = exchanges(job, target, job["warmup"])
    loop = drive(job, target, Share(int(job["concurrency"]), planned, iter(planned)), guard)
    records = [record(exchange, 0.0) for exchange in loop.done]
    errors = [str(item["error"]) for item in records if item["error"] is not None]
    if errors and len(errors) == len(records):
        guard.check()
        raise Spoilt("none of %d warm-up requests is ok: %s" % (len(records), errors[0]))
    good = [item for item in records if item["error"] is None]
    tokens = sum(item["tokens_out"] for item in good)
    error = errors[0] if errors else None
    counts = {"requests": len(records), "ok": len(good), "tokens": tokens}
    return {**counts, "error": error, "ports": loop.ports}


def measure(job: Dict[str, Any], target: Target, guard: Guard) -> Dict[str, Any]:
    """The measured part, and the reading of its answers."""

    def work(share: Share, guard: Guard, connected: Callable[[], None]) -> Part:
        loop = drive(job, target, share, guard, connected)
        guard.verdict()
        return part(loop)

    planned = exchanges(job, target, job["requests"], job.get("rate"))
    places, count = int(job["concurrency"]), processes(job)
    if count == 1:
        return described([work(Share(places, planned, iter(planned)), guard, lambda: None)])
    return described(Crew(guard, planned).measure(places, count, work))


def allow_connections(count: int) -> None:
    """Raises the limit of open files where it is in the way; the hard limit is the machine's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 64
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def run(
    job: Dict[str, Any],
    clock: Optional[Clock] = None,
    stopped: Callable[[], bool] = never,
) -> Dict[str, Any]:
    """One trial. Returns the result that the package describes; nothing a server does raises.

    `stopped` is asked four times a second; once true, the trial ends with what it has.
    """
    guard = Guard(job, clock or Clock(), stopped)
    result: Dict[str, Any] = {"error": None, "concurrency": job["concurrency"], "requests": []}
    result.update(started=None, ended=None, warmup=None, flush=None, client=None, ports=[])
    result.update(server_before=None, server_after=None)
    try:
        allow_connections(int(job["concurrency"]) + 4 * processes(job))  # and their pipes
        target = resolve(job)
        if job.get("warmup"):
            guard.phase = "warmup"
            result["warmup"] = warm_up(job, target, guard)
        if job.get("flush"):
            guard.phase = "flush"
            result["flush"] = flush(target, guard, float(job.get("flush_timeout_s", 60)))
        result["server_before"] = server_info(target, guard)
        guard.measure()
        result.update(measure(job, target, guard))
        guard.check()
        guard.phase = "collect"
        result["server_after"] = server_info(target, guard)
    except Spoilt as error:
        late = isinstance(error, Late)
        result["error"] = {"phase": guard.phase, "detail": str(error), "late": late}
    finally:
        guard.close()
    return result


def main(argv: List[str]) -> int:
    """0: the result is written and usable; 1: written, and says what spoilt it; 2: usage."""
    if len(argv) != 3:
        sys.stderr.write("usage: client.pyz job.json result.json\n")
        return 2
    signals: List[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: signals.append(number))
    with open(argv[1], "rb") as source:
        job = json.loads(source.read().decode("utf-8"))
    # To look for garbage would stop the loop; and what is kept is wanted until the end.
    gc.disable()
    if job.get("headers"):
        os.unlink(argv[1])  # with the server's key in it; it has been read
    result = run(job, stopped=lambda: bool(signals))
    with open(argv[2] + ".tmp", "w", encoding="utf-8") as out:
        out.write(json.dumps(result, separators=(",", ":")))  # dump is far slower than dumps
        out.flush()
        os.fsync(out.fileno())
    os.replace(argv[2] + ".tmp", argv[2])
    if signals:
        return 128 + signals[0]
    return 1 if result["error"] else 0
