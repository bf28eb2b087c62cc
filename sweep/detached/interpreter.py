"""With which Python of the host the tool can run there: 3.11 or newer."""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sweep.errors import HostRefused
from sweep.host import Host
from sweep.host.script import sections
from sweep.inventory import HostSpec
from sweep.systemd.site import quote

OLDEST = (3, 11)
_NAMES = ("python3", "python3.11", "python3.12", "python3.13", "python3.14")
# pydantic is asked after, because its compiled half fits one version of Python only.
_ABOUT = """
import json, platform, sys, sysconfig
try:
    import pydantic, pydantic_core
    own = pydantic.VERSION
except Exception:
    own = None
print(json.dumps({"path": sys.executable, "version": sys.version_info[:3], "pydantic": own,
                  "abi": sysconfig.get_config_var("SOABI"), "machine": platform.machine()}))
"""


@dataclass(frozen=True)
class Interpreter:
    """`abi` names what compiled modules must have been made for, `pydantic` is the version it
    brings along itself, None without."""

    path: str
    version: tuple[int, int, int]
    abi: str
    machine: str
    pydantic: str | None = None

    @property
    def like_ours(self) -> bool:
        """Modules compiled for this process run there as well."""
        return bool(self.abi) and self.abi == sysconfig.get_config_var("SOABI")

    @property
    def text(self) -> str:
        return f"{self.path} (Python {'.'.join(map(str, self.version))})"


def choose(host: Host, spec: HostSpec) -> Sequence[Interpreter]:
    """The host's interpreters that are new enough, those before that need least to be brought.

    Raises HostRefused when there is none.
    """
    found = list(_look(host, spec))
    fit = [one for one in found if one.version >= OLDEST]
    if not fit:
        seen = ", ".join(dict.fromkeys(one.text for one in found)) or "no Python at all"
        raise HostRefused(
            f"{host.name}: --detach=host needs Python {'.'.join(map(str, OLDEST))} or newer there "
            f"(looked at {', '.join(_candidates(spec))}; found {seen}): install one, name it as "
            "hosts.*.python, or use --detach, which sweeps from here"
        )
    unique = {one.path: one for one in fit}.values()
    return sorted(unique, key=lambda one: (not one.like_ours, one.pydantic is None))


def _candidates(spec: HostSpec) -> list[str]:
    own = [word for word in spec.server.command[:1] if "python" in word]
    return list(dict.fromkeys((*_NAMES, spec.python, *own)))


def _look(host: Host, spec: HostSpec) -> Iterator[Interpreter]:
    script = "".join(
        f"echo @@{number}; command -v {quote(name)} >/dev/null 2>&1 && "
        f"{quote(name)} -c {quote(_ABOUT)} 2>/dev/null\n"
        for number, name in enumerate(_candidates(spec))
    )
    for answer in sections(host.run(script, timeout_s=120).stdout).values():
        try:
            about = json.loads(answer)
            major, minor, patch = about["version"]
            yield Interpreter(
                str(about["path"]), (int(major), int(minor), int(patch)), str(about["abi"] or ""),
                str(about["machine"]), about["pydantic"],
            )  # fmt: skip
        except (ValueError, KeyError, TypeError):
            continue


def ours() -> str:
    """This process's own Python, for messages."""
    return f"Python {sys.version_info[0]}.{sys.version_info[1]} ({sysconfig.get_platform()})"
