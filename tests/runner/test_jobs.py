"""A client of this machine, and a full disk here: the run ends for lack of room, nothing else."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest

from sweep.bench.backends import JobSpec
from sweep.errors import OutOfRoom
from sweep.runner.jobs import LocalClient, LocalClients
from sweep.systemd import Systemd


@pytest.fixture
def small_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Temporary files go to a file system of 512 KiB."""
    place = tmp_path / "tmp"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "sweep-test", str(place)]
    made = subprocess.run(mount, capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting needs root")
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    subprocess.run(["umount", str(place)], check=True)


def start(stack: ExitStack, script: str, files: dict[str, bytes]) -> LocalClient:
    # The server is not looked at here.
    clients = LocalClients(stack, 1, cast("Systemd", None))
    job = JobSpec(("/bin/sh", "-c", script), files, ("result.json",), 10)
    return cast("LocalClient", clients.start("p-1", job))


def outputs(client: LocalClient) -> dict[str, bytes]:
    until = time.monotonic() + 30
    while client.running:
        assert time.monotonic() < until
        time.sleep(0.01)
    return client.outputs(("result.json",))


def test_no_room_for_the_client(small_tmp: Path) -> None:
    with ExitStack() as stack, pytest.raises(OutOfRoom, match="put the benchmark client in"):
        start(stack, "true", {"client.pyz": b"x" * 600_000})


def test_no_room_for_its_result(small_tmp: Path) -> None:
    script = "cat /dev/zero > part 2>/dev/null; echo 1 > result.tmp && mv result.tmp result.json"
    with ExitStack() as stack:
        client = start(stack, script, {})
        with pytest.raises(OutOfRoom, match="MiB free"):
            outputs(client)


def test_a_client_that_leaves_nothing_has_its_own_reasons(tmp_path: Path) -> None:
    with ExitStack() as stack:
        assert outputs(start(stack, "exit 3", {})) == {}
        assert outputs(start(stack, "echo 1 > result.json", {})) == {"result.json": b"1\n"}
