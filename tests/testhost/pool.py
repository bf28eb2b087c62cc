"""The hosts of one test run: a slot of its own, hosts kept between tests, all gone at the end."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from tests.testhost.base import HOME, base
from tests.testhost.link import Bridge, Link
from tests.testhost.machine import Machine
from tests.testhost.payload import layer
from tests.testhost.processes import Cgroup
from tests.testhost.shell import TesthostError, read, sh

SLOTS = 32
FIRST_NUMBER, LAST_NUMBER = 10, 250  # the last octet of a host's address


def why_not() -> str | None:
    """Why there can be no test hosts on this machine, or None."""
    if os.geteuid() != 0:
        return "test hosts need root"
    if not Path("/etc/debian_version").exists():
        return "test hosts are built with apt: this machine is not a Debian"
    needed = ("apt-get", "dpkg-deb", "ip", "bridge", "tc", "nsenter", "perl", "ssh-keygen")
    missing = [tool for tool in needed if not shutil.which(tool)]
    return f"test hosts need {', '.join(missing)}" if missing else None


class Slot:
    """A number this process holds: it gives the directory, the bridge, the network and the cgroup.

    The lock ends with the process, so a slot that can be taken belongs to nobody, and what is
    still there was left by a run that was killed.
    """

    def __init__(self, number: int, lock: IO[str]) -> None:
        self.number = number
        self.directory = HOME / f"slot-{number}"
        self.bridge = Bridge(number)
        self.cgroup = f"sweep-testhost-{number}"
        self._lock = lock

    @classmethod
    def take(cls, numbers: Sequence[int]) -> Slot | None:
        HOME.mkdir(parents=True, exist_ok=True)
        for number in numbers:
            lock = (HOME / f"slot-{number}.lock").open("w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                continue
            return cls(number, lock)
        return None

    def clean(self) -> None:
        """End and remove everything that bears this slot's names."""
        cgroup = Cgroup(self.cgroup)
        cgroup.kill()
        mounts = [line.split()[4] for line in read("/proc/self/mountinfo").splitlines()]
        ours = [path for path in mounts if path.startswith(f"{self.directory}/")]
        for path in sorted(ours, reverse=True):
            sh("umount", "-l", path)
        cgroup.remove()
        self.bridge.down()
        if self.directory.exists():
            shutil.rmtree(self.directory)

    def release(self) -> None:
        self._lock.close()


class Pool:
    """Hands out hosts; a context manager that removes them all.

    `shared` hosts are kept and given again, healed, to whoever asks; a test leaves no unit behind
    on them. `fresh` hosts are the caller's own until the end of the run, or until `discard`.
    """

    def __init__(self) -> None:
        slot = Slot.take(range(SLOTS))
        if slot is None:
            raise TesthostError(f"all {SLOTS} slots under {HOME} are taken")
        self._slot = slot
        self._machines: dict[str, Machine] = {}
        self._layers: dict[str, tuple[Path, Path]] = {}
        self._made = 0
        # Ends with our end of its standard input, however this process ends.
        self._reaper = subprocess.Popen(
            [sys.executable, "-m", "tests.testhost", "reap", str(slot.number)],
            stdin=subprocess.PIPE, cwd=Path(__file__).parents[2], start_new_session=True,
        )  # fmt: skip
        slot.clean()
        slot.directory.mkdir()
        key = slot.directory / "id_ed25519"
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "sweep-testhost", "-f", key)
        slot.bridge.up()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def controller(self) -> str:
        """This machine's address on the hosts' network."""
        return self._slot.bridge.address

    def shared(self, release: str = "bookworm") -> Machine:
        """The run's common host of a release, switched on and healed."""
        machine = self._machines.get(f"{release}-shared")
        if machine is None:
            return self.fresh(f"{release}-shared", release=release)
        machine.heal()
        return machine

    def fresh(self, name: str, *, release: str = "bookworm", disk: str = "1g") -> Machine:
        """A new host, switched on. A host of this name that exists is removed first."""
        if name in self._machines:
            self.discard(name)
        if self._made > LAST_NUMBER - FIRST_NUMBER:
            raise TesthostError("one test run made more hosts than there are addresses")
        layers = self._layers_of(release)
        number = FIRST_NUMBER + self._made
        self._made += 1
        directory = self._slot.directory / name
        directory.mkdir()
        cgroup = Cgroup(f"{self._slot.cgroup}/{name}")
        cgroup.make()
        link = Link(self._slot.bridge, number, cgroup.unified, directory)
        machine = Machine(name, link, directory, cgroup)
        self._machines[name] = machine
        machine.create(layers, release=release, disk=disk)
        machine.on()
        return machine

    def discard(self, name: str) -> None:
        """Remove a host before the run ends."""
        self._machines.pop(name).remove()
        shutil.rmtree(self._slot.directory / name)

    def close(self) -> None:
        self._slot.clean()
        for machine in self._machines.values():
            machine.killed()
        self._slot.release()
        if self._reaper.stdin:
            self._reaper.stdin.close()
        self._reaper.wait()

    def _layers_of(self, release: str) -> tuple[Path, Path]:
        if release not in self._layers:
            image = base(release)
            work = self._slot.directory / f"layer-{release}"
            work.mkdir()
            sh("mount", "-t", "tmpfs", "-o", "size=256m,mode=755", "sweep-testhost", work)
            self._layers[release] = (layer(image, work), image)
        return self._layers[release]


def reap(number: int) -> None:
    """Wait until the owner of the slot is gone, then clean up unless somebody else took it."""
    sys.stdin.read()
    slot = Slot.take([number])
    if slot is not None:
        slot.clean()
        slot.release()
