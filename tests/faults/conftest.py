"""Hosts for the campaign, and its table. It runs when asked for: `make test-faults`, `make soak`.

$SWEEP_FAULTS says how much is injected (short, long); without it nothing here is collected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.faults.catalogue import Injection, injections
from tests.faults.field import Field
from tests.faults.ground import Ground
from tests.faults.table import table
from tests.testhost import Pool

collect_ignore_glob = [] if os.environ.get("SWEEP_FAULTS") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The judge is judged first: it reads the hosts' journals, which faults throw away."""
    items.sort(key=lambda item: item.path.name != "test_judge.py")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "injection" in metafunc.fixturenames:
        metafunc.parametrize("injection", list(injections()), ids=lambda one: one.name)


@pytest.fixture(scope="session")
def field(testhost: Pool, tmp_path_factory: pytest.TempPathFactory) -> Field:
    """The hosts of this process, and what an undisturbed sweep of theirs looks like."""
    return Field(testhost, tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture
def ground(field: Field, injection: Injection, tmp_path: Path) -> Iterator[Ground]:
    """A host in order, and a directory to sweep it from."""
    chance = Random(f"{injection.seed}:{injection.name}")
    made = field.ground(injection.fault, chance, tmp_path)
    yield made
    field.take_back(injection.fault, made)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [one for found in terminalreporter.stats.values() for one in found]
    outcomes = [
        value
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "injection" and getattr(report, "when", "") == "call"
    ]
    if outcomes:
        terminalreporter.section("fault campaign")
        for line in table(outcomes):
            terminalreporter.write_line(line)
