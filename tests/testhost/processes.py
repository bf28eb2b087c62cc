"""The control groups hosts live in: how everything of a host is found, and ended."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tests.testhost.shell import read, wait_until

MOUNT = Path("/sys/fs/cgroup")


class Cgroup:
    """One group, in systemd's own hierarchy and the unified one where a machine has both."""

    def __init__(self, name: str) -> None:
        both = [MOUNT / "systemd", MOUNT / "unified"]
        hierarchies = both if both[1].is_dir() else [MOUNT]
        self._paths = [hierarchy / name for hierarchy in hierarchies]

    @property
    def unified(self) -> Path:
        return self._paths[-1]

    @property
    def enter_script(self) -> str:
        """Shell lines that move the shell itself here."""
        return "\n".join(f"echo $$ >{path}/cgroup.procs" for path in self._paths)

    def make(self) -> None:
        for path in self._paths:
            path.mkdir(parents=True, exist_ok=True)

    def kill(self) -> None:
        """End everything inside, at once, and wait for it: groups can be empty before that."""
        # os.walk, and not rglob, which raises where a group is removed while it looks.
        groups = [Path(group) for group, _, _ in os.walk(self.unified)]
        pids = [pid for group in groups for pid in read(group / "cgroup.procs").split()]
        with contextlib.suppress(OSError):
            (self.unified / "cgroup.kill").write_text("1")
        wait_until(lambda: not any(map(_lives, pids)), "the host's end", timeout_s=30)

    def remove(self) -> None:
        def gone() -> bool:
            for path in self._paths:
                for directory, _, _ in os.walk(path, topdown=False):
                    with contextlib.suppress(OSError):
                        Path(directory).rmdir()
            return not any(path.exists() for path in self._paths)

        wait_until(gone, f"the removal of {self.unified}", timeout_s=10)


def children(pid: int) -> list[int]:
    return [int(word) for word in read(f"/proc/{pid}/task/{pid}/children").split()]


def _lives(pid: str) -> bool:
    state = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return bool(state) and state[0] not in "ZX"
