"""One request, with its answer as raw bytes."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, NamedTuple, Optional

from .arrivals import Arrivals

LAST = 1000  # bytes of a response, in which its usage stands


class Target(NamedTuple):
    """Where the requests go. `address` is what `host` and `port` were resolved to.

    `tls`: makes of a socket one that speaks https (`tls.Tls`), or None.
    """

    host: str
    port: int
    prefix: str
    headers: Dict[str, str]
    family: int
    address: Any
    tls: Optional[Callable[[Any], Any]] = None

    def payload(self, path: str, body: Dict[str, Any]) -> bytes:
        """One whole HTTP/1.1 request, ready to send."""
        content = json.dumps(body).encode()
        name = "[%s]" % self.host if ":" in self.host else self.host
        fields = {
            "Host": "%s:%d" % (name, self.port),
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "Content-Length": str(len(content)),
        }
        fields.update(self.headers)
        lines = ["POST %s%s HTTP/1.1" % (self.prefix, path)]
        lines += ["%s: %s" % field for field in fields.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + content


class Exchange:
    """One request and what came back."""

    __slots__ = ("arrivals", "body", "due", "ended", "error", "index", "payload", "resent", "sent")

    def __init__(self, index: int, body: Dict[str, Any], payload: bytes) -> None:
        self.index = index
        self.body = body
        self.payload = payload
        self.arrivals = Arrivals()
        self.due: Optional[float] = None  # when to send it; None: as soon as there is a place
        self.sent = 0.0  # CLOCK_REALTIME, just before the kernel gets the first byte
        self.ended = 0.0  # CLOCK_REALTIME, when the loop was done with it
        self.error: Optional[str] = None
        self.resent = False

    @property
    def heard(self) -> int:
        """Bytes that came back."""
        return sum(map(len, self.arrivals.data))


def sampling(body: Dict[str, Any]) -> Dict[str, Any]:
    """Where a body says how to sample: /generate has an object of its own for that."""
    inner = body.get("sampling_params")
    return inner if isinstance(inner, dict) else body


def asked(body: Dict[str, Any]) -> int:
    """The number of tokens a request body asks for at most, 0 if it does not say."""
    names = ("max_tokens", "max_completion_tokens", "max_new_tokens")
    return int(next((sampling(body)[name] for name in names if sampling(body).get(name)), 0))


def usage_hint(arrivals: Arrivals) -> int:
    """Tokens of a finished response, fast and roughly: for the progress line only."""
    last = arrivals.tail(LAST)
    at = last.rfind(b'"completion_tokens":')
    digits = last[at + 20 : at + 32].split(b",")[0].split(b"}")[0].strip()
    return int(digits) if at >= 0 and digits.isdigit() else 0
