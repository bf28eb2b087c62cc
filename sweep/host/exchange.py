"""One command on an open channel: its input fed, both outputs drained, its end known."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import paramiko

CHUNK = 1 << 16
POLL_S = 0.2  # how often a waiting read or write looks at the clock


@dataclass(frozen=True)
class Outcome:
    """`exit_status` is None when the time was up first, -1 when none was sent.

    `whole`: the far end itself closed the outputs, so nothing is missing from them.
    """

    exit_status: int | None
    stdout: bytes
    stderr: bytes
    whole: bool


def converse(channel: paramiko.Channel, stdin: bytes, timeout_s: float) -> Outcome:
    """Feed and drain the command that runs on the channel, until it ended or the time is up.

    Both directions at once: a command that fills a pipe nobody reads would never end.
    """
    end = time.monotonic() + timeout_s
    channel.settimeout(POLL_S)
    stdout, stderr = bytearray(), bytearray()
    feeder = threading.Thread(target=_feed, args=(channel, stdin, end), daemon=True)
    errors = threading.Thread(target=_drain, args=(channel.recv_stderr, stderr, end), daemon=True)
    if stdin:
        feeder.start()
    else:
        _feed(channel, stdin, end)  # its end alone waits for nobody
    errors.start()
    in_time = _drain(channel.recv, stdout, end)
    errors.join()
    in_time = in_time and channel.status_event.wait(max(0.0, end - time.monotonic()))
    whole = bool(channel.eof_received)
    channel.close()
    if stdin:
        feeder.join()
    status = channel.exit_status if in_time else None
    return Outcome(status, bytes(stdout), bytes(stderr), whole)


def _drain(receive: Callable[[int], bytes], into: bytearray, end: float) -> bool:
    """False when the time was up before the end of the stream."""
    while True:
        try:
            data = receive(CHUNK)
        except TimeoutError:
            data = None
        if data == b"":
            return True
        if data:
            into += data
        if time.monotonic() > end:
            return False


def _feed(channel: paramiko.Channel, data: bytes, end: float) -> None:
    sent = 0
    try:
        while sent < len(data) and time.monotonic() < end:
            try:
                sent += channel.send(data[sent : sent + CHUNK])
            except TimeoutError:
                continue
        channel.shutdown_write()
    except (OSError, EOFError, paramiko.SSHException):
        return  # the command ended without reading all, or the connection is lost: both show
