"""-o of every command: what cannot be written is usage, a full disk is a lack of room."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweep.cli import cli
from sweep.cli.output import written_to
from sweep.errors import OutOfRoom, RunDirectoryError, UsageError
from tests.cli.calling import GPU
from tests.report.nights import make_night


@pytest.mark.parametrize("command", ["render", "report", "recommend"])
def test_a_directory_below_a_file_is_the_same_mistake_everywhere(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inventory.yaml").write_text(GPU)
    make_night(tmp_path / "runs", range(3), (1, 4))
    done = CliRunner().invoke(cli, [command, "-o", "inventory.yaml/x"])
    assert isinstance(done.exception, UsageError), done
    assert str(done.exception).startswith("-o: cannot ")
    assert "inventory.yaml/x" in str(done.exception)
    assert str(done.exception).endswith("name another place")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_no_mistake_of_the_command_line(number: int, tmp_path: Path) -> None:
    with pytest.raises(OutOfRoom), written_to(tmp_path):
        raise OSError(number, os.strerror(number))


def test_without_an_option_errors_stay_what_they_are() -> None:
    with pytest.raises(RunDirectoryError, match="as it was"), written_to(None):
        raise RunDirectoryError("as it was")
