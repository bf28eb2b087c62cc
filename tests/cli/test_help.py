"""Every help text ends with examples, every example is a command that could be given."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sweep.cli import cli
from sweep.inventory_file import load_inventory
from sweep.matrix import Changes, build_plan
from sweep.rows import FAILURES

README = Path(__file__).parents[2] / "README.md"
DOCS = README.with_name("docs")


def examples(command: click.Command) -> Iterator[str]:
    """The lines of a help text's examples that call the tool."""
    for line in (command.epilog or "").partition("Example:")[2].splitlines():
        for part in line.split("|"):
            if part.strip().startswith("sweep "):
                # What stands behind many blanks is a remark.
                yield part.strip().partition("   ")[0]


def parse(line: str) -> None:
    """Let click read a command line, without running it."""
    words = shlex.split(line)[1:]
    name, *rest = words
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, f"no command {name}"
    command.make_context(name, rest)


COMMANDS: dict[str, click.Command] = {"sweep": cli, **cli.commands}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_that_parse(name: str) -> None:
    found = list(examples(COMMANDS[name]))
    assert found, f"{name}: no example"
    for line in found:
        parse(line)


@pytest.mark.parametrize("name", cli.commands)
def test_the_readme_tells_of_every_command(name: str) -> None:
    assert f"sweep {name}" in README.read_text()


def test_every_command_line_of_the_readme_parses() -> None:
    lines = [line.strip().removeprefix("$ ") for line in README.read_text().splitlines()]
    calls = [line.partition(" #")[0] for line in lines if line.startswith("sweep ")]
    assert calls
    for call in calls:
        if not call.startswith(("sweep -", "sweep --")):
            parse(call.partition("|")[0])


@pytest.mark.parametrize("name", cli.commands)
def test_every_option_says_what_it_does(name: str) -> None:
    for parameter in cli.commands[name].params:
        if isinstance(parameter, click.Option) and not isinstance(parameter.type, click.Choice):
            assert parameter.help, f"sweep {name} {parameter.opts[0]}"


def test_the_inventory_of_the_readme_can_be_used(tmp_path: Path) -> None:
    block = README.read_text().partition("```yaml\n")[2].partition("```")[0]
    path = tmp_path / "inventory.yaml"
    path.write_text(block)
    plan = build_plan(load_inventory(path), "overnight", Changes())
    assert len(plan.launches) == 22  # baseline and ten steps values, two attention backends each


def test_every_kind_of_failure_is_explained() -> None:
    text = (DOCS / "failures.md").read_text()
    assert [kind for kind in FAILURES if f"`{kind}`" not in text] == []


def test_every_page_that_the_readme_names_is_there() -> None:
    pages = re.findall(r"\]\((docs/[^)]+)\)", README.read_text())
    assert sorted(set(pages)) == sorted(f"docs/{page.name}" for page in DOCS.glob("*.md"))
