"""A log file may hold several launches: which part is the last one, and how far did it get?

A launch begins where systemd says so, where a boot, an invocation or a container begins, where
argparse prints its usage, or where SGLang prints `server_args=` for the second time (once a launch,
srt/entrypoints/engine.py in every version from 0.4.3 to 0.5.23). What SGLang prints before that
line (warnings of argument resolution) is then taken for the end of the launch before: harmless, as
nothing is read from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sweep.sglang.lines import INVOCATION_MARK, LINE_MAX, bounds, find_all, plain, strip
from sweep.sglang.resolved import LONGEST, Value, server_args

SERVER_ARGS = re.compile(rb"server_args=(?=ServerArgs\(|\{)")

# uvicorn's words (uvicorn/server.py); the address follows.
BIND_FAILED = b"error while attempting to bind on address"

_USAGE = (b"usage: launch_server.py", b"usage: sglang", b"usage: python")
# Only run while the command line is read, before anything else can happen.
_ARGUMENTS = (b", in prepare_server_args", b", in from_cli_args")
_BANNERS = {
    INVOCATION_MARK: "boot",
    b"-- Boot ": "boot",
    b"-- Reboot": "boot",
    b"== CUDA ==": "container",  # NVIDIA's images greet with it
}
_LONGEST_NAME = 400
_STOPPING = re.compile(rb"Stopping .*\.$")
# SGLang's handler since 0.4.3 (srt/managers/tokenizer_manager.py), then uvicorn's.
_STOPPED = (b"SIGTERM received. signum", b"INFO:     Shutting down")
# A sign of a later kind directly after one of an earlier kind speaks of the same launch.
_ORDER = {"boot": 0, "starting": 1, "started": 2, "container": 3}
_SERVED = (b"max_total_num_tokens=", b"The server is fired up", b"Decode batch")


@dataclass(frozen=True)
class Launch:
    """The last launch in a log.

    `args` are the resolved arguments of its `server_args=` line, empty where there is none.
    `ready_at` and `stopped_at` are positions in `text`: where the server said it is ready, and
    where somebody asked it to end; None where that never happened. `count` is how many launches
    the log holds, at least 1.
    """

    text: bytes
    count: int
    args: Mapping[str, Value]
    ready_at: int | None
    stopped_at: int | None


def last_launch(data: bytes) -> Launch:
    """The last launch in a log of any form that `lines.plain` knows.

    A launch that has only just begun counts, however little it has said: better no numbers than
    those of the launch before.
    """
    text, count = _last(plain(data))
    args = _args(text)
    return Launch(text, count, args, _ready_at(text, args), _stopped_at(text))


def _args(text: bytes) -> dict[str, Value]:
    for position in find_all(text, b"server_args="):
        if found := SERVER_ARGS.match(text, position):
            end = text.find(b"\n", found.end(), found.end() + LONGEST)
            whole = text[found.end() : found.end() + LONGEST if end < 0 else end]
            return server_args(whole.decode("utf-8", "replace"))
    return {}


def _ready_at(text: bytes, args: Mapping[str, Value]) -> int | None:
    """Where the server says it is ready, or with skip_server_warmup that it listens.

    A server whose port is taken says it too: its warm-up is answered by whoever has the port
    (0.5.23, seen on a CPU).
    """
    if BIND_FAILED in text:
        return None
    said = text.find(b"The server is fired up and ready to roll!")
    if said < 0 and args.get("skip_server_warmup") is True:
        said = text.find(b"Uvicorn running on http")
    return None if said < 0 else said


def _stopped_at(text: bytes) -> int | None:
    """The first sign that somebody asked the server to end: all after it is consequence."""
    found = [text.find(needle) for needle in _STOPPED]
    for position in find_all(text, b"Stopping "):
        start, end = bounds(text, position)
        if _STOPPING.match(strip(text[start:end])[:400]):
            found.append(position)
            break
    return min((position for position in found if position >= 0), default=None)


def _last(text: bytes) -> tuple[bytes, int]:
    start, count, level, seen_args = 0, 1, -1, False
    served, looked = False, 0
    for position, sign in sorted(_signs(text)):
        order = _ORDER.get(sign, -1)
        served = served or _served(text, looked, position)
        looked = position
        if order < 0:
            same = not seen_args and not served
        elif level < 0:
            same = not text[start:position].strip()
        elif sign == "started" and level == _ORDER["starting"]:
            same = True  # between them ran ExecStartPre, or ExecStartPost waiting for the server
        else:
            same = order > level and not seen_args
        if not same:
            count += 1
            start, level, seen_args, served = position, -1, False, False
        level = max(level, order)
        seen_args = seen_args or sign == "args"
    return text[start:], count


def _served(text: bytes, start: int, end: int) -> bool:
    """Whether a server came up here: then what follows is another launch."""
    return any(text.find(needle, start, end) >= 0 for needle in _SERVED)


def _signs(text: bytes) -> Iterator[tuple[int, str]]:
    """(begin of the line, what it says) for every line that may begin a launch."""
    for position in find_all(text, b"server_args="):
        if SERVER_ARGS.match(text, position):
            yield bounds(text, position)[0], "args"
    for needle in _USAGE:
        for position in find_all(text, needle):
            yield bounds(text, position)[0], "usage"
    for needle in _ARGUMENTS:
        for position in find_all(text, needle):
            yield _traceback_start(text, position), "usage"
    for needle, sign in _BANNERS.items():
        for position in find_all(text, needle):
            start, end = bounds(text, position)
            if strip(text[start:end]).startswith(needle):
                above = bounds(text, max(0, start - 1))[0]
                yield above if text.endswith(b"=====", above, max(0, start - 1)) else start, sign
    yield from _systemd_signs(text)


def _systemd_signs(text: bytes) -> Iterator[tuple[int, str]]:
    """`Starting X...` and `Started X.` of systemd, also where nothing before them says so.

    Others begin lines so, too (`Starting warmup with 1 sequences...`). Systemd's name a unit, as
    they do since 250, or it says more of X or of a unit here.
    """
    said = {verb: list(_systemd_lines(text, verb)) for verb in ("Starting", "Started", "Stopped")}
    names = {verb: {what for _, what, _ in lines} for verb, lines in said.items()}
    of_units = b".service: " in text
    for verb, others in (("Starting", "Started"), ("Started", "Stopped")):
        for start, what, signed in said[verb]:
            more = what in names[others] or (of_units and verb == "Started")
            if signed or b".service" in what or more:
                yield start, verb.lower()


def _systemd_lines(text: bytes, verb: str) -> Iterator[tuple[int, bytes, bool]]:
    """(begin of the line, what was started, whether systemd signed it) of lines like systemd's."""
    head = f"{verb} ".encode()
    for position in find_all(text, head):
        start, end = bounds(text, position)
        message = strip(text[start:end])
        if message.startswith(head) and message.endswith(b".") and len(message) < _LONGEST_NAME:
            yield start, message[len(head) :].rstrip(b"."), b" systemd[" in text[start:position]


def _traceback_start(text: bytes, position: int) -> int:
    head = text.rfind(b"Traceback (most recent call last)", max(0, position - LINE_MAX), position)
    return bounds(text, position if head < 0 else head)[0]
