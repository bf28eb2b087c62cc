"""Full disks, on either side: nothing torn, the host given back, and resume goes on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from tests.whole.conftest import MakeHost
from tests.whole.test_interrupts import wait_for_stage

SHORT = {"steps": "1..2", "concurrency": [1, 4], "baseline": False}
ROOM_MIB = 80


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """runs/ on a file system of its own that can be filled."""
    place = tmp_path / "runs"
    place.mkdir()
    options = f"size={ROOM_MIB}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "sweep-test", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_here_ends_the_run_with_6(gpu_host: MakeHost, small_disk: Path) -> None:
    host = gpu_host(**SHORT)
    process = host.start("run", "short")
    wait_for_stage(host, process, "measure")
    subprocess.run(["sh", "-c", "cat /dev/zero > filler 2>/dev/null"], cwd=small_disk, check=False)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 6, err
    assert "make room" in err
    assert f"sweep resume {host.run.name}" in err
    assert host.serves()
    (small_disk / "filler").unlink()
    result = host.sweep("resume")
    assert result.status == 0, result.err
    assert "measured while nobody was there" in result.err, "the host had kept it"
    frame = host.frame()
    assert len(frame) == 4
    assert set(frame["status"]) == {"ok"}
    assert not frame.duplicated(["point", "trial", "attempt"]).any()
    for path in (host.run / "bench").iterdir():
        json.loads(path.read_text())
    assert host.leftovers() == []


def test_a_full_disk_there_costs_its_launch(gpu_host: MakeHost) -> None:
    host = gpu_host(**SHORT)
    work = "/var/tmp/sweep-0"
    host.machine.sh(f"mkdir -m 700 {work} && mount -t tmpfs -o size=200k,mode=700 x {work}")
    try:
        host.machine.sh(f"head -c 150000 /dev/zero > {work}/filler")
        result = host.sweep("run", "short")
    finally:
        host.machine.sh(f"umount {work}; rmdir {work}; :")
    assert result.status == 1, result.err
    frame = host.frame()
    assert set(frame["failure"]) == {"host_disk_full"}
    # No number of steps changes that, so the first launch was the last.
    assert frame["speculative_num_steps"].tolist() == [1, 1]
    assert pd.isna(frame["agg_tok_s"]).all()
    assert host.serves()
