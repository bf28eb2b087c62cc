"""What is asked of the server outside the measurement. Nothing it answers raises."""

from __future__ import annotations

import http.client
import io
import json
import math
import re
import socket
import time
from typing import Any, Callable, Dict, Optional, Tuple

from .answer import one_line
from .event import as_dict, as_list
from .exchange import Target
from .guard import TICK_S, Guard, Spoilt, never

CONTROL_S = 30.0
MOST_BYTES = 16 * 1024 * 1024  # of such an answer: far above any /server_info
# What is kept of /server_info. The rest may hold secrets (it repeats every flag of the server).
KEPT = ("version", "speculative_num_steps", "speculative_num_draft_tokens")
KEPT_STATE = (
    "avg_spec_accept_length",
    "last_gen_throughput",
    "effective_max_running_requests_per_dp",
)


class Patient(io.RawIOBase):
    """Reads a socket for so long in all, whatever drips from it, and no longer than it is wanted.

    Stands for the socket where http.client reads from one.
    """

    def __init__(self, sock: socket.socket, seconds: float, ended: Callable[[], bool]) -> None:
        self._sock = sock
        self._until = time.monotonic() + seconds
        self._ended = ended

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(TICK_S)
        while time.monotonic() < self._until and not self._ended():
            try:
                return self._sock.recv_into(buffer)
            except socket.timeout:
                continue
        raise TimeoutError("no whole answer in time")


def control(
    target: Target,
    method: str,
    path: str,
    ended: Callable[[], bool] = never,
    within_s: float = CONTROL_S,
) -> Tuple[int, bytes]:
    """One request: (status, body), or (0, why there was no answer).

    It is given up when the trial has `ended`, or after `within_s`, and CONTROL_S at most.
    """
    within_s = min(within_s, CONTROL_S)
    kind = http.client.HTTPSConnection if target.tls else http.client.HTTPConnection
    connection = kind(target.host, target.port, timeout=within_s)
    try:
        connection.request(method, target.prefix + path, headers=target.headers)
        source: Any = Patient(connection.sock, within_s, ended)
        response = http.client.HTTPResponse(source, method=method)
        response.begin()
        return response.status, response.read(MOST_BYTES)
    except (OSError, ValueError, http.client.HTTPException) as error:  # ValueError: odd sizes
        return 0, (str(error) or type(error).__name__).encode()
    finally:
        connection.close()


def flush(target: Target, guard: Guard, timeout_s: float) -> int:
    """Empties the server's caches, which it does only when idle: so this waits for idleness too.

    SGLang answers 400 while requests run or wait; 200 also resets its acceptance totals. A server
    without the endpoint (404, 405) is told by the status that is returned.
    """
    until = guard.clock.monotonic() + timeout_s
    while True:
        left_s = max(TICK_S, until - guard.clock.monotonic())
        status, body = control(target, "POST", "/flush_cache", guard.over, left_s)
        if status in (200, 404, 405):
            return status
        guard.check()
        answer = "/flush_cache: %d %s" % (status, one_line(body, 200))
        if status not in (400, 503):
            raise Spoilt(answer)
        if guard.clock.monotonic() > until:
            raise Spoilt("the server is not idle after %g s; %s" % (timeout_s, answer))
        time.sleep(0.1)


def server_info(target: Target, guard: Guard) -> Optional[Dict[str, Any]]:
    """The few things of /server_info (/get_server_info before 0.5.6) that a trial needs."""
    for path in ("/server_info", "/get_server_info"):
        status, body = control(target, "GET", path, guard.over)
        if status == 200:
            break
    try:
        info = as_dict(json.loads(body.decode("utf-8", "replace"))) if status == 200 else {}
    except (ValueError, RecursionError):
        info = {}
    if not info:
        return None
    states = [as_dict(state) for state in as_list(info.get("internal_states"))]
    kept: Dict[str, Any] = {name: info[name] for name in KEPT if name in info}
    kept["num_requests_total"] = requests_total(target, guard)
    kept["internal_states"] = [
        {name: state[name] for name in KEPT_STATE if name in state} for state in states
    ]
    return kept


def requests_total(target: Target, guard: Guard) -> Optional[int]:
    """The requests the server has finished since its start, whoever sent them.

    From /metrics, which needs no key; None without --enable-metrics (404). The counter has this
    name since 0.4 (srt/observability/metrics_collector.py of 0.5.23), one line for each label.
    """
    status, body = control(target, "GET", "/metrics", guard.over)
    form = rb"^sglang:num_requests_total(?:\{.*\})? (\S+)"
    found = re.findall(form, body, re.MULTILINE) if status == 200 else []
    try:
        total = sum(map(float, found))
    except ValueError:
        return None
    return int(total) if found and math.isfinite(total) else None
