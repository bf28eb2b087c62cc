"""The loop that sends and reads: the part of the client that is timed."""

from __future__ import annotations

import collections
import errno
import os
import select
import socket
import sys
import time
from typing import Any, Deque, Dict, List, Optional

from .exchange import Connection, Exchange, Target, asked, discard, usage_hint
from .guard import Guard, Spoilt
from .wire import END, ended, parse_head

READ = 65536
TICK_S = 0.25
CONNECT_S = 10.0
MAX_READS = 20000  # of one response; more, and the server does not end what it should
MAX_BYTES = 256 << 20
SO_TIMESTAMPNS = 35  # Linux on every machine that runs a GPU; Python has no name for it
IN, OUT = 1, 4  # poll and epoll agree on these numbers


class Loop:
    """Sends exchanges so that `concurrency` are in flight until none is left.

    An exchange that is `due` at some time (an open loop) is not sent before; later, if all
    `concurrency` places are taken then.

    `connect` first, then `run`. Every exchange ends up in `done`, with `error` set if it failed on
    the wire; whether what came back is a good answer is not looked at here.
    """

    def __init__(self, target: Target, concurrency: int, idle_timeout_s: float, guard: Guard):
        self.target = target
        self.concurrency = concurrency
        self.idle_timeout_s = idle_timeout_s
        self.guard = guard
        self.now = guard.clock.realtime
        epoll = hasattr(select, "epoll")
        self.poller: Any = select.epoll() if epoll else select.poll()
        self.tick = TICK_S if epoll else int(TICK_S * 1000)
        self.connections: Dict[int, Connection] = {}
        self.idle: List[Connection] = []  # with nothing on them
        self.pending: Deque[Exchange] = collections.deque()
        self.done: List[Exchange] = []
        self.quiet_since = 0.0  # the last byte from the server on any connection, as far as looked
        self.heard = False  # has any byte come since `run` began?
        self.flying = 0  # sent and not yet done with, or about to be sent on a new connection
        self.vacant = 0  # connections to be replaced
        self.failed = 0
        self.tokens = 0
        self.gone: Optional[str] = None  # why nobody takes connections any more
        self.ports: List[int] = []  # of ours, one for each connection that was made
        self.turns: List[float] = []  # when the poller told who can be read
        self.cpu = 0.0  # CPU seconds per second, while it ran

    # -- the part that is timed ----------------------------------------------------------------

    def run(self, exchanges: List[Exchange]) -> None:
        """Answers all of `exchanges`; the guard bounds the time that takes.

        `due` of an exchange counts from now, and is a time afterwards.
        """
        self.pending.extend(exchanges)
        begin = self.now()
        for exchange in exchanges:
            exchange.due = None if exchange.due is None else begin + exchange.due
        cpu, began = time.process_time(), time.perf_counter()
        self.idle = list(self.connections.values())[::-1]
        self._dispatch()
        checked = self.guard.clock.monotonic()
        self.quiet_since = self.now()
        self.heard = False
        while self.flying or self.pending:
            self._serve()
            if self.guard.clock.monotonic() - checked > TICK_S:
                self._check()
                checked = self.guard.clock.monotonic()
            self._dispatch()
            self._refill()
        self.cpu = (time.process_time() - cpu) / (time.perf_counter() - began)

    def _serve(self) -> None:
        """One turn: read what is readable. Of what was read only the last bytes are looked at."""
        connections, now = self.connections, self.now
        readable = self.poller.poll(self._patience())
        self.turns.append(now())
        for fd, _ in readable:
            connection = connections[fd]
            if not connection.ready or connection.out:
                self._writable(connection)
                continue
            try:
                data, control, _, _ = connection.recvmsg(READ, 64)
            except BlockingIOError:
                continue
            except OSError as error:
                self._broken(connection, said(error))
                continue
            connection.append((now(), control[0][2] if control else None, data))
            if not connection.chunked or len(data) < 7 or data[-7:] == END:
                self._look(connection, data)

    def _patience(self) -> float:
        """How long to wait for the server, in the poller's unit: not beyond what is due next."""
        due = self.pending[0].due if self.pending else None
        if due is None or not (self.idle or self.vacant):
            return self.tick
        wait = min(TICK_S, max(0.0, due - self.now()))
        return wait if self.tick == TICK_S else int(wait * 1000)

    def _is_due(self) -> bool:
        """Is there something to send, and is it time for it?"""
        if not self.pending:
            return False
        due = self.pending[0].due
        return due is None or due <= self.now()

    def _dispatch(self) -> None:
        while self.idle and self._is_due():
            self._send(self.idle.pop(), self._take())

    def _look(self, connection: Connection, data: bytes) -> None:
        """Is this the end of the response? Called for the first read of one, and the last."""
        exchange = connection.exchange
        if exchange is None:  # closed, or babbling, with nothing asked
            self._broken(connection, "connection closed")
            return
        head = connection.head
        if not data:
            if head is not None and not head.chunked and head.length is None:
                self._finish(connection, exchange, keep=False)
            else:
                self._broken(connection, "connection closed")
            return
        if head is None:
            try:
                head = parse_head(b"".join(data for _, _, data in exchange.arrivals))
            except ValueError as error:
                self._broken(connection, str(error))
                return
            if head is None:
                return
            connection.head = head
            connection.chunked = head.chunked
        if ended(head, exchange.arrivals):
            self._finish(connection, exchange, keep=head.keep)

    def _finish(self, connection: Connection, exchange: Exchange, keep: bool) -> None:
        connection.exchange = None
        connection.used = True
        if not keep:
            self._close(connection)
        elif self._is_due():
            self._send(connection, self._take())
        else:
            connection.append = discard
            self.idle.append(connection)
        self._settle(exchange, None)
        self.tokens += usage_hint(exchange.arrivals)

    def _take(self) -> Exchange:
        self.flying += 1
        return self.pending.popleft()

    def _send(self, connection: Connection, exchange: Exchange) -> None:
        connection.exchange = exchange
        connection.append = exchange.arrivals.append
        connection.head = None
        connection.chunked = False
        exchange.sent = self.now()
        try:
            size = connection.sock.send(exchange.payload)
        except BlockingIOError:
            size = 0
        except OSError as error:
            self._broken(connection, said(error))
            return
        if size < len(exchange.payload):
            connection.out = exchange.payload[size:]
            self.poller.modify(connection.fd, OUT)

    def _writable(self, connection: Connection) -> None:
        """The kernel is done connecting, or takes more of a long request."""
        if not connection.ready:
            code = connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._refused(connection, os.strerror(code))
                return
            connection.ready = True
            self.poller.modify(connection.fd, IN)
            if connection.exchange is not None:
                self._send(connection, connection.exchange)
            return
        try:
            connection.out = connection.out[connection.sock.send(connection.out) :]
        except BlockingIOError:
            return
        except OSError as error:
            self._broken(connection, said(error))
            return
        if not connection.out:
            self.poller.modify(connection.fd, IN)

    # -- what goes wrong -----------------------------------------------------------------------

    def _settle(self, exchange: Exchange, error: Optional[str]) -> None:
        exchange.error = error
        exchange.ended = self.now()
        self.failed += error is not None
        self.flying -= 1
        self.done.append(exchange)

    def _broken(self, connection: Connection, reason: str, again: bool = True) -> None:
        """The connection is of no use any more; its exchange failed with it, or is sent again.

        A server may close a kept connection just when we use it again, which is nobody's fault;
        so an exchange on a used connection that heard nothing gets one more chance.
        """
        exchange = connection.exchange
        used = connection.used
        self._close(connection)
        if exchange is None:
            return
        heard = exchange.heard
        if again and used and not heard and not exchange.resent:
            exchange.resent = True
            del exchange.arrivals[:]
            self.flying -= 1
            self.pending.appendleft(exchange)
        else:
            place = "after %d bytes" % heard if heard else "before the first byte"
            self._settle(exchange, "%s %s" % (reason, place))

    def _refused(self, connection: Connection, reason: str) -> None:
        """Nobody listens: what is not yet sent is given up, what is in flight goes on."""
        self.gone = "cannot connect: " + reason
        self._broken(connection, self.gone, again=False)

    def _refill(self) -> None:
        """New connections in the place of lost ones, each with the next exchange."""
        while self.vacant and self._is_due():
            if self.gone is not None:
                self._abandon(self.gone)
                return
            self.vacant -= 1
            self._open(self._take())

    def _abandon(self, reason: str) -> None:
        while self.pending:
            self._settle(self._take(), "not sent: " + reason)

    def _check(self) -> None:
        """Four times a second: ends what is silent or endless; everything if the guard says so."""
        silent_s = self._silence()
        self.guard.silent(silent_s, self.heard)
        verdict = self.guard.verdict()
        if verdict is not None:
            self._abandon(verdict)
        for connection in list(self.connections.values()):
            if verdict is not None:
                self._broken(connection, verdict, again=False)
            elif not connection.ready:
                if self.guard.clock.monotonic() - connection.opened > CONNECT_S:
                    self._refused(connection, "no answer within %g s" % CONNECT_S)
            elif connection.exchange is not None:
                problem = self._overdue(connection.exchange)
                if problem is not None:
                    self._broken(connection, problem, again=False)
        done = len(self.done)
        counts = {"requests": done + self.flying + len(self.pending), "done": done}
        counts.update(failed=self.failed, tokens=self.tokens, silent_s=int(silent_s))
        self.guard.tell(counts)

    def _silence(self) -> float:
        """Seconds since the last byte on any connection, or the last good end of a response."""
        exchanges = [one.exchange for one in self.connections.values() if one.exchange is not None]
        if not self.flying:  # nothing is owed
            self.quiet_since = self.now()
        last = [exchange.arrivals[-1][0] for exchange in exchanges if exchange.arrivals]
        if self.done and self.done[-1].error is None:
            last.append(self.done[-1].ended)
        if last:
            self.heard = True
            self.quiet_since = max(self.quiet_since, *last)
        return max(0.0, self.now() - self.quiet_since)

    def _overdue(self, exchange: Exchange) -> Optional[str]:
        arrivals = exchange.arrivals
        last = arrivals[-1][0] if arrivals else exchange.sent
        if self.now() - last > self.idle_timeout_s:
            return "silent for %g s" % self.idle_timeout_s
        # Looked at by counts only, as adding up all sizes here would cost the others time.
        size = len(arrivals[-1][2]) if arrivals else 0
        reads = len(arrivals)
        if reads > MAX_READS + 20 * asked(exchange.body) or reads * size > MAX_BYTES:
            return "no end"
        return None

    # -- connections ---------------------------------------------------------------------------

    def connect(self) -> None:
        """Opens all connections, before anything is timed; Spoilt when the server takes none."""
        until = self.guard.clock.monotonic() + CONNECT_S
        for _ in range(self.concurrency):
            self._open(None)
        while any(not connection.ready for connection in self.connections.values()):
            for fd, _ in self.poller.poll(self.tick):
                if not self.connections[fd].ready:
                    self._writable(self.connections[fd])
            if self.guard.clock.monotonic() > until:
                self.gone = "cannot connect: no answer within %g s" % CONNECT_S
            if self.gone is not None:
                break
            self.guard.check()
        if self.gone is not None:
            raise Spoilt("%s:%d: %s" % (self.target.host, self.target.port, self.gone))

    def _open(self, exchange: Optional[Exchange]) -> None:
        try:
            sock = socket.socket(self.target.family, socket.SOCK_STREAM)
        except OSError as error:  # no file descriptor left
            raise Spoilt("cannot open a socket: " + said(error)) from error
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform.startswith("linux"):
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        connection = Connection(sock, exchange, self.guard.clock.monotonic())
        self.connections[connection.fd] = connection
        self.poller.register(connection.fd, OUT)
        code = sock.connect_ex(self.target.address)
        self.ports.append(sock.getsockname()[1])
        if code not in (0, errno.EINPROGRESS):
            self._refused(connection, os.strerror(code))

    def _close(self, connection: Connection) -> None:
        if connection in self.idle:
            self.idle.remove(connection)
        self.poller.unregister(connection.fd)
        del self.connections[connection.fd]
        connection.sock.close()
        self.vacant += 1

    def close(self) -> None:
        for connection in list(self.connections.values()):
            self._close(connection)
        if hasattr(self.poller, "close"):
            self.poller.close()


def said(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
