"""HTTP responses and event streams as bytes that arrived piece by piece. Pure."""

from __future__ import annotations

import bisect
import functools
import re
from typing import Iterator, List, NamedTuple, Optional, Tuple

from .arrivals import Arrivals

END = b"\r\n0\r\n\r\n"  # the end of a chunked body; never inside an event stream of JSON
MAX_HEAD = 65536
STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})[ \r]")
# Of an event that is a chunk of its own: between the chunk's size and its JSON, and behind that.
BEFORE, BEHIND = b"\r\ndata: ", b"\n\n\r\n"
CHUNK = re.compile(rb"([0-9a-fA-F]{1,7})%b([^\r\n]*)%b" % (BEFORE, BEHIND))
EVENT = re.compile(rb"data: ?([^\r\n]*)\r?\n\r?\n")  # what nearly all events look like


class Head(NamedTuple):
    """A response's status line and headers: `size` bytes, the blank line included."""

    size: int
    status: int
    chunked: bool
    length: Optional[int]
    keep: bool
    content_type: str


def parse_head(raw: bytes) -> Optional[Head]:
    """The head at the start of `raw`, None while it is incomplete; ValueError if it is no HTTP."""
    end = raw.find(b"\r\n\r\n")
    match = STATUS.match(raw)
    if end < 0 and raw[:7] == b"HTTP/1."[: len(raw)] and len(raw) < MAX_HEAD:
        return None
    if match is None or end < 0:
        raise ValueError("not an HTTP response: %r" % raw[:40])
    return read_head(raw[: end + 4])


@functools.lru_cache(maxsize=64)
def read_head(head: bytes) -> Head:
    """A head that is whole; those of one second are alike."""
    fields = {}
    for line in head.decode("latin-1").split("\r\n")[1:-2]:
        name, _, value = line.partition(":")
        fields[name.strip().lower()] = value.strip()
    chunked = fields.get("transfer-encoding", "").lower() == "chunked"
    size = fields.get("content-length", "")
    length = int(size) if size.isdigit() and not chunked else None
    keep = head.startswith(b"HTTP/1.1") and fields.get("connection", "").lower() != "close"
    return Head(
        size=len(head),
        status=int(head[9:12]),
        chunked=chunked,
        length=length,
        keep=keep and (chunked or length is not None),
        content_type=fields.get("content-type", ""),
    )


def ended(head: Head, arrivals: Arrivals) -> bool:
    """Do the bytes so far look like a whole response?"""
    if head.chunked:
        return arrivals.tail(len(END)).endswith(END)
    return head.length is not None and len(arrivals.raw) >= head.size + head.length


class Body(NamedTuple):
    """Part of a payload; piece i of it begins at `inner[i]`, and at `outer[i]` of the raw bytes."""

    payload: bytes
    inner: List[int]
    outer: List[int]

    def place(self, offset: int) -> int:
        """Where a byte of the payload stands in the raw bytes."""
        piece = bisect.bisect_right(self.inner, offset) - 1
        return self.outer[piece] + offset - self.inner[piece]


class Payload:
    """Takes the chunks of a body apart, or cuts it at its length, part by part; never raises.

    `at`: as far as it is read. `over`: there is no more. `whole`: then, it ended as it should,
    with nothing behind it.
    """

    def __init__(self, raw: bytes, head: Head) -> None:
        self.raw = raw
        self.head = head
        self.at = head.size
        self.over = False
        self.whole = False

    @property
    def left(self) -> int:
        """Bytes that are not read."""
        return 0 if self.over else len(self.raw) - self.at

    def event(self) -> Optional[bytes]:
        """Takes the next chunk if it is one event of nothing but data: that. Else None."""
        chunk = CHUNK.match(self.raw, self.at) if self.head.chunked else None
        if chunk is None or int(chunk[1], 16) != chunk.end() - chunk.end(1) - 4:
            return None
        self.at = chunk.end()
        return chunk[2]

    def take(self, pieces: int) -> Body:
        """So many more chunks, and on to one that is a single event; or all that is left."""
        if not self.head.chunked:
            self.over = True
            length = self.head.length
            self.whole = length is None or len(self.raw) == self.head.size + length
            return Body(self.raw[self.head.size :], [0], [self.head.size])
        parts: List[bytes] = []
        inner: List[int] = []
        outer: List[int] = []
        size = 0
        while True:
            start = self._chunk()
            if start is None:
                break
            parts.append(self.raw[start : self.at])
            inner.append(size)
            outer.append(start)
            size += len(parts[-1])
            self._behind_chunk()
            if self.over or (len(parts) >= pieces and EVENT.fullmatch(parts[-1])):
                break
        return Body(b"".join(parts), inner, outer)

    def rest(self) -> Body:
        """All that is left."""
        return self.take(len(self.raw))

    def _chunk(self) -> Optional[int]:
        """Where the next chunk begins, `at` being set to its end; None when there is none."""
        line = self.raw.find(b"\r\n", self.at)
        digits = self.raw[self.at : line].split(b";")[0].strip() if line >= 0 else b""
        length = 0
        if digits and not digits.strip(b"0123456789abcdefABCDEF"):
            length = int(digits, 16)
            self.whole = length == 0 and self.raw[line + 2 :] == b"\r\n"
        self.over = length == 0
        if self.over:
            return None
        self.at = line + 2 + length
        return line + 2

    def _behind_chunk(self) -> None:
        self.at += 2
        self.over = self.raw[self.at - 2 : self.at] != b"\r\n"


def events(payload: bytes) -> Iterator[Tuple[int, bytes, bytes]]:
    """Server-sent events: (offset of the last byte of data, name, data).

    A last event without its blank line counts: what it says is judged by its content.
    """
    at, last = 0, 0
    name = b""
    data: List[bytes] = []
    while at < len(payload):
        simple = None if data or name else EVENT.match(payload, at)
        if simple is not None:
            yield simple.end(1) - 1, name, simple.group(1)
            at = simple.end()
            continue
        line_end = payload.find(b"\n", at)
        line_end = len(payload) if line_end < 0 else line_end
        line = payload[at:line_end].rstrip(b"\r")
        if line.startswith(b"data:"):
            data.append(line[6:] if line[5:6] == b" " else line[5:])
            last = line_end - 1
        elif line.startswith(b"event:"):
            name = line[6:].strip()
        elif not line and data:
            yield last, name, b"\n".join(data)
            name, data = b"", []
        at = line_end + 1
    if data:
        yield last, name, b"\n".join(data)
