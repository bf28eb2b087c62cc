"""`python -m sweep` and the `sweep` command."""

from __future__ import annotations

import io
import os
import sys


def main() -> None:
    """Run the command line and exit with its status."""
    open_streams()
    try:
        from sweep.cli import run_command_line  # imported late: a Ctrl-C meanwhile is one, too

        status = run_command_line(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("sweep: ended by SIGINT\n")
        status = 130
    sys.exit(status)


def open_streams() -> None:
    """Have 0, 1 and 2 open, and able to take any text.

    The next file or connection would get the number of a closed one, and be printed into.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
