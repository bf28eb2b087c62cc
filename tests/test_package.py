"""The wheel: what is inside, and that an installed tool works in an empty directory."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sweep.inventory import WORKLOADS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(out.glob("specsweep-*.whl"))


def test_templates_and_the_example_are_inside(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "sweep/templates/sglang.service.j2",
        "sweep/templates/inventory.example.yaml",
        "sweep/sglang/flags.txt",
        *(f"sweep/workloads/data/{name}.jsonl" for name in WORKLOADS),
        "sweep/py.typed",
    } <= names
    assert not [name for name in names if name.startswith("tests/")]


@pytest.mark.parametrize(
    "arguments", [("run", "overnight", "--dry-run"), ("render", "demo"), ("init",)]
)
def test_an_installed_tool_works_in_an_empty_directory(
    wheel: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    installed, empty = tmp_path / "installed", tmp_path / "empty"
    zipfile.ZipFile(wheel).extractall(installed)
    empty.mkdir()
    # The installed copy goes before the checkout that the tests themselves run from.
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    shown = subprocess.run(
        [sys.executable, "-m", "sweep", *arguments],
        cwd=empty, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    where = subprocess.run(
        [sys.executable, "-c", "import sweep; print(sweep.__file__)"],
        cwd=empty, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert where.stdout.startswith(str(installed))
