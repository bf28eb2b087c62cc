"""What is said when a sweep ends: the table, the counts, where the rows are, what to do next."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence

import click
from rich.console import Console, RenderableType
from rich.table import Table

from sweep.hints import of_run
from sweep.plan import Plan, latest
from sweep.results import RunDirectory, gave_back, untouched
from sweep.rows import Row

# No table comes near this: on a narrow terminal lines wrap, where numbers would be cut off.
WIDTH = 10_000


def result_table(plan: Plan, rows: Sequence[Row]) -> Table:
    """Aggregate tok/s, one line per launch, one column per concurrency; failures by their kind."""
    last = latest(rows)
    concurrencies = list(dict.fromkeys(point.concurrency for _, point in plan.points()))
    mean = f", mean of {plan.trials} trials" if plan.trials > 1 else ""
    table = Table(title=f"aggregate tok/s{mean}", title_justify="left")
    for name in ("steps", "running", "KV tokens", "acceptance"):
        table.add_column(name, justify="right")
    for concurrency in concurrencies:
        table.add_column(f"C={concurrency}", justify="right")
    for launch in plan.launches:
        found = {p.concurrency: [last.get((p.id, t)) for t in range(1, plan.trials + 1)]
                 for p in launch.points}  # fmt: skip
        known = [row for cells in found.values() for row in cells if row]
        table.add_row(
            launch.label.removeprefix("steps="),
            _any(known, "max_running_requests"),
            _any(known, "max_total_num_tokens"),
            _mean(known, "accept_length", "{:.2f}"),
            *(_cell(found.get(concurrency, [])) for concurrency in concurrencies),
        )
    return table


def _any(rows: Sequence[Row], column: str) -> str:
    return next((str(row[column]) for row in rows if row[column] is not None), "")


def _mean(rows: Sequence[Row], column: str, form: str) -> str:
    values = [float(value) for row in rows if (value := row[column]) is not None]
    return form.format(sum(values) / len(values)) if values else ""


def _cell(rows: Sequence[Row | None]) -> str:
    """The mean over trials; `*` where a row carries `capped`; a failure where nothing is ok."""
    done = [row for row in rows if row is not None]
    good = [row for row in done if row.ok]
    if good:
        capped = "*" if any("capped" in str(row["flags"]) for row in good) else ""
        return _mean(good, "agg_tok_s", "{:.1f}") + capped
    return str(done[-1]["failure"]) if done else "-"


def counts(plan: Plan, rows: Sequence[Row]) -> tuple[int, int, int]:
    """Trials of the plan: ok, failed, missing."""
    last = latest(rows)
    found = [last.get((point.id, trial))
             for _, point in plan.points() for trial in range(1, plan.trials + 1)]  # fmt: skip
    ok = sum(1 for row in found if row is not None and row.ok)
    missing = sum(1 for row in found if row is None)
    return ok, len(found) - ok - missing, missing


def closing_lines(run: RunDirectory, plan: Plan, rows: Sequence[Row]) -> Iterator[str]:
    """Counts, the path of the CSV, and the next command where something is left."""
    ok, failed, missing = counts(plan, rows)
    if any("capped" in str(row["flags"]) for row in rows):
        yield "* more concurrent requests than the server admits: this measures queueing as well"
    yield f"{ok} ok, {failed} failed, {missing} not measured"
    if rows:
        yield f"rows: {run.csv_path}"
    if failed or missing or not gave_back(run.events()):
        yield f"go on with: {of_run('resume', run.path)}"


def print_closing(run: RunDirectory, plan: Plan, *, color: bool) -> None:
    """The table to stdout, everything else to stderr. A pipe that was closed ends nothing."""
    if untouched(run):
        say(f"nothing was done on {plan.host}\n", err=True)
        return
    rows = run.rows()
    print_to_stdout(result_table(plan, rows), color=color)
    for line in closing_lines(run, plan, rows):
        say(line + "\n", err=True)


def print_to_stdout(what: RenderableType, *, color: bool) -> None:
    """Anything that rich shows. A pipe that was closed ends nothing."""
    out = Console(no_color=not color, highlight=False, width=WIDTH)
    # Captured: rich ends the process when it meets a closed pipe. It still touches a terminal.
    with contextlib.suppress(OSError):
        with out.capture() as text:
            out.print(what)
        say(text.get(), err=False)


def say(text: str, *, err: bool) -> None:
    """Print, if anybody still listens."""
    with contextlib.suppress(OSError):
        click.echo(text, nl=False, err=err)
        return
    stream = sys.stderr if err else sys.stdout
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
