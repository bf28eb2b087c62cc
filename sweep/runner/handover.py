"""The host taken for a run, and given back to production in every case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sweep.errors import (
    HostError,
    HostRebooted,
    HostRefused,
    HostUnreachable,
    Interrupted,
    OutOfRoom,
    RunDirectoryError,
)
from sweep.progress import Stage
from sweep.results.status import duration
from sweep.runner.collect import collect
from sweep.runner.reboots import noticing_reboots
from sweep.runner.session import Session
from sweep.systemd import Owner, Served


def take_host(session: Session, served: Served) -> None:
    """Take the host and tell what was found there. Raises HostError."""
    sweep = session.sweep
    sweep.stage(Stage("take the host"))
    try:
        with noticing_reboots(session):
            takeover = session.systemd.take(Owner.here(sweep.clock.now()), served)
    except HostRefused as error:
        sweep.run.event("refused", text=str(error))
        raise
    for text in takeover.notes:
        sweep.note(text)


@contextmanager
def giving_back(session: Session) -> Iterator[None]:
    """Whatever happens inside, production gets the host back before this returns.

    Only a host that cannot be reached is left to its own timer, and one that was rebooted to the
    unit that restores production when it boots.
    """
    try:
        try:
            yield
        except (HostUnreachable, HostRebooted):
            raise
        except BaseException:
            try:
                _give_back(session, after_trouble=True)
            except HostRebooted as error:
                session.sweep.note(f"{error}; it restores production by itself")
            raise
        _give_back(session)
    except HostUnreachable:
        session.sweep.note(
            f"{session.host.name} cannot be reached; its own timer restores production within "
            f"{duration(session.sweep.spec.deadman_s)} of the last contact"
        )
        raise
    session.sweep.clock.check()


def _give_back(session: Session, *, after_trouble: bool = False) -> None:
    """Stop ours and restore production; a second signal leaves both to a unit on the host.

    After trouble what clients have measured is fetched first: nobody may come back for it.
    """
    sweep = session.sweep
    try:
        with sweep.clock.shielded(1):
            if after_trouble:
                with suppress(HostError, OutOfRoom, RunDirectoryError):
                    collect(session)
            sweep.stage(Stage("restore"))
            session.quiesce(doubtful=after_trouble)
            with noticing_reboots(session):
                restored = session.systemd.restore()
            sweep.note(restored.text)
            sweep.run.event("restored", text=restored.text)
    except Interrupted:
        with sweep.clock.shielded(1000):
            session.systemd.hand_over()
            sweep.note(f"{session.host.name} goes on restoring by itself; nothing waits for it")
        raise
