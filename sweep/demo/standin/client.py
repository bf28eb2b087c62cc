"""systemctl and systemd-run: the words go to the manager, its answer is printed."""

from __future__ import annotations

import json
import os
import socket
import sys

SOCKET = "manager.sock"


def ask(root: str, tool: str, words: list[str]) -> int:
    """Exit status of the command; 1 when the manager cannot be reached, as without a bus."""
    scope = "user" if "--user" in words else "system"
    argv = [word for word in words if word not in ("--user", "--system")]
    request = json.dumps({"tool": tool, "scope": scope, "argv": argv}).encode() + b"\n"
    try:
        reply = json.loads(_exchange(root, request))
    except (OSError, ValueError):
        sys.stderr.write("Failed to connect to bus: Connection refused\n")
        return 1
    # As the bytes came in: a unit's text need not be UTF-8.
    sys.stdout.buffer.write(reply["out"].encode("utf-8", "surrogateescape"))
    sys.stderr.buffer.write(reply["error"].encode("utf-8", "surrogateescape"))
    return int(reply["status"])


def _exchange(root: str, request: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        os.chdir(f"{root}/run")  # the whole path may be too long for a socket
        connection.connect(SOCKET)
        connection.sendall(request)
        reply = b""
        while chunk := connection.recv(65536):
            reply += chunk
    return reply
