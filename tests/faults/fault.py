"""What a fault is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.faults.ground import Ground

Act = Callable[[Ground], None]

# Not a stage: before the sweep is started, or at any instant of it.
BEFORE, ANY = "before", "any"

# How often an undisturbed sweep of the campaign comes to a stage: 2 launches of 2 points.
TIMES = {"measure": 4, "connect": 1, "take the host": 1, "restore": 1}
STAGES = (
    "connect", "take the host", "install", "start", "wait healthy", "verify", "measure", "stop",
    "restore",
)  # fmt: skip


def nothing(_ground: Ground) -> None:
    """The fault needs no preparation, or heals by itself."""


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong, once, in a sweep of two launches with two points each.

    when       BEFORE, ANY, or the stage (of events.jsonl) that begins when it strikes
    later_s    it strikes up to so long after that stage has begun
    nth        which of the stage's occurrences may be chosen; empty: any
    strike     what goes wrong; it may last a while
    prepare    before the sweep starts
    mend       what a person does, once the sweep has ended, before `sweep resume`
    host       keys of the inventory's host; server, benchmark: likewise
    words      further options of `sweep run`
    way        "" (root or sudo), "user" (scope: user) or "jump" (behind a jump host)
    alone      production serves again before anybody resumes; None: unless the sweep was killed
    short      how often it is injected by `make test-faults`, long: by `make soak`
    """

    name: str
    when: str
    strike: Act
    later_s: float = 0.0
    nth: tuple[int, ...] = ()
    prepare: Act = nothing
    mend: Act = nothing
    host: Mapping[str, object] = field(default_factory=dict)
    server: Mapping[str, object] = field(default_factory=dict)
    benchmark: Mapping[str, object] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    way: str = ""
    alone: bool | None = None
    short: int = 1
    long: int = 4

    def occurrences(self) -> tuple[int, ...]:
        """Which occurrences of the stage it may strike at, counted from 1."""
        return self.nth or tuple(range(1, TIMES.get(self.when, 2) + 1))
