"""Faults of the machine that sweeps: its disk is full, its table is damaged."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from tests.faults.fault import ANY, Act, Fault
from tests.faults.ground import Ground
from tests.testhost.shell import sh

Harm = Callable[[Ground], None]
LATE = (3, 4)  # a measurement by whose time there are rows to damage


def small_disk(ground: Ground) -> None:
    """Runs are kept on a disk of their own, with little more room than is asked for."""
    ground.runs.mkdir()
    sh("mount", "-t", "tmpfs", "-o", "size=80m", "sweep-faults", ground.runs)


def fill(ground: Ground) -> None:
    with (ground.runs / "FILL").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(65536))


def make_room(ground: Ground) -> None:
    (ground.runs / "FILL").unlink(missing_ok=True)


def killed(harm: Harm) -> Act:
    """The sweep is killed and its table is damaged before anybody resumes."""

    def strike(ground: Ground) -> None:
        ground.kill()
        if ground.csv.exists():
            harm(ground)

    return strike


def truncated(ground: Ground) -> None:
    data = ground.csv.read_bytes()
    last = data.rstrip(b"\n").rfind(b"\n") + 1
    ground.csv.write_bytes(data[: ground.chance.randrange(last, len(data))])


def garbage(ground: Ground) -> None:
    ground.csv.write_bytes(ground.chance.randbytes(ground.chance.randrange(1, 5000)))


def deleted(ground: Ground) -> None:
    ground.csv.unlink()


def read_only(ground: Ground) -> None:
    """For root too: a read-only mount."""
    sh("mount", "--bind", ground.csv, ground.csv)
    sh("mount", "-o", "remount,bind,ro", ground.csv)


def writable(ground: Ground) -> None:
    sh("umount", ground.csv, check=False)


FAULTS = (
    Fault("controller-disk-full", ANY, fill, prepare=small_disk, mend=make_room, long=6),
    Fault("csv-truncated", "measure", killed(truncated), nth=LATE, later_s=0.5, long=6),
    Fault("csv-garbage", "measure", killed(garbage), nth=LATE, later_s=0.5, long=4),
    Fault("csv-deleted", "measure", killed(deleted), nth=LATE, later_s=0.5, short=0),
    Fault("csv-deleted-while-sweeping", "measure", deleted, nth=LATE, later_s=0.1, short=0),
    Fault("csv-garbage-while-sweeping", "measure", garbage, nth=LATE, later_s=0.1, short=0),
    Fault("csv-read-only", "measure", read_only, mend=writable, nth=LATE, later_s=0.1, long=2),
)
