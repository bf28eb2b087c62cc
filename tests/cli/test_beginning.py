"""What is refused before anything is done on a host leaves production and runs/ as they were."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sweep.results import RunDirectory, new_run, untouched
from tests.cli.calling import GPU, sweep
from tests.report.nights import make_night


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 1 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_disk_without_room_is_noticed_before_the_host_is_connected(
    tmp_path: Path, small_disk: Path
) -> None:
    (tmp_path / "inventory.yaml").write_text(GPU)
    where = ("--runs-dir", str(small_disk / "runs"))
    shown = sweep("run", "--yes", *where, cwd=tmp_path)
    assert shown.returncode == 6, "the host does not even resolve"
    assert "MiB are needed before a measurement starts" in shown.stderr
    assert "nothing was done on gpu" in shown.stderr
    assert list((small_disk / "runs").iterdir()) == []


def test_a_resume_looks_for_room_first_too(tmp_path: Path, small_disk: Path) -> None:
    place = small_disk / "runs"
    assert sweep("run", "demo", "--steps", "1", "--concurrency", "1", cwd=tmp_path).returncode == 0
    (run,) = (tmp_path / "runs").iterdir()
    subprocess.run(["cp", "-r", tmp_path / "runs", small_disk], check=True)
    shown = sweep("resume", run.name, "--trials", "2", "--runs-dir", str(place), cwd=tmp_path)
    assert shown.returncode == 6
    assert "take the host" not in shown.stderr
    hint = shown.stderr.split("go on with: ")[1].splitlines()[0]
    assert hint == f"sweep resume {run.name} --runs-dir {place}"
    again = sweep(*shlex.split(hint)[1:], cwd=tmp_path)
    assert again.returncode == 6, "it was found"


def test_a_host_that_cannot_be_reached_leaves_no_latest_run(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(GPU)
    night = make_night(tmp_path / "runs", range(2), (1,))
    for more in ((), ("--detach",), ("--detach=host",)):
        shown = sweep("run", "--yes", *more, cwd=tmp_path)
        assert shown.returncode == 5, shown.stderr
        assert "go on with" not in shown.stderr
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [night.id]


def killed_while_connecting(place: Path) -> str:
    """A run of a host that takes connections and says nothing; its id."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = f"Host gpu\n HostName 127.0.0.1\n Port {silent.getsockname()[1]}\n User root\n"
        (place / "ssh_config").write_text(config)
        inventory = GPU.replace("gpu.does-not-resolve.invalid", "gpu\n    ssh_config: ssh_config")
        (place / "inventory.yaml").write_text(inventory)
        before = set(place.glob("runs/*"))
        process = subprocess.Popen(
            [sys.executable, "-m", "sweep", "run", "--yes"], cwd=place,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        until = time.monotonic() + 120
        while time.monotonic() < until and process.poll() is None:
            found = [
                path for path in place.glob("runs/*/events.jsonl") if path.parent not in before
            ]
            if found and '"stage":"connect"' in found[0].read_text():
                process.kill()
                process.wait()
                return found[0].parent.name
            time.sleep(0.02)
        process.kill()
        raise AssertionError(process.communicate())


def test_a_run_that_was_killed_while_it_connected_is_not_the_latest(tmp_path: Path) -> None:
    night = make_night(tmp_path / "runs", range(2), (1,))
    killed = killed_while_connecting(tmp_path)
    shown = sweep("status", cwd=tmp_path)
    assert shown.stdout.startswith(f"{night.id} on "), shown.stderr
    shown = sweep("status", killed, cwd=tmp_path)
    assert ": interrupted" in shown.stdout
    assert "nothing was done on gpu" in shown.stdout
    assert "restores" not in shown.stdout
    assert f"go on with: sweep resume {killed}" in shown.stdout


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], True),
        (["connect"], True),
        (["connect", "take the host"], False),
        (["connect", "take the host", "refused"], True),
        (["connect", "take the host", "connect", "take the host", "refused"], False),
        (["connect", "take the host", "install"], False),
        (["connect", "take the host", "restore"], False),
    ],
)
def test_when_a_run_has_done_nothing(tmp_path: Path, events: list[str], expected: bool) -> None:
    run: RunDirectory = new_run(tmp_path, "demo")
    for name in events:
        if name == "refused":
            run.event("refused", text="locked")
        else:
            run.event("stage", stage=name)
    assert untouched(run) == expected


SECRETS = GPU.replace(
    "      args:",
    "      secrets: {HF_TOKEN: {env: NOT_SET}, api-key: {file: /no-such-file}}\n      args:",
).replace("[1, 16]}", "[1, 16], notify: {webhook: {env: NO_HOOK}}}")
UNREADABLE = (
    "inventory.yaml:8: hosts.gpu.server.secrets.HF_TOKEN: the variable NOT_SET is not set here",
    "inventory.yaml:8: hosts.gpu.server.secrets.api-key: cannot read /no-such-file",
)
UNTOLD = "inventory.yaml:11: sweeps.overnight.notify.webhook: the variable NO_HOOK is not set here"


def test_a_dry_run_says_what_would_refuse_the_run(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(SECRETS)
    dry, wet = sweep("run", "--dry-run", cwd=tmp_path), sweep("run", "--yes", cwd=tmp_path)
    assert "### launch 4/4" in dry.stdout, "everything is shown all the same"
    assert (dry.returncode, wet.returncode) == (0, 3)
    for shown, before in ((dry, "warning: the run would be refused: "), (wet, "sweep: ")):
        assert [line for line in UNREADABLE if f"{before}{line}" not in shown.stderr] == []
        assert f"warning: {UNTOLD}" in shown.stderr
    assert not (tmp_path / "runs").exists()


def test_too_little_time_is_refused_before_the_host_is_connected(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(GPU)
    soon = (datetime.now(UTC) + timedelta(minutes=2)).isoformat(timespec="seconds")
    for how, status in (("--dry-run", 0), ("--yes", 6)):
        shown = sweep("run", how, "--until", soon, cwd=tmp_path)
        assert shown.returncode == status, shown.stderr
        assert "l-01 with one trial takes about" in shown.stderr
        assert "nothing was done on gpu" in shown.stderr


def test_a_check_lists_what_cannot_be_read_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(
        SECRETS.replace("address: gpu.does-not-resolve.invalid", "transport: demo")
    )
    shown = sweep("check", cwd=tmp_path)
    assert shown.returncode == 5, shown.stderr
    for line in UNREADABLE:
        assert f"problem  secrets: {line}" in shown.stdout
    assert f"warning  notify: {UNTOLD}" in shown.stdout
    assert "port: " in shown.stdout, "the host was asked as well"
