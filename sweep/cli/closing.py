"""When a run ends: the report is made and named, and whoever wants to know is told."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweep.cli.options import Options
from sweep.cli.summary import say
from sweep.errors import SweepError
from sweep.hints import of_run
from sweep.inventory import NotifySpec
from sweep.inventory_file import load_inventory
from sweep.plan import Plan
from sweep.report.document import Answer, Answers, Document
from sweep.results import RunDirectory

# A run that a signal ended has somebody waiting for its end.
_BY_SIGNAL = 128


def notify_specs(options: Options, run: RunDirectory, plan: Plan) -> tuple[NotifySpec, ...]:
    """Whom to tell, as the inventory says now: it is no part of what makes a number."""
    path = options.inventory or Path(str(run.plan().get("inventory")))
    if not path.is_file():
        return ()
    try:
        sweep = load_inventory(path).sweeps.get(plan.sweep)
    except SweepError as error:
        run.log(f"notify: nobody is told: {error}")
        return ()
    return sweep.notify if sweep else ()


def report_at_the_end(options: Options, run: RunDirectory, exit_code: int) -> None:
    """Make the run's report and say what it answers. Whatever goes wrong with it changes nothing:
    the rows are safe, and `sweep report` makes it again."""
    if exit_code >= _BY_SIGNAL or not run.csv_path.exists():
        return
    try:
        page, answers = _made(run)
    except Exception as error:  # noqa: BLE001 - a run has ended well or not before this
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        run.log(f"the report could not be made: {why}")
        say(f"the report could not be made ({why}); try: {of_run('report', run.path)}\n", err=True)
        return
    lines = [answer_line(answer) for answer in answers]
    run.event("report", text="; ".join([*lines, f"report: {page}"]))
    if options.verbosity >= 0:
        say("".join(f"{line}\n" for line in lines), err=True)
    say(f"report: {page}\n", err=True)


def _made(run: RunDirectory) -> tuple[Path, list[Answer]]:
    with _warnings_into(run):
        # Only now: most commands end without a report.
        from sweep.report.making import make_report

        report = make_report([run.path])
        page, *_ = report.write(run.path)
    return page, answers_in(report.document)


@contextmanager
def _warnings_into(run: RunDirectory) -> Iterator[None]:
    """What libraries that draw and compute have to say goes to sweep.log: it is not the answer."""
    told = _Told(run)
    drawing = logging.getLogger("matplotlib")
    drawing.addHandler(told)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            yield
        for one in caught:
            run.log(f"report: {one.category.__name__}: {one.message}")
    finally:
        drawing.removeHandler(told)


class _Told(logging.Handler):
    def __init__(self, run: RunDirectory) -> None:
        super().__init__(logging.WARNING)
        self._run = run

    def emit(self, record: logging.LogRecord) -> None:
        self._run.log(f"report: {record.getMessage()}")


def answers_in(document: Document) -> list[Answer]:
    """Every answer of a report, in its order."""
    return [
        answer
        for section in document.sections
        for block in section.blocks
        if isinstance(block, Answers)
        for answer in block.items
    ]


def answer_line(answer: Answer) -> str:
    """One answer in one line."""
    if answer.steps is None:
        return f"{answer.label}: {answer.headline}"
    steps = f"{answer.steps} step{'' if answer.steps == 1 else 's'}"
    return ", ".join(filter(None, (f"{answer.label}: {steps}", answer.headline, answer.doubt)))
