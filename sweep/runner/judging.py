"""A measured trial in the light of all that is known: the journal, the capacity, the cards."""

from __future__ import annotations

from dataclasses import replace

from sweep.bench.gpus import gpu_notes
from sweep.bench.metrics import Measurement, with_acceptance
from sweep.bench.verdicts import OF_REQUESTS, RULES, Evidence, of_server
from sweep.runner.neighbours import journal_of, with_foreign
from sweep.runner.record import Trial
from sweep.runner.session import Session
from sweep.sglang.activity import activity


def in_full_light(
    session: Session, trial: Trial, measurement: Measurement, samples: bytes | None
) -> Measurement:
    """The measurement as its row is to be made of it; `samples` as `judged` takes them."""
    journal, gap = journal_of(session, trial, measurement)
    if gap:
        measurement = replace(measurement, flags=measurement.flags | {"journal_incomplete"})
    measurement, found = judged(trial, measurement, journal, samples)
    for flag, text in found.items():
        where = f"{trial.launch.id} C={trial.concurrency} trial {trial.due.trial}"
        session.sweep.run.log(f"{where}: {flag}: {text}")
    return with_foreign(session, trial, measurement, journal)


def judged(
    trial: Trial, measurement: Measurement, journal: bytes, samples: bytes | None
) -> tuple[Measurement, dict[str, str]]:
    """The measurement with its flags; what was seen for each, which its evidence keeps as well.

    `journal` is what the server printed while it was measured, `samples` what nvidia-smi said.
    Acceptance that the client could not tell is taken from the journal's decode lines.
    """
    steps, ready = trial.launch.config.steps, trial.ready
    seen = activity(journal)
    if steps > 0 and measurement.values.get("accept_length") is None and seen.accept_length:
        drafts = ready.draft_tokens if ready else None
        measurement = with_acceptance(measurement, seen.accept_length, "journal", drafts)
    notes = gpu_notes(samples, measurement.window)
    result = dict(measurement.evidence or {})
    of_requests = {flag: text for flag, text in measurement.verdicts.items() if flag in OF_REQUESTS}
    found = of_requests | of_server(
        Evidence(
            concurrency=trial.concurrency or 1,
            steps=steps,
            requests=measurement.requests,
            values=measurement.values,
            admitted=ready.capacity.max_running_requests if ready else None,
            kv_tokens=ready.capacity.max_total_num_tokens if ready else None,
            activity=seen,
            gpus=notes,
        )
    )
    if notes is not None:
        result["gpus"] = notes.as_json()
    whole = replace(
        measurement,
        values={**measurement.values, **(notes.columns() if notes else {})},
        flags=(measurement.flags - RULES) | found.keys(),
        evidence={**result, "verdicts": found},
    )
    return whole, found
