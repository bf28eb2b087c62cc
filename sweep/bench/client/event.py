"""What one event of a stream says, once its JSON is read. Pure."""

from __future__ import annotations

import functools
import json
import re
from typing import Any, Dict, List, NamedTuple, Optional

ID = re.compile(rb'"id": ?"[\w-]*"')
LONG = 4096  # bytes: an event of more is not remembered
TEXTS = ("content", "reasoning_content", "reasoning")


class Said(NamedTuple):
    """One event. `native`: of /generate, whose counts are totals so far, whatever its text is.

    `characters`: of text that it brought; `so_far`: tokens until now, None if it does not tell;
    `finish`, `usage`, `spec`: None or empty if it does not tell.
    """

    native: bool
    characters: int
    so_far: Optional[int]
    finish: Optional[str]
    usage: Dict[str, Any]
    spec: Dict[str, Any]


def read(data: bytes) -> Optional[Said]:
    """Reads the JSON of an event: None if it is an error. Raises ValueError, RecursionError.

    First and last events of answers differ in their id alone, which says nothing; so they are
    remembered without it.
    """
    return parsed.__wrapped__(data) if len(data) > LONG else parsed(ID.sub(b'"id":""', data, 1))


@functools.lru_cache(maxsize=64)
def parsed(data: bytes) -> Optional[Said]:
    event = json.loads(data.decode("utf-8"))
    return said_by(event) if isinstance(event, dict) and not event.get("error") else None


def said_by(event: Dict[str, Any]) -> Said:
    """Reads an event that is no error."""
    return native(as_dict(event["meta_info"])) if "meta_info" in event else openai(event)


def native(meta: Dict[str, Any]) -> Said:
    so_far = natural(meta.get("completion_tokens"))
    reason = meta.get("finish_reason")
    finish = str(reason.get("type")) if isinstance(reason, dict) else reason
    counts = {} if so_far is None else meta
    return Said(True, 0, so_far, finish if isinstance(finish, str) else None, counts, counts)


def openai(event: Dict[str, Any]) -> Said:
    characters = 0
    finish = None
    for choice in as_list(event.get("choices")):
        if isinstance(choice, dict):
            characters += text_length(choice)
            if isinstance(choice.get("finish_reason"), str):
                finish = choice["finish_reason"]
    usage = as_dict(event.get("usage"))
    so_far = natural(usage.get("completion_tokens"))
    spec = as_dict(as_dict(event.get("sglext")).get("spec_tokens_details"))
    return Said(False, characters, so_far, finish, usage, spec)


def text_length(choice: Dict[str, Any]) -> int:
    """Characters that a choice of a streamed chunk brought, of whatever kind."""
    length = 0
    delta = choice.get("delta")
    if isinstance(delta, dict):
        for name in TEXTS:
            if isinstance(delta.get(name), str):
                length += len(delta[name])
        for call in as_list(delta.get("tool_calls")):
            arguments = as_dict(as_dict(call).get("function")).get("arguments")
            length += len(arguments) if isinstance(arguments, str) else 0
    text = choice.get("text")
    return length + len(text) if isinstance(text, str) else length


def natural(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def as_dict(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> List[Any]:
    return value if isinstance(value, list) else []
