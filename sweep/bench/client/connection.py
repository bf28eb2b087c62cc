"""One keep-alive connection, and the exchange that is on it."""

from __future__ import annotations

import errno
import os
import socket
import sys
from typing import Any, Callable, Optional

from .arrivals import Arrivals
from .exchange import Exchange, Target
from .guard import Spoilt
from .poller import IN, OUT, Poller
from .wire import Head, ended, parse_head

SO_TIMESTAMPNS = 35  # Linux on every machine that runs a GPU; Python has no name for it


class Lost(Exception):
    """A connection is of no use any more; the text says why."""


class Refused(Lost):
    """It never came about: nobody listens."""


class Connection:
    """Opens itself, sends what it is given, and knows when the answer has ended.

    What it waits for it tells the poller. `writing`: that it can go on connecting (with https: and
    shaking hands) or sending; else whatever can be read is to be kept in its `arrivals`.
    """

    __slots__ = (
        "arrivals", "chunked", "exchange", "fd", "head", "opened", "out", "poller", "ready",
        "recvmsg", "sock", "tls", "used", "writing",
    )  # fmt: skip

    def __init__(
        self, target: Target, poller: Poller, exchange: Optional[Exchange], opened: float
    ) -> None:
        try:
            self.sock = socket.socket(target.family, socket.SOCK_STREAM)
        except OSError as error:  # no file descriptor left
            raise Spoilt("cannot open a socket: " + said(error)) from error
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform.startswith("linux"):
            self.sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.fd = self.sock.fileno()
        self.recvmsg: Callable[[int, int], Any] = self.sock.recvmsg
        self.tls: Any = target.tls(self.sock) if target.tls else None
        self.poller = poller
        self.exchange = exchange
        self.arrivals = Arrivals()
        self.opened = opened
        self.writing = True
        self.ready = False
        self.used = False  # has answered at least once
        self.out = b""  # what the kernel would not take yet of a long request
        self.head: Optional[Head] = None
        self.chunked = False
        poller.register(self.fd, OUT)

    def connect(self, target: Target) -> int:
        """Begins to connect; returns the port of ours. Refused when that fails at once."""
        code = self.sock.connect_ex(target.address)
        port = int(self.sock.getsockname()[1])
        if code not in (0, errno.EINPROGRESS):
            raise Refused(os.strerror(code))
        return port

    def send(self, exchange: Exchange, now: Callable[[], float]) -> None:
        """Sends as much of a request as the kernel takes. Lost when it takes nothing any more."""
        self.exchange = exchange
        self.arrivals = exchange.arrivals
        self.head = None
        self.chunked = False
        data = self.tls.seal(exchange.payload) if self.tls else exchange.payload
        exchange.sent = now()
        self._push(data)

    def go_on(self, now: Callable[[], float]) -> None:
        """The kernel is done connecting, or takes more of a long request."""
        if self.ready:
            self._push(self.out)
            return
        code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise Refused(os.strerror(code))
        if self.tls and not self._shaken():
            return
        self.ready = True
        self._wait(writing=False)
        if self.exchange is not None:
            self.send(self.exchange, now)

    def _shaken(self) -> bool:
        """Are both sides agreed on how to talk? If not yet, it is for the other one to speak."""
        try:
            done = bool(self.tls.shake())
        except OSError as error:
            raise Refused("TLS: " + said(error)) from error
        self.recvmsg = self.tls.recvmsg
        self.poller.modify(self.fd, IN)
        return done

    def _push(self, data: bytes) -> None:
        try:
            size = self.sock.send(data)
        except BlockingIOError:
            size = 0
        except OSError as error:
            raise Lost(said(error)) from error
        self.out = data[size:]
        if self.writing is not bool(self.out):
            self._wait(writing=bool(self.out))

    def _wait(self, writing: bool) -> None:
        self.writing = writing
        self.poller.modify(self.fd, OUT if writing else IN)

    def look(self, data: bytes) -> Optional[bool]:
        """Has the answer ended with this read, which is kept? True: so may be the connection.

        None: it goes on. Called for the first read of an answer, and whenever it may be the last.
        """
        if self.exchange is None:
            raise Lost("connection closed")  # or babbling, with nothing asked
        if not data:
            if self.head is None or self.head.chunked or self.head.length is not None:
                raise Lost("connection closed")
            return False
        if self.head is None:
            try:
                self.head = parse_head(self.arrivals.raw)
            except ValueError as error:
                raise Lost(str(error)) from error
            if self.head is None:
                return None
            self.chunked = self.head.chunked
        return self.head.keep if ended(self.head, self.arrivals) else None

    def rest(self) -> None:
        """Nothing is on it any more."""
        self.exchange = None
        self.arrivals = Arrivals()  # what nobody asked for

    def close(self) -> None:
        self.poller.unregister(self.fd)
        self.sock.close()


def said(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
