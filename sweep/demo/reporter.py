"""What the simulated scheduler counts and logs: prefill and decode lines, acceptance totals.

Same arithmetic as srt/managers/scheduler_components/metrics_reporter.py of 0.5.23: a decode line
every `--decode-log-interval` decode forwards over that interval only; the lifetime acceptance
totals grow only when such a line is printed, and a cache flush empties them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sweep.demo.startup import Launch


@dataclass
class Pool:
    """What is in use at the moment of a line."""

    running: int = 0
    queued: int = 0
    tokens: int = 0


class Reporter:
    """Counters of one server, and its periodic lines."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._interval = int(launch.args["decode_log_interval"])
        self._last_line = 0.0
        self._last_prefill = 0.0
        self.prompt_tokens = 0
        self.generated_tokens = 0
        self.cached_tokens = 0
        self.verify_calls = 0
        self.requests = 0
        self.last_gen_throughput = 0.0
        self.accept_length = 0.0
        self.accept_rate = 0.0
        self.reset()

    def reset(self) -> None:
        """What POST /flush_cache empties."""
        self._forwards = 0
        self._tokens = 0
        self._accepted = 0
        self._verified = 0
        self.total_accepted = 0
        self.total_verified = 0

    @property
    def avg_spec_accept_length(self) -> float | None:
        """Tokens per verify step since the last flush; None until a decode line was printed."""
        return self.total_accepted / self.total_verified if self.total_verified else None

    def prefill(self, new: int, cached: int, sequences: int, pool: Pool, now: float) -> None:
        """One prefill forward over `new` tokens of `sequences` requests; `now` in seconds."""
        gap = max(now - self._last_prefill, 1e-6)
        self._last_prefill = now
        self._launch.log.line(
            f"Prefill batch, #new-seq: {sequences}, #new-token: {new}, #cached-token: {cached}, "
            f"{self._usage(pool, counts=False)}, #running-req: {pool.running}, "
            f"#queue-req: {pool.queued}, #pending-token: 0, cuda graph: False, "
            f"input throughput (token/s): {new / gap:.2f}",
            self._launch.rank0,
        )

    def forward(self, tokens: int, verified: int, pool: Callable[[], Pool], now: float) -> None:
        """One decode forward that gave `tokens` tokens to `verified` requests."""
        self._forwards += 1
        self._tokens += tokens
        self.generated_tokens += tokens
        if self._launch.args.steps:
            self._accepted += tokens
            self._verified += verified
            self.verify_calls += verified
        if self._forwards % self._interval == 0:
            self._decode_line(pool(), now)

    def _decode_line(self, pool: Pool, now: float) -> None:
        self.last_gen_throughput = self._tokens / max(now - self._last_line, 1e-6)
        self._last_line = now
        self._tokens = 0
        parts = [f"Decode batch, #running-req: {pool.running}", self._usage(pool, counts=True)]
        if self._verified:
            drafts = self._launch.truth.draft_tokens - 1
            self.accept_length = self._accepted / self._verified
            self.accept_rate = (self.accept_length - 1) / drafts if drafts else 0.0
            self.total_accepted += self._accepted
            self.total_verified += self._verified
            self._accepted = self._verified = 0
            if "mute" not in self._launch.quirks:
                parts.append(
                    f"accept len: {self.accept_length:.2f}, accept rate: {self.accept_rate:.2f}"
                )
        parts.append(
            f"cuda graph: True, gen throughput (token/s): {self.last_gen_throughput:.2f}, "
            f"#queue-req: {pool.queued}"
        )
        self._launch.log.line(", ".join(parts), self._launch.rank0)

    def _usage(self, pool: Pool, *, counts: bool) -> str:
        truth = self._launch.truth
        share = pool.tokens / truth.max_total_num_tokens
        if not self._launch.hybrid:
            return (f"#token: {pool.tokens}, " if counts else "") + f"token usage: {share:.2f}"
        states = pool.running / truth.max_running_requests
        if counts:
            return (
                f"#full token: {pool.tokens}, full token usage: {share:.2f}, "
                f"mamba num: {pool.running}, mamba usage: {states:.2f}"
            )
        return f"full token usage: {share:.2f}, mamba usage: {states:.2f}"
