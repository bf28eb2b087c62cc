"""The tunnel, on the demo host as on real ones."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sweep.errors import HostRefused
from sweep.host import Host, connect
from tests.host.conftest import kinds, spec_for
from tests.testhost import Pool

# Answers each connection with what it read until its end, backwards; prints its port first.
SERVER = """\
import socket, sys, threading
listener = socket.create_server(("127.0.0.1", 0), backlog=200)
with open(sys.argv[1], "w") as file:
    file.write(f"{listener.getsockname()[1]}\\n")
def serve(sock):
    data = b""
    while more := sock.recv(65536):
        data += more
    sock.sendall(data[::-1])
    sock.close()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],)).start()
"""


@contextlib.contextmanager
def reverser(host: Host, folder: str) -> Iterator[int]:
    """A server on the host's own 127.0.0.1."""
    host.put(f"{folder}/server.py", SERVER.encode())
    started = host.run(
        f"cd {folder} || exit\n"
        "setsid python3 server.py port </dev/null >log 2>&1 & echo $!\n"
        "while [ ! -s port ]; do sleep 0.05; done; cat port"
    )
    pid, port = map(int, started.text.split())
    try:
        yield port
    finally:
        host.run(f"kill {pid}")


def ask(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        sock.sendall(data)
        try:
            sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise
            # The reset came between the two calls.
            raise ConnectionResetError from error
        answer = b""
        while more := sock.recv(65536):
            answer += more
        return answer


def test_bytes_and_ends_pass_both_ways(host: Host, folder: str) -> None:
    large = bytes(range(256)) * 8000
    with reverser(host, folder) as there, host.tunnel(there) as port:
        assert ask(port, b"abc") == b"cba"
        assert ask(port, large) == large[::-1]
        assert ask(port, b"") == b""


def test_many_connections_at_once(host: Host, folder: str) -> None:
    with reverser(host, folder) as there, host.tunnel(there) as port, ThreadPoolExecutor(40) as at:
        sent = [str(number).encode() * 5000 for number in range(80)]
        assert list(at.map(lambda data: ask(port, data), sent)) == [data[::-1] for data in sent]
        assert host.run("echo meanwhile").text == "meanwhile\n"


def test_where_nothing_listens_a_connection_ends_at_once(host: Host, folder: str) -> None:
    """sshd now and then takes a refused connection for one that was closed: hence either."""
    with reverser(host, folder) as there:
        pass
    with host.tunnel(there) as port:
        for _ in range(2):
            with contextlib.suppress(ConnectionError):
                assert ask(port, b"x") == b""
        assert host.run("echo fine").text == "fine\n"


@pytest.mark.parametrize("kind", kinds("local"), indirect=True)
def test_two_tunnels_and_their_end(host: Host, folder: str) -> None:
    with reverser(host, folder) as there:
        with host.tunnel(there) as one, host.tunnel(there) as two:
            assert one != two
            assert ask(one, b"ab") == ask(two, b"ab") == b"ba"
            open_one = socket.create_connection(("127.0.0.1", one), timeout=60)
            open_one.sendall(b"never ended")
        with open_one, contextlib.suppress(ConnectionError):
            while open_one.recv(100):
                pass
        for port in (one, two):
            with pytest.raises(ConnectionRefusedError):
                ask(port, b"x")


@pytest.mark.parametrize("setting", ["AllowTcpForwarding no", "PermitOpen 127.0.0.1:22"])
def test_an_sshd_that_forwards_nothing(testhost: Pool, setting: str) -> None:
    machine = testhost.shared("bookworm")
    folder = f"/tmp/{setting.partition(' ')[0]}"
    config = machine.root / "etc/ssh/sshd_config.d/forward.conf"
    config.write_text(f"{setting}\n")
    machine.run("systemctl", "restart", "ssh")
    try:
        with connect("gpu", spec_for(machine)) as host:
            with pytest.raises(HostRefused, match="AllowTcpForwarding yes"):
                host.tunnel(30000, direct=True).__enter__()
            test_bytes_and_ends_pass_both_ways(host, folder)
            test_where_nothing_listens_a_connection_ends_at_once(host, folder)
            assert host.run("while pgrep -f create_connectio[n]; do sleep 0.1; done").ok
    finally:
        config.unlink()
        machine.run("systemctl", "restart", "ssh")
