"""SGLang's own parser and resolution, without a server: runs on the engine's interpreter.

Each line of standard input is a command line without the program, a JSON list. It answers each with
a line of JSON: what it resolved to, `{"fields": {...}}`, or how it was refused, `{"refused":
"TypeError: ..."}`; an exit of the parser is `exit 2: ` and what it printed. Each is tried in a
process of its own, because SGLang resolves into global state.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from typing import Any

from sglang.srt.configs import model_config  # noqa: F401  imported once, before forking
from sglang.srt.server_args import prepare_server_args

with contextlib.suppress(ModuleNotFoundError):  # 0.5.9 has none
    from sglang.srt.arg_groups.pipeline import run_resolution_pipeline  # noqa: F401

PLAIN = (str, int, float, bool, list, type(None))


def resolved(words: list[str]) -> dict[str, Any]:
    """What the server logs and /server_info says."""
    args = prepare_server_args(words)
    if hasattr(args, "resolve_once"):
        args.resolve_once()
        values = args.resolved_dict()
    else:  # 0.5.9: resolved when it was made, checked when the engine starts
        args.check_server_args()
        values = dataclasses.asdict(args)
    return {name: value for name, value in values.items() if isinstance(value, PLAIN)}


def tried(words: list[str], log: int) -> dict[str, Any]:
    """In a child, whose own words go to `log`."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            answer = {"fields": resolved(words)}
        except SystemExit as error:
            answer = {"refused": f"exit {error.code}"}
        except BaseException as error:
            answer = {"refused": f"{type(error).__name__}: {error}"}
        with os.fdopen(writing, "w") as pipe:
            json.dump(answer, pipe)
        sys.stderr.flush()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


def last_words(log: int, start: int) -> str:
    """The parser's error, behind the usage that it prints first."""
    text = os.pread(log, 1 << 20, start).decode(errors="replace")
    return text[text.rfind("error: ") :].strip() if "error: " in text else text[-200:].strip()


def main() -> None:
    log = os.memfd_create("log")
    for line in sys.stdin:
        start = os.lseek(log, 0, os.SEEK_END)
        answer = tried(json.loads(line), log)
        if answer.get("refused", "").startswith("exit"):
            answer["refused"] += f": {last_words(log, start)}"
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
