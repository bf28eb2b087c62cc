"""What a reader must know before the numbers, and how to measure some again. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from sweep.benchmarks import remark
from sweep.report.data import STEPS, Source
from sweep.report.summary import WANTED_TRIALS, Group, percent
from sweep.verdicts import FLAG_MEANINGS

# What each word in the column `flags` means for whoever reads the number.
FLAG_TEXTS = FLAG_MEANINGS


def notes(group: Group, source: Source, trials: pd.DataFrame) -> Group:
    """The group with its notes."""
    said = [*state(source), *_noise(group), *_drift(group), *_mixed(trials)]
    said += [*_workloads(trials), *_flags(trials), *_failures(group), *source.left_out]
    return replace(group, notes=tuple(said))


def state(source: Source) -> Iterator[str]:
    """That a run is not done yet, if so."""
    status = source.status
    if status is not None and status.missing:
        yield (
            f"the run is {status.state}: {status.ok} of {status.trials} trials ok, "
            f"{status.failed} failed, {status.missing} missing"
        )


def _noise(group: Group) -> Iterator[str]:
    noise = group.noise
    if not any(load.cells for load in group.loads):
        return
    if not noise.measured:
        yield (
            "nothing was measured twice, so nothing here is called a gain: intervals assume "
            f"{noise.sigma:.0%} noise"
        )
        return
    yield noise.text()
    if not noise.restart_measured:
        yield (
            "no launch was repeated after a restart: drift over the night cannot be seen, and "
            f"{noise.restart:.0%} is allowed for what a restart changes"
        )
    yield from _once(group)
    if noise.outliers:
        yield f"{noise.outliers} trials were far from the others of their point and are left out"


def _once(group: Group) -> Iterator[str]:
    """That outliers hide where there is nothing to hold them against, and how to confirm a choice.

    Disturbed trials are slower by much more than noise: an interval that allowed for one at every
    such point would decide nothing.
    """
    once = [cell for load in group.loads for cell in load.cells if cell.n == 1]
    chosen = {load.best for load in group.loads if load.cell(load.best) in once}
    if not once:
        return
    said = (
        f"{_points(len(once))} measured once: a trial that something disturbed does not show "
        "there, and no interval allows for it"
    )
    if chosen:
        steps = ",".join(str(one) for one in sorted(chosen, key=lambda one: one or 0))
        said += f"; to confirm what is chosen: {group.repeating}{steps} --trials {WANTED_TRIALS}"
    yield said


def _points(count: int) -> str:
    return "1 point was" if count == 1 else f"{count} points were"


def _drift(group: Group) -> Iterator[str]:
    drift = group.drift
    if drift is None:
        if group.noise.restart_measured:
            yield "drift over the night cannot be seen: too few launches were repeated with times"
        return
    span = (
        f"{percent(drift.total)} over {drift.hours:.1f} h (95 %: {percent(drift.interval.low)} to "
        f"{percent(drift.interval.high)})"
    )
    if drift.matters:
        yield f"the night drifted by {span}: comparisons are corrected for it"
    else:
        yield f"no drift over the night that clears the noise: {span}"


def _mixed(trials: pd.DataFrame) -> Iterator[str]:
    drafts = trials.groupby(STEPS)["speculative_num_draft_tokens"].nunique()
    if steps := [str(one) for one, count in drafts.items() if count > 1]:
        yield (
            "measured with more than one speculative_num_draft_tokens, taken together here: "
            f"steps={','.join(steps)}"
        )


def _workloads(trials: pd.DataFrame) -> Iterator[str]:
    """What flatters speculation, or does it wrong."""
    yield from filter(None, map(remark, sorted(trials["workload"].dropna().astype(str).unique())))


def _flags(trials: pd.DataFrame) -> Iterator[str]:
    ok = trials[trials["status"] == "ok"]
    counts = ok["flags"].dropna().str.split(";").explode().value_counts()
    for flag, count in counts.items():
        if flag in FLAG_TEXTS:
            yield f"{flag} in {count} of {len(ok)} trials: {FLAG_TEXTS[str(flag)]}"


def _failures(group: Group) -> Iterator[str]:
    cells = [(load, cell) for load in group.loads for cell in load.cells if cell.failure]
    by_kind: dict[str, list[str]] = {}
    for load, cell in cells:
        by_kind.setdefault(str(cell.failure), []).append(f"steps={cell.steps} {load.label}")
    for kind, where in by_kind.items():
        more = f" and {len(where) - 6} more" if len(where) > 6 else ""
        yield f"no value for {', '.join(where[:6])}{more}: {kind}"


def repeating(source: Source) -> str:
    """How the command begins that measures some steps again: of this run, or in a new one."""
    if source.kind == "run":
        return f"sweep resume {source.id} --only steps="
    return "sweep run NAME --steps "
