"""Every help text ends with examples, every example is a command that could be given."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sweep.cli import cli
from sweep.inventory_file import load_inventory
from sweep.matrix import Changes, build_plan
from sweep.rows import FAILURES
from tests.cli.calling import sweep as run_tool

README = Path(__file__).parents[2] / "README.md"
DOCS = README.with_name("docs")


def examples(command: click.Command) -> Iterator[str]:
    """The lines of a help text's examples that call the tool."""
    for line in (command.epilog or "").partition("Example:")[2].splitlines():
        for part in line.split("|"):
            if part.strip().startswith("sweep "):
                # What stands behind many blanks is a remark.
                yield part.strip().partition("   ")[0].partition(" > ")[0]


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
    links = re.findall(r"\]\(docs/([^)#]+)(?:#([^)]+))?\)", README.read_text())
    assert {page for page, _ in links} == {page.name for page in DOCS.glob("*.md")}
    for page, anchor in links:
        assert not anchor or anchor in anchors((DOCS / page).read_text()), f"{page}#{anchor}"


def anchors(text: str) -> set[str]:
    """What the headings of a page are called in addresses."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_readme_says_how_to_bench_without_a_gpu(tmp_path: Path) -> None:
    text = README.read_text()
    start = re.search(r"^python -m (sweep\.demo\.simulator .*--port) 30000$", text, re.MULTILINE)
    call = re.search(r"^sweep (bench http://127\.0\.0\.1):30000 ([^#\n]*)", text, re.MULTILINE)
    assert start
    assert call
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", *start[1].split(), port]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(
        command, cwd=tmp_path, stdout=log, stderr=log,
        env={**os.environ, "SWEEP_SIM_SPEED": "50"},
    ) as server:  # fmt: skip
        try:
            wait_until_serving(port)
            words = f"{call[1]}:{port} {call[2]}".split()
            shown = run_tool(*words, cwd=tmp_path)
        finally:
            server.terminate()
    assert shown.returncode == 0, shown.stderr
    rows = [line.split("|") for line in shown.stdout.splitlines() if line.count("|") == 5]
    assert [row[0].strip() for row in rows[1:]] == ["1", "4", "16"]


def wait_until_serving(port: str) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), 5):
            return
        time.sleep(0.1)
    raise AssertionError("the simulated server never listened")
