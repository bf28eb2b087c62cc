"""What is kept of a server that hung or died: beside the row of the trial it happened in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sweep.bench.backends import TrialSpoilt
from sweep.bench.metrics import Measurement
from sweep.errors import HostError, LaunchError
from sweep.runner.record import Trial, record_failure
from sweep.runner.session import Session
from sweep.runner.watchdog import ServerHung
from sweep.sglang.redact import redact_line, redact_text
from sweep.sglang.stacks import failed_to_dump, stack_dumps
from sweep.systemd import Started

# Of the journal's end: enough for the stacks of eight ranks, and of it so much is kept as text.
_LINES_READ, _LINES_KEPT = 4000, 300
# How a server ends that has said all there is to say: the journal alone tells it.
_TOLD = ("bad_argument", "invalid_configuration", "exec_failed", "model_not_found", "port_in_use",
         "wrong_configuration", "host_disk_full")  # fmt: skip


def record_lost(
    session: Session, trials: Sequence[Trial], started: Started | None, error: LaunchError
) -> None:
    """One failed row for each trial the launch still owed. The first one keeps the evidence."""
    if not trials:
        return
    evidence = gather(session, started, error) if started is not None else {}
    measured = error.measurement if isinstance(error, ServerHung) else Measurement({})
    kept = replace(measured, evidence={**(measured.evidence or {}), **evidence})
    detail = "; ".join([error.detail, *_sentence(evidence)])
    record_failure(session, trials[0], TrialSpoilt(error.failure, detail, kept))
    for trial in trials[1:]:
        record_failure(session, trial, error)


def gather(session: Session, started: Started, error: LaunchError) -> Mapping[str, object]:
    """Evidence as JSON values, without secrets; what cannot be had is not there."""
    secrets = tuple(session.secret_values.values())
    try:
        journal = session.systemd.journal(started.invocation_id, lines=_LINES_READ)
        journal = redact_text(journal, secrets)
        found: dict[str, object] = {
            "journal": journal.decode(errors="replace").splitlines()[-_LINES_KEPT:]
        }
        if error.failure in _TOLD:
            return found
        found["stacks"] = list(stack_dumps(journal))
        found["stacks_failed"] = failed_to_dump(journal)
        host = session.systemd.evidence()
    except HostError as trouble:
        return {"missing": redact_line(str(trouble))}
    found |= {
        "nvidia_smi": redact_text(host.nvidia_smi.encode(), secrets).decode(errors="replace"),
        "kernel": [redact_line(line) for line in host.kernel],
        "processes": redact_text(host.processes.encode(), secrets).decode(errors="replace"),
    }
    return {name: value for name, value in found.items() if value}


def _sentence(evidence: Mapping[str, object]) -> Iterator[str]:
    """What was kept, for failure_detail; nothing when it is the journal alone."""
    kept = []
    stacks, kernel = evidence.get("stacks"), evidence.get("kernel")
    if isinstance(stacks, list):
        kept.append(f"stacks of {len(stacks)} processes")
    if isinstance(kernel, list):
        xids = [line for line in kernel if "Xid" in line]
        said = f" ({xids[-1]})" if xids else ""
        kept.append(f"{len(kernel)} kernel lines{said}")
    if "nvidia_smi" in evidence:
        kept.append("nvidia-smi")
    if kept and "journal" in evidence:
        kept.insert(0, "the journal's end")
    if kept:
        yield f"kept in bench/: {', '.join(kept)}"
    if evidence.get("stacks_failed"):
        yield "SGLang could not print its stacks: py-spy does not work there"
