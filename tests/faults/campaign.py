"""One injection: a sweep is started, disturbed, resumed as a user would, and judged."""

from __future__ import annotations

import signal
import time
from dataclasses import asdict, dataclass
from typing import Any

from tests.faults.catalogue import Injection
from tests.faults.fault import ANY, BEFORE, Fault
from tests.faults.ground import Ground, NeverError
from tests.faults.judge import Key, Trial, judge, look_before, records

MOST_RESUMES = 5
# Exit statuses after which a person resumes: 0 is done, 2, 3 and 70 cannot be meant. When all is
# given back, a signal ends the tool as it ends any program.
ENDED = {-signal.SIGHUP, -signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL}
GO_ON = {1, 4, 5, 6, 129, 130, 143, *ENDED}
SERVES_WITHIN_S = 60.0


@dataclass(frozen=True)
class Outcome:
    """What came of one injection, as the table and the report need it.

    `seconds`: what it took longer than an undisturbed sweep, all resumes and waiting included.
    """

    fault: str
    number: int
    where: str
    statuses: tuple[int, ...]
    lost: int
    wrong: int
    twice: int
    restored: bool
    seconds: float
    troubles: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def inject(injection: Injection, ground: Ground, trials: frozenset[Trial]) -> Outcome:
    """Carry one injection out, to the end. `trials`: what an undisturbed sweep has in the end."""
    fault = injection.fault
    seen: set[Key] = set()
    troubles: list[str] = []
    where = "before the sweep"
    before = look_before(ground)
    began = time.monotonic()
    try:
        where = start_and_strike(fault, ground)
        finish(fault, ground, seen)
    except AssertionError as error:
        troubles.append(str(error))
    seconds = time.monotonic() - began - ground.undisturbed_s
    ground.end()
    found = judge(ground, before, trials, seen)
    return Outcome(
        fault=fault.name,
        number=injection.number,
        where=where,
        statuses=tuple(ground.statuses),
        lost=len(found.lost),
        wrong=len(found.wrong),
        twice=len(found.twice),
        restored=found.restored,
        seconds=max(0.0, seconds),
        troubles=(*troubles, *found.troubles),
    )


def start_and_strike(fault: Fault, ground: Ground) -> str:
    """Start the sweep and let the fault strike at its moment; where the sweep stood."""
    fault.prepare(ground)
    if fault.when == BEFORE:
        fault.strike(ground)
    ground.start("run", "short", *fault.words)
    if fault.when == BEFORE:
        return "before the sweep"
    if fault.when == ANY:
        ground.wait_for_stage("connect")
        time.sleep(ground.chance.uniform(0, 0.95 * ground.undisturbed_s))
    else:
        ground.wait_for_stage(fault.when, ground.chance.choice(fault.occurrences()))
        time.sleep(ground.chance.uniform(0, fault.later_s))
    where = ground.stage()
    fault.strike(ground)
    return where


def finish(fault: Fault, ground: Ground, seen: set[Key]) -> None:
    """Wait for the sweep's end, mend what a person would mend, resume until it is done.

    What strikes before the host was taken leaves no run to resume: it is started once more.
    """
    assert ground.process is not None
    # A sweep may have been through before the fault came to it.
    if ground.process.returncode is None or not ground.statuses:
        ground.wait()
    seen |= records(ground)
    alone = fault.alone if fault.alone is not None else ground.statuses[-1] != -signal.SIGKILL
    if alone and not ground.wait_until_serving(SERVES_WITHIN_S):
        raise NeverError(f"production did not serve within {SERVES_WITHIN_S:.0f} s, by itself")
    fault.mend(ground)
    for turn in range(MOST_RESUMES):
        status = ground.statuses[-1]
        if status == 0:
            return
        if status not in GO_ON:
            raise NeverError(f"exit status {status}\n{ground.said()}")
        time.sleep(turn)
        ground.start(*(("resume",) if ground.has_run else ("run", "short", *fault.words)))
        ground.wait()
        seen |= records(ground)
    if ground.statuses[-1] != 0:
        raise NeverError(f"not done after {MOST_RESUMES} resumes: {ground.statuses}")
