"""What to know of a trial before its row is compared: each flag a pure function of the evidence.

A rule gives one line that says what was seen, with counts, or None. What a flag means in general
stands in `sweep.verdicts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from sweep.bench.flight import (
    Request,
    decode_speed,
    empty_places,
    full_spans,
    lateness_ms,
    most_at_a_time,
    sent_ones,
    silences,
)
from sweep.bench.gpus import GpuNotes
from sweep.rows import Cell
from sweep.sglang.activity import Activity

# Each process of the client has one thread: above nine tenths of a core it is its own bottleneck.
CLIENT_CPU_LIMIT = 0.9
# A client that is late, for want of CPU or because of a neighbour, sends the next request late, so
# that the server works on fewer than C. By the server's own log it was idle for two to five times
# the share that the client sees (tests/bench/client_limits.py): with this one, throughput is
# understated by about 5 %, more than neighbouring settings differ by.
EMPTY_PLACES_LIMIT = 0.02
# Times of arrival are the kernel's and stay right while every chunk is read alone. Later than this
# most reads join several, and first tokens seem to come as much later as the client is late.
LAG_LIMIT_MS = 25.0
# An open loop is none any more when this share of its requests waited that long for their turn.
LATE_SHARE = 0.01
# A kernel that is compiled stops every request at once, for much longer than any step takes, and
# once: later on there is nothing like it.
COLD_SILENCE_S, COLD_STEPS, COLD_LATER = 0.5, 10, 3
# Between the halves of a trial.
UNSTABLE_LIMIT = 0.10
# What takes less time is begin and end alone.
LEAST_SPAN_S = 2.0
# Without verify counts, texts that are drafted better or worse look like a change of speed.
LEAST_UNCOUNTED = 16
LEAST_ANSWERS = 4


@dataclass(frozen=True)
class Evidence:
    """What is known of a trial; what has its default is not known.

    `values` are the row's measured columns, `client` the client's own figures. `admitted` and
    `kv_tokens` are the server's max_running_requests and max_total_num_tokens, over all DP ranks.
    """

    concurrency: int
    steps: int = 0
    requests: Sequence[Request] = ()
    values: Mapping[str, Cell] = field(default_factory=dict)
    client: Mapping[str, Any] | None = None
    admitted: int | None = None
    kv_tokens: int | None = None
    activity: Activity | None = None
    gpus: GpuNotes | None = None

    @property
    def good(self) -> list[Request]:
        return [request for request in self.requests if request["error"] is None]

    @property
    def lateness_ms(self) -> list[float]:
        """Of an open loop alone: see `flight.lateness_ms`."""
        return lateness_ms(self.requests)

    @property
    def at_a_time(self) -> int:
        """Requests in flight: an open loop may never come to its C."""
        return most_at_a_time(self.requests) if self.lateness_ms else self.concurrency


def verdicts(evidence: Evidence) -> dict[str, str]:
    """Flag -> what was seen, for each that the evidence shows."""
    return _found(OF_REQUESTS, evidence) | of_server(evidence)


def of_server(evidence: Evidence) -> dict[str, str]:
    """The same, of all but the requests: looking through a million arrivals takes seconds."""
    return _found(OF_SERVER, evidence)


def _found(rules: Rules, evidence: Evidence) -> dict[str, str]:
    found = {flag: rule(evidence) for flag, rule in rules.items()}
    return {flag: text for flag, text in found.items() if text is not None}


def capped(evidence: Evidence) -> str | None:
    """More work at a time than the server takes: by its own numbers, or by its queue."""
    c, admitted, seen = evidence.at_a_time, evidence.admitted, evidence.activity
    most = seen.most_waiting if seen is not None else None
    waited = seen is not None and seen.always_waiting and not _is_brief(evidence)
    told = "" if most is None else f"; its queue held up to {most}"
    if admitted is not None and c > admitted:
        return f"{c} requests at a time, the server admits {admitted}{told}"
    need = _kv_need(evidence)
    if evidence.kv_tokens is not None and need > evidence.kv_tokens and (waited or most is None):
        return f"{c} requests need {need} tokens of KV memory, there are {evidence.kv_tokens}{told}"
    if waited:
        return f"requests waited in the server's queue for most of the trial, up to {most}"
    return None


def _is_brief(evidence: Evidence) -> bool:
    """Over within two seconds: all that is seen may be how it began and ended."""
    sent = sent_ones(evidence.requests)
    if not sent:
        return False
    begin, end = min(one["sent"] for one in sent), max(one["end"] for one in sent)
    return bool(end - begin < LEAST_SPAN_S * 1e6)


def _kv_need(evidence: Evidence) -> int:
    """C * (input + output tokens), of answers as they came."""
    sizes = [
        request["tokens_in"] + request["tokens_out"]
        for request in evidence.good
        if request["tokens_in"] is not None
    ]
    return round(evidence.at_a_time * fmean(sizes)) if sizes else 0


def client_limited(evidence: Evidence) -> str | None:
    """The client was too busy to keep the server supplied."""
    if evidence.client is None:
        return None
    cpu = float(evidence.client.get("cpu") or 0.0)
    if cpu >= CLIENT_CPU_LIMIT:
        several = int(evidence.client.get("processes") or 1)
        who = "the client" if several == 1 else f"the busiest of the client's {several} processes"
        return f"{who} used {cpu:.0%} of its core"
    if supply := _supply(evidence):
        return supply
    lag_ms = float(evidence.client.get("lag_ms_p99") or 0.0)
    if lag_ms > LAG_LIMIT_MS:
        return f"the client read its sockets {lag_ms:.0f} ms late (p99): so much may times be off"
    return None


def _supply(evidence: Evidence) -> str | None:
    """Was less sent than there was to send?"""
    c, late = evidence.concurrency, evidence.lateness_ms
    waited = sum(ms > LAG_LIMIT_MS for ms in late)
    if waited > LATE_SHARE * len(late):
        return (
            f"{waited} of {len(late)} requests were sent late, by up to {late[-1]:.0f} ms: "
            f"with {c} at a time this rate was not kept up; allow more, if the server takes them"
        )
    empty = 0.0 if late else empty_places(evidence.requests, c) or 0.0
    if empty > EMPTY_PLACES_LIMIT:
        return f"{empty:.1%} of the {c} places were empty while there was more to send"
    return None


def short_output(evidence: Evidence) -> str | None:
    """Tokens that were asked for, that usage tells and that arrived, held against each other."""
    said = []
    if silent := [one for one in evidence.requests if one["error"] == "no tokens"]:
        said.append(f"{len(silent)} answers with HTTP 200 had no tokens")
    if other := [one for one in evidence.good if _differs(one)]:
        lengths = sorted(one["tokens_out"] for one in other)
        asked = sorted({one["asked"] for one in other})
        said.append(
            f"{len(other)} of {len(evidence.good)} answers were not as long as asked for (from "
            f"{lengths[0]} to {lengths[-1]} tokens, asked: {asked[0]}"
            f"{f' to {asked[-1]}' if len(asked) > 1 else ''})"
        )
    if cut := [one for one in evidence.good if one["ignore_eos"] and not _at_length(one)]:
        reasons = sorted({str(one["finish"]) for one in cut})
        said.append(f"{len(cut)} ended for another reason than length ({', '.join(reasons)})")
    if wrong := [one for one in evidence.good if one["n"] and sum(one["n"]) != one["tokens_out"]]:
        arrived, told = (sum(sum(one["n"]) for one in wrong), sum(o["tokens_out"] for o in wrong))
        said.append(f"usage of {len(wrong)} answers says {told} tokens, {arrived} arrived")
    return "; ".join(said) or None


def _differs(request: Request) -> bool:
    """Another length than asked for, when the end of text was ignored; a longer one, when not."""
    asked, tokens = request["asked"], request["tokens_out"]
    if asked is None:
        return False
    return bool(tokens != asked if request["ignore_eos"] else tokens > asked)


def _at_length(request: Request) -> bool:
    return request["finish"] in ("length", None)


def retracted(evidence: Evidence) -> str | None:
    """The server threw requests out of its batch because the KV pool was full."""
    count = evidence.activity.retracted if evidence.activity is not None else 0
    return f"{count} requests were thrown back into the queue" if count else None


def compiled(evidence: Evidence) -> str | None:
    """The server says that it compiled something while it was measured."""
    seen = evidence.activity.compiled if evidence.activity is not None else None
    return None if seen is None else f"the server made kernels or graphs: {seen}"


def paused(evidence: Evidence) -> str | None:
    """All requests stood still at once, early on and never again, as while something compiles."""
    found = silences(evidence.requests)
    if len(found) < 2 * COLD_STEPS:
        return None
    begin, end = found[0][0], found[-1][0] + found[-1][1]
    when, longest = max(found, key=lambda span: span[1])
    later = max((gap for time, gap in found if time >= (begin + end) / 2), default=0)
    usual = median(gap for _, gap in found)
    first_half = when < (begin + end) / 2
    once = longest >= COLD_LATER * later and longest >= COLD_STEPS * usual
    if first_half and once and longest >= COLD_SILENCE_S * 1e6:
        return (
            f"no request got anything for {longest / 1e6:.1f} s early on, {longest / usual:.0f} "
            "times as long as usual"
        )
    return None


def unstable(evidence: Evidence) -> str | None:
    """Decoding changed its speed between the halves of the time in which C were in flight.

    Speed is verify steps per second of one request, so that neither texts that are drafted better
    nor the tail change it.
    """
    counted = evidence.steps == 0 or all(request["verify"] for request in evidence.good)
    if len(evidence.good) < (LEAST_ANSWERS if counted else LEAST_UNCOUNTED) or _is_brief(evidence):
        return None
    sent = sent_ones(evidence.requests)
    spans = full_spans(sent, evidence.concurrency)
    if not spans:
        return None
    begin, end = spans[0][0], spans[-1][1]
    middle = (begin + end) // 2
    per_step = {
        request["index"]: request["tokens_out"] / request["verify"]
        for request in evidence.good
        if request["verify"]
    }
    before, after = (
        decode_speed(sent, span, per_step) for span in ((begin, middle), (middle, end))
    )
    if not before or not after or abs(after / before - 1) <= UNSTABLE_LIMIT:
        return None
    return f"decoding was {after / before - 1:+.0%} in the second half of the trial"


def no_acceptance_data(evidence: Evidence) -> str | None:
    """Speculation, and nobody told what came of it."""
    if evidence.steps == 0 or evidence.values.get("accept_length") is not None:
        return None
    return "neither requests nor totals nor decode lines told the acceptance length"


def throttled(evidence: Evidence) -> str | None:
    """A card lowered its clocks for heat or for want of power."""
    troubles = evidence.gpus.troubles if evidence.gpus is not None else {}
    shares = ", ".join(f"{name} in {share:.0%} of samples" for name, share in troubles.items())
    return shares or None


Rules = Mapping[str, Callable[[Evidence], str | None]]
OF_REQUESTS: Rules = {
    "client_limited": client_limited,
    "short_output": short_output,
    "cold": paused,
    "unstable": unstable,
}
OF_SERVER: Rules = {
    "capped": capped,
    "retracted": retracted,
    "cold": compiled,
    "throttled": throttled,
    "no_acceptance_data": no_acceptance_data,
}
RULES = OF_REQUESTS.keys() | OF_SERVER.keys()
