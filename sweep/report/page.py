"""What a report says, in which order: the answer first, then the numbers, then what they hold for.

`Results` and `Analysis` become a `Document`; the figures are drawn elsewhere and passed in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sweep.report.data import Results, Source
from sweep.report.document import (
    Answer,
    Answers,
    Block,
    Bullets,
    Code,
    Document,
    Figure,
    Section,
    Table,
    Text,
    steps_text,
)
from sweep.report.failures import failure_blocks, flag_blocks
from sweep.report.summary import Analysis, Group, Interval, Load, percent
from sweep.report.tables import group_tables

NOTHING_YET = "No trial has been measured yet: there is nothing to answer."


@dataclass(frozen=True)
class Extras:
    """What belongs into a report and is made elsewhere: by group id, or by source id.

    `pastes`: what to paste; `figures`: the figures, and a sentence for each that was left out.
    """

    pastes: Mapping[str, Sequence[Block]] = field(default_factory=dict)
    group_figures: Mapping[str, Sequence[Figure | Text]] = field(default_factory=dict)
    source_figures: Mapping[str, Sequence[Figure | Text]] = field(default_factory=dict)


def document(results: Results, analysis: Analysis, extras: Extras) -> Document:
    """The whole report of one or more inputs."""
    several = len(analysis.groups) > 1
    sections: list[Section] = []
    for number, group in enumerate(analysis.groups, 1):
        mark = f"-{number}" if several else ""
        title = f": {group.label}" if several else ""
        sections.append(
            Section(f"answer{mark}", f"The answer{title}", tuple(_answer(group, extras)))
        )
    if not analysis.groups:
        sections.append(Section("answer", "The answer", (Text(NOTHING_YET, "warning"),)))
    for number, group in enumerate(analysis.groups, 1):
        mark = f"-{number}" if several else ""
        title = f": {group.label}" if several else ""
        if reasons := tuple(_reasons(group)):
            sections.append(Section(f"why{mark}", f"Why{title}", reasons))
        sections.append(Section(f"numbers{mark}", f"Numbers{title}", tuple(group_tables(group))))
        figures = tuple(extras.group_figures.get(group.id, ()))
        if figures:
            sections.append(Section(f"plots{mark}", f"Plots{title}", figures))
    sections += _about_sources(results, analysis, extras)
    return Document(_title(results), _subtitle(results), tuple(sections))


def _title(results: Results) -> str:
    return " and ".join(source.id for source in results.sources)


def _subtitle(results: Results) -> str:
    trials = results.trials
    ok = int((trials["status"] == "ok").sum())
    parts = [f"{ok} trials ok, {len(trials) - ok} failed"]
    began, ended = trials["started_at"].min(), trials["finished_at"].max()
    if began == began and ended == ended:  # noqa: PLR0124 - NaT is unlike itself
        parts.insert(0, f"{began:%Y-%m-%d %H:%M} to {ended:%Y-%m-%d %H:%M} UTC")
    simulated = trials["flags"].fillna("").str.contains("simulated").any()
    if simulated:
        parts.append("simulated: these numbers are of no server")
    return " · ".join(parts)


# -- the answer -----------------------------------------------------------------------------------


def _answer(group: Group, extras: Extras) -> Iterator[Block]:
    if not any(load.best is not None for load in group.loads):
        yield Text(sentence(group.nothing), "warning")
        if group.notes:
            yield Bullets(tuple(sentence(note) for note in group.notes))
        return
    yield Answers("Best number of steps at each concurrency", tuple(map(answer, group.loads)))
    if group.notes:
        yield Bullets(tuple(sentence(note) for note in group.notes))
    if known := group.conditions.lines():
        holds = ", ".join(f"{name} {value}" for name, value in known)
        yield Text(f"This holds for {holds}.", "note")
    if group.repeat_command:
        yield Code(group.repeat_command, "Measure again what is not decided")
    yield from extras.pastes.get(group.id, ())


def sentence(text: str) -> str:
    """A clause as a sentence of its own; a name at its beginning stays as it is."""
    first = text.split(maxsplit=1)[0] if text else ""
    head = text if "_" in first or "=" in first else text[:1].upper() + text[1:]
    return head + ("" if text.endswith((".", "?")) else ".")


def answer(load: Load) -> Answer:
    """One load in a few words: which steps, how much that gains, how sure, against what."""
    best = load.cell(load.best)
    if best is None or best.mean is None:
        return Answer(load.label, None, "nothing measured", (), sure=False)
    facts: list[str] = [
        f"{best.mean:.1f} {_unit(load)}" + (f", {best.n} trials" if best.n > 1 else "")
    ]
    if best.change is not None and best.change.interval is not None and load.decided:
        facts.append(f"95 % interval {between(best.change.interval)}")
    facts += _how_sure(load)
    if best.capped:
        instead = load.best_uncapped
        facts.append(
            "runs more requests than the server admits: queueing is measured as well"
            + ("" if instead is None else f"; among points that do not, {steps_text(instead)}")
        )
    return Answer(
        load.label, best.steps, _headline(load), tuple(facts), sure=load.decided, doubt=_doubt(load)
    )


def _unit(load: Load) -> str:
    return "tok/s" if load.metric == "agg_tok_s" else "tok/s of one request"


def _headline(load: Load) -> str:
    best = load.cell(load.best)
    if _alone(load):
        return "the only one measured"
    if best is None or best.change is None:
        return "the lowest measured" if load.best else "speculation does not pay"
    return f"{best.change.text()} against {steps_text(best.change.against)}"


def _alone(load: Load) -> bool:
    return sum(cell.mean is not None for cell in load.cells) == 1


def _doubt(load: Load) -> str:
    """What is open about the choice: against its rivals, which need not be the baseline."""
    if load.decided or _alone(load):
        return ""
    if load.rivals:
        return f"not told apart from {_listed(load.rivals)}"
    return "nothing was measured twice"


def _how_sure(load: Load) -> list[str]:
    told = []
    if load.runner_up is not None:
        told.append(f"next: {steps_text(load.runner_up.steps)}, {load.runner_up.text()}")
    if load.decided and not _alone(load):
        told.append("the difference clears the noise")
    if doubt := _doubt(load):
        told.append(doubt)
    if load.rivals and load.highest != load.best:
        told.append("among those that are as good, the fewest")
    return told


def _listed(steps: Sequence[int]) -> str:
    names = [str(one) for one in steps]
    if len(names) == 1:
        return steps_text(steps[0])
    return f"{', '.join(names[:-1])} and {names[-1]} steps"


def between(interval: Interval) -> str:
    """`+118 % to +131 %`."""
    return f"{percent(interval.low)} to {percent(interval.high)}"


def _reasons(group: Group) -> Iterator[Block]:
    for load in group.loads:
        if load.why:
            yield Bullets(tuple(map(sentence, load.why)), load.label)
    if group.why:
        yield Bullets(tuple(map(sentence, group.why)), "What a step costs")


# -- conditions, flags, failures ------------------------------------------------------------------


def _about_sources(results: Results, analysis: Analysis, extras: Extras) -> Iterator[Section]:
    for number, source in enumerate(results.sources, 1):
        mark = f"-{number}" if len(results.sources) > 1 else ""
        title = f": {source.id}" if mark else ""
        if figures := tuple(extras.source_figures.get(source.id, ())):
            yield Section(f"night{mark}", f"The night{title}", figures)
        yield Section(f"failures{mark}", f"Failures{title}", tuple(failure_blocks(results, source)))
        yield Section(f"flags{mark}", f"Flags{title}", tuple(flag_blocks(results, source)))
        yield Section(f"conditions{mark}", f"Conditions{title}",
                      tuple(_conditions(analysis, source)))  # fmt: skip


def _conditions(analysis: Analysis, source: Source) -> Iterator[Block]:
    for group in analysis.groups:
        if group.source == source.id and (lines := group.conditions.lines()):
            yield Table(f"What the answer holds for: {group.label}", ("", "value"), tuple(lines),
                        words=frozenset((0, 1)))  # fmt: skip
    yield Text("Another model, GPU, workload or temperature has another answer.")
    yield Text(f"Made from {source.path}.", "note")
    for told in source.left_out:
        yield Text(sentence(told), "warning")
    status = source.status
    if status is not None and status.state != "done":
        yield Text(
            f"The run is {status.state}: {status.ok} of {status.trials} trials ok, "
            f"{status.failed} failed, {status.missing} missing"
            + (f" ({status.why})" if status.why else "") + ".",
            "warning",
        )  # fmt: skip
