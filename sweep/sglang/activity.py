"""What the server printed while a trial was measured: queues, acceptance, retractions, compilation.

Pure. Formats of 0.4.3 to 0.5.23: those of `sglang.journal`; retractions as in
srt/managers/scheduler.py; compilation as in srt/layers/deep_gemm_wrapper/compile_utils.py,
srt/compilation/backend.py and the graph runners.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sweep.sglang.journal import Decode, scrape
from sweep.sglang.lines import plain, record_at

# Fewer lines than this say nothing about a queue.
LEAST_LINES = 4
LEAST_SHARE = 0.1
_RETRACTED = re.compile(rb"#retracted_reqs: (\d{1,9})")
_COMPILED = re.compile(
    rb"Entering DeepGEMM JIT|DeepGEMM JIT Compiling|Compiling a graph for dynamic shape|"
    rb"Capture [A-Za-z -]{1,40} begin|Capturing batches \("
)


@dataclass(frozen=True)
class Activity:
    """`decode`: the decode lines; `retracted`: requests thrown back because the KV pool was full;
    `compiled`: the first line that shows kernels or graphs being made, None: none does.
    """

    decode: tuple[Decode, ...] = ()
    retracted: int = 0
    compiled: str | None = None

    @property
    def most_waiting(self) -> int | None:
        """The longest queue that was printed; None where too little was."""
        queues = self._queues()
        return max(queues) if len(queues) >= LEAST_LINES else None

    @property
    def always_waiting(self) -> bool:
        """Whether requests waited most of the time, a tenth of those there on average.

        One that has just come in waits for the end of a step, too.
        """
        queues = self._queues()
        there = sum(queues) + sum(line.running or 0 for line in self.decode)
        often = len(queues) >= LEAST_LINES and 2 * sum(map(bool, queues)) >= len(queues)
        return often and sum(queues) >= LEAST_SHARE * there

    @property
    def accept_length(self) -> float | None:
        """Tokens per verify step, the bonus token included; None where no line tells.

        A line covers the steps since the one before it, so that the first of each rank began before
        the trial. Each counts by the requests that ran: so many verify steps it stands for.
        """
        told: dict[str, list[Decode]] = {}
        for line in self.decode:
            told.setdefault(line.rank, []).append(line)
        within = [line for lines in told.values() for line in lines[1:]]
        known = [(line.accept_len, line.running) for line in within]
        pairs = [(length, running) for length, running in known if length and running]
        steps = sum(running for _, running in pairs)
        return sum(length * running for length, running in pairs) / steps if steps else None

    def _queues(self) -> Sequence[int]:
        return [line.queue for line in self.decode if line.queue is not None]


def activity(journal: bytes) -> Activity:
    """`journal` is what the server printed from the first request to the last answer."""
    text = plain(journal)
    compiled = _COMPILED.search(text)
    return Activity(
        decode=scrape(journal).decode,
        retracted=sum(int(found[1]) for found in _RETRACTED.finditer(text)),
        compiled=record_at(text, compiled.start()).decode("utf-8", "replace")[:200]
        if compiled
        else None,
    )
