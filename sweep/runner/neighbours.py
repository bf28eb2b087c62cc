"""Was the server under test ours alone while a trial was measured?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sweep.bench.backends import TrialSpoilt
from sweep.bench.metrics import Measurement
from sweep.errors import HostError, HostUnreachable, PointError
from sweep.inventory import BuiltinBenchmark
from sweep.runner.record import Trial
from sweep.runner.session import Session
from sweep.sglang.foreign import Ours, foreign
from sweep.sglang.journal import scrape


def journal_of(session: Session, trial: Trial, measurement: Measurement) -> tuple[bytes, bool]:
    """What the server printed from the first request to the last answer; whether lines are missing.

    What was measured is not lost where the journal cannot be read.
    """
    if trial.ready is None:
        return b"", False
    try:
        since, until = _window(session, trial, measurement, local=_is_local(session))
        invocation = trial.ready.started.invocation_id
        journal = session.systemd.journal_between(invocation, since, until)
    except HostUnreachable:
        raise
    except HostError:
        return b"", True
    return journal, scrape(journal).suppressed > 0


def _is_local(session: Session) -> bool:
    benchmark = session.sweep.plan.benchmark
    return isinstance(benchmark, BuiltinBenchmark) and benchmark.run_on == "controller"


def with_foreign(
    session: Session, trial: Trial, measurement: Measurement, journal: bytes
) -> Measurement:
    """The measurement, flagged `foreign_requests` if others used the server; the evidence is kept.

    Looked for in what the server printed in that time and in what its counter says. Evidence that
    is missing proves nothing.
    """
    return _looked_through(session, trial, measurement, journal)[0]


def others_told(session: Session, trial: Trial, error: PointError) -> PointError:
    """The error of a spoilt trial, which says so where others used the server meanwhile."""
    if not isinstance(error, TrialSpoilt) or error.measurement.window is None:
        return error
    journal, _ = journal_of(session, trial, error.measurement)
    measurement, said = _looked_through(session, trial, error.measurement, journal)
    if not said:
        return error
    return TrialSpoilt(error.failure, f"{error.detail}; not ours: {said}", measurement)


def _looked_through(
    session: Session, trial: Trial, measurement: Measurement, journal: bytes
) -> tuple[Measurement, str]:
    """`with_foreign`, and what was seen; empty where nothing was."""
    result: Mapping[str, Any] = measurement.evidence or {}
    ours = _ours(result, measurement, local=_is_local(session))
    found = foreign(journal, ours, _counted(result))
    if found is None:
        return measurement, ""
    point = trial.due.point
    session.sweep.note(
        f"{trial.launch.id} C={point.concurrency}: {found.requests} or more requests that are not "
        f"ours reached the server while it was measured ({'; '.join(found.seen)})"
    )
    said = f"{found.requests} or more requests: {'; '.join(found.seen)}"
    evidence = {
        **result,
        "foreign": {"requests": found.requests, "seen": list(found.seen)},
        "verdicts": {**(result.get("verdicts") or {}), "foreign_requests": said},
    }
    flags = measurement.flags | {"foreign_requests"}
    return replace(measurement, flags=flags, evidence=evidence), said


def _window(
    session: Session, trial: Trial, measurement: Measurement, *, local: bool
) -> tuple[float, float]:
    """When it was measured, in seconds of the host's clock."""
    offset_s = session.facts.clock_offset_s
    if measurement.window is None:  # a script of the user's, which tells no times
        ended = trial.ended or session.sweep.clock.now()
        return trial.began.timestamp() + offset_s, ended.timestamp() + offset_s
    since, until = measurement.window
    if not local:
        return since, until
    # In a night two clocks drift apart by more than lies between two trials.
    offset_s = _clock_offset_s(session)
    return since + offset_s, until + offset_s


def _clock_offset_s(session: Session) -> float:
    """The host's clock minus ours, now. Raises HostError when the host does not tell."""
    clock = session.sweep.clock
    before = clock.now().timestamp()
    answer = session.host.run("date +%s.%N | tr -d N")
    try:
        there = float(answer.text)
    except ValueError as error:
        raise HostError(
            f"{session.host.name}: its clock cannot be read: {answer.tail(1)}"
        ) from error
    return there - (before + clock.now().timestamp()) / 2


def _ours(result: Any, measurement: Measurement, *, local: bool) -> Ours:
    """Of a user's script nothing is known but that it is on the host."""
    if measurement.window is None:
        return Ours()
    warmup, client = result.get("warmup") or {}, result.get("client") or {}
    measured = len(measurement.requests) + int(client.get("resent") or 0)
    ports = [*(warmup.get("ports") or ()), *(result.get("ports") or ())]
    return Ours(
        # Through the tunnel it is sshd that connects, from ports of its own.
        ports=None if local or not ports else frozenset(ports),
        sent=measured + int(warmup.get("requests") or 0),
        in_flight=int(result["concurrency"]),
        finished=measured,
    )


def _counted(result: Any) -> int | None:
    """By how much the server's own counter grew around the measurement."""
    before, after = (
        (result.get(name) or {}).get("num_requests_total")
        for name in ("server_before", "server_after")
    )
    return None if before is None or after is None else max(0, after - before)
