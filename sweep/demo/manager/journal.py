"""The journal: one JSON object a line, one file for each boot. Written here, read by `journalctl`.

Messages are bytes; a file holds them as Latin-1 text, so every byte comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

LINE_MAX = 48 * 1024
KEPT_BOOTS = 4


class Journal:
    """Appends records. Every field is text; `MESSAGE` stands beside them as bytes."""

    def __init__(self, directory: Path, boot_id: str, hostname: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        for old in sorted(directory.glob("*.jsonl"))[: -KEPT_BOOTS + 1]:
            old.unlink()
        self._common = {"_BOOT_ID": boot_id, "_HOSTNAME": hostname}
        # Sorted by name is sorted by time: a boot's file begins with when it began.
        self._file = (directory / f"{time.time_ns()}-{boot_id}.jsonl").open("ab", buffering=0)

    def append(self, message: bytes, fields: Mapping[str, str]) -> None:
        record = {
            "__REALTIME_TIMESTAMP": str(time.time_ns() // 1000),
            "__MONOTONIC_TIMESTAMP": str(time.monotonic_ns() // 1000),
            **self._common,
            **fields,
            "MESSAGE": message.decode("latin-1"),
        }
        self._file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        self._file.close()


class Stream:
    """What a process writes, line by line into the journal, as journald's stdout stream does."""

    def __init__(self, journal: Journal, fields: Mapping[str, str]) -> None:
        self._journal = journal
        self._fields = fields
        self._rest = b""
        self._read, self.write_end = os.pipe()
        os.set_blocking(self._read, False)
        self._open = True
        asyncio.get_running_loop().add_reader(self._read, self._readable)

    def started(self, pid: int) -> None:
        """The process has its own copy of the writing end now."""
        os.close(self.write_end)
        self._fields = {**self._fields, "_PID": str(pid)}

    def drain(self) -> None:
        """Take what is there without waiting; a last line without newline becomes a record."""
        while self._open and self._readable():
            pass
        if self._rest:
            self._line(self._rest)
            self._rest = b""

    def close(self) -> None:
        self.drain()
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._read)
            os.close(self._read)

    def _readable(self) -> bool:
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._read, 65536)
            if not data:
                self._open = False
                asyncio.get_running_loop().remove_reader(self._read)
                os.close(self._read)
                self.drain()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        return bool(data)

    def _line(self, line: bytes) -> None:
        for start in range(0, max(1, len(line)), LINE_MAX):
            self._journal.append(line[start : start + LINE_MAX], self._fields)
