"""A host over SSH: the verbs, and the connection that is made anew below them."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tenacity

from sweep.errors import HostError, HostRefused, HostUnreachable
from sweep.host.connection import Connection
from sweep.host.relay import relay_words
from sweep.host.script import command, printed
from sweep.host.scripted import ScriptedHost, own, sudo_refusal, words
from sweep.host.tunnel import Tunnel
from sweep.host.verbs import Result
from sweep.inventory import HostSpec

if TYPE_CHECKING:
    import paramiko

MOST_RUNS = 10  # of one script: what loses the connection each time is not the network
PROBE_TIMEOUT_S = 30.0
RELAY_S = 3600.0  # no request of ours takes longer
FIRST_WAIT_S, LONGEST_WAIT_S, JITTER_S = 0.5, 30.0, 0.5

log = logging.getLogger("sweep.host")


@dataclass(frozen=True)
class Waiting:
    """How time passes between two tries: the sweep's clock, so that a signal ends the waiting."""

    monotonic: Callable[[], float]
    sleep: Callable[[float], None]


class SshHost(ScriptedHost):
    """A `Host` over SSH. `dial` opens a connection; it is called again whenever one was lost."""

    def __init__(
        self,
        name: str,
        spec: HostSpec,
        dial: Callable[[], Connection],
        waiting: Waiting,
        root: str = "",
    ) -> None:
        """Connects at once, trying once only: who mistyped a name should not wait ten minutes."""
        super().__init__(name, spec, root)
        self._dial = dial
        self._waiting = waiting
        self._lock = threading.Lock()
        self._lost_at: float | None = None
        self._closed = False
        self._host_key = ""
        self._connection: Connection | None = None
        self._connected()

    def close(self) -> None:
        self._closed = True
        with self._lock:
            connection, self._connection = self._connection, None
        if connection:
            connection.close()

    @property
    def host_key(self) -> str:
        return self._host_key

    # -- the verbs

    def run(self, script: str, *, timeout_s: float = 30, stdin: bytes = b"") -> Result:
        line = self._command(script, timeout_s, len(stdin))
        runs = 0

        def once() -> Result:
            nonlocal runs
            connection = self._connected()
            runs += 1
            try:
                answer = connection.execute(line, stdin=stdin, timeout_s=timeout_s)
                self._require_begun(answer)
                return own(answer)
            except HostUnreachable:
                self._drop(connection)
                raise

        return self._retrying(lambda: runs >= MOST_RUNS)(once)

    @contextlib.contextmanager
    def tunnel(self, port: int, *, direct: bool = False) -> Iterator[int]:
        relay = None if direct else self._command(relay_words(self.spec.python, port), RELAY_S)
        if direct and (probe := self._channel_to(port, None)):
            probe.close()
        tunnel = Tunnel(lambda: self._channel_to(port, relay))
        try:
            yield tunnel.port
        finally:
            tunnel.close()

    # -- the connection below

    def _channel_to(self, port: int, relay: str | None) -> paramiko.Channel | None:
        connection = self._connected()
        try:
            return connection.channel_to(port, relay)
        except HostUnreachable:
            self._drop(connection)
            raise

    def _connected(self) -> Connection:
        """The live connection, or a new one, tried once. Others wait here meanwhile."""
        with self._lock:
            if self._closed:
                raise HostUnreachable(f"{self.name}: the connection was closed")
            if self._connection and self._connection.alive:
                return self._connection
            if self._connection:
                self._connection.close()
                self._connection = None
            if self._lost_at is None:
                self._lost_at = self._waiting.monotonic()
            connection = self._dial()
            try:
                self._probe(connection)
            except BaseException:
                connection.close()
                raise
            self._connection, self._lost_at = connection, None
            self._host_key = connection.host_key
            return connection

    def _drop(self, connection: Connection) -> None:
        with self._lock:
            if self._connection is connection:
                self._connection = None
                self._lost_at = self._waiting.monotonic()
        connection.close()

    def _probe(self, connection: Connection) -> None:
        """That scripts run at all, and with the rights they need: better here than in a script."""
        line = self._command(":", PROBE_TIMEOUT_S)
        result = own(connection.execute(line, stdin=b"", timeout_s=PROBE_TIMEOUT_S))
        if result.ok:
            return
        if not self._sudo:
            raise HostRefused(
                f"{self.name}: the login works but runs no script (status {result.exit_status}): "
                f"{words(result)}. The user needs a login shell that runs commands"
            )
        user = self._login(connection)
        raise HostRefused(sudo_refusal(self.name, user, result))

    def _require_begun(self, answer: Result) -> None:
        """Rights may go and come back, as with a directory server that hiccups: a connection that
        begins no script any more is as good as lost."""
        if printed(answer.stdout) is None:
            raise HostUnreachable(f"{self.name}: scripts are run no more: {words(own(answer))}")

    def _login(self, connection: Connection) -> str:
        """Who logs in, whatever sudo would make of it."""
        line = command("id -un", timeout_s=PROBE_TIMEOUT_S, sudo=False, user_runtime=None)
        return own(connection.execute(line, stdin=b"", timeout_s=PROBE_TIMEOUT_S)).text.strip()

    # -- trying again

    def _away_s(self) -> float:
        lost_at = self._lost_at
        return 0.0 if lost_at is None else self._waiting.monotonic() - lost_at

    def _retrying(self, enough: Callable[[], bool]) -> tenacity.Retrying:
        allowed = self.spec.reconnect_for_s
        growing = tenacity.wait_exponential(multiplier=FIRST_WAIT_S, max=LONGEST_WAIT_S)
        backoff = growing + tenacity.wait_random(0, JITTER_S)

        def wait(state: tenacity.RetryCallState) -> float:
            return min(backoff(state), max(0.0, allowed - self._away_s()))

        def announce(state: tenacity.RetryCallState) -> None:
            log.warning("%s (trying again, for %.0f s)", _last(state), allowed - self._away_s())

        def give_up(state: tenacity.RetryCallState) -> Result:
            error = _last(state)
            if self._closed:
                raise error
            raise HostUnreachable(
                f"{self.name}: given up after {state.attempt_number} tries, without a connection "
                f"for {self._away_s():.0f} s (reconnect_for_s: {allowed:g}). {error}"
            ) from error

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(HostError),
            stop=lambda _: self._closed or enough() or self._away_s() >= allowed,
            wait=wait,
            sleep=self._waiting.sleep,
            before_sleep=announce,
            retry_error_callback=give_up,
        )


def _last(state: tenacity.RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome else None
    return error or RuntimeError("tenacity asked for an error without a failure")
