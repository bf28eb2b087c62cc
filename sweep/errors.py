"""Every error the tool raises on purpose, classed by what it spoils.

    SweepError
    ├── PointError            this trial: one failed row, the launch goes on
    ├── LaunchError           this launch: one failed row per due trial, the sweep goes on
    ├── HostError             this host: the sweep ends, exit 5
    │   ├── HostUnreachable       the connection could not be made, or stayed away too long
    │   ├── HostRefused           locked, checks failed, a unit that is not ours, no rights
    │   ├── HostRebooted          started anew in mid-sweep: its production comes first, then we
    │   └── HostTaken             somebody took the host back: production or our timer started
    └── FatalError            everything: the sweep stops
        ├── UsageError            a command line that cannot be meant, exit 2
        ├── InventoryError        inventory, template or plan invalid, exit 3
        ├── RunDirectoryError     the run directory cannot be used, exit 4
        ├── OutOfRoom             no room left on this machine, exit 6
        ├── OutOfTime             --until: production has to serve again, exit 6
        └── Interrupted           SIGHUP, SIGINT or SIGTERM, exit 129, 130 or 143

`try` blocks have the shape of the loops: the trial loop catches PointError, the launch loop
LaunchError, the command line the rest. Foreign exceptions (paramiko, OSError, pydantic) are
translated where they enter and always raised `from` the original.
A message says what failed and where, then why, then what to do.
"""

from __future__ import annotations

import signal


class SweepError(Exception):
    """Root of the tree. `exit_code` is what the process ends with if nobody catches it."""

    exit_code = 70


class PointError(SweepError):
    """One trial is spoilt. `failure` is one of `rows.FAILURES`, `detail` one line of evidence."""

    exit_code = 1

    def __init__(self, failure: str, detail: str) -> None:
        super().__init__(f"{failure}: {detail}")
        self.failure = failure
        self.detail = detail


class LaunchError(SweepError):
    """One launch is spoilt. `failure` is one of `rows.FAILURES`, `detail` one line of evidence."""

    exit_code = 1

    def __init__(self, failure: str, detail: str) -> None:
        super().__init__(f"{failure}: {detail}")
        self.failure = failure
        self.detail = detail


class HostError(SweepError):
    """The host cannot be used any further."""

    exit_code = 5


class HostUnreachable(HostError):
    """The connection could not be made, or stayed away longer than `reconnect_for_s`."""


class HostRefused(HostError):
    """The host answers but must not be used: locked, not ours, not able, no rights."""


class HostRebooted(HostError):
    """The host was started anew, or is going down, in the middle of a sweep."""


class HostTaken(HostError):
    """Somebody took the host back in the middle of a sweep."""


class FatalError(SweepError):
    """The sweep cannot go on anywhere."""


class UsageError(FatalError):
    """The command line cannot be meant."""

    exit_code = 2


class InventoryError(FatalError):
    """The inventory, a template or the plan made from them is invalid."""

    exit_code = 3


class RunDirectoryError(FatalError):
    """The run directory is locked, damaged, missing or of another sweep."""

    exit_code = 4


class OutOfRoom(FatalError):
    """No room left to keep results on this machine."""

    exit_code = 6


class OutOfTime(FatalError):
    """What comes next would not leave the time to have production serving again by --until."""

    exit_code = 6


class Interrupted(FatalError):
    """A signal asked the sweep to end."""

    def __init__(self, signum: int) -> None:
        self.signum = signal.Signals(signum)
        super().__init__(f"ended by {self.signum.name}")
        self.exit_code = 128 + signum
