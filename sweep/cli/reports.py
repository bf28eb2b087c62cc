"""The commands that answer: report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from sweep.cli.look import elsewhere, runs_dir_option
from sweep.cli.options import Options, pass_options
from sweep.cli.output import written_to
from sweep.errors import RunDirectoryError, UsageError


@click.command(
    short_help="The answer, with tables and plots, as one HTML page.",
    epilog="\b\nExample:\n  sweep report                    the latest run\n"
    "  sweep report overnight-20261129-221400\n"
    "  sweep report measured.csv -o report/\n"
    "  sweep report --format csv > points.csv",
)
@click.argument("inputs", metavar="[RUN|CSV]...", nargs=-1)
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False),
              help="Where the files go. Default: the run's directory; for a CSV NAME-report/ "
              "beside it.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["csv", "json", "parquet", "md", "latex"]),
              help="Instead, every point as one row of a tidy table, on stdout.")  # fmt: skip
@runs_dir_option
@pass_options
def report(
    options: Options, /, inputs: tuple[str, ...], output: Path | None, form: str | None,
    runs_dir: Path,
) -> None:  # fmt: skip
    """Which number of steps is best at each concurrency, how sure that is, and why.

    Writes report.html (one file, opens offline), report.md and every plot as PNG and SVG, and says
    the answer here. Reads runs, also one that is still going on, and any CSV with
    speculative_num_steps (or steps), concurrency and agg_tok_s or per_req_tok_s.

    In a table of --format the verdict is that against the baseline: gain or loss beyond the noise,
    or tie; "(assumed noise)" behind it says that nothing was measured twice.
    """
    from sweep.cli.summary import print_to_stdout
    from sweep.report.making import make_report
    from sweep.report.terminal import shown

    paths = input_paths(inputs, runs_dir)
    bring_up_to_date(options, paths)
    if form is not None:
        print_table(paths, form)
        return
    where = output or default_place(paths)
    made = make_report(paths)
    print_to_stdout(shown(made.document, ("answer",)), color=options.color)
    with written_to(output):
        page, *others = made.write(where)
    options.say(f"report: {page} (and {len(others)} files beside it)")


def print_table(paths: Sequence[Path], form: str) -> None:
    """Every point of every input as a row, in one of the formats of `report.exports`."""
    from sweep.report.analysis import analyse
    from sweep.report.data import load_results
    from sweep.report.exports import export

    click.echo(export(analyse(load_results(paths)), form), nl=False)


def input_paths(names: Sequence[str], runs_dir: Path) -> list[Path]:
    """What the command line names: paths, ids of runs, or nothing for the latest run.

    Raises RunDirectoryError when there is no such thing.
    """
    from sweep.results import current_run, run_ids

    if not names:
        return [current_run(runs_dir).path]
    found = []
    for name in names:
        paths = [Path(name), runs_dir / name]
        there = next((path for path in paths if path.exists()), None)
        if there is None:
            known = run_ids(runs_dir)
            latest = f"; the latest runs are {', '.join(known[:-4:-1])}" if known else ""
            raise RunDirectoryError(f"no run or file {name}{latest}")
        found.append(there.resolve())
    return found


def bring_up_to_date(options: Options, paths: Sequence[Path]) -> None:
    """Fetch what is new of those runs that work on their host."""
    from sweep.results import RunDirectory

    for path in paths:
        elsewhere(options, RunDirectory(path))


def default_place(paths: Sequence[Path]) -> Path:
    """Where a report goes when nobody says so. Raises UsageError for several inputs."""
    if len(paths) > 1:
        raise UsageError("several inputs make one report: say where it goes with -o DIR")
    path = paths[0]
    if path.is_dir():
        return path
    if (path.parent / "plan.json").exists():
        return path.parent
    return path.with_name(f"{path.stem}-report")


COMMANDS = (report,)
