"""A local port that leads to a port on the host, for as long as it is wanted."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

import paramiko

from sweep.errors import HostError

CHUNK = 1 << 16
BACKLOG = 512
POLL_S = 0.2  # how often the listening thread looks whether it is still wanted
# Closing with this set resets the connection, so that a client sees at once that nobody is there.
RESET = struct.pack("ii", 1, 0)

# Opens a channel to the port, over whatever connection there is then; None: nothing listens.
Opener = Callable[[], paramiko.Channel | None]


class Tunnel:
    """Listens on 127.0.0.1; every connection gets a channel of its own and two threads."""

    def __init__(self, open_channel: Opener) -> None:
        self._open_channel = open_channel
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self._listener.settimeout(POLL_S)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._open: set[tuple[socket.socket, paramiko.Channel]] = set()
        self._acceptor = threading.Thread(target=self._accept, name="sweep-tunnel", daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        """Connections that are still open end with it."""
        with self._lock:
            self._closed.set()
            pairs = list(self._open)
        self._acceptor.join()
        self._listener.close()
        for sock, channel in pairs:
            channel.close()
            # Closing a socket would not wake the thread that reads from it; this does.
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                sock, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:  # no descriptor left, say: others may give theirs back
                self._closed.wait(POLL_S)
                continue
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = None
            with contextlib.suppress(HostError):
                channel = self._open_channel()
            if channel is None or not self._keep(sock, channel):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                return
            try:
                back = threading.Thread(target=_back, args=(channel, sock), daemon=True)
                back.start()
                _forth(sock, channel)
                back.join()
            finally:
                self._forget(sock, channel)
                channel.close()

    def _keep(self, sock: socket.socket, channel: paramiko.Channel) -> bool:
        with self._lock:
            if self._closed.is_set():
                channel.close()
                return False
            self._open.add((sock, channel))
            return True

    def _forget(self, sock: socket.socket, channel: paramiko.Channel) -> None:
        with self._lock:
            self._open.discard((sock, channel))


def _forth(sock: socket.socket, channel: paramiko.Channel) -> None:
    """What the client sends, and its end of sending."""
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        while data := sock.recv(CHUNK):
            channel.sendall(data)
        channel.shutdown_write()


def _back(channel: paramiko.Channel, sock: socket.socket) -> None:
    """What the host sends; a connection that was lost on the way ends with a reset, not a FIN."""
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        while data := channel.recv(CHUNK):
            sock.sendall(data)
        if not channel.eof_received:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            sock.shutdown(socket.SHUT_RD)  # wakes the thread that reads; its end closes the socket
            return
        sock.shutdown(socket.SHUT_WR)
