"""What is asked of a detached run's host: an answer that is none is not its end."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from sweep.detached import Place, Remote
from sweep.errors import HostError
from sweep.host import Result


@dataclass(frozen=True)
class Here:
    """A host whose systemctl prints and ends as `says` has it."""

    folder: Path
    says: str
    name: str = "gpu"

    def run(self, script: str, *, timeout_s: float = 30, stdin: bytes = b"") -> Result:
        systemctl = self.folder / "systemctl"
        systemctl.write_text(f"#!/bin/sh\n{self.says}\n")
        systemctl.chmod(0o755)
        done = subprocess.run(
            ["sh", "-c", script], input=stdin, capture_output=True, check=False, timeout=timeout_s,
            env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"},
        )  # fmt: skip
        return Result(done.returncode, done.stdout, done.stderr)


def remote(folder: Path, says: str) -> Remote:
    place = Place("r-1", "system", str(folder / "state/r-1"), str(folder / "run/r-1"), "python3")
    (folder / "state/r-1/runs/r-1").mkdir(parents=True, exist_ok=True)
    return Remote(Here(folder, says), place)


@pytest.mark.parametrize(("state", "works"), [("active", True), ("inactive", False)])
def test_whether_it_works(tmp_path: Path, state: str, works: bool) -> None:
    assert remote(tmp_path, f"echo ActiveState={state}").active() is works


def test_a_systemd_that_is_not_reached_is_not_its_end(tmp_path: Path) -> None:
    """Executed anew by an upgrade, say: whoever looks then must not take the run apart."""
    there = remote(tmp_path, "echo 'Failed to connect to bus' >&2; exit 1")
    with pytest.raises(HostError, match=r"look at the sweep there: .*connect to bus"):
        there.active()
    with pytest.raises(HostError, match="tidy up there"):
        there.forget()
    assert (tmp_path / "state/r-1").exists()


def test_what_works_is_not_forgotten(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="its sweep is at work"):
        remote(tmp_path, "echo ActiveState=active").forget()
    assert (tmp_path / "state/r-1").exists()
    remote(tmp_path, "echo ActiveState=failed").forget()
    assert not (tmp_path / "state").exists()
