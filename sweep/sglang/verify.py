"""Is the server that answers the one that was meant, and how much does it admit?

Pure: what was expected, what the journal said and what `/server_info` returned, compared. A wrong
server is never measured: an old one that still holds the port, or one whose SGLang changed a flag.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweep.errors import LaunchError
from sweep.sglang.args import same_algorithm
from sweep.sglang.journal import Rank, Scrape

_ALGORITHM = "speculative_algorithm"
_SPECULATION = (
    "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens",
)  # fmt: skip
# Every release since 0.4.3 has these: a server without them is no SGLang.
_ALWAYS = (_ALGORITHM, *_SPECULATION, "model_path", "tp_size", "dp_size")


@dataclass(frozen=True)
class Capacity:
    """How much the server admits, summed over DP ranks; None where nobody says it.

    `flags` holds `journal_incomplete` where the journal lacked a number, or says that it lacks
    lines; `gaps` says the same in words.
    """

    max_running_requests: int | None
    max_total_num_tokens: int | None
    dp_size: int
    flags: frozenset[str]
    gaps: str = field(default="", compare=False)


def mismatches(expected: Mapping[str, object], info: Mapping[str, Any]) -> tuple[str, ...]:
    """What `/server_info` says otherwise, one sentence each; empty for the right server.

    `expected` is what `sweep.sglang.args.expected` gives for a launch. Aliases agree
    (NEXTN = EAGLE = FROZEN_KV_MTP), and without an algorithm the other speculative values mean
    nothing: 0.4.3 shows defaults there. A swept flag the server does not name cannot be compared.
    """
    wrong = []
    off = not expected.get(_ALGORITHM)
    for name, wanted in expected.items():
        if name == _ALGORITHM and name in info:
            agrees = same_algorithm(info[name], wanted)
        elif off and name in _SPECULATION:
            agrees = True
        elif name in info:
            agrees = _same(name, wanted, info)
        else:
            agrees = name not in _ALWAYS
        if not agrees:
            actual = repr(info[name]) if name in info else "not there"
            wrong.append(f"{name} is {actual}, expected {wanted!r}")
    return tuple(wrong)


def capacity(found: Scrape, info: Mapping[str, Any] | None) -> Capacity:
    """The journal's numbers, cross-checked with `/server_info`.

    `internal_states[i].effective_max_running_requests_per_dp` is there from 0.5.8.post1, its
    `memory_usage.token_capacity` from 0.4.9, `max_total_num_tokens` (of DP rank 0) always; they
    stand in for a journal that lacks the numbers. `internal_states` comes in the order of arrival
    (srt/managers/communicator.py, handle_recv, 0.5.23), so ranks are compared without regard to it.
    Raises LaunchError wrong_configuration when both are there and differ.
    """
    info = info or {}
    dp_size = _int(info.get("dp_size")) or found.dp_size or 1
    states = [state for state in _list(info.get("internal_states")) if isinstance(state, Mapping)]
    requests = [_int(state.get("effective_max_running_requests_per_dp")) for state in states]
    pools = [_int(_mapping(state.get("memory_usage")).get("token_capacity")) for state in states]
    per_dp = _per_dp(found.ranks)
    _agree("max_running_requests", [rank.max_running_requests for rank in per_dp], requests)
    first = _int(info.get("max_total_num_tokens"))
    rank0 = [rank.max_total_num_tokens for rank in per_dp if not rank.dp]
    _agree("max_total_num_tokens", rank0, [first])

    same_pools = dp_size == 1 or info.get("enable_dp_attention") is True
    tokens = _sum(pools, dp_size)
    if tokens is None and first is not None and same_pools:
        tokens = first * dp_size
    gaps = _gaps(found)
    return Capacity(
        max_running_requests=_either(found.max_running_requests, _sum(requests, dp_size)),
        max_total_num_tokens=_either(found.max_total_num_tokens, tokens),
        dp_size=dp_size,
        flags=frozenset({"journal_incomplete"} if gaps else ()),
        gaps=gaps,
    )


def _gaps(found: Scrape) -> str:
    """What the journal lacks, in words; empty when it is whole as far as can be seen."""
    gaps = []
    if found.max_running_requests is None or found.max_total_num_tokens is None:
        gaps.append("it does not say how much the server admits")
    if found.suppressed:
        gaps.append(f"journald suppressed {found.suppressed} messages (rate limiting)")
    return "; ".join(gaps)


def _per_dp(ranks: Sequence[Rank]) -> list[Rank]:
    """One rank for each DP rank, rank 0 first: TP ranks and PP stages repeat it."""
    first: dict[int | None, Rank] = {}
    for rank in ranks:
        first.setdefault(rank.dp, rank)
    return list(first.values())


def _agree(name: str, journal: Sequence[int], server: Sequence[int | None]) -> None:
    """Every number of the journal must be one that the server gives too."""
    given = [number for number in server if number is not None]
    if not given or len(given) < len(server):
        return
    extra = Counter(journal) - Counter(given)
    if extra:
        raise LaunchError(
            "wrong_configuration",
            f"{name}: the journal says {_shown(journal)}, the server that answers {_shown(given)}",
        )


def _shown(numbers: Sequence[int]) -> str:
    return " and ".join(str(number) for number in sorted(numbers))


def _same(field: str, wanted: object, info: Mapping[str, Any]) -> bool:
    actual = info[field]
    if field == "chunked_prefill_size" and info.get("enable_dp_attention") is True:
        # Releases to 0.5.9 overwrite it with the share of one DP rank.
        share = (_int(wanted) or 0) // (_int(info.get("dp_size")) or 1)
        return _equal(wanted, actual) or _equal(share, actual)
    if field == "model_path":
        return _same_path(str(wanted), str(actual))
    return wanted == "auto" or _equal(wanted, actual)


def _same_path(wanted: str, actual: str) -> bool:
    """Also where a hub's name was replaced by the directory it was loaded to."""
    wanted, actual = wanted.rstrip("/"), actual.rstrip("/")
    cached = f"/models--{wanted.replace('/', '--')}/"
    return (
        wanted == actual
        or (not wanted.startswith("/") and actual.endswith(f"/{wanted}"))
        or (bool(wanted) and cached in actual)
    )


def _equal(wanted: object, actual: object) -> bool:
    if isinstance(wanted, (list, tuple)):
        return (
            isinstance(actual, (list, tuple))
            and len(wanted) == len(actual)
            and all(_equal(one, other) for one, other in zip(wanted, actual, strict=True))
        )
    if isinstance(wanted, bool) or isinstance(actual, bool):
        return wanted is actual
    if isinstance(wanted, (int, float)) and isinstance(actual, (int, float)):
        return math.isclose(wanted, actual, rel_tol=1e-9)
    return wanted == actual or (wanted is not None and str(wanted) == str(actual))


def _sum(numbers: Sequence[int | None], dp_size: int) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) == dp_size else None


def _either(one: int | None, other: int | None) -> int | None:
    return other if one is None else one


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
