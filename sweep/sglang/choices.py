"""Values of flags that take only some: which one was meant, and which nobody knows. Pure.

A plugin or a release newer than ours may take more than the lists of `flags.txt`, so a value is
refused only where it is one of theirs with a slip of the finger in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from sweep.inventory import FlagValue
from sweep.sglang.flags import Flag, flags

# SGLang tells values apart by one letter of a short part (dsa and nsa, mha and mla), never of a
# long one.
_LONG = 5
_SHOWN = 8
_PART = re.compile(r"[-_]")


def meant(word: str, choices: Iterable[str]) -> str | None:
    """The one of `choices` that `word` is a slip of: `triton` for tritn, Triton, tirton.

    None for one of them, and for what resembles none enough: fa5 may be newer than fa4.
    """
    known = tuple(choices)
    return None if word in known else next((one for one in known if _is_slip(word, one)), None)


def unknown_values(args: Mapping[str, FlagValue]) -> Iterator[tuple[str, str]]:
    """Each flag of `args` that takes only some values, with one that no release we know takes."""
    for name, word in chosen(args):
        if word not in flags()[name].choices:
            yield name, word


def chosen(args: Mapping[str, FlagValue]) -> Iterator[tuple[str, str]]:
    """Each flag of `args` that takes only some values, with each word that it is given."""
    for name, value in args.items():
        if not _chooses(flags().get(name)):
            continue
        for word in value if isinstance(value, tuple) else (value,):
            if not isinstance(word, bool):
                yield name, str(word)


def some_choices(name: str) -> str:
    """The first values of a flag, for a message."""
    choices = flags()[name].choices
    return ", ".join(choices[:_SHOWN]) + (", ..." if len(choices) > _SHOWN else "")


def _chooses(flag: Flag | None) -> bool:
    return flag is not None and bool(flag.choices)


def _is_slip(word: str, known: str) -> bool:
    if _letters(word) == _letters(known):
        return True
    parts, wanted = _PART.split(word.lower()), _PART.split(known.lower())
    if len(parts) != len(wanted):
        return False
    wrong = [pair for pair in zip(parts, wanted, strict=True) if pair[0] != pair[1]]
    return len(wrong) == 1 and _part_slip(*wrong[0])


def _letters(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())


def _part_slip(part: str, known: str) -> bool:
    """One letter too many, too few, wrong, or two that changed places; with a number in it (as in
    float16 and bfloat16) it is never a slip."""
    if re.search(r"\d", part + known):
        return False
    start = next((i for i, (a, b) in enumerate(zip(part, known, strict=False)) if a != b), None)
    at = min(len(part), len(known)) if start is None else start
    if part[at : at + 2] == known[at : at + 2][::-1] and part[at + 2 :] == known[at + 2 :]:
        return True
    pairs = ((at + 1, at + 1), (at + 1, at), (at, at + 1))
    return len(known) >= _LONG and any(part[i:] == known[j:] for i, j in pairs)
