"""The bytes below an SSH connection: how a socket is made, and how its silence is noticed.

paramiko waits for ever on a connection that went silent, and the kernel's own time-outs see only
the first leg when jump hosts are in between. So each connection has a heartbeat: a request that
every SSH server answers, and a watch on when the last byte arrived from the very host.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import paramiko

from sweep.host.route import Hop

CONNECT_TIMEOUT_S = 10.0
PING_EVERY_S = 2.5
SILENCE_S = 8.0  # the promise is that silence is noticed within 10 s
TICK_S = 0.5


class SocketLike(Protocol):
    """A socket, or a channel through a jump host."""

    def recv(self, size: int, /) -> bytes: ...
    def send(self, data: bytes, /) -> int: ...
    def settimeout(self, seconds: float, /) -> None: ...
    def close(self) -> None: ...


class Wire:
    """A socket for paramiko that counts what it receives: any byte is a sign of life."""

    def __init__(self, sock: SocketLike) -> None:
        self._sock = sock
        self.received = 0
        self._closed = False  # paramiko looks at it when it prints itself

    def recv(self, size: int) -> bytes:
        data = self._sock.recv(size)
        self.received += len(data)
        return data

    def send(self, data: bytes) -> int:
        return self._sock.send(data)

    def settimeout(self, seconds: float) -> None:
        self._sock.settimeout(seconds)

    def close(self) -> None:
        self._closed = True
        self._sock.close()


def first_leg(hop: Hop) -> SocketLike:
    """A connected socket to the first server of the way."""
    if hop.proxy_command is not None:
        return CommandLeg(hop.proxy_command)
    sock = socket.create_connection((hop.address, hop.port), timeout=CONNECT_TIMEOUT_S)
    # Nagle holds back the second small packet of each command for 40 ms.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    limits = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
    for option, value in limits.items():
        if hasattr(socket, option):  # not every system has each of them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock


class CommandLeg:
    """A ProxyCommand: its standard input and output are the connection, and it ends with it."""

    def __init__(self, command: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the sweep, not for its connection
            )
        self._sock = ours
        self.recv, self.send, self.settimeout = ours.recv, ours.send, ours.settimeout

    def close(self) -> None:
        self._sock.close()
        self._process.terminate()
        self._process.wait()


class Heartbeat:
    """Ends a connection whose far end was silent for 8 s, or whose call is out of time.

    `lost` is called once, from the watching thread, with the reason. Silence is counted in ticks
    that this process was awake for, so being stopped or asleep is not taken for the host's.
    """

    def __init__(
        self, transport: paramiko.Transport, wire: Wire, lost: Callable[[str], None]
    ) -> None:
        self._transport = transport
        self._wire = wire
        self._lost = lost
        self._ended = threading.Event()
        self._limits: dict[object, tuple[float, str]] = {}

    def start(self) -> None:
        for work in (self._ping, self._watch):
            threading.Thread(target=work, name=f"sweep-{work.__name__}", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    @contextlib.contextmanager
    def limit(self, seconds: float, what: str) -> Iterator[None]:
        """The connection is given up when the block lasts longer: for calls without a time-out."""
        token = object()
        self._limits[token] = (time.monotonic() + seconds, what)
        try:
            yield
        finally:
            del self._limits[token]

    def _ping(self) -> None:
        while not self._ended.wait(PING_EVERY_S):
            with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
                # Waits for ever without an answer, which is what the other thread is for.
                self._transport.global_request("keepalive@openssh.com")

    def _watch(self) -> None:
        silent, received = 0.0, self._wire.received
        while not self._ended.wait(TICK_S):
            if self._wire.received == received:
                silent += TICK_S
            else:
                silent, received = 0.0, self._wire.received
            reason = self._trouble(silent)
            if reason:
                self._ended.set()
                self._lost(reason)

    def _trouble(self, silent_s: float) -> str | None:
        if not self._transport.is_active():
            return "the connection was closed by the other side"
        if silent_s >= SILENCE_S:
            return f"nothing was heard from the host for {SILENCE_S:g} s"
        now = time.monotonic()
        for end, what in tuple(self._limits.values()):
            if now > end:
                return f"no answer while {what}"
        return None
