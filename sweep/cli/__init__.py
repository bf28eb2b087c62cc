"""The command line: the only room that prints and exits.

sweeps   run, resume, stop, restore: what touches a host
look     render, check, status, logs: what only reads
answers  recommend, compare: what was measured, decided
reports  report: the answer, as a page
tools    bench, scrape, init: useful without a sweep
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import click

from sweep import __version__
from sweep.cli import answers, look, reports, sweeps, tools
from sweep.cli.options import Options
from sweep.errors import OutOfRoom, SweepError
from sweep.hints import DEFAULT_INVENTORY

# What a full disk or a vanished terminal answers to output; a run's files have errors of their own.
NOT_TAKEN = (errno.ENOSPC, errno.EDQUOT, errno.EIO)

EXAMPLE = """\b
Example:
  sweep render overnight          what would run, offline
  sweep run overnight             launch it
  sweep resume                    go on with the latest interrupted run
"""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXAMPLE,
)
@click.option(
    "-i", "--inventory", type=click.Path(path_type=Path), show_default=str(DEFAULT_INVENTORY),
    help="Hosts and sweeps.",
)  # fmt: skip
@click.option(
    "--templates", type=click.Path(path_type=Path, exists=True, file_okay=False), default=None,
    help="Unit templates. Default: ./templates, then the packaged ones.",
)  # fmt: skip
@click.option("-v", "--verbose", count=True, help="Say which files are used, too.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but results and errors.")
@click.option("--no-color", is_flag=True, help="No colours; NO_COLOR does the same.")
@click.version_option(__version__, prog_name="sweep")
@click.pass_context
def cli(
    context: click.Context,
    inventory: Path | None,
    templates: Path | None,
    verbose: int,
    quiet: bool,
    no_color: bool,
) -> None:
    """Find the best --speculative-num-steps for an SGLang server, overnight, over SSH."""
    color = not no_color and not os.environ.get("NO_COLOR")
    context.obj = Options(inventory, templates, -1 if quiet else verbose, color)


GROUPS = (sweeps.COMMANDS, look.COMMANDS, reports.COMMANDS, answers.COMMANDS, tools.COMMANDS)
for command in chain.from_iterable(GROUPS):
    cli.add_command(command)


def run_command_line(arguments: Sequence[str]) -> int:  # noqa: PLR0911 - one per outcome
    """Run one command and return the exit status; every error becomes a message here."""
    try:
        status = cli.main(list(arguments), prog_name="sweep", standalone_mode=False)
    except SweepError as error:
        complain(str(error))
        return error.exit_code
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except (click.Abort, KeyboardInterrupt):
        complain("ended by SIGINT")
        return 130
    except click.ClickException as error:
        error.show()
        return 2
    except (BrokenPipeError, SystemExit):
        # The reader of stdout has gone (`| head`), for which click exits: nothing went wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno not in NOT_TAKEN:
            return report_bug()
        complain(f"the output cannot be written: {error.strerror}")
        return OutOfRoom.exit_code
    except Exception:  # noqa: BLE001 - the last resort: whatever gets here is a bug of ours
        return report_bug()
    return status if isinstance(status, int) else 0


def report_bug() -> int:
    """The exception being handled, whole, for whoever mends it."""
    complain(traceback.format_exc())
    complain("this is a bug in sweep; nothing above was expected")
    return SweepError.exit_code


def complain(text: str) -> None:
    """A message to stderr; a closed stderr is nobody's problem."""
    try:
        click.echo("\n".join(f"sweep: {line}" for line in text.splitlines()), err=True)
    except OSError:
        return
