"""Going on with a server that an earlier process of this run started and left running.

A start costs minutes, so it is not thrown away with the process that asked for it. It has to be the
very same start of a unit that this plan still has; anything else is stopped as what is left over.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sweep.plan import Launch
from sweep.results import Event
from sweep.runner.collect import collect
from sweep.runner.launch import Standing
from sweep.runner.session import Session
from sweep.runner.trial import Work
from sweep.systemd import Started


@dataclass(frozen=True)
class Adopted:
    """A launch to go on with; `work` is the benchmark client that is still busy with it."""

    standing: Standing
    work: Work | None


def adopt(session: Session) -> Adopted | None:
    """What an earlier process left: results become rows, a server that runs is gone on with."""
    standing = find_standing(session)
    work = collect(session, standing.started.invocation_id if standing else None)
    return Adopted(standing, work) if standing else None


def find_standing(session: Session) -> Standing | None:
    """The launch that runs on the host by an earlier start of this run; None: there is none."""
    sweep = session.sweep
    found = session.systemd.standing(session.secrets)
    launch = _of_unit(session, found.unit_sha256) if found else None
    if found is None or launch is None:
        return None
    session.systemd.use(sweep.units[launch.id])
    events = [
        event
        for event in sweep.run.events()
        if event.fields.get("invocation") == found.invocation_id
    ]
    # The host notes the second by its own clock; the process that started it noted it better.
    by_host = found.started_at - timedelta(seconds=session.facts.clock_offset_s)
    noted = next((event.at for event in events if event.kind == "started"), by_host)
    sweep.run.event("adopted", launch=launch.id, invocation=found.invocation_id)
    sweep.note(f"{launch.id} ({launch.label}) still runs: going on with it")
    return Standing(launch, Started(found.invocation_id, noted), _startup_s(events))


def _of_unit(session: Session, sha256: str) -> Launch | None:
    units = session.sweep.units
    launches = session.sweep.plan.launches
    return next((one for one in launches if units[one.id].sha256 == sha256), None)


def _startup_s(events: list[Event]) -> float | None:
    """What the process that saw the server become healthy has measured."""
    known = [event.fields.get("startup_s") for event in events if event.kind == "ready"]
    return next((float(seconds) for seconds in known if isinstance(seconds, int | float)), None)
