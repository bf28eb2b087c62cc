"""What a run may not silently mix: the host's key, its GPUs, the SGLang version it serves with."""

from __future__ import annotations

from collections.abc import Mapping

from sweep.errors import RunDirectoryError
from sweep.host import Host
from sweep.runner.session import Session, Sweep


def check_fingerprint(sweep: Sweep, found: Mapping[str, str]) -> None:
    """Hold what was found against plan.json, and keep there what is new.

    Raises RunDirectoryError when something is not what this run began with, unless accepted.
    """
    document = sweep.run.plan()
    before: Mapping[str, str] = document.get("fingerprint", {})
    changed = [
        f"{name.replace('_', ' ')} {before[name]} -> {value}"
        for name, value in found.items()
        if before.get(name, value) != value
    ]
    if changed and not sweep.accept_changes:
        raise RunDirectoryError(
            f"{sweep.run.id} began with something else: {'; '.join(changed)}; its rows would not "
            "be comparable: start a new run, or add --accept-changes"
        )
    for text in changed:
        sweep.note(f"accepted: {text}")
    if any(before.get(name) != value for name, value in found.items()):
        sweep.run.write_plan({**document, "fingerprint": {**before, **found}})


def host_fingerprint(session: Session, host: Host) -> dict[str, str]:
    """The host's part. Only over SSH a key says which host it is; the demo host's is never old."""
    gpus = ", ".join(f"{gpu.name} {gpu.uuid}" for gpu in session.facts.gpus) or "none"
    if session.sweep.spec.transport != "ssh":
        return {"gpus": gpus}
    return {"host_key": host.host_key, "gpus": gpus}
