"""From whatever a log was saved as to plain lines: journalctl's forms, Docker's, Kubernetes'.

What is undone here, and why it has to be:

- `journalctl -o json` gives a message with `\\r`, ESC or odd bytes as a list of byte values, and
  null for one above 4 KB unless asked with `--all` (seen on systemd 252).
- journald cuts a line at 48 KB (LineMax in journald.conf(5)), Docker and containerd at 16 KB. What
  belongs together is put together again, else a number is cut in two.
- tqdm draws its bars with `\\r` and no newline, so a log record stands glued behind a bar.
- Colours: `docker compose logs` paints its prefix, rsyslog writes ESC as `#033`.

Everything is bytes, since a journal may hold any. Nothing here raises, and every step is linear.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

# journald's default LineMax; a piece that was cut there has exactly this length.
LINE_MAX = 48 * 1024

# Of a message no more than this is shown to either side of what was found in it.
LONGEST_RECORD = 2048

# Stands on a line of its own where the file itself says that another launch begins.
INVOCATION_MARK = b"-- Invocation "

_ANSI = re.compile(
    rb"(?:\x1b|#033)\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    rb"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # window titles and links
    rb"|\x1b[@-Z\\^_]"
)

_DATE = (
    rb"(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"  # short-iso, docker -t
    rb"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"  # short, short-precise
    rb"|[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [A-Z+:\d-]+)"  # short-full
)
_PREFIX = re.compile(
    rb"(?:[\w.-]{1,100} *\| )?"  # docker compose
    rb"(?:\[pod/[^\]\s]{1,200}\] )?"  # kubectl logs --prefix
    rb"(?:" + _DATE + rb" )?"
    rb"(?:(?:stdout|stderr) [FP] |[\w.-]{1,100} [^\s\[\]]{1,60}\[\d+\]: )?"  # CRI, or syslog
)
_PARTIAL = re.compile(_DATE + rb" (?:stdout|stderr) P ")

# SGLang's own header, `[2026-03-30 14:21:44 DP0 TP0] ` (srt/utils/common.py, configure_logger);
# milliseconds with SGLANG_LOG_MS=1, only the time of day before 0.4.2.
HEADER = re.compile(
    rb"\[(?P<time>(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(?:[.,]\d+)?)"
    rb"(?P<ranks>(?: [A-Z_]{1,12}\d{1,6}){0,8})\] ?"
)

_SGLANG = re.compile(rb"(?i)sglang|server_args=")

# A message journalctl would not show; `-o cat` and `--all` do.
BLOB = re.compile(rb"\[[\d.]+[BKMG]? blob data\]")


def plain(data: bytes) -> bytes:
    """The log as lines ending in LF, without colours, carriage returns and cuts.

    Prefixes stay where they are, `strip` takes them off a single line. Where JSON records carry
    invocation or boot ids, a line that begins with `INVOCATION_MARK` stands before each.
    """
    text = _unpack(data) if b'"MESSAGE"' in data or b'"log"' in data else data
    text = _rejoin(text)
    if b"\x1b" in text or b"#033[" in text:
        text = _ANSI.sub(b"", text)
    return text.replace(b"\r", b"\n")


def strip(line: bytes) -> bytes:
    """One line without what journalctl, Docker or Kubernetes put before it."""
    found = _PREFIX.match(line)
    return line[found.end() :] if found else line


def bounds(text: bytes, position: int) -> tuple[int, int]:
    """Where the line that holds `position` begins and ends.

    Looks no further than `LINE_MAX` to either side, so that a file without newlines stays linear.
    """
    start = text.rfind(b"\n", max(0, position - LINE_MAX), position) + 1
    end = text.find(b"\n", position, position + LINE_MAX)
    return start or max(0, position - LINE_MAX), min(
        len(text), position + LINE_MAX
    ) if end < 0 else end


def record_at(text: bytes, position: int) -> bytes:
    """The message that holds `position`, without prefixes, headers and what is glued around it."""
    first, last = bounds(text, position)
    first, last = max(first, position - LONGEST_RECORD), min(last, position + LONGEST_RECORD)
    line = text[first:last]
    begin = len(line) - len(strip(line))
    for header in HEADER.finditer(line):
        if header.start() > position - first:
            return line[begin : header.start()].rstrip()
        begin = header.end()
    return line[begin:].rstrip()


def is_logged(text: bytes, position: int) -> bool:
    """Whether a header of SGLang's logger stands before `position` on its line."""
    low = max(0, position - LONGEST_RECORD)
    start = text.rfind(b"\n", low, position) + 1 or low
    return HEADER.search(text, start, position) is not None


def find_all(text: bytes, needle: bytes, start: int = 0, end: int | None = None) -> Iterable[int]:
    """Every position of `needle`, found by searching, not by walking over lines."""
    stop = len(text) if end is None else end
    position = text.find(needle, start, stop)
    while position >= 0:
        yield position
        position = text.find(needle, position + len(needle), stop)


def _rejoin(text: bytes) -> bytes:
    """Put together what journald or containerd cut."""
    by_containerd = b"stderr P " in text or b"stdout P " in text
    lines = text.split(b"\n")
    if not by_containerd and max(map(len, lines)) < LINE_MAX:
        return text
    pieces: list[bytes] = []
    cut = False
    for line in lines:
        bare = strip(line) if cut or len(line) >= LINE_MAX else line
        pieces.append(bare if cut else line)
        cut = len(bare) == LINE_MAX or (by_containerd and _PARTIAL.match(line) is not None)
        if not cut:
            pieces.append(b"\n")
    if pieces[-1] == b"\n":
        pieces.pop()
    return b"".join(pieces)


def _unpack(data: bytes) -> bytes:
    """Lines out of `journalctl -o json` and Docker's json-file; other lines stay as they are."""
    groups: dict[str, list[bytes]] = {}
    boot = launch = ""
    for line in data.split(b"\n"):
        record = _record(line)
        if record is None:
            groups.setdefault(launch, []).append(line + b"\n")
            continue
        boot_id, invocation = _text(record, "_BOOT_ID"), _invocation(record)
        if boot_id and boot_id != boot:
            boot, launch = boot_id, invocation or boot_id
        launch = invocation or launch
        groups.setdefault(launch, []).append(_message(record))
    texts = {name: b"".join(pieces) for name, pieces in groups.items()}
    texts = {name: text for name, text in texts.items() if text.strip()}
    if len(texts) > 1:
        texts = _only_sglang(texts)
    return b"".join(_mark(name) + text for name, text in texts.items())


def _record(line: bytes) -> dict[str, object] | None:
    start = line.find(b"{", 0, 8)  # json-seq and json-sse put a few bytes before it
    if start < 0:
        return None
    try:
        record = json.loads(line[start:].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and ("MESSAGE" in record or "log" in record) else None


def _invocation(record: dict[str, object]) -> str:
    """The id of the launch a record belongs to, '' for one of no unit (the kernel's).

    systemd's own lines about a unit carry the unit's id in INVOCATION_ID (USER_INVOCATION_ID in a
    user manager); there _SYSTEMD_INVOCATION_ID is the manager's.
    """
    fields = ("USER_INVOCATION_ID", "INVOCATION_ID", "_SYSTEMD_INVOCATION_ID")
    return next(filter(None, (_text(record, field) for field in fields)), "")


def _text(record: dict[str, object], field: str) -> str:
    value = record.get(field)
    return value if isinstance(value, str) else ""


def _message(record: dict[str, object]) -> bytes:
    text = _raw(record.get("MESSAGE", record.get("log")))
    if "MESSAGE" not in record:
        return text  # Docker's json-file keeps the newline, or leaves it out at a cut
    return text if record.get("_LINE_BREAK") == "line-max" else text + b"\n"


def _raw(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    if isinstance(value, list):
        if all(type(item) is int and 0 <= item < 256 for item in value):
            return bytes(value)
        return b"\n".join(_raw(item) for item in value if isinstance(item, str))
    return b""


def _mark(name: str) -> bytes:
    return INVOCATION_MARK + name.encode("utf-8", "replace") + b" --\n" if name else b""


def _only_sglang(texts: dict[str, bytes]) -> dict[str, bytes]:
    """A journal of several units: only what SGLang said, or systemd about it."""
    named = {name: text for name, text in texts.items() if _SGLANG.search(text)}
    return named or texts
