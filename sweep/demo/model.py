"""How fast the simulated server is and what it holds: the shape of the published sweep.

Qwen3.5-122B-A10B BF16, NEXTN with eagle topk 1, 4 x RTX PRO 6000 Blackwell. Rates at the published
points are the published ones where these agree with each other; the rest is filled in so that
steps 4 is best at concurrency 1 to 4, steps 3 from 16 on, and capacity falls with every step.
Acceptance was never published: it is chosen, rising and flattening.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

# The chance that the j-th draft token of a verify step is accepted together with all before it.
ACCEPTED = (0.90, 0.88, 0.86, 0.84, 0.60, 0.45, 0.33, 0.24, 0.17, 0.12)

# steps -> (max_running_requests, max_total_num_tokens); steps 1 and 2 published, 3 and 4 "about".
CAPACITY = (
    (34, 612480), (26, 455357), (21, 377207), (17, 318911), (14, 273660), (9, 237540),
    (8, 208117), (7, 183702), (6, 163127), (5, 145555), (4, 130384),
)  # fmt: skip

# steps -> tokens per second of one request, by the number of requests running together.
RATES = (
    {1: 122.0, 4: 112.0, 16: 78.0, 34: 48.0},
    {1: 124.3, 4: 118.9, 16: 84.9, 26: 64.0},
    {1: 185.7, 4: 162.4, 16: 107.5, 21: 97.9},
    {1: 234.0, 4: 205.0, 16: 137.0, 17: 134.0},
    {1: 277.4, 4: 235.5, 14: 155.0},
    {1: 281.7, 4: 221.6, 9: 165.0},
    {1: 276.0, 4: 210.0, 8: 158.0},
    {1: 267.0, 4: 198.0, 7: 155.0},
    {1: 255.0, 4: 186.0, 6: 154.0},
    {1: 242.0, 4: 174.0, 5: 155.0},
    {1: 229.0, 4: 162.0},
)

PREFILL_BASE_S = 0.012
PREFILL_TOK_S = 20000.0
# Sampling accepts less than greedy, and a tree of drafts more than a chain.
SAMPLED, TREE = 0.93, 1.05
DEFAULT_MEM_FRACTION = 0.85


@dataclass(frozen=True)
class Truth:
    """What a measurement of one server configuration should find, at the published server's pace.

    `steps` 0 is no speculation. Times are seconds, rates tokens per second; a simulator that runs
    `speed` times faster divides the times. Capacities are those of one DP rank.
    """

    steps: int
    topk: int
    draft_tokens: int
    max_running_requests: int
    max_total_num_tokens: int

    def accept_length(self, temperature: float = 0.0) -> float:
        """Tokens per verify step, bonus token included; 1.0 without speculation."""
        return 1.0 + sum(self.chances(temperature))

    def chances(self, temperature: float = 0.0) -> tuple[float, ...]:
        """For each draft position the chance that it and all before it are accepted."""
        sampled = SAMPLED if temperature > 0 else 1.0
        tree = TREE if self.topk > 1 else 1.0
        last = len(ACCEPTED) - 1
        return tuple(
            min(1.0, ACCEPTED[min(place, last)] * tree * sampled ** (place + 1))
            for place in range(self.steps)
        )

    def step_s(self, batch: int) -> float:
        """Seconds of one decode (or draft and verify) forward with `batch` requests running."""
        rates = RATES[min(self.steps, len(RATES) - 1)]
        greedy = 1.0 + sum(ACCEPTED[: self.steps])
        points = [(size, greedy / rate) for size, rate in sorted(rates.items())]
        wider = 1.0 + 0.02 * max(0, self.draft_tokens - self.steps - 1)
        return wider * _interpolate(points, max(1, batch))

    def rate(self, batch: int, temperature: float = 0.0) -> float:
        """Tokens per second of one request while `batch` run together, prefill left out."""
        return self.accept_length(temperature) / self.step_s(batch)

    def aggregate(self, concurrency: int) -> float:
        """Tokens per second of the whole server, kept at `concurrency` for ever."""
        batch = min(concurrency, self.max_running_requests)
        return batch * self.rate(batch)

    def as_dict(self) -> dict[str, object]:
        return {
            "steps": self.steps,
            "topk": self.topk,
            "draft_tokens": self.draft_tokens,
            "max_running_requests": self.max_running_requests,
            "max_total_num_tokens": self.max_total_num_tokens,
            "accept_length": self.accept_length(),
            "aggregate_tok_s": {str(c): self.aggregate(c) for c in (1, 4, 16, 32, 64)},
        }


@dataclass(frozen=True)
class Limits:
    """What the command line allows at most; None is SGLang's own choice."""

    max_running_requests: int | None = None
    max_total_tokens: int | None = None
    mem_fraction_static: float | None = None


def truth(steps: int, topk: int = 1, draft_tokens: int = 0, limits: Limits | None = None) -> Truth:
    """The truth of one configuration. States are held per draft token: a wider tree costs room."""
    limits = limits or Limits()
    drafts = max(steps, draft_tokens - 1)
    requests, tokens = CAPACITY[min(max(0, drafts), len(CAPACITY) - 1)]
    share = 1.0
    if limits.mem_fraction_static is not None:
        share = max(0.1, 1.0 + 1.5 * (limits.mem_fraction_static - DEFAULT_MEM_FRACTION))
    tokens = int(tokens * share)
    if limits.max_total_tokens is not None:
        tokens = min(tokens, limits.max_total_tokens)
    requests = max(1, min(int(requests * share), tokens // 2))
    if limits.max_running_requests is not None:
        requests = min(requests, limits.max_running_requests)
    return Truth(max(0, steps), topk, max(draft_tokens, steps + 1), requests, tokens)


class Acceptance:
    """Drafts accepted at each verify step of one request: the same seed gives the same answers."""

    def __init__(self, chances: tuple[float, ...], seed: int) -> None:
        self._ascending = tuple(reversed(chances))
        self._random = random.Random(seed)  # noqa: S311 - a simulation, not a secret
        self._drawn: list[int] = []

    def at(self, step: int) -> int:
        """Accepted drafts (0..steps, bonus token not counted) at verify step 0, 1, 2, ..."""
        while len(self._drawn) <= step:
            missed = bisect_right(self._ascending, self._random.random())
            self._drawn.append(len(self._ascending) - missed)
        return self._drawn[step]


def prefill_s(new_tokens: int) -> float:
    """Seconds of one prefill forward over `new_tokens` prompt tokens that were not cached."""
    return PREFILL_BASE_S + new_tokens / PREFILL_TOK_S


def _interpolate(points: list[tuple[int, float]], at: int) -> float:
    """Straight lines between the points; beyond the last, its slope goes on."""
    (left, low), (right, high) = points[0], points[-1]
    for before, after in pairwise(points):
        (left, low), (right, high) = before, after
        if at <= right:
            break
    if left == right:
        return low
    return low + (high - low) * (at - left) / (right - left)
