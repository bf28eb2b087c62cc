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
import re
from typing import List, NamedTuple, Optional, Pattern, Sequence, Tuple

from .event import as_dict, said_by

# Where a value that changes from event to event stands, by the name before it.
HOLE = re.compile(
    rb'"(?:content|reasoning_content|reasoning|text)": ?"(?P<text>(?:[^"\\]|\\.)*)"'
    rb'|"(?:total_tokens|reasoning_tokens|created)": ?(?P<number>\d+)(?![\d.eE])'
    rb'|"completion_tokens": ?(?P<count>\d+)(?![\d.eE])'
    rb'|"output_ids": ?\[(?P<ids>[\d, ]*)\]'
)
# What may stand there, as JSON has it.
NUMBER = rb"(?:0|[1-9]\d{0,17})"
KINDS = {
    "text": rb'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*',
    "count": NUMBER,
    "number": NUMBER,
    "ids": rb"(?:%s(?:, ?%s)*)?" % (NUMBER, NUMBER),
}
BEFORE, BEHIND = b"\r\ndata: ", b"\n\n\r\n"  # between the size of a chunk and JSON; after it
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

    def filled(self, text: bytes, number: bytes) -> bytes:
        """The JSON of such an event, with these values."""
        holes = [text if kind == "text" else number for kind in self.kinds]
        parts = itertools.chain.from_iterable(zip(self.alike, [*holes, b""]))
        return b"".join(parts)[len(BEFORE) : -len(BEHIND)]

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
        lengths = self._lengths(raw, found)
        if not all(lengths):
            found = found[: lengths.index(0)]
            lengths = lengths[: len(found)]
        if not found:
            return None
        columns = dict(zip(("size", *self.kinds), zip(*found)))
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
        """How long they are; 0 if one does not follow the one before it, or not of its size."""
        again = b"%b" + b"%b".join([alike.replace(b"%", b"%%") for alike in self.alike])
        fixed = sum(map(len, self.alike))
        told = {size: int(size, 16) + len(size) + 4 for size in {one[0] for one in found}}
        sizes = [told[one[0]] for one in found]
        lengths = [fixed + len(b"".join(one)) for one in found]
        values = tuple(itertools.chain.from_iterable(found))
        if lengths == sizes and raw.startswith(again * len(found) % values):
            return lengths
        at = 0
        for number, one in enumerate(found):
            if lengths[number] != sizes[number] or not raw.startswith(again % one, at):
                return [*lengths[:number], 0]
            at += lengths[number]
        return lengths


@functools.lru_cache(maxsize=256)
def pattern(kinds: Tuple[str, ...], lengths: Tuple[int, ...]) -> Pattern[bytes]:
    """Such a chunk: its size and what stands in the holes. What is between is not looked at."""
    alike = [b".{%d}" % length for length in lengths]
    holes = [b"(%s)" % KINDS[kind] for kind in kinds] + [b""]
    parts = itertools.chain.from_iterable(zip(alike, holes))
    return re.compile(b"([0-9a-fA-F]{1,7})" + b"".join(parts), re.DOTALL)


def sizes(texts: Sequence[bytes]) -> List[int]:
    """Characters of each; they are the insides of JSON strings. Raises UnicodeDecodeError."""
    joined = b"\0".join(texts)
    if joined.isascii() and b"\\" not in joined:
        return list(map(len, texts))
    return [len(json.loads('"%s"' % text)) for text in joined.decode("utf-8").split("\0")]


def learn(data: bytes) -> Optional[Form]:
    """The form of this event; None if it has no holes, or other values there say something else."""
    holes = [(str(hole.lastgroup), hole.span(hole.lastgroup or 0)) for hole in HOLE.finditer(data)]
    kinds = tuple(kind for kind, _ in holes)
    if not 0 < len(kinds) <= MOST_HOLES or max(kinds.count("text"), kinds.count("count")) > 1:
        return None
    starts = [0] + [end for _, (_, end) in holes]
    stops = [start for _, (start, _) in holes] + [len(data)]
    alike = [data[start:stop] for start, stop in zip(starts, stops)]
    alike[0], alike[-1] = BEFORE + alike[0], alike[-1] + BEHIND
    try:
        event = as_dict(json.loads(data.decode("utf-8")))
        if not event or event.get("error"):
            return None
        was = said_by(event)
        texts = "text" in kinds and not was.native  # of which the length counts
        so_far = None if "count" in kinds else was.so_far
        form = Form(tuple(alike), kinds, None if texts else was.characters, so_far)
        now = said_by(json.loads(form.filled(b"ab", b"7").decode("utf-8")))
    except (ValueError, RecursionError):
        return None
    # Other values must change what they stand for, and nothing else.
    wanted = (2 if texts else was.characters, 7 if "count" in kinds else was.so_far)
    return form if (now.characters, now.so_far) == wanted else None
