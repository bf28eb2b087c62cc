"""Files of conversations, in the forms that data sets come in; every problem names file and line.

- `sharegpt`: {"conversations": [{"from": "human", "value": ...}, {"from": "gpt", ...}, ...]}
- `openai`: {"messages": [{"role": "user", "content": ...}, ...]}, also under "body" as in batches
- `questions`: {"turns": ["...", "..."]}, MT-Bench's and Spec-Bench's, "reference" as the answers
- `prompts`: {"prompt": "..."}

One JSON object a line, or all of them in one JSON array. Conversations are replayed with the
answers that the file holds: a question behind one that has no answer there is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sweep.benchmarks import FileWorkload
from sweep.errors import InventoryError
from sweep.workloads.texts import Conversation, Turn, fingerprint

MOST_BYTES = 64 << 20
KEYS: Mapping[str, str] = {
    "conversations": "sharegpt", "messages": "openai", "turns": "questions", "prompt": "prompts",
}  # fmt: skip
_HUMAN = ("human", "user")
_MODEL = ("gpt", "assistant", "chatgpt", "bing", "bard")
_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"[\s,]*")


class Problem(Exception):
    """What is wrong with one object of the file."""


def read_file(spec: FileWorkload, folder: Path) -> FileWorkload:
    """The workload with its path made absolute (relative ones begin at `folder`) and what is in it.

    Raises InventoryError with `FILE:LINE: what is wrong`.
    """
    path = folder / Path(spec.file).expanduser()
    placed = spec.model_copy(update={"file": str(path.absolute())})
    found = _conversations(placed)
    turns = max(len(conversation.turns) for conversation in found)
    return placed.model_copy(update={"fingerprint": fingerprint(found), "turns": turns})


def read_workload(spec: FileWorkload) -> tuple[Conversation, ...]:
    """The conversations that `read_file` found. Raises InventoryError when the file has changed."""
    found = _conversations(spec)
    now = fingerprint(found)
    if now != spec.fingerprint:
        raise InventoryError(
            f"{spec.file} has changed: it held texts {spec.fingerprint} when this was planned, and "
            f"holds {now} now; put it back, or plan anew"
        )
    return found


def _conversations(spec: FileWorkload) -> tuple[Conversation, ...]:
    path = Path(spec.file)
    text = _text(path)
    found = []
    for line, value in _objects(text, path):
        try:
            conversation = _conversation(value, spec.format).cut(spec.max_turns)
        except Problem as problem:
            raise InventoryError(f"{path}:{line}: {problem}") from problem
        if conversation.turns:
            found.append(conversation)
    if not found:
        raise InventoryError(f"{path}: holds no conversation with a question")
    return tuple(found)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InventoryError(
                f"{path}: is larger than {MOST_BYTES >> 20} MB; some thousand conversations are "
                "enough: keep those in a file of their own"
            )
        data = path.read_bytes()
    except OSError as error:
        raise InventoryError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InventoryError(f"{path}:{line}: is not UTF-8 text here") from error


def _objects(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    """(line, value) of each element: of the array that the file is, or of its lines."""
    if text.lstrip().startswith("["):
        yield from _elements(text, path)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InventoryError(f"{path}:{number}: is not JSON: {error}") from error


def _elements(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    at = text.index("[") + 1
    line = 1 + text.count("\n", 0, at)
    while True:
        start = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        line += text.count("\n", at, start)
        if start == len(text) or text[start] == "]":
            break
        try:
            value, at = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            where = error.lineno if isinstance(error, json.JSONDecodeError) else line
            raise InventoryError(f"{path}:{where}: is not JSON here: {error}") from error
        yield line, value
        line += text.count("\n", start, at)
    if text[start + 1 :].strip() or start == len(text):
        raise InventoryError(f"{path}:{line}: the array does not end as it should")


def _conversation(value: Any, form: str) -> Conversation:
    """One element in whichever form its keys show, which must be `form` unless that is auto."""
    if not isinstance(value, dict):
        raise Problem("is no JSON object")
    if isinstance(value.get("body"), dict):
        value = value["body"]
    key = next((name for name in KEYS if name in value), None)
    if key is None:
        raise Problem(f"has none of the keys {', '.join(KEYS)}, so its format is not known")
    if form not in ("auto", KEYS[key]):
        raise Problem(f"is of the format {KEYS[key]} (it has {key!r}), not {form}")
    if key == "prompt":
        return Conversation((Turn(_asked(value[key], key)),))
    if not isinstance(value[key], list):
        raise Problem(f"{key} is no list")
    if key == "turns":
        return _questions(value)
    said = _sharegpt(value[key]) if key == "conversations" else _openai(value[key])
    return _paired(list(said))


def _questions(value: Mapping[str, Any]) -> Conversation:
    given = value.get("reference")
    answers = given if isinstance(given, list) else []
    known = [answer if isinstance(answer, str) else "" for answer in answers]
    questions = [_asked(question, "turns") for question in value["turns"]]
    known += [""] * len(questions)
    return Conversation(tuple(map(Turn, questions, known)))


def _sharegpt(said: list[Any]) -> Iterator[tuple[str, str]]:
    for one in said:
        who = one.get("from") if isinstance(one, dict) else None
        if who not in (*_HUMAN, *_MODEL, "system"):
            raise Problem(f"conversations: 'from' is {who!r}, not human, gpt or system")
        role = "user" if who in _HUMAN else "assistant" if who in _MODEL else "system"
        yield role, _string(one.get("value"), "value")


def _openai(said: list[Any]) -> Iterator[tuple[str, str]]:
    for one in said:
        role = one.get("role") if isinstance(one, dict) else None
        if role not in ("user", "assistant", "system", "developer"):
            raise Problem(f"messages: 'role' is {role!r}, not user, assistant or system")
        content = one.get("content")
        if isinstance(content, list):
            parts = [part.get("text") if isinstance(part, dict) else None for part in content]
            content = "\n".join(_string(part, "content (text parts alone)") for part in parts)
        yield "system" if role == "developer" else str(role), _string(content, "content")


def _string(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise Problem(f"{name} is no text")
    return value


def _asked(value: Any, name: str) -> str:
    if not _string(value, name).strip():
        raise Problem(f"{name} holds an empty question")
    return str(value)


def _paired(said: list[tuple[str, str]]) -> Conversation:
    """Questions with the answers behind them; what is said before the first question is left out.

    Questions that follow each other are one, as are answers.
    """
    system = "\n".join(text for role, text in said if role == "system")
    turns: list[Turn] = []
    before = ""
    for role, text in said:
        if role == "system" or not text.strip() or (role == "assistant" and not turns):
            continue
        if role == before:
            last = turns[-1]
            joined = f"{last.question if role == 'user' else last.answer}\n{text}"
            turns[-1] = Turn(joined) if role == "user" else Turn(last.question, joined)
        elif role == "user":
            turns.append(Turn(text))
        else:
            turns[-1] = Turn(turns[-1].question, text)
        before = role
    return Conversation(tuple(turns), system)
