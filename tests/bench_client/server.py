"""A real HTTP server that streams chat completions as SGLang does, and misbehaves on request.

A request says how it is to be answered in its own body, under `play`; see `Play`. The server keeps
a log of what it really did and when, which is the truth that the client is compared with.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sweep.bench.client.exchange import asked


@dataclass(frozen=True)
class Play:
    """How one request is answered.

    `usage`: "each" chunk, at the "end", "none", or "empty" (an empty object). `fault` happens
    instead of chunk number `after`. `gap_s` passes between chunks.
    """

    tokens: int = 12
    per_chunk: int = 1
    gap_s: float = 0.0
    usage: str = "each"
    verify: int | None = None
    finish: str = "length"
    framing: str = "chunked"
    fault: str = ""
    after: int = 2
    glue: bool = False


@dataclass
class Served:
    """What happened to one request; times in seconds of CLOCK_REALTIME."""

    body: dict[str, Any]
    connection: int
    flying: int
    sent: list[float] = field(default_factory=list)


def frame(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(payload: dict[str, Any] | str) -> bytes:
    text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
    return b"data: " + text.encode() + b"\n\n"


def usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 7, "completion_tokens": tokens, "total_tokens": 7 + tokens}


def chunk(delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def stream(play: Play) -> Iterator[bytes]:
    """The events of one answer, one by one, as SGLang 0.5.23 writes them."""
    yield event(chunk({"role": "assistant", "content": ""}))
    made = 0
    for number in range(-(-play.tokens // play.per_chunk)):
        if play.fault in FAULTS and number == play.after:
            yield FAULTS[play.fault]
            if play.fault == "error event":
                break
        count = min(play.per_chunk, play.tokens - made)
        made += count
        piece = chunk({"content": "wörd " * count})
        yield event({**piece, "usage": usage(made)} if play.usage == "each" else piece)
    if play.fault != "error event":
        yield event(chunk({}, play.finish))
        if play.verify is not None:
            details = {"spec_verify_ct": play.verify, "spec_num_proposed_drafts": play.verify * 3}
            details["spec_num_correct_drafts"] = play.tokens - 1 - play.verify
            yield event({"choices": [], "sglext": {"spec_tokens_details": details}})
        if play.usage in ("each", "end"):
            yield event({"choices": [], "usage": usage(play.tokens)})
        elif play.usage == "empty":
            yield event({"choices": [], "usage": {}})
    if play.fault != "no done":
        yield event("[DONE]")


def native_stream(play: Play) -> Iterator[bytes]:
    """The same of /generate: text and counts are totals so far in every event."""
    made = 0
    for number in range(-(-play.tokens // play.per_chunk)):
        if play.fault in FAULTS and number == play.after:
            yield FAULTS[play.fault]
            if play.fault == "error event":
                break
        made = min(made + play.per_chunk, play.tokens)
        last = made == play.tokens
        meta: dict[str, Any] = {
            "id": "c1",
            "finish_reason": {"type": play.finish} if last else None,
        }
        if play.usage != "none":
            meta |= {"prompt_tokens": 7, "completion_tokens": made}
        if last and play.verify is not None:
            meta |= {"spec_verify_ct": play.verify, "spec_num_proposed_drafts": play.verify * 3}
            meta["spec_num_correct_drafts"] = play.tokens - 1 - play.verify
            meta["spec_correct_drafts_histogram"] = [2, 2, 4, 1]
        yield event({"text": "wörd " * made, "meta_info": meta})
    if play.fault != "no done":
        yield event("[DONE]")


FAULTS = {
    "error event": event({"error": {"message": "out of memory", "code": 500}}),
    "invalid json": b"data: {nonsense\n\n",
    "invalid utf-8": b'data: {"choices": [{"delta": {"content": "\xff\xfe"}}]}\n\n',
    "long line": event(chunk({"content": "x" * (10 << 20)})),
}


def head(status: str, *fields: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", "server: test", *fields, "", ""]).encode()


ANSWERS = {
    "503": head("503 Service Unavailable", "content-length: 4") + b"busy",
    "json": head("200 OK", "content-type: application/json", "content-length: 2") + b"{}",
    "not http": b"\x15\x03\x01\x00\x02\x02\x50",
}


class StreamServer:
    """Listens on a free port of 127.0.0.1 while used as a context manager."""

    def __init__(
        self,
        *,
        busy: int = 0,
        info: list[dict[str, Any]] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.tls = tls
        self.busy = busy  # so many times /flush_cache says that requests run
        self.info = info  # answers of /server_info in turn, the last one for ever; None: 404
        self.hang_up_after = 0  # answers on one connection, then it is closed without a word
        self.refuse = False
        self.gap_s = 0.0  # between the chunks of requests that do not say how they are to be played
        self.served: list[Served] = []
        self.controls: list[str] = []
        self.headers: list[str] = []
        self.connections = 0
        self.flying = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.peers: set[socket.socket] = set()
        self.closing = threading.Event()
        self.without_end = {"endless": self._endless, "drip": self._drip}

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> StreamServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def die(self) -> None:
        """Stops listening and resets every connection, as the kernel does for a killed process."""
        if self.closing.is_set():
            return
        self.closing.set()
        # A thread that waits in accept keeps the port open; this wakes it.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            for peer in self.peers:
                self._reset(peer)

    @staticmethod
    def _reset(peer: socket.socket) -> None:
        try:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            peer.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def _accept(self) -> None:
        while not self.closing.is_set():
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.connections += 1
                self.peers.add(peer)
                number = self.connections
            threading.Thread(target=self._talk, args=(peer, number), daemon=True).start()

    def _talk(self, peer: socket.socket, number: int) -> None:
        try:
            if self.tls:
                peer = self._secured(peer, self.tls)
            source = peer.makefile("rb")
            answered = 0
            while line := source.readline():
                length, fields = 0, line.decode()
                while (line := source.readline()).strip():
                    fields += line.decode()
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                content = source.read(length)
                answered += 1
                if self.hang_up_after and answered > self.hang_up_after:
                    break
                if not self._answer(peer, number, fields, content):
                    break
        except OSError:
            pass
        finally:
            with self.lock:
                self.peers.discard(peer)
            peer.close()

    def _secured(self, peer: socket.socket, tls: ssl.SSLContext) -> socket.socket:
        with self.lock:
            self.peers.discard(peer)
        secured = tls.wrap_socket(peer, server_side=True)
        with self.lock:
            self.peers.add(secured)
        return secured

    def _answer(self, peer: socket.socket, number: int, fields: str, content: bytes) -> bool:
        """Answers one request; False to close the connection afterwards."""
        method, path = fields.split()[:2]
        if path not in ("/v1/chat/completions", "/generate"):
            return self._control(peer, f"{method} {path}")
        body = json.loads(content)
        with self.lock:
            self.flying += 1
            served = Served(body, number, self.flying)
            self.served.append(served)
            self.headers.append(fields)
        play = Play(**body.get("play", {"tokens": asked(body) or 12, "gap_s": self.gap_s}))
        play = Play(fault="503") if self.refuse else play
        try:
            return self._play(peer, play, served, native=path == "/generate")
        finally:
            if play.fault:  # else counted down just before the last byte
                self._landed()

    def _landed(self) -> None:
        with self.lock:
            self.flying -= 1

    def _play(self, peer: socket.socket, play: Play, served: Served, native: bool) -> bool:
        if play.fault in ANSWERS:
            peer.sendall(ANSWERS[play.fault])
            return play.fault != "not http"
        if play.fault == "silent":
            self.closing.wait(30)
            return False
        pack = frame if play.framing == "chunked" else bytes
        kind = "content-type: text/event-stream; charset=utf-8"
        field = {"chunked": "Transfer-Encoding: chunked", "close": "connection: close"}[
            play.framing
        ]
        pending = head("200 OK", kind, field)
        for number, data in enumerate(native_stream(play) if native else stream(play)):
            if play.fault == "drop" and number == play.after:
                self._reset(peer)
                return False
            if play.fault in self.without_end and number == play.after:
                return self.without_end[play.fault](peer, data)
            pending += pack(data)
            if not play.glue:
                served.sent.append(time.time())
                peer.sendall(pending)
                pending = b""
                if play.gap_s:
                    time.sleep(play.gap_s)
        if play.fault == "short body":
            return False
        if not play.fault:
            self._landed()
        peer.sendall(pending + (b"0\r\n\r\n" if play.framing == "chunked" else b""))
        return play.framing == "chunked"

    def _endless(self, peer: socket.socket, data: bytes) -> bool:
        while not self.closing.is_set():
            peer.sendall(frame(data) * 200)
        return False

    def _drip(self, peer: socket.socket, data: bytes) -> bool:
        """A byte now and then: never silent, and never done (slow-loris)."""
        for byte in frame(data):
            if self.closing.wait(0.1):
                break
            peer.sendall(bytes([byte]))
        return False

    def _control(self, peer: socket.socket, request: str) -> bool:
        with self.lock:
            self.controls.append(request)
            times = self.controls.count(request)
        status, text = "404 Not Found", "{}"
        if request == "POST /flush_cache":
            status, text = ("400 Bad Request", "busy") if times <= self.busy else ("200 OK", "ok")
        elif request == "GET /v1/models":
            status, text = "200 OK", json.dumps({"data": [{"id": "test-model"}]})
        elif request == "GET /server_info" and self.info is not None:
            status, text = "200 OK", json.dumps(self.info[min(times, len(self.info)) - 1])
        peer.sendall(head(status, f"content-length: {len(text)}") + text.encode())
        return True
