"""What an exit means for a service: clean or not, and systemd's words for it."""

from __future__ import annotations

import signal

from sweep.demo.manager.unitfile import UnitFile, clean_statuses

CLEAN_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
_NAMES = {0: "SUCCESS", 1: "FAILURE", 200: "CHDIR", 203: "EXEC", 209: "STDOUT", 217: "USER"}


def judge(file: UnitFile, status: int, *, ignore: bool) -> tuple[bool, str]:
    """Whether it counts as success, and the journal's words; `status` is negative for a signal."""
    statuses, signals = clean_statuses(file.get("SuccessExitStatus"))
    if status < 0:
        # A daemon is meant to be ended by these; a oneshot is not.
        daemon = file.get("Type") != "oneshot"
        clean = -status in signals or (daemon and -status in CLEAN_SIGNALS)
        return clean, f"code=killed, status={-status}/{signal.Signals(-status).name[3:]}"
    clean = status == 0 or status in statuses or ignore
    return clean, f"code=exited, status={status}/{_NAMES.get(status, 'n/a')}"
