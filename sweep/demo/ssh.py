"""A real SSH server inside this process: one user, one key, commands and forwarded ports, no more.

Listens on 127.0.0.1 only. A command runs under `sh -c` in a process group of its own, with the
stand-ins first on PATH.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import IO

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_FAILED_CONNECT_FAILED,
    OPEN_SUCCEEDED,
    cMSG_CHANNEL_REQUEST,
)

_CHUNK = 32768
_LOG = "sweep.demo.ssh"
logging.getLogger(_LOG).addHandler(logging.NullHandler())
logging.getLogger(_LOG).propagate = False
_HERE = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Login:
    """Who may come in, and what a command of theirs finds."""

    user: str
    key: paramiko.PKey
    environment: Mapping[str, str]
    directory: str


class SshServer:
    """Accepts connections until closed; closing ends every command it started."""

    def __init__(self, port: int, host_key: paramiko.PKey, login: Login) -> None:
        """Listens at once; port 0 takes any free one. Raises OSError when it cannot."""
        self._host_key = host_key
        self._login = login
        self._listener = socket.create_server(("127.0.0.1", port), backlog=64)
        self._listener.settimeout(1)
        self._transports: set[paramiko.Transport] = set()
        self._commands: set[subprocess.Popen[bytes]] = set()
        self._closed = threading.Event()
        self._accepting = _thread("demo-ssh", self._accept)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def disconnect(self) -> None:
        """Cut every connection there is; new ones are welcome, commands go on."""
        for transport in list(self._transports):
            transport.close()

    def close(self) -> None:
        self._closed.set()
        # Wakes the thread that waits in accept() on Linux; elsewhere its time-out does.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.disconnect()
        for command in list(self._commands):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(command.pid, signal.SIGKILL)
        self._accepting.join(5)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _thread("demo-ssh-connection", partial(self._serve, connection))

    def _serve(self, connection: socket.socket) -> None:
        transport = paramiko.Transport(connection)
        transport.set_log_channel(_LOG)  # who comes and goes is no news for the terminal
        self._transports.add(transport)
        session = _Session(self._login, self._commands)
        try:
            transport.add_server_key(self._host_key)
            transport.start_server(server=session)
            channels: list[paramiko.Channel] = []
            while transport.is_active():
                channel = transport.accept(1)
                # paramiko closes a channel that nobody refers to; a command's may come later.
                channels = [one for one in channels if not one.closed]
                if channel is None:
                    continue
                channels.append(channel)
                there = session.forwards.pop(channel.get_id(), None)
                if there is not None:
                    _thread("demo-ssh-forward", partial(_forward, channel, there))
        except (OSError, EOFError, paramiko.SSHException):
            pass
        finally:
            transport.close()
            self._transports.discard(transport)


class _Session(paramiko.ServerInterface):
    """What one connection is allowed: exec and direct-tcpip, after the one key."""

    def __init__(self, login: Login, commands: set[subprocess.Popen[bytes]]) -> None:
        self._login = login
        self._commands = commands
        self.forwards: dict[int, socket.socket] = {}

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002 - paramiko's signature
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        known = username == self._login.user and key == self._login.key
        return AUTH_SUCCESSFUL if known else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        _thread("demo-ssh-command", lambda: self._run(channel, command))
        return True

    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        del origin
        if destination[0] not in _HERE:
            return OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        try:
            there = socket.create_connection(("127.0.0.1", destination[1]), timeout=10)
        except OSError:
            return OPEN_FAILED_CONNECT_FAILED
        there.settimeout(None)
        there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.forwards[chanid] = there
        return OPEN_SUCCEEDED

    def _run(self, channel: paramiko.Channel, command: bytes) -> None:
        process = subprocess.Popen(
            [b"/bin/sh", b"-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._login.directory,
            env=dict(self._login.environment),
            start_new_session=True,
        )
        self._commands.add(process)
        _thread("demo-ssh-stdin", lambda: _feed(channel, process.stdin))
        pumps = [
            _thread("demo-ssh-stdout", lambda: _pump(process.stdout, channel.sendall)),
            _thread("demo-ssh-stderr", lambda: _pump(process.stderr, channel.sendall_stderr)),
        ]
        status = process.wait()
        for pump in pumps:
            pump.join()
        self._commands.discard(process)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            if status >= 0:
                channel.send_exit_status(status)
            else:
                _send_exit_signal(channel, -status)
            channel.close()


def _feed(channel: paramiko.Channel, stdin: IO[bytes] | None) -> None:
    """What the client sends is the command's input, to its end or to the command's."""
    if stdin is None:
        return
    with contextlib.suppress(OSError), stdin:
        while data := channel.recv(_CHUNK):
            stdin.write(data)
            stdin.flush()


def _pump(stream: IO[bytes] | None, send: Callable[[bytes], object]) -> None:
    """What the command prints goes to the client; when that is gone, the pipe breaks."""
    if stream is None:
        return
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException), stream:
        while data := os.read(stream.fileno(), _CHUNK):
            send(data)


def _forward(channel: paramiko.Channel, there: socket.socket) -> None:
    """Both ways between an open channel and a local port, each to its own end."""

    def back() -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            while data := there.recv(_CHUNK):
                channel.sendall(data)
            channel.shutdown_write()

    returning = _thread("demo-ssh-forward-back", back)
    with contextlib.suppress(OSError):
        while data := channel.recv(_CHUNK):
            there.sendall(data)
    with contextlib.suppress(OSError):
        there.shutdown(socket.SHUT_WR if channel.eof_received else socket.SHUT_RDWR)
    returning.join()
    with contextlib.suppress(OSError, EOFError):
        channel.close()
    there.close()


def _send_exit_signal(channel: paramiko.Channel, signum: int) -> None:
    """RFC 4254, 6.10: how a command that a signal ended is told of; paramiko has no word for it."""
    message = paramiko.Message()
    message.add_byte(cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string("exit-signal")
    message.add_boolean(False)
    message.add_string(signal.Signals(signum).name.removeprefix("SIG"))
    message.add_boolean(False)
    message.add_string("")
    message.add_string("")
    channel.get_transport()._send_user_message(message)  # type: ignore[attr-defined]


def _thread(name: str, work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread
