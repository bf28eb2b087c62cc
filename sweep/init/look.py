"""Looking around on the host: files a unit names, programs on a PATH, the interpreter of SGLang."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sweep.host import Host

_LARGEST = 1 << 16
_ASK_PYTHON = """\
import sys
try:
    from importlib.metadata import version
    found = version("sglang")
except Exception:
    found = "-"
print("%d.%d" % sys.version_info[:2], found)
"""
OLDEST_PYTHON = (3, 8)


@dataclass(frozen=True)
class Python:
    """An interpreter that can run the benchmark client, and the SGLang it would import."""

    path: str
    sglang: str | None


class Look(Protocol):
    """What has to be known of a host besides the unit itself."""

    def read(self, path: str) -> str | None:
        """The beginning of a file; None if it is not there or no text."""
        ...

    def which(self, program: str, path: str | None) -> str | None:
        """A program's absolute path; `path` is the PATH to search, None the host's own."""
        ...

    def python(self, candidates: Sequence[str]) -> Python | None:
        """The first of these paths that is a Python new enough for the benchmark client."""
        ...


class HostLook:
    """The same, asked of a real host. Only reads."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def read(self, path: str) -> str | None:
        if not path.startswith("/"):
            return None
        name = shlex.quote(path)
        result = self._host.run(f"test -f {name} && head -c {_LARGEST} {name}")
        return result.text if result.ok and b"\0" not in result.stdout else None

    def which(self, program: str, path: str | None) -> str | None:
        search = f"PATH={shlex.quote(path)}; " if path else ""
        found = self._host.run(f"{search}command -v {shlex.quote(program)}").text.strip()
        return found if found.startswith("/") else None

    def python(self, candidates: Sequence[str]) -> Python | None:
        for path in candidates:
            script = f"{shlex.quote(path)} -c {shlex.quote(_ASK_PYTHON)}"
            answer = re.fullmatch(r"(\d+)\.(\d+) (\S+)", self._host.run(script).text.strip())
            if answer and (int(answer[1]), int(answer[2])) >= OLDEST_PYTHON:
                return Python(path, None if answer[3] == "-" else answer[3])
        return None
