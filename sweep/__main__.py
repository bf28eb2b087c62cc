"""`python -m sweep` and the `sweep` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its status."""
    from sweep.cli import run_command_line  # imported late: an ImportError then exits 70, too

    sys.exit(run_command_line(sys.argv[1:]))


if __name__ == "__main__":
    main()
