"""Something to run where the client runs, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class JobSpec:
    """A command to run with its own empty directory as working directory.

    `files` are put there first (mode 0600: they may hold the API key), `outputs` read back
    afterwards, as far as they exist. `progress` names a file that holds one line of JSON while the
    job runs (phase, requests, done, failed, tokens, flying, elapsed_s, silent_s), or is None.
    `kept` are those of the outputs that the run directory keeps as files, beside the row.
    """

    argv: tuple[str, ...]
    files: Mapping[str, bytes]
    outputs: tuple[str, ...]
    timeout_s: float
    progress: str | None = None
    kept: tuple[str, ...] = ()
