"""What a check says, and what it knows while it judges."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sweep.hints import PLAIN, Commands
from sweep.inventory import HostSpec
from sweep.plan import Plan
from sweep.sglang.args import given_flags
from sweep.systemd.paths import Paths
from sweep.systemd.site import text

Level = Literal["ok", "warning", "problem"]
Answer = dict[str, bytes]

# Directives that give a service another view of the host than ours.
_ITS_OWN = re.compile(
    r"Root|Bind|Mount|Extension|TemporaryFileSystem|Private|DynamicUser|Environment|Inaccessible"
)

LONGEST_COMMAND = 160  # of a process that a finding names


@dataclass(frozen=True)
class Finding:
    """One thing found out. problem: the sweep would not run, or production would not come back.

    warning: the night may be spoilt, or somebody wants to know. `fix` says what to do, or is empty.
    `hopeless`: no launch can succeed as it is, so that `sweep run` does not even begin.
    """

    level: Level
    subject: str
    text: str
    fix: str = ""
    hopeless: bool = False


@dataclass(frozen=True)
class About:
    """What is being checked: this host for this plan, from now until the sweep is expected to end.

    `now` and `until` are UTC; `commands` are what findings propose.
    """

    host: str
    spec: HostSpec
    plan: Plan
    now: datetime
    until: datetime
    commands: Commands = PLAIN

    @property
    def demo(self) -> bool:
        return self.spec.transport == "demo"

    @property
    def sees_what_we_see(self) -> bool:
        """Whether the server finds files and users where our scripts do: no root, mount or user of
        its own."""
        return not any(_ITS_OWN.match(name) for name in self.spec.server.unit)

    def is_everywhere(self, flag: str) -> bool:
        """Whether no launch does without it."""
        return all(flag in given_flags(launch.config) for launch in self.plan.launches)

    @property
    def restore(self) -> str:
        """The command that gives the host back."""
        return self.commands.of_host("restore", self.host)

    @property
    def systemctl(self) -> str:
        return "systemctl --user" if self.spec.scope == "user" else "systemctl"

    @property
    def journalctl(self) -> str:
        words = "journalctl --quiet --no-pager"
        return f"{words} --user" if self.spec.scope == "user" else words

    @property
    def production_units(self) -> tuple[str, ...]:
        production = self.spec.production
        return production if isinstance(production, tuple) else ()


@dataclass(frozen=True)
class Identity:
    """Who our scripts run as. `paths` are the places on this host for that uid."""

    uid: int
    user: str
    groups: tuple[str, ...]
    paths: Paths

    def service_user(self, about: About) -> str:
        """Who the server runs as."""
        return about.spec.server.user or self.user


def unreadable(subject: str, what: str) -> Finding:
    """For a host that cannot tell: said, never guessed."""
    return Finding("warning", subject, f"not readable here: {what}")


def said(answer: Answer, name: str) -> str:
    """A section as text; empty when it is missing."""
    return text(answer.get(name))
