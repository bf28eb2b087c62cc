"""Commands that messages propose, as they are to be typed in this very directory."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

DEFAULT_INVENTORY = Path("inventory.yaml")
DEFAULT_RUNS = Path("runs")


def of_run(command: str, run: Path) -> str:
    """`sweep resume RUN`, with --runs-dir where the run's directory does not lie in ./runs."""
    runs = run.resolve().parent
    where = "" if runs == DEFAULT_RUNS.resolve() else f" --runs-dir {shlex.quote(str(runs))}"
    return f"sweep {command} {run.name}{where}"


def with_inventory(command: str, inventory: Path | None) -> str:
    """`sweep run`, with -i where the inventory is not ./inventory.yaml; None: it is not known."""
    if inventory is None or inventory.resolve() == DEFAULT_INVENTORY.resolve():
        return f"sweep {command}"
    return f"sweep -i {shlex.quote(str(inventory))} {command}"


@dataclass(frozen=True)
class Commands:
    """What messages of a sweep propose, with what has to be said of its two places.

    `inventory` is the file that its host stands in, `runs` the directory of its runs; None: they
    are where they are looked for.
    """

    inventory: Path | None = None
    runs: Path | None = None

    def of_run(self, command: str, run_id: str) -> str:
        """`sweep resume RUN`."""
        return of_run(command, (self.runs or DEFAULT_RUNS) / run_id)

    def of_host(self, command: str, host: str) -> str:
        """`sweep restore HOST`."""
        return with_inventory(f"{command} {shlex.quote(host)}", self.inventory)


# Of a sweep whose inventory and runs lie where they are looked for.
PLAIN = Commands()
