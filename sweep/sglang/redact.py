"""Secrets out of everything that is stored: server_info, journals, single lines of evidence.

`/server_info` returns every argument and the whole command line (`launch_command`), the
`server_args=` line prints them all, and SGLang hides only its watermark keys
(srt/sampling/watermarking/core.py, 0.5.23): an `--api-key` would stand in each stored file.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping

MASK = "[redacted]"

_NAME = (
    r"(?:api[_-]?key|access[_-]?key|secret(?:[_-]?key)?|passw(?:or)?d|passphrase|token"
    r"|credentials?)"
)
_SECRET_KEY = re.compile(
    r"(?:key|secret|passw(?:or)?d|passphrase|token|credentials?|authorization)$"
)
_QUOTED = r"'(?:[^'\\\n]|\\.){0,4096}'|\"(?:[^\"\\\n]|\\.){0,4096}\""
_PLAIN = r"(?!None\b|True\b|False\b|[\d.]+\b|\[redacted\])[^\s)}\]'\"]+"

# (what it looks like, what stays of it). No pattern begins with a repeat: linear on any input.
_PATTERNS: tuple[tuple[re.Pattern[bytes], bytes], ...] = tuple(
    (re.compile(pattern.encode()), kept.encode() + MASK.encode())
    for pattern, kept in (
        # --api-key X, --api-key=X: one word of a shell
        (rf"(?i)(--[\w-]{{0,40}}?{_NAME}(?:=|\s{{1,8}}))(?!-)(?:{_QUOTED}|[^\s'\"])+", r"\1"),
        # 'api_key': 'X', api_key="X": quoted, so that `#token: 12` keeps its number
        (rf"(?i)({_NAME}['\"]?\s{{0,2}}[:=]\s{{0,2}})(?:{_QUOTED})", r"\1"),
        # HF_TOKEN=X, password=X: not a number or a constant
        (rf"(?i)({_NAME}=){_PLAIN}", r"\1"),
        (r"(?i)(\bbearer )(?!\[redacted\])[\w.~+/=-]{4,}", r"\1"),
        (r"(://[^\s:/@]{1,100}:)(?!\[redacted\])[^\s/@]{1,200}(?=@)", r"\1"),
        # no underscore after hf_: hf_chat_template_name is an argument of SGLang
        (r"\b(?:hf_|ghp_|gho_)[A-Za-z0-9]{16,}", ""),
        (r"\b(?:sk-|nvapi-|github_pat_|xox[bp]-)[A-Za-z0-9_-]{16,}", ""),
        (r"\bAKIA[A-Z0-9]{16}\b", ""),
    )
)


def redact(info: Mapping[str, object], secrets: Iterable[str] = ()) -> dict[str, object]:
    """A copy of /server_info, or of any JSON object, without secrets.

    Masks text under a name like api_key or HF_TOKEN at any depth, what looks like a secret inside
    any other text, and the given `secrets` wherever they stand.
    """
    known = _spellings(secrets)
    return {str(key): _value(str(key), value, known) for key, value in info.items()}


def redact_text(data: bytes, secrets: Iterable[str] = ()) -> bytes:
    """A journal, or any text, without secrets; everything else stays byte for byte."""
    return _patterns(_known(data, _spellings(secrets)))


def redact_line(line: str) -> str:
    """One line of evidence without what looks like a secret."""
    return _patterns(line.encode("utf-8", "replace")).decode("utf-8", "replace")


def _value(key: str, value: object, known: tuple[bytes, ...]) -> object:
    if isinstance(value, Mapping):
        return {str(name): _value(str(name), item, known) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(key, item, known) for item in value]
    if not isinstance(value, str) or not value:
        return value
    if _SECRET_KEY.search(key.lower()):
        return MASK
    return _patterns(_known(value.encode("utf-8", "replace"), known)).decode("utf-8", "replace")


def _patterns(data: bytes) -> bytes:
    for pattern, kept in _PATTERNS:
        data = pattern.sub(kept, data)
    return data


def _known(data: bytes, known: tuple[bytes, ...]) -> bytes:
    for secret in known:
        data = data.replace(secret, MASK.encode())
    return data


def _spellings(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """Each secret as it is and as repr, JSON and the shell write it, the longest first.

    Shorter than four characters it is left to the patterns: it would tear numbers and words apart.
    """
    forms = {
        form.encode("utf-8", "replace")
        for secret in secrets
        if len(secret) >= 4
        for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], shlex.quote(secret))
    }
    return tuple(sorted(forms, key=len, reverse=True))
