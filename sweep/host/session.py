"""A host over SSH: the verbs, and the connection that is made anew below them."""

from __future__ import annotations

import contextlib
import logging
import posixpath
import shlex
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

import tenacity

from sweep.errors import HostError, HostRefused, HostUnreachable
from sweep.host.connection import NO_STATUS, Connection
from sweep.host.relay import relay_words
from sweep.host.script import command, printed
from sweep.host.tunnel import Tunnel
from sweep.host.verbs import Result
from sweep.inventory import HostSpec

if TYPE_CHECKING:
    import paramiko

MOST_RUNS = 10  # of one script: what loses the connection each time is not the network
NO_FILE = 66  # EX_NOINPUT
FILE_TIMEOUT_S = 300.0
PROBE_TIMEOUT_S = 30.0
RELAY_S = 3600.0  # no request of ours takes longer
FIRST_WAIT_S, LONGEST_WAIT_S, JITTER_S = 0.5, 30.0, 0.5

log = logging.getLogger("sweep.host")


@dataclass(frozen=True)
class Waiting:
    """How time passes between two tries: the sweep's clock, so that a signal ends the waiting."""

    monotonic: Callable[[], float]
    sleep: Callable[[float], None]


class SshHost:
    """A `Host` over SSH. `dial` opens a connection; it is called again whenever one was lost.

    `spec` is the inventory's host as it was reached: a demo host has ports and keys of its own.
    `root` is the demo host's private prefix, "" on a real host.
    """

    def __init__(
        self,
        name: str,
        spec: HostSpec,
        dial: Callable[[], Connection],
        waiting: Waiting,
        root: str = "",
    ) -> None:
        """Connects at once, trying once only: who mistyped a name should not wait ten minutes."""
        self.name = name
        self.spec = spec
        self.root = root
        self._dial = dial
        self._waiting = waiting
        # A user's units are the user's own: sudo would only hide them.
        self._sudo = spec.become == "sudo" and spec.scope == "system"
        self._lock = threading.Lock()
        self._lost_at: float | None = None
        self._closed = False
        self._host_key = ""
        self._connection: Connection | None = None
        self._connected()

    def __enter__(self) -> SshHost:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

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
        line = self._command(script, timeout_s)
        runs = 0

        def once() -> Result:
            nonlocal runs
            connection = self._connected()
            runs += 1
            try:
                return _own(connection.execute(line, stdin=stdin, timeout_s=timeout_s))
            except HostUnreachable:
                self._drop(connection)
                raise

        return self._retrying(lambda: runs >= MOST_RUNS)(once)

    def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        parent, name = posixpath.split(path)
        target, directory = shlex.quote(path), shlex.quote(parent)
        hidden = shlex.quote(f"{parent}/.{name}.XXXXXX")
        # A connection that is cut looks like the end of the data, so the size is compared; and
        # nobody reads what the script says then, which must not end it before it cleans up.
        script = f"""\
umask 077
if [ -d {target} ]; then echo "is a directory" >&2; exit 1; fi
mkdir -p -- {directory} || exit
temporary=$(mktemp -- {hidden}) || exit
trap 'rm -f -- "$temporary"' EXIT
trap 'exit 1' HUP INT TERM
trap '' PIPE
cat >"$temporary" || exit
size=$(wc -c <"$temporary") || exit
if [ "$size" -ne {len(data)} ]; then echo "only $size of {len(data)} bytes arrived" >&2; exit 1; fi
chmod {mode:04o} "$temporary" && mv -f -- "$temporary" {target} || exit
if command -v restorecon >/dev/null; then restorecon -- {target} || :; fi
"""
        result = self.run(script, timeout_s=FILE_TIMEOUT_S, stdin=data)
        if not result.ok:
            raise HostError(f"{self.name}: cannot write {path}: {_words(result)}")

    def read(self, path: str) -> bytes | None:
        file = shlex.quote(path)
        script = f"[ -e {file} ] || [ -L {file} ] || exit {NO_FILE}\nexec cat -- {file}\n"
        result = self.run(script, timeout_s=FILE_TIMEOUT_S)
        if result.exit_status == NO_FILE:
            return None
        if not result.ok:
            raise HostError(f"{self.name}: cannot read {path}: {_words(result)}")
        return result.stdout

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
        result = _own(connection.execute(line, stdin=b"", timeout_s=PROBE_TIMEOUT_S))
        if result.ok:
            return
        if not self._sudo:
            raise HostRefused(
                f"{self.name}: the login works but runs no script (status {result.exit_status}): "
                f"{_words(result)}. The user needs a login shell that runs commands"
            )
        user = self._login(connection)
        raise HostRefused(
            f"{self.name}: sudo refuses {user}: {_words(result)}. The tool never enters a "
            "password; on the host, run `visudo -f /etc/sudoers.d/sweep` and put in this line: "
            f"{user} ALL=(root) NOPASSWD: ALL"
        )

    def _login(self, connection: Connection) -> str:
        """Who logs in, whatever sudo would make of it."""
        line = command("id -un", timeout_s=PROBE_TIMEOUT_S, sudo=False, user_runtime=None)
        return _own(connection.execute(line, stdin=b"", timeout_s=PROBE_TIMEOUT_S)).text.strip()

    def _command(self, script: str, timeout_s: float) -> str:
        runtime = f"{self.root}/run/user" if self.spec.scope == "user" else None
        return command(script, timeout_s=timeout_s, sudo=self._sudo, user_runtime=runtime)

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


def _own(result: Result) -> Result:
    """Without what the login shell printed; a script that was not begun has failed."""
    own = printed(result.stdout)
    if own is None:
        said = result.stderr.strip() or result.stdout
        return Result(result.exit_status or NO_STATUS, b"", said)
    return Result(result.exit_status, own, result.stderr)


def _words(result: Result) -> str:
    """The host's own, on one line."""
    return " ".join(result.tail(3).split()) or f"status {result.exit_status}"
