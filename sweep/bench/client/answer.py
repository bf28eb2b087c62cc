"""What the kept bytes of a response say, read after the measurement."""

from __future__ import annotations

import bisect
import collections
import itertools
import operator
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .arrivals import Arrivals
from .event import Said, as_list, natural, read
from .exchange import Exchange, asked, sampling
from .frames import Form, Run, learn
from .wire import BEHIND, Body, Payload, events, parse_head

FEW = 1  # chunks at the beginning that are unlike the others
LITTLE = 1500  # bytes, in which an answer ends: not worth learning a form for
Learn = Callable[[bytes, int], Optional[Form]]


class Answer:
    """What the bytes of one response say. `error` is the first reason why it is not a good one.

    `learn`: finds what events have in common, so that they are read faster (`frames`).
    """

    def __init__(self, arrivals: Arrivals, learn: Learn = learn) -> None:
        self.error: Optional[str] = None
        self.finish: Optional[str] = None
        self.usage: Dict[str, Any] = {}
        self.spec: Dict[str, Any] = {}
        self.done = False
        # Per event with text or usage: index of its arrival, characters, tokens so far if told.
        self.places: List[int] = []
        self.characters: List[int] = []
        self.so_far: List[Optional[int]] = []
        self.told = True  # usage came with every piece of text, not only at the end
        self.ends = arrivals.ends
        raw = arrivals.raw
        try:
            head = parse_head(raw) if raw else None
        except ValueError as error:
            self.fail(str(error))
            return
        if head is None:
            self.fail("no response head")
            return
        payload = Payload(raw, head)
        if head.status != 200 or not head.content_type.startswith("text/event-stream"):
            what = "HTTP %d" % head.status if head.status != 200 else "not an event stream"
            kind = head.content_type or "no content type"
            self.fail("%s (%s): %s" % (what, kind, one_line(payload.rest().payload, 200)))
            return
        self._read(payload, learn)
        self._sum_up(payload.whole)

    def fail(self, reason: str) -> None:
        self.error = self.error or reason

    def _read(self, payload: Payload, learn: Learn) -> None:
        """Event by event until one is met whose form those behind it share: these at once."""
        wait = FEW
        while not payload.over:
            self._by_json(payload, wait if payload.left > LITTLE else LITTLE)
            form = learn(payload.raw, payload.at) if payload.left > LITTLE else None
            run = form.run(payload.raw, payload.at) if form else None
            wait = FEW if run and len(run.ends) > wait else 2 * wait
            if run:
                self._run(run)
                payload.at = run.ends[-1]

    def _by_json(self, payload: Payload, chunks: int) -> None:
        """The events of so many chunks, or of some more."""
        for _ in range(chunks):
            event = payload.event()
            if event is None:
                break
            self._event(self._place(payload.at), b"", event)
        else:
            return
        begin = payload.at
        body = payload.take(chunks)
        found = list(events(body.payload))
        if not payload.over and not alone(found, body):
            # A line of an event that has not ended: nothing can be taken by itself.
            payload.at = begin
            body = payload.rest()
            found = list(events(body.payload))
        for offset, name, data in found:
            place = bisect.bisect_right(self.ends, body.place(offset))
            self._event(place, name, data)

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
            said = read(data)
        except UnicodeDecodeError:
            self.fail("invalid UTF-8 in event %d" % (len(self.places) + 1))
            return
        except (ValueError, RecursionError):
            self.fail("invalid JSON in event %d: %r" % (len(self.places) + 1, data[:60]))
            return
        if said is None or name == b"error":
            self.fail("error event: " + one_line(data, 300))
            return
        self._mark(said.native, [arrival], [said.characters], [said.so_far])
        self._keep(said)

    def _run(self, run: Run) -> None:
        said = read(run.last)  # what it says as a whole is the last
        if said is None:  # errors have no form
            return
        places = [self._place(run.ends[0]), self._place(run.ends[-1])]
        between = self.ends[places[0] : places[0] + len(run.ends) - 1]
        if between == run.ends[:-1]:  # a chunk a read, as a rule
            places = [*range(places[0], places[0] + len(between)), places[1]]
        else:
            places = list(map(self._place, run.ends))
        self._mark(said.native, places, run.characters, run.so_far)
        self._keep(said)

    def _place(self, end: int) -> int:
        """The read that brought the last byte of an event, whose chunk ends there."""
        return bisect.bisect_left(self.ends, end - len(BEHIND))

    def _keep(self, said: Said) -> None:
        """What the last event that tells it says."""
        self.finish = said.finish if said.finish is not None else self.finish
        self.usage = said.usage or self.usage
        self.spec = said.spec or self.spec

    def _mark(
        self,
        native: bool,
        places: List[int],
        characters: List[int],
        so_far: List[Optional[int]],
    ) -> None:
        """Notes events of one form, before their usage is kept."""
        if so_far[0] is None:
            places = list(itertools.compress(places, characters))
            characters = list(filter(None, characters))
            self.told = self.told and not characters
            so_far = [None] * len(characters)
        elif native:
            totals = [self.tokens("completion_tokens") or 0, *[known or 0 for known in so_far]]
            characters = [int(after > before) for before, after in zip(totals, totals[1:])]
        self.places += places
        self.characters += characters
        self.so_far += so_far

    def brought(self) -> Tuple[List[int], List[int]]:
        """Of the events that brought tokens: the index of their arrival, and how many tokens.

        Tokens come from the usage of each chunk. A server that tells usage only at the end leaves
        them unknown: then its total is spread by the length of the texts.
        """
        if self.told:
            known = [so_far or 0 for so_far in self.so_far]
            if any(map(operator.gt, known, known[1:])):
                known = list(itertools.accumulate(known, max))
        else:
            total, texts = self.tokens("completion_tokens") or 0, max(1, sum(self.characters))
            seen = itertools.accumulate(self.characters)
            known = [(total * characters + texts // 2) // texts for characters in seen]
            if known and self.so_far[-1] is not None and not self.characters[-1]:
                known[-1] = total
        tokens = list(map(operator.sub, known, [0, *known]))
        if 0 not in tokens:
            return self.places, tokens
        kept = list(map(operator.or_, tokens, self.characters))  # tokens, or text at least
        return list(itertools.compress(self.places, kept)), list(itertools.compress(tokens, kept))


def alone(found: List[Tuple[int, bytes, bytes]], body: Body) -> bool:
    """Is the last event all that the end of this part holds, with nothing open before it?"""
    return (
        bool(found) and not found[-1][1] and body.payload.endswith(b"data: %s\n\n" % found[-1][2])
    )


def one_line(text: bytes, limit: int) -> str:
    return " ".join(text[:limit].decode("utf-8", "replace").split())


def told(spec: Dict[str, Any], *names: str) -> Any:
    """What the server calls by one of these names, which changed from version to version."""
    return next((spec[name] for name in names if spec.get(name) is not None), None)


def arrived(
    moments: List[float], read: Sequence[float], places: List[int], turns: Sequence[float]
) -> List[float]:
    """When the events came that ended in these reads.

    One read that brought several (`merged`) tells the time of the last one. Those before it came
    after the event before them, and after the loop had last found nothing to read there: they are
    taken to be spread evenly, but not to be earlier than that.
    """
    times = [moments[place] for place in places]
    several = collections.Counter(places) if len(set(places)) < len(places) else {}
    for place, number in several.items():
        if number == 1:
            continue
        at = bisect.bisect_left(places, place)
        turn = bisect.bisect_right(turns, read[place]) - 2
        empty = max(read[place - 1] if place else 0.0, turns[turn] if turn >= 0 else 0.0)
        before, last = times[at - 1], times[at]
        for step in range(1, number):
            even = before + (last - before) * step / number
            times[at + step - 1] = min(last, max(even, empty))
    return times


def record(exchange: Exchange, started: float, turns: Sequence[float] = ()) -> Dict[str, Any]:
    """One request as the result holds it. Null is unknown; times in microseconds.

    `turns`: when the loop was told who can be read.

    index              its place among the job's requests
    sent, first, end   since `started`: just before sending; first text; last byte (or giving up)
    due                when it was to be sent, since `started`; null in a closed loop
    t, n               events that brought tokens: time since the one before (the first: since
                       `sent`), and tokens; those of the first read are one. `merged`: how many
                       shared a read with the next, so that their time is an estimate (`arrived`)
    tokens_in, tokens_out, asked, ignore_eos      usage of the server; what the request asked for
    verify, proposed, accepted, histogram         speculation, where the server tells
    finish, error                                 finish reason; why it is not ok, null if it is
    """
    # What broke on the wire is not read: it says nothing that counts, and may be endless.
    arrivals = Arrivals() if exchange.error else exchange.arrivals
    answer = Answer(arrivals)
    error, spec = exchange.error or answer.error, answer.spec
    places, tokens = answer.brought()
    merged = len(places) - len(set(places))
    first = places.count(places[0]) if places else 1
    # Before the first text there is nothing that a time could be spread over.
    places, tokens = places[first - 1 :], [sum(tokens[:first]), *tokens[first:]][: len(places)]
    moments = arrivals.moments()
    times = [round((at - started) * 1e6) for at in arrived(moments, arrivals.read, places, turns)]
    sent = round((exchange.sent - started) * 1e6) if exchange.sent else None
    end = moments[-1] if moments else exchange.ended
    return {
        "index": exchange.index,
        "sent": sent,
        "first": times[0] if times else None,
        "end": round((end - started) * 1e6),
        "due": None if exchange.due is None else round((exchange.due - started) * 1e6),
        "t": list(map(operator.sub, times, [sent or 0, *times])),
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
