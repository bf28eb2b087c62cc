"""A port of the host without its sshd's port forwarding, which hardened hosts switch off.

A command there connects to the port and copies: its input and output are the connection.
"""

from __future__ import annotations

import shlex

import paramiko

MARK = b"<sweep: connected>\n"
_PROGRAM = f"""
import os, socket, sys, threading
server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def say(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
def forth():
    for data in iter(lambda: os.read(0, 65536), b""):
        server.sendall(data)
    server.shutdown(socket.SHUT_WR)
say({MARK!r})
threading.Thread(target=forth, daemon=True).start()
for data in iter(lambda: server.recv(65536), b""):
    say(data)
"""


def relay_words(python: str, port: int) -> str:
    """The shell command that relays to 127.0.0.1:port."""
    return shlex.join((python, "-I", "-B", "-c", _PROGRAM, str(port)))


def is_connected(channel: paramiko.Channel) -> bool:
    """Read up to where the relay's own bytes end. False: nothing listens on its port."""
    read = bytearray()
    while not read.endswith(MARK):
        byte = channel.recv(1)
        if not byte:
            channel.close()
            return False
        read += byte
    return True
