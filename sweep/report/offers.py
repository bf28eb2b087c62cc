"""What a report offers to paste: one number of steps for all loads, or one by batch size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sweep.errors import SweepError
from sweep.report.adaptive import Adaptive, adaptive
from sweep.report.data import Source
from sweep.report.document import Block, Code, Text
from sweep.report.paste import Pasted, flags_alone, paste_for
from sweep.report.recommend import Recommendation, recommend
from sweep.report.summary import Group

WORTH_SAYING = 0.0005


@dataclass(frozen=True)
class Offer:
    """`blocks` for the page; `files` to lie beside it, of a run alone: a table has no server."""

    blocks: tuple[Block, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


def offer(source: Source, group: Group, *, mark: str = "") -> Offer:
    """What to paste for one group. `mark` keeps the files of several groups apart."""
    found = recommend(group)
    if found.to_paste is None:
        return Offer()
    schedule = adaptive(found)
    pasted = _pasted(source, group, found.to_paste)
    blocks: list[Block] = [_one_value(found, pasted)]
    files: dict[str, str] = {}
    if pasted is not None:
        blocks += [Text(f"{note[:1].upper()}{note[1:]}.", "note") for note in pasted.notes]
        files[f"recommended{mark}.service"] = pasted.service
    if schedule.text is not None and len({slot.candidates for slot in schedule.slots}) > 1:
        blocks += _by_batch(schedule, f"adaptive{mark}.json")
        files[f"adaptive{mark}.json"] = schedule.text
    if files and source.kind == "run":
        names = " and ".join(files)
        lie = "lies" if len(files) == 1 else "lie"
        blocks.append(Text(f"{names} {lie} beside this page; `sweep recommend` weighs a traffic "
                           "mix and limits.", "note"))  # fmt: skip
    return Offer(tuple(blocks), files if source.kind == "run" else {})


def _pasted(source: Source, group: Group, steps: int) -> Pasted | None:
    """The server itself, where the run's plan and template still say it."""
    try:
        return paste_for(source, group, steps)
    except (SweepError, ValueError):
        return None


def _one_value(found: Recommendation, pasted: Pasted | None) -> Code:
    steps = found.steps or 0
    title = f"To paste, one value for every concurrency: steps={steps}"
    if found.compromise is not None and found.compromise.loss >= WORTH_SAYING:
        title += f", {found.compromise.loss:.1%} behind the best of each"
    flags = flags_alone(steps, found.conditions.topk) or "# without any --speculative flag"
    return Code(pasted.command if pasted is not None else flags, title)


def _by_batch(schedule: Adaptive, name: str) -> list[Block]:
    flags = " ".join(schedule.flags(name))
    return [
        Code(flags, "Or by batch size, as SGLang 0.5.11 and newer can"),
        Code(schedule.text or "", name),
    ]
