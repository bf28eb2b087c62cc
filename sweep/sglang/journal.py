"""The scraper: what the journal of a launch says about the server that was started.

Pure: bytes in, a `Scrape` out. It never raises, whatever the bytes, and takes linear time: what is
looked for is searched in the whole text, never line by line (100 MB of decode lines took 5 s on one
core, as much of anything else 1 to 2 s). Of several launches in one file the last one counts, and
only it: the numbers of the launch before are never returned.

The line with the capacity is printed once by each scheduler with tp_rank 0, by every TP rank in
0.4.3 (srt/managers/scheduler.py in every version to 0.5.23):
`max_total_num_tokens=181721, chunked_prefill_size=8192, max_prefill_tokens=16384,
max_running_requests=48, context_len=196608, available_gpu_mem=7.74 GB`
Both numbers are those of one DP worker: TP ranks and PP stages repeat them, DP ranks add up.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TypeVar

from sweep.sglang.failures import in_log
from sweep.sglang.launches import Launch, last_launch
from sweep.sglang.lines import BLOB, HEADER, find_all, is_logged
from sweep.sglang.resolved import Value

_CAPACITY = re.compile(
    rb"max_total_num_tokens=(\d{1,15}), (?:[a-z_]{1,40}=[^,\s]{1,40}, ){0,8}?"
    rb"max_running_requests=(\d{1,15})\b"
    rb"(?:, context_len=(\d{1,15}))?(?:, available_[a-z]{3}_mem=([\d.]{1,15}) GB)?"
)
_DECODE_HEAD = re.compile(rb"Decode batch(?: \[\d{1,15}\])?[.,] (?=#running-req: )")
_TIMINGS = re.compile(rb"([a-z_0-9]{1,40})=(\d{1,9}\.\d+)")
_VERSION = re.compile(rb"(?i)\bsglang(?:[ _-]?version)?(?:: |[ =:v]|==)+(\d+\.\d+\.\d+[\w.]{0,20})")
_SUPPRESSED = re.compile(rb"Suppressed (\d{1,12}) messages? from \S")
_DECODE_LONGEST = 1200

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class Rank:
    """One scheduler that printed its capacity. `prefix` as printed: `DP0 TP0`, '' for a single one.

    Both numbers are of its DP worker. `dp` is its DP rank, None without data parallelism.
    """

    prefix: str
    dp: int | None
    max_running_requests: int
    max_total_num_tokens: int
    context_len: int | None
    available_gpu_mem_gb: float | None


@dataclass(frozen=True, slots=True)
class Decode:
    """One decode line: its numbers cover the interval since the line before (40 steps).

    `time` is the server's local time, `rank` the prefix. `accept_len` counts the bonus token;
    `accept_rate` is as printed, whose meaning changed in 0.5.5 and 0.5.11: derive it instead.
    The first line after idle has a far too low `gen_throughput` (tok/s): its interval was idle too.
    """

    time: str
    rank: str
    running: int | None
    queue: int | None
    tokens: int | None
    token_usage: float | None
    mamba_usage: float | None
    accept_len: float | None
    accept_rate: float | None
    gen_throughput: float | None


@dataclass(frozen=True)
class Scrape:
    """What the last launch in a log said. None: not said, or not complete.

    `max_running_requests` and `max_total_num_tokens` are sums over DP ranks, as the CSV holds
    them; `available_gpu_mem_gb` the least of any rank. The `speculative_*` values, `dp_size` and
    `model_path` are resolved ones. `ready`: the server said so (it may have failed afterwards).
    `failure` is one of `rows.FAILURES`. `retractions` counts the times the KV pool was full,
    `blobs` the messages that journalctl hid (`--all` or `-o cat` shows them), `suppressed` those
    that journald dropped for being too many, `launches` those in the log. `startup_s` are SGLang's
    own timings in seconds (0.5.17 and newer).
    """

    max_running_requests: int | None
    max_total_num_tokens: int | None
    ranks: tuple[Rank, ...]
    context_len: int | None
    available_gpu_mem_gb: float | None
    speculative_algorithm: str | None
    speculative_num_steps: int | None
    speculative_eagle_topk: int | None
    speculative_num_draft_tokens: int | None
    dp_size: int | None
    model_path: str | None
    sglang_version: str | None
    startup_s: Mapping[str, float]
    ready: bool
    failure: str | None
    failure_detail: str | None
    retractions: int
    blobs: int
    suppressed: int
    launches: int
    decode: tuple[Decode, ...]

    def as_json(self) -> dict[str, object]:
        """A JSON object with the same names; `ranks` and `decode` are lists of objects."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["startup_s"] = dict(self.startup_s)
        values["ranks"] = [_object(rank) for rank in self.ranks]
        values["decode"] = [_object(line) for line in self.decode]
        return values


def scrape(data: bytes) -> Scrape:
    """Read a log in any form `sweep.sglang.lines` knows."""
    launch = last_launch(data)
    text, args = launch.text, launch.args
    ranks = tuple(_ranks(text))
    failure = in_log(launch)
    return Scrape(
        max_running_requests=_total(args, {r: r.max_running_requests for r in ranks}),
        max_total_num_tokens=_total(args, {r: r.max_total_num_tokens for r in ranks}),
        ranks=ranks,
        context_len=_least(rank.context_len for rank in ranks),
        available_gpu_mem_gb=_least(rank.available_gpu_mem_gb for rank in ranks),
        speculative_algorithm=_text(args, "speculative_algorithm"),
        speculative_num_steps=_integer(args, "speculative_num_steps"),
        speculative_eagle_topk=_integer(args, "speculative_eagle_topk"),
        speculative_num_draft_tokens=_integer(args, "speculative_num_draft_tokens"),
        dp_size=_integer(args, "dp_size"),
        model_path=_text(args, "model_path"),
        sglang_version=_version(text),
        startup_s=_startup(text),
        ready=launch.ready_at is not None,
        failure=failure.kind if failure else None,
        failure_detail=failure.detail if failure else None,
        retractions=text.count(b"#retracted_reqs: "),
        blobs=len(BLOB.findall(text)) if b" blob data]" in text else 0,
        suppressed=_suppressed(text),
        launches=launch.count,
        decode=tuple(_decode(launch)),
    )


def scrape_json(data: bytes) -> str:
    """What `sweep scrape` prints: the scrape as one JSON object, indented, ending in a newline."""
    return json.dumps(scrape(data).as_json(), indent=2, allow_nan=False) + "\n"


def _ranks(text: bytes) -> Iterator[Rank]:
    """The last capacity line of each scheduler, DP ranks in order."""
    found: dict[str, Rank] = {}
    for position in find_all(text, b"max_total_num_tokens="):
        line = _CAPACITY.match(text, position)
        if not line or (position and text[position - 1 : position].isalnum()):
            continue
        _, prefix = _header(text, position)
        dp = re.search(r"(?<!\S)DP(\d{1,6})", prefix)
        found[prefix] = Rank(
            prefix=prefix,
            dp=int(dp[1]) if dp else None,
            max_running_requests=int(line[2]),
            max_total_num_tokens=int(line[1]),
            context_len=int(line[3]) if line[3] else None,
            available_gpu_mem_gb=_float(line[4]),
        )
    yield from sorted(found.values(), key=lambda rank: (rank.dp or 0, rank.prefix))


def _header(text: bytes, position: int) -> tuple[str, str]:
    """(time, rank prefix) of the record whose message begins at `position`."""
    start = max(0, position - 120)
    header = None
    for header in HEADER.finditer(text, start, position):  # noqa: B007  the last one counts
        pass
    if header is None or header.end() != position:
        return "", ""
    return header["time"].decode(), header["ranks"].decode().strip()


def _total(args: Mapping[str, Value], numbers: Mapping[Rank, int]) -> int | None:
    """The sum over DP ranks, None unless every one of them is known.

    With DP attention only DP0 prints, and all have the same: SGLang takes the least of the group
    (srt/mem_cache, 0.5.23) and divides the requests evenly.
    """
    of_dp: dict[int | None, int] = {}
    for rank, number in numbers.items():
        of_dp[rank.dp] = min(number, of_dp.get(rank.dp, number))
    if not of_dp:
        return None
    size = _integer(args, "dp_size") or 1
    missing = size - len(of_dp)
    if missing <= 0:
        return sum(of_dp.values())
    if args.get("enable_dp_attention") is True:
        return sum(of_dp.values()) + missing * min(of_dp.values())
    return None


def _decode(launch: Launch) -> Iterator[Decode]:
    """Formats from 0.4.3 to 0.5.23: `Decode batch. ` or `Decode batch, `, also ` [iteration]`.

    Hybrid models have `#full token` with `mamba num` or `#swa token` in place of `#token`.
    """
    text = launch.text
    for position in find_all(text, b"Decode batch"):
        head = _DECODE_HEAD.match(text, position)
        if not head:
            continue
        found = _pairs(text[head.end() : head.end() + _DECODE_LONGEST])
        time, rank = _header(text, position)
        yield Decode(
            time=time,
            rank=rank,
            running=_int(found.get(b"#running-req")),
            queue=_int(found.get(b"#queue-req")),
            tokens=_int(found.get(b"#token", found.get(b"#full token"))),
            token_usage=_float(found.get(b"token usage", found.get(b"full token usage"))),
            mamba_usage=_float(found.get(b"mamba usage")),
            accept_len=_float(found.get(b"accept len")),
            accept_rate=_float(found.get(b"accept rate")),
            gen_throughput=_float(found.get(b"gen throughput (token/s)")),
        )


def _pairs(line: bytes) -> dict[bytes, bytes]:
    """`a: 1, b: 2` up to the end of the line, or to a record glued behind it."""
    line = line.partition(b"\n")[0].partition(b"[2")[0]
    pairs = (pair.partition(b": ") for pair in line.split(b", "))
    return {name: value.strip(b" ,") for name, _, value in pairs}


def _startup(text: bytes) -> dict[str, float]:
    """`Engine startup timings (s): load_weight=…, cuda_graph={decode=…}, …`, the phases flat."""
    at = text.rfind(b"Engine startup timings (s): ")
    if at < 0:
        return {}
    end = text.find(b"\n", at, at + _DECODE_LONGEST)
    line = text[at : at + _DECODE_LONGEST if end < 0 else end]
    before, _, rest = line.partition(b"cuda_graph={")
    graphs, _, after = rest.partition(b"}")
    phases = [("", before), ("cuda_graph_", graphs), ("", after)]
    return {
        prefix + name.decode(): float(value)
        for prefix, part in phases
        for name, value in _TIMINGS.findall(part)
    }


def _version(text: bytes) -> str | None:
    """Only where something printed it (a container's entry point, pip): SGLang itself does not."""
    found = _VERSION.search(text, 0, 64 * 1024)
    return found[1].decode().rstrip(".") if found else None


def _suppressed(text: bytes) -> int:
    """`Suppressed 1433 messages from sglang.service`, journald's own words since 208."""
    found = 0
    for position in find_all(text, b"Suppressed "):
        said = _SUPPRESSED.match(text, position)
        if said and not is_logged(text, position):
            found += int(said[1])
    return found


def _integer(args: Mapping[str, Value], name: str) -> int | None:
    value = args.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(args: Mapping[str, Value], name: str) -> str | None:
    value = args.get(name)
    return value if isinstance(value, str) else None


def _int(text: bytes | None) -> int | None:
    return int(text) if text and text.isdigit() and len(text) < 19 else None


def _float(text: bytes | None) -> float | None:
    try:
        value = float(text or b"")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _least(numbers: Iterable[_Number | None]) -> _Number | None:
    return min((number for number in numbers if number is not None), default=None)


def _object(value: Rank | Decode) -> dict[str, object]:
    return {name: getattr(value, name) for name in type(value).__slots__}
