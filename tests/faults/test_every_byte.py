"""results.csv cut at every byte of its last row: a resume brings back every byte of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sweep.cli import run_command_line
from tests.faults.field import Field


def test_every_byte_of_the_last_row(
    field: Field,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = field.undisturbed.csv.read_bytes()
    runs, run = tmp_path / "runs", field.undisturbed.run
    shutil.copytree(run, runs / run.name)
    monkeypatch.chdir(tmp_path)
    last = whole[:-1].rfind(b"\n") + 1
    for cut in range(last, len(whole)):
        (runs / run.name / "results.csv").write_bytes(whole[:cut])
        status = run_command_line(["resume", "--no-report"])
        assert status == 0, f"cut at byte {cut}: {capsys.readouterr().err}"
        assert (runs / run.name / "results.csv").read_bytes() == whole, f"cut at byte {cut}"
    capsys.readouterr()
