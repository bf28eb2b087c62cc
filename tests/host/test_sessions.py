"""The session that is opened ahead: there when it is wanted, and in nobody's way."""

from __future__ import annotations

import threading

import paramiko

from sweep.host.sessions import Sessions


class Session:
    """As much of a channel as is asked of it before a command is started."""

    closed = False


class Transport:
    """A host that allows so many sessions; `opened` counts those it was asked for."""

    def __init__(self, allowed: int) -> None:
        self._allowed = allowed
        self.opened: list[Session] = []

    def open_session(self, timeout: float) -> Session:
        assert timeout > 0
        if sum(not one.closed for one in self.opened) >= self._allowed:
            raise paramiko.ChannelException(1, "open failed")
        self.opened.append(Session())
        return self.opened[-1]


def settled() -> None:
    for thread in threading.enumerate():
        if thread.name == "sweep-session":
            thread.join()


def sessions_of(transport: Transport) -> Sessions:
    return Sessions(transport)  # type: ignore[arg-type]


def test_the_next_session_is_open_before_it_is_wanted() -> None:
    transport = Transport(allowed=10)
    sessions = sessions_of(transport)
    first = sessions.take()
    sessions.ask_ahead()
    settled()
    assert transport.opened[0] is first
    assert len(transport.opened) == 2
    sessions.ask_ahead()  # one is enough
    settled()
    assert len(transport.opened) == 2
    assert sessions.take() is transport.opened[1]


def test_a_host_that_allows_one_session_is_asked_for_one_ahead_only_once() -> None:
    transport = Transport(allowed=1)
    sessions = sessions_of(transport)
    first = sessions.take()
    sessions.ask_ahead()
    settled()
    transport.opened[0].closed = True
    sessions.ask_ahead()
    settled()
    assert len(transport.opened) == 1
    second = sessions.take()
    assert second is not first
    assert second is transport.opened[1]


def test_a_session_that_the_host_gave_up_meanwhile_is_not_used() -> None:
    transport = Transport(allowed=10)
    sessions = sessions_of(transport)
    sessions.ask_ahead()
    settled()
    transport.opened[0].closed = True
    assert sessions.take() is transport.opened[1]
    sessions.ask_ahead()
    settled()
    assert len(transport.opened) == 2
