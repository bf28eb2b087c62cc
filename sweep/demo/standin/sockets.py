"""ss: who listens on which TCP port, from /proc, or from lsof where there is no /proc."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_LISTEN = "0A"


def ss(words: list[str]) -> int:
    """`ss -Hltnp ['sport = :PORT']`: listening TCP sockets with their processes."""
    wanted = re.search(r"sport\s*=+\s*:(\d+)", " ".join(words))
    if not any(word.startswith("-") and "H" in word for word in words):
        sys.stdout.write("State Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n")
    found = _listening() if Path("/proc/net/tcp").exists() else _lsof()
    for address, port, users in found:
        if wanted is None or port == int(wanted[1]):
            shown = ",".join(f'("{name}",pid={pid},fd={fd})' for name, pid, fd in users)
            process = f" users:({shown})" if users else ""
            sys.stdout.write(f"LISTEN 0      2048   {address}:{port}  0.0.0.0:*   {process}\n")
    return 0


User = tuple[str, int, int]


def _listening() -> Iterator[tuple[str, int, list[User]]]:
    sockets = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            lines = Path(table).read_text().splitlines()[1:]
            sockets += [fields for line in lines if (fields := line.split())[3] == _LISTEN]
    # Looked for afterwards, which takes a while on a busy machine: a socket that began to listen
    # meanwhile would have no owner.
    owners = _owners()
    for fields in sockets:
        address, port = fields[1].split(":")
        yield _address(address), int(port, 16), owners.get(fields[9], [])


def _owners() -> dict[str, list[User]]:
    """Socket inode -> the processes that have it open, as far as we may look."""
    found: dict[str, list[User]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if not entry.isdigit():
            continue
        with suppress(OSError):
            for descriptor in os.listdir(f"/proc/{entry}/fd"):  # noqa: PTH208
                with suppress(OSError):
                    target = os.readlink(f"/proc/{entry}/fd/{descriptor}")  # noqa: PTH115
                    if target.startswith("socket:["):
                        name = Path(f"/proc/{entry}/comm").read_text().strip()
                        user = (name, int(entry), int(descriptor))
                        found.setdefault(target[8:-1], []).append(user)
    return found


def _address(text: str) -> str:
    if len(text) == 8:
        return ".".join(str(byte) for byte in reversed(bytes.fromhex(text)))
    return "[::1]" if text.endswith("01000000") else "*"


def _lsof() -> Iterator[tuple[str, int, list[User]]]:
    shown = subprocess.run(
        ["lsof", "-nP", "-iTCP", "-sTCP:LISTEN", "-Fpcfn"],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    pid, name, descriptor = 0, "", 0
    for line in shown.splitlines():
        kind, value = line[:1], line[1:]
        if kind == "p":
            pid = int(value)
        elif kind == "c":
            name = value
        elif kind == "f":
            descriptor = int(value) if value.isdigit() else 0
        elif kind == "n":
            address, _, port = value.rpartition(":")
            yield address, int(port), [(name, pid, descriptor)]
