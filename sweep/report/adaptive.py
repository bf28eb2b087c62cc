"""`adaptive.json`: the measured optimum per batch size, for SGLang to follow at run time. Pure.

SGLang 0.5.11+ with `--speculative-adaptive --speculative-adaptive-config FILE` (0.5.23:
srt/speculative/adaptive_spec_params.py). The file is a JSON object; keys that are whole numbers are
lower bounds of the running batch size (a smaller batch uses the smallest), each with
`candidate_steps`; other keys are defaults for all. One candidate is a fixed value. With two the
server moves up when the mean of accepted drafts exceeds candidate - 0.5 + up_hysteresis, and down
at or below the lower candidate - 0.5 + down_hysteresis.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

from sweep.report.recommend import Pick, Recommendation

# Between two values that cannot be told apart the server stays where it is unless acceptance says
# so clearly: SGLang's own dead band (0.0 and -0.25) three times as wide.
UP_HYSTERESIS = 0.25
DOWN_HYSTERESIS = -0.5


@dataclass(frozen=True)
class Slot:
    """From a running batch of `batch` on: one candidate, or two that are tied; ascending."""

    batch: int
    candidates: tuple[int, ...]


@dataclass(frozen=True)
class Adaptive:
    """The schedule, and what to know of it; no slots and no text where none can be made."""

    slots: tuple[Slot, ...]
    notes: tuple[str, ...]

    @property
    def text(self) -> str | None:
        if not self.slots:
            return None
        lines = [f'  "{slot.batch}": {json.dumps(_slot_document(slot))}' for slot in self.slots]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @property
    def start(self) -> int:
        """For --speculative-num-steps, which must be one of the candidates."""
        return max(steps for slot in self.slots for steps in slot.candidates)

    def flags(self, path: str) -> tuple[str, ...]:
        """What starts SGLang with it, beside the model and the draft."""
        return (
            "--speculative-adaptive", "--speculative-adaptive-config", path,
            "--speculative-num-steps", str(self.start), "--speculative-eagle-topk", "1",
        )  # fmt: skip


def adaptive(recommendation: Recommendation) -> Adaptive:
    """The schedule that a recommendation amounts to."""
    topk = recommendation.conditions.topk
    if topk not in (None, 1):
        return Adaptive((), (f"SGLang adapts with topk 1 only, and this is topk {topk}",))
    by_batch = {batch: pick for pick in recommendation.picks
                if (batch := _batch(recommendation, pick)) is not None}  # fmt: skip
    found = sorted(by_batch.items(), key=lambda one: one[0])
    notes = [
        f"C={pick.load} is left out: more requests than steps={pick.steps} admits, so no batch "
        "is that large"
        for pick in recommendation.picks
        if pick.steps is not None and pick.capped
    ]
    notes += [note for _, pick in found for note in _alone(pick)]
    if not found or all(_candidates(pick) == (0,) for _, pick in found):
        return Adaptive((), (*notes, "speculation gains nothing at any load measured here"))
    slots = tuple(_merged(found))
    return Adaptive(slots, (*notes, *_advice(slots)))


def _advice(slots: tuple[Slot, ...]) -> Iterator[str]:
    yield (
        "SGLang adapts EAGLE, EAGLE3 and NEXTN alone, and not with DP attention: elsewhere it logs "
        "`speculative_adaptive disabled` and keeps one value"
    )
    yield "above the largest load measured its value is kept; between two loads the middle (log)"
    if len({slot.candidates for slot in slots}) == 1 and len(slots[0].candidates) == 1:
        yield "one value is best at every load: --speculative-num-steps alone does the same"


def _batch(recommendation: Recommendation, pick: Pick) -> int | None:
    """The running batch of one DP rank that a load amounts to; None where requests queued."""
    if pick.steps is None or pick.capped:
        return None
    load = next(one for one in recommendation.group.loads if one.load == pick.load)
    cell = load.cell(pick.steps)
    if cell is None or cell.concurrency is None:
        return None
    return math.ceil(cell.concurrency / cell.numbers.get("dp_size", 1))


def _candidates(pick: Pick) -> tuple[int, ...]:
    """The best steps, with the next best where repeats leave these two about as good.

    From one trial each nobody knows that: the fewer stand alone, as everywhere, for the union of
    all candidates sizes the server's buffers. And never 0 and another: from 0 the server always
    tries the other again.
    """
    best, other = pick.steps or 0, pick.runner_up
    tied = (
        other is not None
        and other.verdict == "tie"
        and other.steps in pick.as_good
        and 0 not in (best, other.steps)
    )
    return tuple(sorted({best, other.steps})) if tied and other is not None else (best,)


def _alone(pick: Pick) -> Iterator[str]:
    """Why the file has one value where several tie."""
    others = [str(one) for one in pick.ties if one not in _candidates(pick)]
    if not others:
        return
    head = f"C={pick.load} has steps={','.join(map(str, _candidates(pick)))} without"
    if not pick.measured:
        yield f"{head} {','.join(others)}: nothing was measured twice, and repeats may tie them"
    else:
        yield (
            f"{head} {','.join(others)}, which the noise leaves open: beside the best stands the "
            "next, where that is about as good"
        )


def _merged(found: list[tuple[int, Pick]]) -> Iterator[Slot]:
    """One slot from the middle between two loads on; a slot that changes nothing is none."""
    before: tuple[int, ...] | None = None
    last = 1
    for batch, pick in found:
        candidates = _candidates(pick)
        if candidates != before:
            yield Slot(1 if before is None else math.ceil(math.sqrt(last * batch)), candidates)
        before, last = candidates, batch


def _slot_document(slot: Slot) -> dict[str, object]:
    document: dict[str, object] = {"candidate_steps": list(slot.candidates)}
    if len(slot.candidates) > 1:
        document |= {"up_hysteresis": UP_HYSTERESIS, "down_hysteresis": DOWN_HYSTERESIS}
    return document
