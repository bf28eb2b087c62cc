"""Reads events that differ in their text and counts alone, without JSON for each of them. Pure.

Nearly all events of an answer are alike byte for byte, but for the text, the counts of tokens and
the size of their chunk. Such a form is learnt from one event, and only if JSON says that other
values at these places are just that: another text, another count. What has another form is left
to JSON.
"""

from __future__ import annotations

import functools
import itertools
import json
import operator
import re
from typing import Any, Dict, List, NamedTuple, Optional, Pattern, Sequence, Tuple

from .event import as_dict, said_by
from .wire import BEFORE, BEHIND, CHUNK

NUMBER = rb"(?:0|[1-9]\d{0,17})"
# Where a value stands that changes from event to event, or (ONCE) from answer to answer, by the
# name before it.
HOLE = re.compile(
    rb'"(?:content|reasoning_content|reasoning|text)": ?"(?P<text>(?:[^"\\]|\\.)*)"'
    rb'|"(?:total_tokens|reasoning_tokens|created)": ?(?P<number>\d+)(?![\d.eE])'
    rb'|"completion_tokens": ?(?P<count>\d+)(?![\d.eE])'
    rb'|"output_ids": ?\[(?P<ids>[\d, ]*)\]'
    rb'|"id": ?"(?P<name>[\w-]*)"'
    rb'|"(?:prompt_tokens|cached_tokens)": ?(?P<size>%s)(?![\d.eE])' % NUMBER
)
ONCE = ("name", "size")
# What may stand there, as JSON has it.
KINDS = {
    "text": rb'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*',
    "count": NUMBER,
    "number": NUMBER,
    "ids": rb"(?:%s(?:, ?%s)*)?" % (NUMBER, NUMBER),
}
MOST_HOLES = 8
WINDOW = 1 << 16


class Run(NamedTuple):
    """Events one after the other that have one form, each in a chunk of its own.

    `ends`: of their chunks in the raw bytes; `last`: the JSON of the last one.
    """

    ends: List[int]
    characters: List[int]
    so_far: List[Optional[int]]
    last: bytes


class Form(NamedTuple):
    """What is alike, `alike[i]` before the hole i, and of what kind the holes are.

    `characters`, `so_far`: what all its events say; None: what their hole says, if there is one.
    """

    alike: Tuple[bytes, ...]
    kinds: Tuple[str, ...]
    characters: Optional[int]
    so_far: Optional[int]

    def run(self, raw: bytes, at: int) -> Optional[Run]:
        """The events of this form that stand in `raw` from `at` on; None if none does."""
        lengths: List[int] = []
        characters: List[int] = []
        so_far: List[Optional[int]] = []
        end, over = at, False
        while not over:
            over = end + WINDOW >= len(raw)
            found = self._found(raw[end : end + WINDOW])
            if not found:
                break
            lengths += found[0]
            characters += found[1]
            so_far += found[2]
            end += sum(found[0])
        if not lengths:
            return None
        ends = [at + passed for passed in itertools.accumulate(lengths)]
        first = raw.index(BEFORE, end - lengths[-1]) + len(BEFORE)
        return Run(ends, characters, so_far, raw[first : end - len(BEHIND)])

    def _found(self, raw: bytes) -> Optional[Tuple[List[int], List[int], List[Optional[int]]]]:
        """Lengths with the chunk, characters and tokens of the events that `raw` begins with."""
        found = pattern(self.kinds, tuple(map(len, self.alike))).findall(raw)
        if found and not found[-1][0]:
            found.pop()
        lengths = self._lengths(raw, found)
        found = found[: len(lengths)]
        if not found:
            return None
        columns = dict(zip(self.kinds, list(zip(*found))[1:]))
        so_far = [self.so_far] * len(found)
        if "count" in columns:
            so_far = list(map(int, columns["count"]))
        try:
            texts = sizes(columns.get("text", ()))
        except UnicodeDecodeError:
            return None
        characters = texts if self.characters is None else [self.characters] * len(found)
        return lengths, characters, so_far

    def _lengths(self, raw: bytes, found: List[Tuple[bytes, ...]]) -> List[int]:
        """How long they are, up to the first that is not what was found, or not of its size."""
        form = b"%b" + b"%b".join([alike.replace(b"%", b"%%") for alike in self.alike])
        again = list(map(form.__mod__, found))
        lengths = list(map(len, again))
        chunks = list(map(operator.itemgetter(0), found))
        told = {chunk: int(chunk, 16) + len(chunk) + 4 for chunk in set(chunks)}
        sizes = list(map(told.__getitem__, chunks))
        if lengths == sizes and raw.startswith(b"".join(again)):
            return lengths
        at = 0
        for number, event in enumerate(again):
            if lengths[number] != sizes[number] or not raw.startswith(event, at):
                return lengths[:number]
            at += len(event)
        return lengths


@functools.lru_cache(maxsize=256)
def pattern(kinds: Tuple[str, ...], lengths: Tuple[int, ...]) -> Pattern[bytes]:
    """Such a chunk: its size and what stands in the holes. What is between is not looked at.

    What comes behind the last one is found as a whole, with nothing in it: looking for more chunks
    there would take longer than all else.
    """
    alike = [b".{%d}" % length for length in lengths]
    holes = [b"(%s)" % KINDS[kind] for kind in kinds] + [b""]
    parts = itertools.chain.from_iterable(zip(alike, holes))
    return re.compile(b"([0-9a-fA-F]{1,7})" + b"".join(parts) + b"|.+", re.DOTALL)


def sizes(texts: Sequence[bytes]) -> List[int]:
    """Characters of each; they are the insides of JSON strings. Raises UnicodeDecodeError."""
    joined = b'","'.join(texts)
    if joined.isascii() and b"\\" not in joined:
        return list(map(len, texts))
    return list(map(len, json.loads('["%s"]' % joined.decode("utf-8"))))


def learn(raw: bytes, at: int) -> Optional[Form]:
    """The form of the event whose chunk begins there.

    None if it has no holes, or other values there say something else.
    """
    chunk = CHUNK.match(raw, at)
    if chunk is None or chunk.end() - at > WINDOW:
        return None
    at, end = chunk.span(2)
    general: List[bytes] = []  # of all answers of this server
    kinds: List[str] = []
    alike = [BEFORE]  # of this one
    changing: List[str] = []
    for hole in HOLE.finditer(raw, at, end):
        kind = str(hole.lastgroup)
        kinds.append(kind)
        general.append(raw[at : hole.start(kind)])
        alike[-1] += general[-1]
        if kind in ONCE:
            alike[-1] += hole[kind]
        else:
            alike.append(b"")
            changing.append(kind)
        at = hole.end(kind)
    known = meaning((*general, raw[at:end]), tuple(kinds))
    alike[-1] += raw[at:end] + BEHIND
    return Form(tuple(alike), tuple(changing), *known) if known else None


@functools.lru_cache(maxsize=64)
def meaning(
    alike: Tuple[bytes, ...], kinds: Tuple[str, ...]
) -> Optional[Tuple[Optional[int], Optional[int]]]:
    """Characters and tokens so far that all such events say; None: what their hole says.

    None for both if other values there do not change what they stand for, or something else too.
    """
    holes = len(kinds) - sum(map(kinds.count, ONCE))
    if not 0 < holes <= MOST_HOLES or max(kinds.count("text"), kinds.count("count")) > 1:
        return None
    try:
        one, other = filled(alike, kinds, b"a", b"1"), filled(alike, kinds, b"abc", b"7")
    except (ValueError, RecursionError):
        return None
    if not one or not other or one.get("error"):
        return None
    was, now = said_by(one), said_by(other)
    texts = "text" in kinds and not was.native
    characters = None if texts else was.characters
    so_far = None if "count" in kinds else was.so_far
    for said, size, count in ((was, 1, 1), (now, 3, 7)):
        wanted = size if texts else was.characters, count if "count" in kinds else was.so_far
        if (said.characters, said.so_far) != wanted:
            return None
    return characters, so_far


def filled(
    alike: Tuple[bytes, ...], kinds: Tuple[str, ...], text: bytes, number: bytes
) -> Dict[str, Any]:
    """Such an event, with these values; ValueError if it is not JSON."""
    holes = [text if kind in ("text", "name") else number for kind in kinds]
    parts = itertools.chain.from_iterable(zip(alike, [*holes, b""]))
    return as_dict(json.loads(b"".join(parts).decode("utf-8")))
