"""A server whose every token has a known time: it keeps a log of when it really sent each.

    python server.py LOG [--ttft-ms 50 --gap-ms 10 --per-chunk 1 --cpu N]

Prints its port. One thread, one selector, pieces prepared beforehand, so that it is late itself as
rarely as possible; and as it logs when the kernel had the request and the true moment of sending,
its own lateness is not charged to a client. Ends on SIGTERM and then writes LOG: JSON, per request
(body field `user`, else its number) the time of arrival and the times of sending, in seconds of
CLOCK_REALTIME.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import json
import os
import re
import select
import signal
import socket
import struct
import time
from pathlib import Path


def piece(payload: dict | None) -> bytes:
    data = b"data: " + (b"[DONE]" if payload is None else json.dumps(payload).encode()) + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def chunk(delta: dict, usage: dict | None, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    head = {"id": "0" * 32, "object": "chat.completion.chunk", "created": 1, "model": "truth"}
    return piece({**head, "choices": [choice], "usage": usage})


LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
SO_TIMESTAMPNS, STAMP = 35, struct.Struct("@ll")
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
MODEL_LIST = b'{"object": "list", "data": [{"id": "truth", "object": "model"}]}'
MODELS = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
    len(MODEL_LIST),
    MODEL_LIST,
)
HEAD = (
    b"HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\nserver: truth\r\n"
    b"content-type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def pieces(tokens: int, per_chunk: int, each: bool) -> list[bytes]:
    """The writes of one response; `each`: usage in every chunk."""
    made = []
    sent = 0
    while sent < tokens:
        count = min(per_chunk, tokens - sent)
        sent += count
        usage = {"prompt_tokens": 9, "total_tokens": 9 + sent, "completion_tokens": sent}
        made.append(chunk({"content": "word " * count}, usage if each else None))
    made[0] = HEAD + chunk({"role": "assistant", "content": ""}, None) + made[0]
    usage = {"prompt_tokens": 9, "total_tokens": 9 + tokens, "completion_tokens": tokens}
    made[-1] += chunk({}, None, "length") + piece({"choices": [], "usage": usage}) + piece(None)
    made[-1] += b"0\r\n\r\n"
    return made


class Peer:
    """One connection, and the part of a request that has come so far."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.heard = b""

    def request(self, data: bytes) -> tuple[bytes, bytes] | None:
        """(head, body) once all of it is here; clients may send the two one after the other."""
        self.heard += data
        head, blank, body = self.heard.partition(b"\r\n\r\n")
        size = LENGTH.search(head)
        if not blank or len(body) < (int(size[1]) if size else 0):
            return None
        self.heard = b""
        return head, body


class TruthServer:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.listener.setblocking(False)
        self.poller = select.epoll()
        self.poller.register(self.listener.fileno(), select.EPOLLIN)
        self.peers: dict[int, Peer] = {}
        self.due: list[tuple[float, int, Peer, list[bytes], int, list[float]]] = []
        self.log: dict[str, list[float]] = {}
        self.made: dict[tuple[int, bool], list[bytes]] = {}
        self.order = 0
        self.ended = False

    def serve(self) -> None:
        while not self.ended:
            wait = 0.2
            if self.due:
                wait = max(0.0, self.due[0][0] - time.time())
            for fd, _ in self.poller.poll(wait):
                self.readable(fd)
            self.send_due()

    def send_due(self) -> None:
        gap = self.options.gap_ms / 1e3
        while self.due and self.due[0][0] <= time.time():
            at, _, peer, made, index, log = heapq.heappop(self.due)
            log.append(time.time())
            with contextlib.suppress(OSError):  # a client that is ended in the midst of it
                peer.sock.send(made[index])
            if index + 1 < len(made):
                self.order += 1
                heapq.heappush(self.due, (at + gap, self.order, peer, made, index + 1, log))

    def readable(self, fd: int) -> None:
        if fd == self.listener.fileno():
            sock, _ = self.listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            self.peers[sock.fileno()] = Peer(sock)
            self.poller.register(sock.fileno(), select.EPOLLIN)
            return
        peer = self.peers[fd]
        try:
            data, control, _, _ = peer.sock.recvmsg(65536, 64)
        except OSError:
            data, control = b"", []
        if not data:
            self.poller.unregister(fd)
            self.peers.pop(fd).sock.close()
            return
        request = peer.request(data)
        if request is not None:
            seconds, nanoseconds = STAMP.unpack(control[0][2]) if control else (time.time(), 0)
            self.answer(peer, *request, seconds + nanoseconds * 1e-9)

    def answer(self, peer: Peer, head: bytes, content: bytes, came: float) -> None:
        path = head.split()[1]
        if not path.startswith(b"/v1/chat"):
            peer.sock.send(MODELS if path == b"/v1/models" else NOT_FOUND)
            return
        body = json.loads(content)
        each = bool((body.get("stream_options") or {}).get("continuous_usage_stats"))
        key = (body.get("max_tokens") or body["max_completion_tokens"], each)
        if key not in self.made:
            self.made[key] = pieces(key[0], self.options.per_chunk, each)
        log = self.log.setdefault(body.get("user") or f"number {len(self.log)}", [])
        log.append(came)
        self.order += 1
        first = time.time() + self.options.ttft_ms / 1e3
        heapq.heappush(self.due, (first, self.order, peer, self.made[key], 0, log))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("--ttft-ms", type=float, default=50.0)
    parser.add_argument("--gap-ms", type=float, default=10.0)
    parser.add_argument("--per-chunk", type=int, default=1)
    parser.add_argument("--cpu", type=int)
    options = parser.parse_args()
    if options.cpu is not None:
        os.sched_setaffinity(0, {options.cpu})
    server = TruthServer(options)
    signal.signal(signal.SIGTERM, lambda *_: setattr(server, "ended", True))
    print(server.listener.getsockname()[1], flush=True)
    server.serve()
    options.log.write_text(json.dumps(server.log))


if __name__ == "__main__":
    main()
