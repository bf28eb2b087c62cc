"""Why a launch failed: from its journal, and from what systemd says of its end.

The first death in a log is the root, everything later its consequence: an out-of-memory in one
rank makes NCCL errors in the others, `Received sigquit` in the parent, and in the end a SIGKILL
that SGLang sends itself (facts: srt/utils/common.py kill_process_tree). So the exit status alone
says little, 9/KILL is the normal end of almost every crash.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sweep.sglang.launches import Launch, last_launch
from sweep.sglang.lines import HEADER, LINE_MAX, bounds, record_at, strip
from sweep.sglang.redact import redact_line
from sweep.sglang.signs import CAUSES, CHILDREN, DEATHS, ECHOES, RAISED, Hit, first, hits

# How far before a death that gives no reason one is looked for, in bytes.
_BEFORE = 64 * 1024
# A traceback longer than this is not read to its end.
_LONGEST_BLOCK = 256 * 1024
_LONGEST_DETAIL = 300

# These do not depend on the number of steps: no other launch of the sweep would fare better.
_INDEPENDENT = (
    "bad_argument", "exec_failed", "model_not_found", "port_in_use", "host_disk_full", "gpu_busy",
    "preempted",
)  # fmt: skip

_TRACEBACK = b"Traceback (most recent call last)"
# Only the main process has these in its stack: launch_server.py, `sglang serve`.
_MAIN = (b"launch_server.py", b"/sglang/cli/", b"/bin/sglang")
_ARGUMENT_FILES = re.compile(
    rb"(?:server_args|spec_info|model_config)\.py\"|[/\\]arg_groups[/\\][\w/\\]+\.py\""
)
_STARTED = (b"server_args=", b"Load weight begin", b"max_total_num_tokens=")
_EXCEPTION = re.compile(rb"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?::|$)")
_EXIT_CODE = re.compile(rb"[Ee]xit code:? (-?\d{1,4})\b")
_TOLD_TO_QUIT = (-3, -15)  # SIGQUIT, SIGTERM
_MAIN_EXITED = re.compile(rb"Main process exited, code=(\w{1,20}), status=(\d{1,6})")
_SYSTEMD_SAID = re.compile(rb"\.service: |^(?:Start|Stopp)(?:ed|ing) |-- Invocation ")
_SHELL_STATUS = {2: "bad_argument", 126: "exec_failed", 127: "exec_failed"}
_RESULT = re.compile(rb"Failed with result '([\w-]+)'")
_UNHEALTHY = b"Server couldn't get a response from detokenizer"
_CODES = {"1": "exited", "2": "killed", "3": "dumped"}


@dataclass(frozen=True)
class Failure:
    """`kind` is one of `rows.FAILURES`, `detail` one line of evidence without secrets."""

    kind: str
    detail: str


def steps_independent(kind: str) -> bool:
    """Whether a failure is one that the number of steps cannot change."""
    return kind in _INDEPENDENT


def classify(
    journal: bytes,
    *,
    result: str = "",
    exit_code: str = "",
    exit_status: int | None = None,
    ready: bool = False,
) -> Failure:
    """Why the launch this journal tells of ended, or does not answer.

    `result`, `exit_code` and `exit_status` are systemd's Result, ExecMainCode (a word or its
    number) and ExecMainStatus, as far as known; `ready` whether the server was ever healthy.
    Always an answer, in the worst case `unknown` with the last line.
    """
    launch = last_launch(journal)
    logged = in_log(launch, ready=ready)
    code = _CODES.get(exit_code, exit_code)
    ended = _by_exit(result, code, exit_status, ready=ready)
    if result == "oom-kill" and ended:
        return Failure(ended.kind, logged.detail if logged else ended.detail)
    if logged and logged.kind != "unknown":
        return logged
    if ended:
        return ended
    hung = launch.text.find(_UNHEALTHY, launch.ready_at or 0)
    if hung >= 0:
        return Failure("hang", _detail(record_at(launch.text, hung)))
    return Failure("unknown", _last_words(launch.text, result, code, exit_status))


def in_log(launch: Launch, *, ready: bool = False) -> Failure | None:
    """The failure a launch's log shows, None where it shows none.

    Once ready, what only looked like a failure was a warning: from there on only a death counts.
    After somebody asked the server to end, nothing counts.
    """
    text = launch.text
    ready = ready or launch.ready_at is not None
    start = launch.ready_at or 0
    end = len(text) if launch.stopped_at is None else launch.stopped_at
    if death := first(text, DEATHS + RAISED, start, end):
        child = _dead_child(text, start, death.position)
        return _of_child(text, *child, start) if child else _of_death(text, death)
    if child := _dead_child(text, start, end):
        return _of_child(text, *child, start)
    echo = first(text, ECHOES + CHILDREN, start, end)
    if ready and not echo:
        return None
    low = max(start, echo.position - _BEFORE) if ready and echo else start
    return _without_death(text, low, end, ready=ready) or _of_echo(text, echo, start, end)


def _of_death(text: bytes, death: Hit) -> Failure:
    """What the first death says of itself."""
    if death.sign not in RAISED:
        return _failure(text, death)
    block = _block(text, death.position)
    if cause := next(iter(hits(block, CAUSES)), None):
        return _failure(block, cause)
    if _about_arguments(block):
        return Failure("invalid_configuration", _raised(block))
    return Failure(death.sign.kind, _raised(block) or _detail(record_at(text, death.position)))


def _dead_child(text: bytes, start: int, end: int) -> tuple[Hit, int | None] | None:
    """The first child that died of itself, and its exit code.

    Not one that got SIGQUIT or SIGTERM: then another process failed first.
    """
    for hit in sorted(hits(text, CHILDREN, start, end, most=64), key=lambda hit: hit.position):
        code = None
        if hit.sign.needle != b"Fatal Python error: ":
            found = _EXIT_CODE.search(text, hit.position, hit.position + 300)
            code = int(found[1]) if found else None
        if code not in _TOLD_TO_QUIT:
            return hit, code
    return None


def _of_child(text: bytes, death: Hit, code: int | None, start: int) -> Failure:
    """Why a child died that left only an exit code: what stands before, or who kills so."""
    before = max(start, death.position - _BEFORE)
    if cause := first(text, CAUSES, before, death.position):
        return _failure(text, cause)
    kind = "host_oom_kill" if code in (-9, 137) else death.sign.kind
    return Failure(kind, _detail(record_at(text, death.position)))


def _failure(text: bytes, hit: Hit) -> Failure:
    return Failure(hit.sign.kind, _detail(record_at(text, hit.position)))


def _without_death(text: bytes, start: int, end: int, *, ready: bool) -> Failure | None:
    """A cause that no scheduler reported: the main process died, or nobody said so."""
    head = text.rfind(_TRACEBACK, start, end)
    if head >= 0:
        block = _block(text, head)
        if cause := next(iter(hits(block, CAUSES)), None):
            return _failure(block, cause)
        if not ready and (found := _of_arguments(text[:head], block)):
            return found
    cause = first(text, CAUSES, start, end)
    return _failure(text, cause) if cause else None


def _of_arguments(before: bytes, block: bytes) -> Failure | None:
    """A traceback of the main process before it had read its command line."""
    raised = _raised(block)
    if not raised or not any(frame in block for frame in _MAIN):
        return None
    if raised.startswith(("ImportError", "ModuleNotFoundError")):
        return Failure("exec_failed", raised)
    if _about_arguments(block) or not any(sign in before for sign in _STARTED):
        return Failure("invalid_configuration", raised)
    return None


def _about_arguments(block: bytes) -> bool:
    """Whether the innermost frame is where arguments are resolved."""
    frame = block.rfind(b'  File "')
    return frame >= 0 and _ARGUMENT_FILES.search(block[slice(*bounds(block, frame))]) is not None


def _of_echo(text: bytes, echo: Hit | None, start: int, end: int) -> Failure | None:
    """Only the parent's words about the end, or systemd's."""
    if echo is None:
        return None
    exited = _MAIN_EXITED.search(text, start, end)
    result = _RESULT.search(text, start, end)
    ended = _by_exit(
        result[1].decode() if result else "",
        exited[1].decode() if exited else "",
        int(exited[2]) if exited else None,
        ready=False,
    )
    shown = _detail(record_at(text, echo.position))
    return Failure(ended.kind if ended else echo.sign.kind, shown)


def _by_exit(result: str, code: str, status: int | None, *, ready: bool) -> Failure | None:
    """What systemd's word alone proves: systemd.exec(5), "Process Exit Codes"."""
    kind = ""
    if result == "oom-kill":
        kind = "host_oom_kill"
    elif result == "resources" or (code == "exited" and 200 <= (status or 0) <= 243):
        kind = "exec_failed"
    elif result == "watchdog":
        kind = "watchdog"
    elif result == "timeout" and not ready:
        kind = "start_timeout"
    elif code == "exited" and not ready:
        kind = _SHELL_STATUS.get(status or 0, "")
    said = f"systemd: Result={result or '?'}, {code or 'ended'} with status {status}"
    return Failure(kind, said) if kind else None


def _block(text: bytes, position: int) -> bytes:
    """The record at `position` with its traceback: up to the next record of any process."""
    end = min(len(text), position + _LONGEST_BLOCK)
    following = HEADER.search(text, position, end)
    return text[position : following.start() if following else end]


def _raised(block: bytes) -> str:
    """The last exception of a traceback; with its place in the source where it says nothing."""
    raised, frame, code = b"", b"", b""
    inside = False
    for raw in block.split(b"\n"):
        line = strip(raw)
        if _TRACEBACK in line:
            inside = True
        elif inside and line.startswith(b"  File "):
            frame = line
        elif inside and line.startswith(b" "):
            code = line if line.strip(b" ~^") else code
        elif inside and _EXCEPTION.match(line):
            raised, inside = line, False
            if b": " not in line:
                raised += b" in " + frame.strip() + b": " + code.strip()
    return _detail(raised) if raised else ""


def _detail(message: bytes) -> str:
    """A message as evidence: one line, printable, short, without secrets."""
    shown = " ".join(message.decode("utf-8", "replace").split())
    return redact_line("".join(c if c.isprintable() else "?" for c in shown))[:_LONGEST_DETAIL]


def _last_words(text: bytes, result: str, code: str, status: int | None) -> str:
    """For an end nobody explains: what systemd saw, and the last line but systemd's own."""
    ended = f"ended with status {status}" if status is not None else "ended or does not answer"
    if code in ("killed", "dumped"):
        ended = f"killed by signal {status}"
    messages = (strip(line).strip() for line in reversed(text[-LINE_MAX:].split(b"\n")))
    last = next((m for m in messages if m and not _SYSTEMD_SAID.search(m)), b"")
    header = HEADER.match(last)
    last = last[header.end() :] if header else last
    said = f"its last line: {_detail(last)}" if last else "it printed nothing"
    return f"{ended}{f' (Result={result})' if result else ''}; {said}"[:_LONGEST_DETAIL]
