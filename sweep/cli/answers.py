"""The commands that decide: recommend, compare."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from sweep.cli.look import runs_dir_option
from sweep.cli.options import Options, pass_options
from sweep.cli.output import written_to
from sweep.cli.reports import bring_up_to_date, input_paths
from sweep.errors import SweepError, UsageError

if TYPE_CHECKING:
    from sweep.report.adaptive import Adaptive
    from sweep.report.data import Source
    from sweep.report.paste import Pasted
    from sweep.report.recommend import Recommendation

Parsed = TypeVar("Parsed")

format_option = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)


@click.command(
    short_help="Which steps to use, and what to paste.",
    epilog="\b\nExample:\n  sweep recommend\n"
    "  sweep recommend overnight-20261129-221400 --mix 1:0.7,16:0.3\n"
    "  sweep recommend measured.csv --slo ttft_p99_ms=500,tpot_p99_ms=20 --format json",
)
@click.argument("source", metavar="[RUN|CSV]", required=False)
@click.option("--mix", metavar="LOAD:SHARE,...",
              help="The traffic one value is to serve. Default: every load alike.")  # fmt: skip
@click.option("--slo", metavar="NAME=LIMIT,...",
              help="Limits, such as ttft_p99_ms=500,tpot_p99_ms=20.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False),
              help="Where the files go. Default: the run's directory; none for a CSV.")  # fmt: skip
@format_option
@runs_dir_option
@pass_options
def recommend(
    options: Options, /, source: str | None, output: Path | None, form: str, runs_dir: Path,
    **given: str | None,
) -> None:  # fmt: skip
    """Best steps per concurrency with interval and runner-up, one value for a mix, what to paste.

    First the answer in three lines, then what to paste, then the reasons. Under --slo everything
    that breaks a limit counts as if it had not been measured.

    Writes recommended.service (for a run) and adaptive.json (for SGLang's
    --speculative-adaptive-config) beside the results; under --mix and --slo, which the report there
    knows nothing of, to -o alone.
    """
    from sweep.report.adaptive import adaptive
    from sweep.report.analysis import analyse
    from sweep.report.data import load_results
    from sweep.report.limits import parse_limits
    from sweep.report.recommend import parse_mix
    from sweep.report.recommend import recommend as decide
    from sweep.report.text import recommendation_json

    shares = _parsed("--mix", parse_mix, given["mix"])
    limits = _parsed("--slo", parse_limits, given["slo"])
    paths = input_paths([source] if source else [], runs_dir)
    bring_up_to_date(options, paths)
    results = load_results(paths)
    groups = analyse(results).groups
    found = [decide(group, mix=shares, limits=limits) for group in groups]
    schedules = [adaptive(one) for one in found]
    if form == "json":
        values = [recommendation_json(*pair) for pair in zip(found, schedules, strict=True)]
        click.echo(json.dumps(values, indent=1, ensure_ascii=False))
    if form == "text" and not found:
        left_out = [one for source in results.sources for one in source.left_out]
        click.echo("\n".join(["nothing was measured yet", *left_out]))
    for one, schedule in zip(found, schedules, strict=True):
        answer = Answer(one, schedule, results.sources[0], len(found) > 1, bool(shares or limits))
        answer.carry_out(options, output, spoken=form == "text")


@dataclass(frozen=True)
class Answer:
    """One recommendation, to be said and to be written as files.

    `several`: one of many; `special`: under a mix or limits of its own.
    """

    found: Recommendation
    schedule: Adaptive
    source: Source
    several: bool
    special: bool

    def carry_out(self, options: Options, output: Path | None, *, spoken: bool) -> None:
        from sweep.report.paste import paste_for

        pasted = paste_for(self.source, self.found.group, self.found.to_paste, options.templates)
        files = {}
        if pasted is not None:
            files["recommended.service"] = pasted.service
        if self.schedule.text is not None:
            files["adaptive.json"] = self.schedule.text
        beside = self.source.kind == "run" and not self.special
        place = output or (self.source.path if beside else None)
        written: list[Path] = []
        # Before anything is said: whoever reads may not read to the end (| head).
        try:
            if place is not None:
                with written_to(output):
                    written = [self._write(place, self._named(name), files[name]) for name in files]
        except SweepError as error:
            if output is not None:
                raise
            # The run may be somebody else's: the answer is what was asked for.
            click.echo(f"note: {error}; -o DIR puts the files elsewhere", err=True)
        if spoken:
            self._say(pasted, written=place is not None)
        for path in written:
            options.say(f"wrote {path}")

    def _say(self, pasted: Pasted | None, *, written: bool) -> None:
        """The answer, what to paste, the reasons: in the order in which they are needed."""
        from sweep.report.notes import state
        from sweep.report.text import answer_lines, reason_lines

        head = [f"{self.found.group.label}:"] if self.several else []
        paste = list(self._to_paste(pasted, written=written))
        notes = [f"note: adaptive.json: {note}" for note in self.schedule.notes]
        reasons = ["", "why:", *reason_lines(self.found), *(notes if paste else [])]
        answer = (*head, *answer_lines(self.found), *state(self.source))
        for line in (*answer, *paste, *reasons):
            click.echo(line)

    def _to_paste(self, pasted: Pasted | None, *, written: bool) -> Iterator[str]:
        from sweep.report.paste import flags_alone

        steps = self.found.to_paste
        if steps is None:
            if self.found.steps is not None:
                yield "\nnothing to paste: no point with speculation was measured yet"
            return
        if pasted is not None:
            yield f"\nsteps={steps} as a command line:\n{pasted.command}"
            yield from (f"note: {note}" for note in pasted.notes)
        else:
            flags = flags_alone(steps, self.found.conditions.topk) or "no --speculative flag at all"
            yield f"\nsteps={steps} as flags: {flags}"
        if self.schedule.text is None:
            return
        name = self._named("adaptive.json")
        flags = " ".join(self.schedule.flags(name))
        yield f"by batch size, SGLang 0.5.11 or newer: {flags}"
        if not written:
            yield f"{name}:\n{self.schedule.text.rstrip()}"

    def _named(self, name: str) -> str:
        """Several settings of one run keep their files apart."""
        stem, _, ending = name.rpartition(".")
        return f"{stem}-{self.found.group.id}.{ending}" if self.several else name

    def _write(self, place: Path, name: str, text: str) -> Path:
        from sweep.results import RunDirectory

        place.mkdir(parents=True, exist_ok=True)
        return RunDirectory(place).write(name, text.encode())


@click.command(
    short_help="Two runs, point by point.",
    epilog="\b\nExample:\n  sweep compare before.csv after.csv\n"
    "  sweep compare overnight-20261128-220000 overnight-20261129-221400 "
    "--fail-on-regression 3%",
)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("--fail-on-regression", "limit", metavar="PERCENT",
              help="Exit 1 if a point lost this much beyond the noise, failed, or is "
              "not in B.")  # fmt: skip
@format_option
@runs_dir_option
@pass_options
def compare(
    options: Options, /, before: str, after: str, limit: str | None, form: str, runs_dir: Path
) -> int:
    """Two runs (or CSV files) point by point: which changes clear the noise of both, what differs.

    Gates an upgrade: --fail-on-regression 3% ends with exit status 1 where a point of B is at least
    3 % slower than in A and the interval of the change lies below 0, where it failed, and where B
    does not have it. Where nothing was measured twice the noise is assumed, and the gate says so.
    """
    from sweep.cli.differences import settings_apart
    from sweep.report.analysis import analyse
    from sweep.report.compare import compare as held_against
    from sweep.report.data import load_results
    from sweep.report.text import comparison_json, comparison_lines, gate_lines, passed_line

    allowed = _parsed("--fail-on-regression", parse_percent, limit)
    paths = input_paths([before, after], runs_dir)
    bring_up_to_date(options, paths)
    one, other = (load_results([path]) for path in paths)
    (a,), (b,) = one.sources, other.sources
    # A table has no settings: nothing is known to differ then.
    runs = a.kind == b.kind == "run"
    settings = settings_apart((a.document, a.plan), (b.document, b.plan)) if runs else []
    found = held_against(analyse(one), analyse(other), settings)
    if form == "json":
        click.echo(json.dumps(comparison_json(found), indent=1, ensure_ascii=False))
    else:
        for line in comparison_lines(found):
            click.echo(line)
    if allowed is None:
        return 0
    bad = list(gate_lines(found, allowed))
    for line in bad or [passed_line(found, allowed)]:
        click.echo(line, err=True)
    return 1 if bad else 0


def parse_percent(text: str) -> float:
    """`3%`, `3 %` or `0.03` as a fraction.

    Raises:
        ValueError: not of that form, or not from 0 to 100 %.
    """
    number = text.strip().removesuffix("%").strip()
    try:
        value = float(number) / (100 if "%" in text else 1)
    except ValueError as error:
        raise ValueError("give a percentage, such as 3%") from error
    if not 0 <= value < 1:
        raise ValueError("give a percentage from 0 to 100, such as 3%")
    return value


def _parsed(option: str, parse: Callable[[str], Parsed], text: str | None) -> Parsed | None:
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


COMMANDS = (recommend, compare)
