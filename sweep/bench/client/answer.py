"""What the kept bytes of a response say, read after the measurement."""

from __future__ import annotations

import bisect
import itertools
import json
from typing import Any, Dict, List, Optional, Tuple

from .exchange import Exchange, asked, sampling
from .wire import Arrival, events, parse_head, read_body, stamp


class Answer:
    """What the bytes of one response say. `error` is the first reason why it is not a good one."""

    def __init__(self, arrivals: List[Arrival]) -> None:
        self.error: Optional[str] = None
        self.finish: Optional[str] = None
        self.usage: Dict[str, Any] = {}
        self.spec: Dict[str, Any] = {}
        self.done = False
        # Per event with text or usage: index of its arrival, characters, tokens so far if told.
        self.marks: List[Tuple[int, int, Optional[int]]] = []
        self.told = True  # usage came with every piece of text, not only at the end
        raw = b"".join(data for _, _, data in arrivals)
        try:
            head = parse_head(raw) if raw else None
        except ValueError as error:
            self.fail(str(error))
            return
        if head is None:
            self.fail("no response head")
            return
        body = read_body(raw, head)
        if head.status != 200 or not head.content_type.startswith("text/event-stream"):
            what = "HTTP %d" % head.status if head.status != 200 else "not an event stream"
            kind = head.content_type or "no content type"
            self.fail("%s (%s): %s" % (what, kind, one_line(body.payload, 200)))
            return
        ends = list(itertools.accumulate(len(data) for _, _, data in arrivals))
        for offset, name, data in events(body.payload):
            piece = bisect.bisect_right(body.inner, offset) - 1
            at = body.outer[piece] + offset - body.inner[piece]
            self._event(bisect.bisect_right(ends, at), name, data)
        self._sum_up(body.whole)

    def fail(self, reason: str) -> None:
        self.error = self.error or reason

    def _sum_up(self, whole: bool) -> None:
        if not whole:
            self.fail("the body does not end as it should")
        if not self.done:
            self.fail("no [DONE] at the end")
        if self.finish == "abort":
            self.fail("aborted by the server")
        if self.tokens("completion_tokens") is None:
            self.fail("no usage")
        elif not self.tokens("completion_tokens"):
            self.fail("no tokens")

    def tokens(self, name: str) -> Optional[int]:
        return natural(self.usage.get(name))

    def _event(self, arrival: int, name: bytes, data: bytes) -> None:
        if data == b"[DONE]":
            self.done = True
            return
        try:
            event = json.loads(data.decode("utf-8"))
        except UnicodeDecodeError:
            self.fail("invalid UTF-8 in event %d" % (len(self.marks) + 1))
            return
        except (ValueError, RecursionError):
            self.fail("invalid JSON in event %d: %r" % (len(self.marks) + 1, data[:60]))
            return
        if not isinstance(event, dict) or event.get("error") or name == b"error":
            self.fail("error event: " + one_line(data, 300))
            return
        if "meta_info" in event:
            self._native(arrival, as_dict(event["meta_info"]))
            return
        characters = 0
        for choice in as_list(event.get("choices")):
            if isinstance(choice, dict):
                characters += text_length(choice)
                if isinstance(choice.get("finish_reason"), str):
                    self.finish = choice["finish_reason"]
        usage = event.get("usage")
        so_far = None
        if isinstance(usage, dict) and usage:
            self.usage = usage
            so_far = natural(usage.get("completion_tokens"))
        if "sglext" in event:
            details = as_dict(event["sglext"]).get("spec_tokens_details")
            self.spec = as_dict(details) or self.spec
        if characters or so_far is not None:
            self.told = self.told and (so_far is not None or not characters)
            self.marks.append((arrival, characters, so_far))

    def _native(self, arrival: int, meta: Dict[str, Any]) -> None:
        """An event of /generate: its counts are totals so far, whatever its text is."""
        before = self.tokens("completion_tokens") or 0
        so_far = natural(meta.get("completion_tokens"))
        finish = meta.get("finish_reason")
        if isinstance(finish, (dict, str)):
            self.finish = str(finish.get("type")) if isinstance(finish, dict) else finish
        if so_far is not None:
            self.usage = self.spec = meta
            self.marks.append((arrival, int(so_far > before), so_far))

    def arrivals(self) -> Tuple[List[int], List[int], int]:
        """Arrivals that brought tokens: their indexes, their tokens, and how many were merged.

        Tokens per arrival come from the usage of each chunk. A server that tells usage only at
        the end leaves them unknown: then its total is spread by the length of the texts. Events
        that one read brought together are one arrival (merged): the earlier ones came before it.
        """
        total = self.tokens("completion_tokens") or 0
        texts = sum(characters for _, characters, _ in self.marks)
        indexes: List[int] = []
        tokens: List[int] = []
        merged, given, seen = 0, 0, 0
        for index, characters, so_far in self.marks:
            seen += characters
            known = (total * seen + texts // 2) // texts if texts and characters else given
            if self.told:
                known = max(given, so_far if so_far is not None else given)
            if not characters and known == given:
                continue
            if indexes and indexes[-1] == index:
                tokens[-1] += known - given
                merged += 1
            else:
                indexes.append(index)
                tokens.append(known - given)
            given = known
        return indexes, tokens, merged


def one_line(text: bytes, limit: int) -> str:
    return " ".join(text[:limit].decode("utf-8", "replace").split())


def natural(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def as_dict(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> List[Any]:
    return value if isinstance(value, list) else []


TEXTS = ("content", "reasoning_content", "reasoning")


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


def told(spec: Dict[str, Any], *names: str) -> Any:
    """What the server calls by one of these names, which changed from version to version."""
    return next((spec[name] for name in names if spec.get(name) is not None), None)


def record(exchange: Exchange, started: float) -> Dict[str, Any]:
    """One request as the result holds it. Null is unknown; times in microseconds.

    index              its place among the job's requests
    sent, first, end   since `started`: just before sending; first text; last byte (or giving up)
    due                when it was to be sent, since `started`; null in a closed loop
    t, n               arrivals that brought tokens: time since the one before (the first: since
                       `sent`), and tokens; `merged`: further events that shared one of the reads
    tokens_in, tokens_out, asked, ignore_eos      usage of the server; what the request asked for
    verify, proposed, accepted, histogram         speculation, where the server tells
    finish, error                                 finish reason; why it is not ok, null if it is
    """
    # What broke on the wire is not read: it says nothing that counts, and may be endless.
    arrivals = [arrival for arrival in exchange.arrivals if arrival[2] and not exchange.error]
    answer = Answer(arrivals)
    error, spec = exchange.error or answer.error, answer.spec
    indexes, tokens, merged = answer.arrivals()
    times = [round((stamp(arrivals[index]) - started) * 1e6) for index in indexes]
    sent = round((exchange.sent - started) * 1e6) if exchange.sent else None
    end = stamp(arrivals[-1]) if arrivals else exchange.ended
    gaps = [times[i] - (times[i - 1] if i else sent or 0) for i in range(len(times))]
    return {
        "index": exchange.index,
        "sent": sent,
        "first": times[0] if times else None,
        "end": round((end - started) * 1e6),
        "due": None if exchange.due is None else round((exchange.due - started) * 1e6),
        "t": gaps,
        "n": tokens,
        "merged": merged,
        "tokens_in": answer.tokens("prompt_tokens"),
        "tokens_out": answer.tokens("completion_tokens"),
        "asked": asked(exchange.body) or None,
        "ignore_eos": bool(sampling(exchange.body).get("ignore_eos")),
        "verify": natural(spec.get("spec_verify_ct")),
        "proposed": natural(told(spec, "spec_num_proposed_drafts", "spec_draft_token_num")),
        "accepted": natural(told(spec, "spec_num_correct_drafts", "spec_accept_token_num")),
        "histogram": as_list(told(spec, "spec_correct_drafts_histogram", "spec_accept_histogram"))
        or None,
        "finish": answer.finish,
        "error": error,
    }
