"""A server whose every token has a known time: it keeps a log of when it really sent each.

    python truth_server.py LOG [--ttft-ms 50 --gap-ms 10 --per-chunk 1 --cpu N]

Prints its port. One thread, one selector, pieces prepared beforehand, so that it is late itself as
rarely as possible; and as it logs the true moment of sending, its own lateness is not charged to
a client. Ends on SIGTERM and then writes LOG: JSON, per request (body field `user`) the time of
arrival and the times of sending, in seconds of CLOCK_REALTIME.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import select
import signal
import socket
import time
from pathlib import Path


def piece(payload: dict | None) -> bytes:
    data = b"data: " + (b"[DONE]" if payload is None else json.dumps(payload).encode()) + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def chunk(delta: dict, usage: dict | None, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    head = {"id": "0" * 32, "object": "chat.completion.chunk", "created": 1, "model": "truth"}
    return piece({**head, "choices": [choice], "usage": usage})


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


class TruthServer:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.listener.setblocking(False)
        self.poller = select.epoll()
        self.poller.register(self.listener.fileno(), select.EPOLLIN)
        self.peers: dict[int, socket.socket] = {}
        self.due: list[tuple[float, int, int, list[bytes], int, list[float]]] = []
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
            at, _, fd, made, index, log = heapq.heappop(self.due)
            log.append(time.time())
            self.peers[fd].send(made[index])
            if index + 1 < len(made):
                self.order += 1
                heapq.heappush(self.due, (at + gap, self.order, fd, made, index + 1, log))

    def readable(self, fd: int) -> None:
        if fd == self.listener.fileno():
            peer, _ = self.listener.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.peers[peer.fileno()] = peer
            self.poller.register(peer.fileno(), select.EPOLLIN)
            return
        data = self.peers[fd].recv(65536)
        now = time.time()
        if not data:
            self.poller.unregister(fd)
            self.peers.pop(fd).close()
            return
        if not data.startswith(b"POST /v1"):
            self.peers[fd].send(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return
        body = json.loads(data.partition(b"\r\n\r\n")[2])
        each = bool(body["stream_options"].get("continuous_usage_stats"))
        key = (body["max_tokens"], each)
        if key not in self.made:
            self.made[key] = pieces(key[0], self.options.per_chunk, each)
        log = self.log.setdefault(body["user"], [])
        log.append(now)
        self.order += 1
        first = now + self.options.ttft_ms / 1e3
        heapq.heappush(self.due, (first, self.order, fd, self.made[key], 0, log))


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
