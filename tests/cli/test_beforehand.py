"""What a run says before it begins: values nobody knows, and a night that is longer than one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calling import GPU, sweep


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "inventory.yaml").write_text(GPU)
    return tmp_path


def test_a_value_that_nobody_knows_is_named_with_its_line(place: Path) -> None:
    path = place / "inventory.yaml"
    path.write_text(GPU.replace("speculative-eagle-topk: 1", "speculative-eagle-topk: 1\n"
                                "        , attention-backend: mine"))  # fmt: skip
    shown = sweep("run", "--dry-run", cwd=place)
    assert shown.returncode == 0, shown.stderr
    assert (
        "warning: inventory.yaml:9: hosts.gpu.server.args.attention-backend: 'mine' is no value"
        in shown.stderr
    )
    assert "or write one of triton, " in shown.stderr


def test_a_setting_that_nobody_knows_is_named_as_given(place: Path) -> None:
    shown = sweep("run", "--dry-run", "--set", "attention-backend=mine", cwd=place)
    assert "warning: --set attention-backend: 'mine' is no value" in shown.stderr
    assert "'mine'" not in sweep("run", "--dry-run", cwd=place).stderr
    wrong = sweep("run", "--dry-run", "--set", "attention-backend=tritn", cwd=place)
    assert wrong.returncode == 3
    assert "--set attention-backend: 'tritn' is no value" in wrong.stderr
    assert "did you mean 'triton'?" in wrong.stderr


def test_a_night_of_a_hundred_launches_is_said_before_it_begins(place: Path) -> None:
    many = ("run", "--steps", "1..100", "--yes")
    words = "warning: 101 launches are expected to take "
    begun = sweep(*many, cwd=place)
    assert begun.returncode == 5  # there is no such host
    assert "101 launches, 202 points, 202 trials" in begun.stderr
    assert "expected: " in begun.stderr
    assert words in begun.stderr
    assert "narrow steps" in begun.stderr
    assert words in sweep(*many, "--dry-run", cwd=place).stderr
    assert words not in sweep("run", "--yes", cwd=place).stderr
    assert words not in sweep(*many, "--dry-run", "--until", "07:00", cwd=place).stderr
