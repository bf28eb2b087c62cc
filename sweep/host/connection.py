"""One SSH connection, over any number of jump hosts, that notices when it is lost."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

import fabric
import paramiko

from sweep.errors import HostRefused, HostUnreachable
from sweep.host.exchange import converse
from sweep.host.hostkeys import STRICT, HostKeyCheck
from sweep.host.login import KeyLogin
from sweep.host.relay import is_connected
from sweep.host.route import Hop
from sweep.host.script import KILL_AFTER_S
from sweep.host.scripted import NO_STATUS
from sweep.host.sessions import OPEN_TIMEOUT_S, Sessions
from sweep.host.trouble import FOREIGN, translated
from sweep.host.verbs import TIMED_OUT, Result
from sweep.host.wire import CONNECT_TIMEOUT_S, Heartbeat, SocketLike, Wire, first_leg

AUTH_TIMEOUT_S = 30.0  # PAM may ask others
GRACE_S = 5.0  # for the answer to travel, beyond the host's own time limit
SETTLE_S = 0.5
PROHIBITED, CONNECT_FAILED = 1, 2  # RFC 4254, 5.1

# Whoever wants paramiko's own log gives it a handler; without one it would go to stderr.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class Connection:
    """An open connection. Lost once, it stays lost: whoever wants to go on opens another."""

    def __init__(self, route: Sequence[Hop], host_key: str) -> None:
        """Opens it. HostRefused: keys; HostUnreachable: everything that may be better later."""
        self._hop = route[-1]
        self._legs: list[fabric.Connection] = []
        self._lost: str | None = None
        self._closing = threading.Lock()
        try:
            for hop in route:
                # A pinned key is the host's; the jump hosts are known in the ordinary way.
                mode = (
                    host_key if hop is self._hop or not host_key.startswith("SHA256:") else STRICT
                )
                check, wire = self._open_leg(hop, mode)
        except BaseException:
            self._close_legs()
            raise
        self.host_key = check.presented
        self._transport: paramiko.Transport = self._legs[-1].transport
        self._sessions = Sessions(self._transport)
        self._heartbeat = Heartbeat(self._transport, wire, self._give_up)
        self._heartbeat.start()

    @property
    def alive(self) -> bool:
        return self._lost is None and self._transport.is_active()

    def close(self) -> None:
        self._give_up("it was closed")

    def execute(self, command: str, *, stdin: bytes, timeout_s: float) -> Result:
        """Run a command line that `script.command` made. HostUnreachable when the connection is
        lost before its end is known: it may or may not have done its work."""
        begun = time.monotonic()
        try:
            with self._heartbeat.limit(OPEN_TIMEOUT_S, "starting a command"):
                channel = self._sessions.take()
                self._sessions.ask_ahead()
                channel.exec_command(command)
            with contextlib.closing(channel):
                outcome = converse(channel, stdin, timeout_s + KILL_AFTER_S + GRACE_S)
        except FOREIGN as error:
            raise self._unreachable(error) from error
        if not outcome.whole:
            # Channels end a moment before their transport does: give it that moment.
            self._transport.join(SETTLE_S)
        late = time.monotonic() - begun >= timeout_s
        status = outcome.exit_status
        if not self.alive and (status in {None, -1} or not outcome.whole):
            raise self._unreachable()
        if status is None or (late and status == 128 + 9):  # SIGKILL, after SIGTERM did not help
            status = TIMED_OUT
        elif status < 0:
            status = NO_STATUS
        return Result(status, outcome.stdout, outcome.stderr)

    def channel_to(self, port: int, relay: str | None) -> paramiko.Channel | None:
        """A channel to 127.0.0.1:port on the host; None when nothing listens there.

        Where the host forwards no ports, a command line `relay` does it; without: HostRefused.
        """
        try:
            with self._heartbeat.limit(OPEN_TIMEOUT_S, "opening a tunnel"):
                return self._forward(self._transport, ("127.0.0.1", port))
        except paramiko.ChannelException as error:
            if error.code == CONNECT_FAILED:
                return None
            if relay is not None:
                return self._channel_by(relay)
            raise HostRefused(
                f"{self._hop}: the host forwards no port ({error.text}): "
                "set AllowTcpForwarding yes in its sshd_config"
            ) from error
        except FOREIGN as error:
            raise self._unreachable(error) from error

    def _channel_by(self, relay: str) -> paramiko.Channel | None:
        try:
            with self._heartbeat.limit(OPEN_TIMEOUT_S, "starting a relay"):
                channel = self._sessions.take()
                channel.exec_command(relay)
                return channel if is_connected(channel) else None
        except paramiko.ChannelException as error:
            raise HostRefused(
                f"{self._hop}: the host forwards no port and allows no further session for a "
                "relay: set AllowTcpForwarding yes or a larger MaxSessions in its sshd_config"
            ) from error
        except FOREIGN as error:
            raise self._unreachable(error) from error

    # -- opening

    def _open_leg(self, hop: Hop, mode: str) -> tuple[HostKeyCheck, Wire]:
        check = HostKeyCheck(hop, mode)
        with translated(f"{hop}: cannot connect"):
            wire = Wire(self._socket_to(hop))
        leg = fabric.Connection(
            hop.address,
            user=hop.user,
            port=hop.port,
            config=fabric.Config(lazy=True, overrides={"load_ssh_configs": False}),
            connect_kwargs={
                "sock": wire,
                "timeout": CONNECT_TIMEOUT_S,
                "banner_timeout": CONNECT_TIMEOUT_S,
                "auth_timeout": AUTH_TIMEOUT_S,
                "channel_timeout": OPEN_TIMEOUT_S,
                "transport_factory": check.transport,
                "auth_strategy": KeyLogin(hop),
            },
        )
        leg.client.set_missing_host_key_policy(check)
        try:
            with translated(f"{hop}: cannot connect"):
                leg.open()
        except BaseException:
            leg.client.close()
            wire.close()
            raise
        self._legs.append(leg)
        return check, wire

    def _socket_to(self, hop: Hop) -> SocketLike:
        if not self._legs:
            return first_leg(hop)
        before = self._legs[-1]
        try:
            return self._forward(before.transport, (hop.address, hop.port))
        except paramiko.ChannelException as error:
            if error.code == PROHIBITED:
                raise HostRefused(
                    f"{hop}: the jump host {before.host} does not forward ({error.text}): "
                    "set AllowTcpForwarding yes in its sshd_config"
                ) from error
            raise HostUnreachable(
                f"{hop}: the jump host {before.host} cannot reach it: {error.text}"
            ) from error

    @staticmethod
    def _forward(transport: paramiko.Transport, to: tuple[str, int]) -> paramiko.Channel:
        return transport.open_channel(
            "direct-tcpip", dest_addr=to, src_addr=("127.0.0.1", 0), timeout=OPEN_TIMEOUT_S
        )

    # -- losing

    def _unreachable(self, error: Exception | None = None) -> HostUnreachable:
        error = error or self._transport.get_exception()
        said = str(error) or type(error).__name__ if error else "the other side closed it"
        self._give_up(said)
        return HostUnreachable(f"{self._hop}: the connection was lost: {self._lost}")

    def _give_up(self, reason: str) -> None:
        with self._closing:
            if self._lost is not None:
                return
            self._lost = reason
        self._heartbeat.stop()
        self._close_legs()

    def _close_legs(self) -> None:
        """From the first leg on: closing a later one first would speak through a dead one."""
        for leg in self._legs:
            client: Any = leg.client
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                client.close()
