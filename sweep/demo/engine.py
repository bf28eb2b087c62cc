"""The simulated scheduler: one loop that steps every running request together, as the real one.

Time is honest: each turn ends at an absolute deadline computed from the model, so a late wake-up
is caught up and the measured rates come out as the model's. Several forwards share one wake-up
when they are shorter than `tick_s`; a turn ends early when a request ends or one arrives that can
be admitted.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from sweep.demo.failures import Fault, scheduler_dies, watchdog_barks
from sweep.demo.model import Acceptance, prefill_s
from sweep.demo.quirks import Quirks
from sweep.demo.reporter import Pool, Reporter
from sweep.demo.startup import Launch

EOS = 151645
# Forwards that still succeed once a serving fault has its requests: it strikes in mid-work.
LAST_FORWARDS = 20


@dataclass(frozen=True)
class Update:
    """How far a request has come; `finish` is SGLang's finish_reason once it has ended."""

    tokens: int
    finish: dict[str, Any] | None = None


@dataclass
class Request:
    """One generation. `max_tokens` counts output; without `ignore_eos` it may stop before."""

    rid: str
    prompt: str
    prompt_tokens: int
    max_tokens: int
    temperature: float = 0.0
    ignore_eos: bool = False
    probe: bool = False
    updates: asyncio.Queue[Update] = field(default_factory=asyncio.Queue)
    tokens: int = 0
    cached: int = 0
    verified: int = 0
    correct: int = 0
    histogram: list[int] = field(default_factory=list)
    finish: dict[str, Any] | None = None
    drafts: Acceptance = field(default_factory=lambda: Acceptance((), 0))
    seed: int = 0
    last: int = 0

    def settle(self, room: int, seed: int, chances: tuple[float, ...]) -> None:
        """What the prompt decides: where it ends (`last`, output tokens) and what is accepted."""
        digest = hashlib.sha256(self.prompt.encode()).digest()
        self.seed = int.from_bytes(digest[:6], "big") ^ seed
        self.max_tokens = max(1, min(self.max_tokens, room - self.prompt_tokens))
        natural = 200 + self.seed % 1500
        self.last = self.max_tokens if self.ignore_eos else min(self.max_tokens, natural)
        self.drafts = Acceptance(chances, self.seed)
        self.histogram = [0] * (len(chances) + 1) if chances else []

    @property
    def reserved(self) -> int:
        """KV slots it holds to its end."""
        return self.prompt_tokens + self.max_tokens

    def advance(self, accepted: int) -> int:
        """One verify step: the accepted drafts and the bonus token; gives the tokens kept."""
        kept = min(accepted + 1, self.last - self.tokens)
        self.tokens += kept
        if self.histogram:
            self.verified += 1
            self.correct += kept - 1
            self.histogram[kept - 1] += 1
        return kept


class Engine:
    """Requests in, updates out, `speed` times as fast as the published server."""

    def __init__(self, launch: Launch, *, speed: float = 1.0, tick_s: float = 0.012) -> None:
        self._launch = launch
        self._speed = speed
        self._tick_s = tick_s
        self._wake = asyncio.Event()
        self._clock = 0.0
        self._noise = random.Random(int(launch.args["random_seed"]))  # noqa: S311
        self._prefixes: set[str] = set()
        self._doomed: Fault | None = None
        self._left = 0
        self._halted = False
        self._quirks = Quirks(launch.quirks)
        dps = int(launch.args["dp_size"])
        self._slots = launch.truth.max_running_requests * dps
        self._room = launch.truth.max_total_num_tokens * dps
        self._dps = dps
        self.reporter = Reporter(launch)
        self.waiting: deque[Request] = deque()
        self.admitted: list[Request] = []
        self.running: list[Request] = []
        self.last_progress = 0.0

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.admitted and not self.running

    def submit(self, request: Request) -> None:
        chances = self._launch.truth.chances(request.temperature)
        request.settle(self._room, int(self._launch.args["random_seed"]), chances)
        request.last = self._quirks.length(request.last)
        self.waiting.append(request)
        self._wake.set()

    def abort(self, rid: str, *, everything: bool = False) -> None:
        """End the requests whose id begins with `rid`, or all of them."""
        for request in [*self.waiting, *self.admitted, *self.running]:
            if everything or (rid and request.rid.startswith(rid)):
                where = "waiting queue" if request in self.waiting else "running batch"
                message = {"message": f"Abort in {where}", "status_code": None, "err_type": None}
                self._end(request, {"type": "abort", **message})
        self._wake.set()

    def halt(self) -> None:
        """The scheduler is gone: what it has comes no further."""
        self._halted = True

    def flush(self) -> bool:
        """Empty the prefix cache and the acceptance totals; only when idle."""
        if not self.idle:
            self._launch.log.warn(
                "Cache not flushed because there are pending requests. "
                f"#queue-req: {len(self.waiting)}, "
                f"#running-req: {len(self.admitted) + len(self.running)}"
            )
            return False
        self._prefixes.clear()
        self._quirks.flush()
        self.reporter.reset()
        self._launch.log.line("Cache flushed successfully!", self._launch.rank0)
        return True

    def pool(self) -> Pool:
        used = sum(request.prompt_tokens + request.tokens for request in self.running)
        return Pool(len(self.running), len(self.waiting), used)

    async def run(self) -> None:
        """Serve for ever."""
        loop = asyncio.get_running_loop()
        while True:
            if self.idle:
                self._wake.clear()
                await self._wake.wait()
                self._clock = loop.time()
            if loop.time() - self._clock > 0.5:  # too far behind: no burst to make up for it
                self._clock = loop.time()
            await self._meet_fault()
            admitted = self._admit()
            if admitted:
                await self._prefill(admitted)
            elif self.running:
                await self._decode()
            self.last_progress = loop.time()

    def _admit(self) -> list[Request]:
        """The waiting requests that start now: first come, first served."""
        admitted: list[Request] = []
        held = sum(request.reserved for request in self.running)
        while self.waiting and len(self.running) + len(admitted) < self._slots:
            if held + self.waiting[0].reserved > self._room:
                break
            admitted.append(self.waiting.popleft())
            held += admitted[-1].reserved
        return admitted

    async def _prefill(self, admitted: list[Request]) -> None:
        self.admitted = admitted
        for request in admitted:
            if request.prompt in self._prefixes:
                request.cached = request.prompt_tokens - 1
            elif not self._launch.args["disable_radix_cache"] and not request.probe:
                self._prefixes.add(request.prompt)
        new = sum(request.prompt_tokens - request.cached for request in admitted)
        cached = sum(request.cached for request in admitted)
        pool = self.pool()
        self._clock += prefill_s(new) / self._speed
        await self._until(self._clock)
        self.admitted = []
        admitted = [request for request in admitted if request.finish is None]
        self.running += admitted
        self.reporter.prefill(new, cached, len(admitted), pool, self._clock)
        self.reporter.prompt_tokens += new + cached
        self.reporter.cached_tokens += cached
        for request in admitted:
            self.reporter.generated_tokens += 1
            request.tokens = max(1, request.tokens)  # it may have been thrown back
            self._tell(request)

    async def _decode(self) -> None:
        """Some whole forwards: until `tick_s` has passed, a request ends, or one may come in."""
        batch = list(self.running)
        per_rank = math.ceil(len(batch) / self._dps)
        if pause_s := self._quirks.pause_s():
            self._clock += pause_s
            await self._until(self._clock)
        step = self._launch.truth.step_s(per_rank) / self._speed * self._noise.gauss(1.0, 0.01)
        step *= self._quirks.slower()
        most = max(1, round(self._tick_s / step))
        started = self._clock
        planned = self._forwards_until_one_ends(batch, most)
        await self._until(started + planned * step, wake=len(batch) < self._slots)
        passed = (asyncio.get_running_loop().time() - started) / step
        done = max(1, min(planned, math.ceil(passed)))
        await self._until(started + done * step)
        for number in range(1, done + 1):
            self._clock = started + number * step
            self._forward(batch)
        for request in batch:
            self._tell(request)
        if self._quirks.count(done) and self.running:
            self._throw_back(self.running[-1])

    def _throw_back(self, request: Request) -> None:
        """As SGLang does when the KV pool is full: it is prefilled anew, with what it has said."""
        self.running.remove(request)
        self.waiting.appendleft(request)
        message = (
            "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: "
            f"{request.tokens}, #new_token_ratio: 0.3414 -> 0.4562"
        )
        self._launch.log.warn(message, self._launch.rank0)

    def _forwards_until_one_ends(self, batch: list[Request], most: int) -> int:
        ends = most
        for request in batch:
            tokens, step = request.tokens, 0
            while tokens < request.last and step < ends:
                tokens += request.drafts.at(request.verified + step) + 1 if request.histogram else 1
                step += 1
            ends = min(ends, max(1, step))
        return ends

    def _forward(self, batch: list[Request]) -> None:
        alive = [request for request in batch if request.finish is None]
        if not alive:
            return
        tokens = 0
        for request in alive:
            accepted = request.drafts.at(request.verified) if request.histogram else 0
            tokens += request.advance(accepted)
        self.reporter.forward(tokens, len(alive), self.pool, self._clock)
        if self._doomed is not None:
            self._left -= 1

    def _tell(self, request: Request) -> None:
        if request.finish is not None:
            return
        if request.tokens < request.last:
            request.updates.put_nowait(Update(request.tokens))
        elif request.last < request.max_tokens:
            self._end(request, {"type": "stop", "matched": EOS})
        else:
            self._end(request, {"type": "length", "length": request.max_tokens})

    def _end(self, request: Request, finish: dict[str, Any]) -> None:
        request.finish = finish
        if not request.probe:
            self.reporter.requests += 1
        for place in (self.waiting, self.running):
            if request in place:
                place.remove(request)
        request.updates.put_nowait(Update(request.tokens, finish))

    async def _until(self, deadline: float, *, wake: bool = False) -> None:
        """Sleep to the deadline, or with `wake` until something arrives."""
        left = deadline - asyncio.get_running_loop().time()
        if not wake or left <= 0:
            await asyncio.sleep(max(0.0, left))
            return
        self._wake.clear()
        try:
            await asyncio.wait_for(self._wake.wait(), left)
        except TimeoutError:
            return

    async def _meet_fault(self) -> None:
        """Let the fault of this server strike once its requests are there."""
        if self._halted:
            await asyncio.Event().wait()
        real = [request for request in (*self.waiting, *self.running) if not request.probe]
        if self._doomed is None:
            self._doomed = self._launch.faults.serving(len(real))
            self._left = LAST_FORWARDS
        if self._doomed is None or self._left > 0:
            return
        kind, log = self._doomed.kind, self._launch.log
        if kind == "hang":
            await asyncio.Event().wait()
        if kind == "watchdog":
            limit = float(self._launch.args["watchdog_timeout"])
            await asyncio.sleep(limit / self._speed)
            watchdog_barks(log, limit, self._launch.rank0)
        scheduler_dies(log, kind, self._launch.rank0, serving=True)
