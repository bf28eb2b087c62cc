"""Sessions of one connection, the next one opened ahead: a command then costs one round trip.

Opening a session is a round trip of its own, and starting a command on it another one. So the next
session is asked for while a command is being started, and whoever needs one takes it first.
"""

from __future__ import annotations

import contextlib
import threading
import time

import paramiko

OPEN_TIMEOUT_S = 15.0  # to open a channel, or to start a command on it
FREE_S, POLL_S = 5.0, 0.02


class Sessions:
    """Opens the sessions of a connection. A host that allows no session beside another one, or
    gives up one that waits, is not asked for one ahead again."""

    def __init__(self, transport: paramiko.Transport) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._ahead: paramiko.Channel | None = None
        self._asking = False
        self._allowed = True

    def take(self) -> paramiko.Channel:
        """An open session. sshd counts one for a moment longer than we do: with MaxSessions 1
        that shows."""
        until = time.monotonic() + FREE_S
        while True:
            ahead = self._take_ahead()
            if ahead is not None:
                return ahead
            try:
                return self._transport.open_session(timeout=OPEN_TIMEOUT_S)
            except paramiko.ChannelException:
                if time.monotonic() > until:
                    raise
                time.sleep(POLL_S)

    def ask_ahead(self) -> None:
        """Have the next session opened, without waiting for it."""
        with self._lock:
            if self._asking or self._ahead is not None or not self._allowed:
                return
            self._asking = True
        threading.Thread(target=self._open_ahead, name="sweep-session", daemon=True).start()

    def _take_ahead(self) -> paramiko.Channel | None:
        with self._lock:
            ahead, self._ahead = self._ahead, None
            if ahead is not None and ahead.closed:
                ahead, self._allowed = None, False
        return ahead

    def _open_ahead(self) -> None:
        opened = None
        try:
            # A connection that breaks meanwhile shows in the command that is under way.
            with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
                opened = self._transport.open_session(timeout=OPEN_TIMEOUT_S)
        finally:
            with self._lock:
                self._ahead, self._asking = opened, False
                self._allowed = self._allowed and opened is not None
