"""TLS over a connection's socket, which stays the kernel's: so what is read keeps its stamps."""

from __future__ import annotations

import functools
import socket
import ssl
from typing import Any, Callable, List, Tuple

READ = 65536


class Tls:
    """Stands for the socket once the handshake is done: what it takes and gives is in the clear.

    Nothing waits. The certificate is held against `host` as the context says.
    """

    def __init__(self, context: ssl.SSLContext, host: str, sock: socket.socket) -> None:
        self._sock = sock
        self._came, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._came, self._goes, server_hostname=host)

    def shake(self) -> bool:
        """Goes on with the handshake as far as it can; True: it is done. Raises OSError."""
        try:
            self._take(self._sock.recv(READ))
        except BlockingIOError:
            pass  # the first step is ours
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._answer()
        return True

    def recvmsg(self, size: int, room: int) -> Tuple[bytes, List[Any], int, Any]:
        """As a socket's: BlockingIOError if what came makes no text yet; b"": it was closed."""
        data, control, flags, address = self._sock.recvmsg(size, room)
        self._take(data)
        parts: List[bytes] = []
        try:
            while not parts or parts[-1]:
                parts.append(self._tls.read(READ))
        except ssl.SSLWantReadError:
            if not parts:
                raise BlockingIOError from None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            pass  # with a farewell or without: what is missing of an answer is seen by its end
        self._answer()
        return b"".join(parts), control, flags, address

    def seal(self, data: bytes) -> bytes:
        """What has to go over the wire for it."""
        self._tls.write(data)
        return self._goes.read()

    def _take(self, data: bytes) -> None:
        if data:
            self._came.write(data)
        else:
            self._came.write_eof()

    def _answer(self) -> None:
        """Sends what the protocol itself has to say: little, and never while a request goes out."""
        if self._goes.pending:
            self._sock.send(self._goes.read())


def over_tls(host: str) -> Callable[[socket.socket], Tls]:
    """For all connections to a host, whose certificate is checked as Python does by default."""
    return functools.partial(Tls, ssl.create_default_context(), host)
