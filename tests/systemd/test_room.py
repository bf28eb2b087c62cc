"""A full disk of the host is called so, wherever something of ours cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sweep.errors import HostRefused, LaunchError
from tests.systemd.targets import NO_SECRETS, Target, me, rendered, taken, wait_for

pytestmark = pytest.mark.testhost

RUNTIME_UNITS = "/run/systemd/system"


@contextmanager
def full(target: Target, directory: str, room: str = "0") -> Iterator[None]:
    """A file system of its own at `directory` in which so many KiB are free."""
    target.sh(
        f"mkdir -p {directory} && mount -t tmpfs -o size=1m,mode=755 sweep-test {directory} && "
        f"head -c $((1048576 - {room} * 1024)) /dev/zero > {directory}/filler"
    )
    try:
        yield
    finally:
        target.sh(f"umount {directory}")


def test_no_room_for_the_unit(root: Target) -> None:
    unit = rendered(root, "/bin/sleep 600")
    with taken(root) as systemd, full(root, RUNTIME_UNITS), pytest.raises(LaunchError) as caught:
        systemd.install(unit, NO_SECRETS)
    assert caught.value.failure == "host_disk_full"
    assert "No space left on device" in caught.value.detail


def test_no_room_for_the_record_of_production(root: Target) -> None:
    refused = pytest.raises(HostRefused, match=r"host_disk_full: .*make room there")
    with full(root, "/run/sweep"), refused:
        root.systemd("r-full-1").take(me())
    root.sh("rmdir /run/sweep 2>/dev/null; :")
    assert root.left_over() == []


def test_no_room_for_the_mark_of_a_start(root: Target) -> None:
    with taken(root) as systemd:
        systemd.install(rendered(root, "/bin/sleep 600"), NO_SECRETS)
        run = systemd.site.paths.run
        kept = root.sh("mktemp -d /var/tmp/kept.XXXXXX").strip()
        root.sh(f"cp -a {run}/. {kept}/")
        with full(root, run, room="64"):
            root.sh(f"cp -a {kept}/. {run}/ && cat /dev/zero > {run}/more; :")
            with pytest.raises(LaunchError) as caught:
                systemd.start()
        root.sh(f"rm -r {kept}")
    assert caught.value.failure == "host_disk_full"


def test_no_room_for_the_files_of_a_client(root: Target) -> None:
    with (
        taken(root) as systemd,
        full(root, systemd.site.paths.work, room="16"),
        pytest.raises(LaunchError) as caught,
    ):
        systemd.jobs.start("p-1", ["/bin/true"], {"job.json": b"x" * 100_000})
    assert caught.value.failure == "host_disk_full"


def test_no_room_for_what_a_client_writes(root: Target) -> None:
    with taken(root) as systemd, full(root, systemd.site.paths.work, room="128"):
        argv = ["/bin/sh", "-c", "head -c 900000 /dev/zero > result.json"]
        job = systemd.jobs.start("p-1", argv, {})
        wait_for(lambda: not systemd.jobs.state(job).running, "its end")
        assert systemd.jobs.state(job).exit_status != 0
        with pytest.raises(LaunchError) as caught:
            systemd.require_room()
        systemd.jobs.forget(job)
    assert caught.value.failure == "host_disk_full"
    assert "KiB free where /var/tmp/sweep-0/" in caught.value.detail


def test_room_enough(root: Target) -> None:
    with taken(root) as systemd:
        systemd.require_room()
