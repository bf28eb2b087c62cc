"""From the client's result to the measured columns of a row. Every definition stands here.

A request is ok when its answer came whole and said how many tokens it has (`client.answer`).
Only ok requests enter rates and times; the window and the requests in flight count every request
that was sent. Tokens are those of the server's `usage`, never a count of chunks.

    wall_s                first send to the last end
    agg_tok_s             tokens / wall_s
    per_req_tok_s         mean over requests of tokens / (end - sent)
    decode_tok_s          mean over requests of (tokens - 1) / (end - first)
    steady_tok_s          tokens that arrive while at least C requests are in flight / that time
    ttft                  first - sent; `first` is the first text, an empty role chunk is none
    tpot                  (end - first) / (tokens - 1)
    itl                   per token: the gap before an event, divided among its tokens
    itl_chunk             per event: the gap before it
    e2e                   end - sent
    concurrency_achieved  mean over time of the requests in flight, first send to last end
    accept_length         tokens / verify steps: the bonus token included, at least 1
    accept_rate           accepted / proposed drafts, bonus excluded: from the server's counts, else
                          (accept_length - 1) / (draft tokens - 1)
    client_cpu            CPU seconds per second of its busiest process; 1.0 is its end
    client_lag_ms_p99     from the kernel's time stamp of a read to the moment of reading

Percentiles interpolate linearly between the two nearest ranks, as numpy and pandas do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from sweep.bench.flight import Request, empty_places, sent_ones, steady
from sweep.bench.verdicts import Evidence, verdicts
from sweep.rows import MEASURED, Cell

__all__ = [
    "Measurement", "Request", "acceptance", "empty_places", "failures", "measure", "percentile",
    "steady", "with_acceptance",
]  # fmt: skip


@dataclass(frozen=True)
class Measurement:
    """What one trial measured.

    `values` holds columns of `rows.MEASURED` (None: unknown), `flags` words of `rows.FLAGS`,
    `requests` the client's records (`client.answer.record`), `window` the first send and last end
    in seconds of CLOCK_REALTIME, `evidence` whatever else the backend keeps beside the row.
    """

    values: Mapping[str, Cell]
    flags: frozenset[str] = frozenset()
    requests: tuple[Request, ...] = ()
    window: tuple[float, float] | None = None
    evidence: Mapping[str, object] | None = None

    @property
    def verdicts(self) -> dict[str, str]:
        """Flag -> what was seen, as far as rules over the evidence found it."""
        found = (self.evidence or {}).get("verdicts")
        return found if isinstance(found, dict) else {}


def measure(
    result: Mapping[str, Any],
    *,
    steps: int = 0,
    draft_tokens: int | None = None,
    admitted: int | None = None,
) -> Measurement:
    """The measured columns of one trial of the client.

    `steps` is speculative_num_steps (0: none), `draft_tokens` speculative_num_draft_tokens,
    `admitted` max_running_requests over all DP ranks.
    """
    requests: tuple[Request, ...] = tuple(result["requests"])
    good = [request for request in requests if request["error"] is None]
    values: dict[str, Cell] = dict.fromkeys(MEASURED)
    values |= {"requests": len(requests), "requests_ok": len(good)}
    values["output_tokens"] = sum(request["tokens_out"] for request in good)
    values |= rates(requests, int(result["concurrency"]))
    values |= latencies(good)
    if steps > 0:
        values |= acceptance(result, good, draft_tokens)
    client = result["client"]
    if client is not None:
        values |= {"client_cpu": client["cpu"], "client_lag_ms_p99": client["lag_ms_p99"]}
    concurrency = int(result["concurrency"])
    found = verdicts(Evidence(concurrency, steps, requests, values, client, admitted))
    started, ended = result["started"], result["ended"]
    return Measurement(
        values=values,
        flags=frozenset(found),
        requests=requests,
        window=None if started is None else (started, ended),
        evidence={key: value for key, value in result.items() if key != "requests"}
        | {"verdicts": found},
    )


def with_acceptance(
    measurement: Measurement, accept_length: float, source: str, draft_tokens: int | None
) -> Measurement:
    """The same measurement with an acceptance length from elsewhere, such as the journal."""
    values = dict(measurement.values) | {
        "accept_length": accept_length,
        "accept_rate": strict_rate(accept_length, draft_tokens),
        "accept_source": source,
    }
    return replace(measurement, values=values, flags=measurement.flags - {"no_acceptance_data"})


def rates(requests: Sequence[Request], concurrency: int) -> dict[str, Cell]:
    """Throughput and the requests in flight."""
    sent = sent_ones(requests)
    good = [request for request in sent if request["error"] is None]
    if not good:
        return {}
    wall = max(request["end"] for request in sent) - min(request["sent"] for request in sent)
    tokens = sum(request["tokens_out"] for request in good)
    times = [(request, request["end"] - request["sent"]) for request in good]
    decoding = [request for request in good if is_decoding(request)]
    return {
        "wall_s": wall / 1e6,
        "agg_tok_s": tokens / wall * 1e6,
        "per_req_tok_s": mean([request["tokens_out"] / time * 1e6 for request, time in times]),
        "decode_tok_s": mean([1e3 / tpot_ms(request) for request in decoding]),
        "steady_tok_s": steady(sent, concurrency),
        "concurrency_achieved": sum(request["end"] - request["sent"] for request in sent) / wall,
    }


def latencies(good: Sequence[Request]) -> dict[str, Cell]:
    """All columns in milliseconds."""
    first = [request for request in good if request["first"] is not None]
    per_token: list[float] = []
    per_arrival: list[float] = []
    for request in first:
        waited = 0
        for gap, tokens in zip(request["t"][1:], request["n"][1:], strict=True):
            per_arrival.append(gap / 1e3)
            waited += gap
            if tokens:
                per_token += [waited / tokens / 1e3] * tokens
                waited = 0
    columns: dict[str, Cell] = {}
    columns |= spread("ttft_ms", [(item["first"] - item["sent"]) / 1e3 for item in first])
    columns |= spread("tpot_ms", [tpot_ms(item) for item in first if is_decoding(item)])
    columns |= spread("itl_ms", per_token)
    columns |= spread("itl_chunk_ms", per_arrival)
    columns |= spread("e2e_ms", [(item["end"] - item["sent"]) / 1e3 for item in good])
    return {name: value for name, value in columns.items() if name in MEASURED}


def acceptance(
    result: Mapping[str, Any], good: Sequence[Request], draft_tokens: int | None
) -> dict[str, Cell]:
    """Acceptance of this trial alone, from the best source there is; all None without one.

    `requests`: verify steps of each request. `server_totals`: the server's average since start,
    but only if a /flush_cache has reset it just before; over DP ranks the plain mean, as the
    ranks do not say how much each has done.
    """
    none: dict[str, Cell] = dict.fromkeys(("accept_length", "accept_rate", "accept_source"))
    speculated = [request for request in good if request["tokens_out"] > 1]
    if speculated and all(request["verify"] for request in speculated):
        tokens = sum(request["tokens_out"] for request in speculated)
        length = tokens / sum(request["verify"] for request in speculated)
        rate = strict_rate(length, draft_tokens)
        if all(request["proposed"] and request["accepted"] is not None for request in speculated):
            accepted = sum(request["accepted"] for request in speculated)
            rate = accepted / sum(request["proposed"] for request in speculated)
        return {"accept_length": length, "accept_rate": rate, "accept_source": "requests"}
    if result["flush"] != 200 or averages(result["server_before"]):
        return none
    ranks = averages(result["server_after"])
    if not ranks:
        return none
    length = fmean(ranks)
    rate = strict_rate(length, draft_tokens)
    return {"accept_length": length, "accept_rate": rate, "accept_source": "server_totals"}


def averages(server_info: Mapping[str, Any] | None) -> list[float]:
    """avg_spec_accept_length of each DP rank that has one."""
    states = server_info["internal_states"] if server_info else []
    found = [state.get("avg_spec_accept_length") for state in states]
    return [float(value) for value in found if isinstance(value, int | float) and value >= 1]


def strict_rate(accept_length: float, draft_tokens: int | None) -> float | None:
    """Accepted / proposed drafts, bonus excluded; at most 1 (a first token has no verify step)."""
    if draft_tokens is None or draft_tokens < 2:
        return None
    return min(1.0, (accept_length - 1) / (draft_tokens - 1))


def is_decoding(request: Request) -> bool:
    """Has it tokens after the first, and time between them?"""
    first = request["first"]
    return request["tokens_out"] > 1 and first is not None and request["end"] > first


def tpot_ms(request: Request) -> float:
    return float((request["end"] - request["first"]) / (request["tokens_out"] - 1) / 1e3)


def failures(requests: Sequence[Request]) -> str | None:
    """What went wrong with how many requests, on one line; None when all are ok."""
    reasons = [str(request["error"]) for request in requests if request["error"] is not None]
    if not reasons:
        return None
    alike = Counter(re.sub(r"\d+ bytes", "some bytes", reason) for reason in reasons)
    told = "; ".join(f"{reason} ({count})" for reason, count in alike.most_common(3))
    more = f"; and {len(alike) - 3} other reasons" if len(alike) > 3 else ""
    return f"{len(reasons)} of {len(requests)} requests failed: {told}{more}"


def mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def spread(name: str, values: Sequence[float]) -> dict[str, Cell]:
    """mean, p50, p90 and p99 of `values`, as columns that begin with `name`."""
    ordered = sorted(values)
    columns: dict[str, Cell] = {f"{name}_mean": mean(ordered)}
    for percent in (50, 90, 99):
        columns[f"{name}_p{percent}"] = percentile(ordered, percent)
    return columns


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """Linear interpolation between the nearest ranks of sorted values; None without values."""
    if not ordered:
        return None
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
