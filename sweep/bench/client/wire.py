"""HTTP responses and event streams as bytes that arrived piece by piece. Pure."""

from __future__ import annotations

import re
import struct
from typing import Iterator, List, NamedTuple, Optional, Tuple

END = b"\r\n0\r\n\r\n"  # the end of a chunked body; never inside an event stream of JSON
MAX_HEAD = 65536
STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})[ \r]")
STAMP = struct.Struct("@ll")
EVENT = re.compile(rb"data: ?([^\r\n]*)\r?\n\r?\n")  # what nearly all events look like

# When it was read, the kernel's stamp (None: it gave none), what was read (b"": the peer closed).
Arrival = Tuple[float, Optional[bytes], bytes]


def stamp(arrival: Arrival) -> float:
    """When the kernel had it, in seconds of CLOCK_REALTIME; without a stamp, when it was read.

    A read that joined several packets carries the time of the last one (Linux, tcp_recvmsg).
    """
    if arrival[1] is None or len(arrival[1]) != STAMP.size:
        return arrival[0]
    seconds, nanoseconds = STAMP.unpack(arrival[1])
    return float(seconds) + float(nanoseconds) * 1e-9


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
    fields = {}
    for line in raw[:end].decode("latin-1").split("\r\n")[1:]:
        name, _, value = line.partition(":")
        fields[name.strip().lower()] = value.strip()
    chunked = fields.get("transfer-encoding", "").lower() == "chunked"
    size = fields.get("content-length", "")
    length = int(size) if size.isdigit() and not chunked else None
    keep = match.group(1) == b"1" and fields.get("connection", "").lower() != "close"
    return Head(
        size=end + 4,
        status=int(match.group(2)),
        chunked=chunked,
        length=length,
        keep=keep and (chunked or length is not None),
        content_type=fields.get("content-type", ""),
    )


def ended(head: Head, arrivals: List[Arrival]) -> bool:
    """Do the bytes so far look like a whole response?"""
    if head.chunked:
        tail = b""
        for _, _, data in reversed(arrivals):
            tail = data + tail
            if len(tail) >= len(END):
                break
        return tail.endswith(END)
    if head.length is None:
        return False
    return sum(len(data) for _, _, data in arrivals) >= head.size + head.length


class Body(NamedTuple):
    """A payload; piece i of it begins at `inner[i]`, and at `outer[i]` of the raw bytes.

    `whole`: it ended as it should, with nothing behind it.
    """

    payload: bytes
    inner: List[int]
    outer: List[int]
    whole: bool


def read_body(raw: bytes, head: Head) -> Body:
    """Takes the chunks of a body apart, or cuts it at its length; never raises."""
    if not head.chunked:
        whole = head.length is None or len(raw) == head.size + head.length
        return Body(raw[head.size :], [0], [head.size], whole)
    parts: List[bytes] = []
    inner: List[int] = []
    outer: List[int] = []
    size, at, whole = 0, head.size, False
    while True:
        line = raw.find(b"\r\n", at)
        digits = raw[at:line].split(b";")[0].strip() if line >= 0 else b""
        if not digits or digits.strip(b"0123456789abcdefABCDEF"):
            break
        length, at = int(digits, 16), line + 2
        if length == 0:
            whole = raw[at:] == b"\r\n"
            break
        parts.append(raw[at : at + length])
        inner.append(size)
        outer.append(at)
        size += len(parts[-1])
        at += length + 2
        if raw[at - 2 : at] != b"\r\n":
            break
    return Body(b"".join(parts), inner, outer, whole)


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
