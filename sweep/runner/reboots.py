"""The host was started anew in mid-sweep: noticed, and production waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sweep.errors import (
    HostError,
    HostRebooted,
    HostRefused,
    HostTaken,
    HostUnreachable,
    Interrupted,
    LaunchError,
)
from sweep.progress import Stage
from sweep.results.status import duration
from sweep.runner.session import Session

LOOK_S = 1.0
# From the first unit that is stopped to the last: a service may take ten minutes to end.
GOING_DOWN_S = 900.0


@contextmanager
def noticing_reboots(session: Session) -> Iterator[None]:
    """Whatever goes wrong inside is a HostRebooted when the host was started anew, or goes down.

    A reboot looks like many things: a unit that somebody stopped, a server that does not answer, a
    lock that is gone. Raises HostTaken when the sweep has been away for so long that the host
    would have given itself back: then it goes on only when it is told to.
    """
    try:
        yield
    except (HostUnreachable, HostRefused, HostRebooted):
        raise
    except (HostError, LaunchError) as error:
        if session.systemd.boot() == "same":
            raise
        name, limit = session.host.name, session.sweep.spec.deadman_s
        silent_s = session.systemd.silent_s
        if silent_s > limit:
            raise HostTaken(
                f"{name} was rebooted, and nothing was heard of this sweep for "
                f"{duration(silent_s)}: production has the host"
            ) from error
        raise HostRebooted(f"{name} was rebooted while the sweep ran") from error


def wait_until_restored(session: Session) -> None:
    """Until the host is up again and production serves, which is the host's own work.

    Raises HostUnreachable when it does not come back, HostError when production does not. Whoever
    ends the wait is told what becomes of production without it.
    """
    try:
        _wait(session)
    except (HostUnreachable, Interrupted):
        session.sweep.note(_without_us(session))
        raise


def _without_us(session: Session) -> str:
    name = session.host.name
    if session.systemd.restores_after_boot:
        return (
            f"{name} was rebooted and starts production by itself when it boots; nothing waits for "
            "that"
        )
    restore = session.sweep.commands.of_host("restore", name)
    return f"{name} was rebooted and cannot start production by itself; when it is up: {restore}"


def _wait(session: Session) -> None:
    sweep, systemd = session.sweep, session.systemd
    clock = sweep.clock
    sweep.stage(Stage("wait for the host to boot"))
    deadline = clock.monotonic() + GOING_DOWN_S
    while systemd.boot() == "going down":
        if clock.monotonic() > deadline:
            raise HostError(f"{session.host.name} has been going down for {GOING_DOWN_S:.0f} s")
        clock.sleep(LOOK_S)
    sweep.stage(Stage("wait for production"))
    deadline = clock.monotonic() + session.server.health_timeout_s
    while trouble := systemd.production_trouble():
        if clock.monotonic() > deadline:
            sweep.note(f"{session.host.name}: {trouble}; starting it from here")
            sweep.note(systemd.restore().text)
            return
        sweep.progress.detail(trouble)
        clock.sleep(LOOK_S)
