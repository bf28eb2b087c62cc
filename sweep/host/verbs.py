"""What can be done on a host: the seam the rest of the tool is built on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

TIMED_OUT = 124  # what timeout(1) ends with


@dataclass(frozen=True)
class Result:
    """How a script ended. A non-zero status is a value, not an error; 124: it was timed out."""

    exit_status: int
    stdout: bytes
    stderr: bytes

    @property
    def ok(self) -> bool:
        return self.exit_status == 0

    @property
    def text(self) -> str:
        """Standard output as text; what is not UTF-8 is replaced."""
        return self.stdout.decode(errors="replace")

    def tail(self, lines: int = 10) -> str:
        """The last lines of standard error, or of standard output when there are none."""
        said = self.stderr.strip() or self.stdout.strip()
        return "\n".join(said.decode(errors="replace").splitlines()[-lines:])


class Host(Protocol):
    """One host. A verb acts as the identity the inventory chose, and survives a lost connection.

    `name` is the inventory's. `root` is "" on a real host and a private prefix on the demo host:
    every absolute path the tool itself uses there is `f"{host.root}/..."`.
    All verbs raise HostUnreachable when the connection stayed away longer than `reconnect_for_s`.
    They may be called from several threads.
    """

    @property
    def name(self) -> str: ...

    @property
    def root(self) -> str: ...

    @property
    def host_key(self) -> str:
        """The fingerprint of the key the host proved to have: `SHA256:...`; "" of this machine."""
        ...

    def run(self, script: str, *, timeout_s: float = 30, stdin: bytes = b"") -> Result:
        """Run a POSIX sh script: as the login user, or through sudo with `become: sudo`.

        PATH includes the sbin directories, messages are English, and with `scope: user` the
        user's systemd can be reached. After a lost connection the script runs AGAIN: it must bear
        that. After `timeout_s` it is killed with what it started, and the status is 124.
        """
        ...

    def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a whole file or nothing; missing directories are made, readable to nobody else.

        HostError holds the host's own words when it cannot be written (no room, no right).
        """
        ...

    def read(self, path: str) -> bytes | None:
        """The file's content, None when there is no such file; HostError when it cannot be read."""
        ...

    def tunnel(self, port: int, *, direct: bool = False) -> AbstractContextManager[int]:
        """A local port on 127.0.0.1 that reaches 127.0.0.1:`port` on the host.

        It stays through reconnections; only what was being transferred is lost. Where nothing
        listens on the host, a connection is reset, or ends without a byte, at once. Where sshd
        forwards no ports, the host's Python does, too slowly to measure through: `direct` tries
        it, once, at the beginning and raises HostRefused. Of this machine it is the port itself,
        and a connection may be refused.
        """
        ...

    def close(self) -> None: ...
