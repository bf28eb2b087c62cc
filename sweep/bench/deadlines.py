"""How long a trial may take, and how long a server may be silent, before it counts as hung.

Derived from what is sent, so that a deadline suits one request as well as sixty-four, and always
far above what any server worth measuring needs: a night should not lose a slow trial to them.
"""

from __future__ import annotations

from math import ceil

from sweep.bench.workload import WARMUP_TOKENS
from sweep.inventory import BuiltinBenchmark

# Tokens per second of one request in service, slower than any server worth measuring.
SLOWEST_TOK_S = 2.0
# What a server's first requests may wait for: kernels are compiled, as long as minutes.
FIRST_S = 600.0
FLUSH_S = 60.0
# SGLang's own watchdog (--watchdog-timeout, 300 s a forward unless set).
WATCHDOG_S = 300.0
LEAST_STALL_S, MOST_STALL_S = 120.0, 900.0


def trial_timeout_s(spec: BuiltinBenchmark, concurrency: int, admitted: int | None = None) -> float:
    """For a whole trial, warm-up included: as set, else from its tokens at `SLOWEST_TOK_S`.

    `admitted` is the server's max_running_requests: what it does not admit waits for its turn.
    """
    if spec.trial_timeout_s is not None:
        return spec.trial_timeout_s
    width = max(1, min(concurrency, admitted or concurrency))
    rounds = ceil(spec.request_count(concurrency) / width) * spec.max_tokens
    rounds += ceil(concurrency / width) * WARMUP_TOKENS
    sending_s = spec.request_count(concurrency) / spec.rate if spec.rate else 0.0
    return FIRST_S + FLUSH_S + sending_s + rounds / SLOWEST_TOK_S


def stall_timeout_s(spec: BuiltinBenchmark, watchdog_s: float | None = None) -> float:
    """Without a byte on any connection: as set, else so that SGLang's watchdog comes first.

    It looks every half of its time (srt/utils/watchdog.py, 0.5.23), so it may need one and a half;
    then it prints the stacks of the hung process, which nobody else can, and ends the server.
    """
    if spec.stall_timeout_s is not None:
        return spec.stall_timeout_s
    return min(MOST_STALL_S, max(LEAST_STALL_S, 1.5 * (watchdog_s or WATCHDOG_S) + 30))
