"""What every command gets from the global options, and the loading they share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sweep.errors import InventoryError
from sweep.hints import DEFAULT_INVENTORY

if TYPE_CHECKING:
    from rich.console import Console

    from sweep.inventory import Inventory


@dataclass(frozen=True)
class Options:
    """The global options: `inventory` is what -i names; `verbosity` is -1 (quiet), 0, 1 or more."""

    inventory: Path | None
    templates: Path | None
    verbosity: int
    color: bool

    def load(self) -> Inventory:
        """The inventory; where there is none and none was named, the packaged example."""
        from sweep.inventory_file import load_inventory

        return load_inventory(self.inventory_path())

    def inventory_path(self) -> Path:
        path = self.inventory or DEFAULT_INVENTORY
        if path.exists() or self.inventory:
            return path
        example = packaged_example()
        if example is None:
            raise InventoryError(f"{path}: no such file; `sweep init` writes one")
        self.say(f"no {path} here: using the example, {example}")
        return example

    def console(self) -> Console:
        """Where people are talked to: stderr."""
        from rich.console import Console

        return Console(
            stderr=True, no_color=not self.color, quiet=self.verbosity < 0, highlight=False
        )

    def say(self, text: str) -> None:
        """One line to stderr, unless -q."""
        if self.verbosity >= 0:
            click.echo(text, err=True)

    def detail(self, text: str) -> None:
        """One line to stderr with -v."""
        if self.verbosity > 0:
            click.echo(text, err=True)


def packaged_example() -> Path | None:
    """inventory.example.yaml of the wheel, or the repository's own in a checkout."""
    package = Path(__file__).parents[1]
    packaged = package / "templates" / "inventory.example.yaml"
    for path in (packaged, package.parent / "inventory.yaml"):
        if path.exists():
            return path
    return None


pass_options = click.make_pass_decorator(Options)
