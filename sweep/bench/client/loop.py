"""The loop that sends and reads: the part of the client that is timed."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from .arrivals import UNKNOWN, Arrivals
from .connection import Connection, Lost, Refused, said
from .exchange import Exchange, Target, asked, usage_hint
from .guard import TICK_S, Guard, Spoilt
from .poller import Poller
from .wire import END

READ = 65536
CONNECT_S = 10.0
MAX_READS = 20000  # of one response; more, and the server does not end what it should
MAX_BYTES = 256 << 20


class Loop:
    """Sends exchanges so that `concurrency` are in flight until none is left.

    The next one is taken from those that wait when there is a place for it: other processes may
    take of them too. If it is `due` at some time (an open loop) it is held until then; it is sent
    later, if all `concurrency` places are taken then.

    `connect` first, then `run`. Every exchange ends up in `done`, with `error` set if it failed on
    the wire; whether what came back is a good answer is not looked at here.
    """

    def __init__(self, target: Target, concurrency: int, idle_timeout_s: float, guard: Guard):
        self.target = target
        self.concurrency = concurrency
        self.idle_timeout_s = idle_timeout_s
        self.guard = guard
        self.now = guard.clock.realtime
        self.poller = Poller(concurrency, self.now)
        self.connections: Dict[int, Connection] = {}
        self.idle: List[Connection] = []  # with nothing on them
        self.waiting: Iterator[Exchange] = iter(())
        self.held: Optional[Exchange] = None  # the next one, if there is a place for it
        self.total = 0
        self.done: List[Exchange] = []
        self.quiet_since = 0.0  # the last byte from the server on any connection, as far as looked
        self.heard = False  # has any byte come since `run` began?
        self.flying = 0  # sent and not yet done with, or about to be sent on a new connection
        self.vacant = 0  # connections to be replaced
        self.failed = 0
        self.tokens = 0
        self.gone: Optional[str] = None  # why nobody takes connections any more
        self.ports: List[int] = []  # of ours, one for each connection that was made
        self.cpu_s = 0.0  # of this process while it ran, which took `wall_s`
        self.wall_s = 0.0

    # -- the part that is timed ----------------------------------------------------------------

    def run(self, exchanges: Sequence[Exchange], waiting: Iterator[Exchange]) -> None:
        """Answers those of `exchanges` that come from `waiting`; the guard bounds the time.

        `due` of an exchange counts from now, and is a time afterwards.
        """
        self.total = len(exchanges)
        self.waiting = waiting
        begin = self.now()
        for exchange in exchanges:
            exchange.due = None if exchange.due is None else begin + exchange.due
        cpu, began = time.process_time(), time.perf_counter()
        self.idle = list(self.connections.values())[::-1]
        self._dispatch()
        checked = self.guard.clock.monotonic()
        self.quiet_since = self.now()
        self.heard = False
        while self.flying or self.held:
            stamped = self._serve()
            if self.guard.clock.monotonic() - checked > TICK_S:
                self._check()
                checked = self.guard.clock.monotonic()
            self._dispatch()
            self._refill()
            if stamped and self._due() is None:
                self.poller.rest()
        self.cpu_s, self.wall_s = time.process_time() - cpu, time.perf_counter() - began
        self._check()  # so that what it told last is how it ended

    def _serve(self) -> bool:
        """One turn: read what is readable. Of what was read only the last bytes are looked at.

        Has the kernel stamped the last of it?
        """
        connections, now = self.connections, self.now
        control: List[Any] = []
        for fd, _ in self.poller.wait(self._patience()):
            connection = connections[fd]
            if connection.writing:
                self._attempt(connection, connection.go_on, now)
                continue
            try:
                data, control, _, _ = connection.recvmsg(READ, 64)
            except BlockingIOError:
                continue
            except OSError as error:
                self._broken(connection, said(error))
                continue
            if data:
                arrivals = connection.arrivals  # its `note`, without a call: nothing is as frequent
                arrivals.read.append(now())
                arrivals.stamps += control[0][2] if control else UNKNOWN
                arrivals.data.append(data)
            if not connection.chunked or len(data) < 7 or data[-7:] == END:
                self._look(connection, data)
        return bool(control)

    def _due(self) -> Optional[float]:
        """When the next is to be sent, if one is held until its time."""
        return self.held.due if self.held else None

    def _patience(self) -> float:
        """How many seconds to wait for the server: not beyond what is due next."""
        due = self._due()
        if due is None or not (self.idle or self.vacant):
            return TICK_S
        return min(TICK_S, max(0.0, due - self.now()))

    def _is_due(self) -> bool:
        """Is there something to send, now that there is a place for it, and is it time for it?"""
        return self._next() is not None and (self._due() or 0.0) <= self.now()

    def _next(self) -> Optional[Exchange]:
        if self.held is None:
            self.held = next(self.waiting, None)
        return self.held

    def _dispatch(self) -> None:
        while self.idle and self._is_due():
            self._send(self.idle.pop(), self._take())

    def _look(self, connection: Connection, data: bytes) -> None:
        """Goes on with the next exchange if this was the end of one."""
        try:
            keep = connection.look(data)
        except Lost as loss:
            self._broken(connection, str(loss))
            return
        exchange = connection.exchange
        if keep is None or exchange is None:
            return
        connection.used = True
        if not keep:
            connection.rest()
            self._close(connection)
        elif self._is_due():
            self._send(connection, self._take())
        else:
            connection.rest()
            self.idle.append(connection)
        self._settle(exchange, None)
        self.tokens += usage_hint(exchange.arrivals)

    def _take(self) -> Exchange:
        exchange, self.held = self.held, None
        assert exchange is not None  # noqa: S101 - who takes it has seen it
        self.flying += 1
        return exchange

    def _send(self, connection: Connection, exchange: Exchange) -> None:
        self._attempt(connection, connection.send, exchange, self.now)

    def _attempt(self, connection: Connection, step: Callable[..., Any], *given: Any) -> Any:
        """One step of a connection that may turn out to be of no use any more."""
        try:
            return step(*given)
        except Refused as refusal:
            self._refused(connection, str(refusal))
        except Lost as loss:
            self._broken(connection, str(loss))

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
        if again and used and not heard and not exchange.resent and self.gone is None:
            exchange.resent = True
            exchange.arrivals = Arrivals()
            self.vacant -= 1
            self._open(exchange)  # any other that is kept may have been closed as well
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
        while self._next() is not None:
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
        counts = {"requests": self.total, "done": done, "flying": self.flying}
        counts.update(failed=self.failed, tokens=self.tokens, silent_s=int(silent_s))
        self.guard.tell(counts)

    def _silence(self) -> float:
        """Seconds since the last byte on any connection, or the last good end of a response."""
        exchanges = [one.exchange for one in self.connections.values() if one.exchange is not None]
        if not self.flying:  # nothing is owed
            self.quiet_since = self.now()
        last = [one.arrivals.last for one in exchanges if one.arrivals.last is not None]
        if self.done and self.done[-1].error is None:
            last.append(self.done[-1].ended)
        if last:
            self.heard = True
            self.quiet_since = max(self.quiet_since, *last)
        return max(0.0, self.now() - self.quiet_since)

    def _overdue(self, exchange: Exchange) -> Optional[str]:
        arrivals = exchange.arrivals
        last = arrivals.last or exchange.sent
        if self.now() - last > self.idle_timeout_s:
            return "silent for %g s" % self.idle_timeout_s
        # Looked at by counts only, as adding up all sizes here would cost the others time.
        size = len(arrivals) * len(arrivals.data[-1]) if arrivals.data else 0
        if len(arrivals) > MAX_READS + 20 * asked(exchange.body) or size > MAX_BYTES:
            return "no end"
        return None

    # -- connections ---------------------------------------------------------------------------

    def connect(self) -> None:
        """Opens all connections, before anything is timed; Spoilt when the server takes none."""
        until = self.guard.clock.monotonic() + CONNECT_S
        for _ in range(self.concurrency):
            self._open(None)
        while any(not connection.ready for connection in self.connections.values()):
            for fd, _ in self.poller.wait(TICK_S):
                connection = self.connections[fd]
                if not connection.ready:
                    self._attempt(connection, connection.go_on, self.now)
            if self.guard.clock.monotonic() > until:
                self.gone = "cannot connect: no answer within %g s" % CONNECT_S
            if self.gone is not None:
                break
            self.guard.check()
        if self.gone is not None:
            raise Spoilt("%s:%d: %s" % (self.target.host, self.target.port, self.gone))

    def _open(self, exchange: Optional[Exchange]) -> None:
        opened = self.guard.clock.monotonic()
        connection = Connection(self.target, self.poller, exchange, opened)
        self.connections[connection.fd] = connection
        port = self._attempt(connection, connection.connect, self.target)
        self.ports += [] if port is None else [port]

    def _close(self, connection: Connection) -> None:
        if connection in self.idle:
            self.idle.remove(connection)
        del self.connections[connection.fd]
        connection.close()
        self.vacant += 1

    def close(self) -> None:
        for connection in list(self.connections.values()):
            self._close(connection)
        self.poller.close()
