"""Commands that messages propose can be pasted."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.hints import PLAIN, Commands, of_run, with_inventory


def test_runs_that_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert of_run("resume", Path("runs/demo-1")) == "sweep resume demo-1"
    assert of_run("resume", tmp_path / "runs/demo-1") == "sweep resume demo-1"
    assert of_run("stop", Path("my runs/demo-1")) == (
        f"sweep stop demo-1 --runs-dir '{tmp_path}/my runs'"
    )


def test_an_inventory_of_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert with_inventory("run demo", Path("inventory.yaml")) == "sweep run demo"
    assert with_inventory("run demo", tmp_path / "inventory.yaml") == "sweep run demo"
    assert with_inventory("run demo", None) == "sweep run demo"
    assert with_inventory("run demo", Path("a b.yaml")) == "sweep -i 'a b.yaml' run demo"


def test_commands_of_a_sweep_name_what_is_not_where_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert PLAIN.of_run("resume", "demo-1") == "sweep resume demo-1"
    assert PLAIN.of_host("restore", "gpu") == "sweep restore gpu"
    elsewhere = Commands(Path("/etc/gpus.yaml"), Path("/var/runs"))
    assert elsewhere.of_run("resume", "demo-1") == "sweep resume demo-1 --runs-dir /var/runs"
    assert elsewhere.of_host("restore", "gpu") == "sweep -i /etc/gpus.yaml restore gpu"
