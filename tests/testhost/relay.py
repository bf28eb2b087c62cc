"""Frames between an interface and a tap, late and lossy. A process of its own, see `Link.delay`.

Frames keep their offload headers, so that what the kernel left to the hardware still works.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import random
import select
import socket
import struct
import sys
import time

SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
ETH_P_ALL = 3
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x2, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6 = 1, 2, 4
LARGEST_FRAME = 70_000
BURST = 64


def open_interface(name: str) -> int:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    sock.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    sock.bind((name, 0))
    sock.setblocking(False)
    return sock.detach()


def open_tap(name: str) -> int:
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6)
    return tap


def relay(near: int, far: int, late_s: float, loss: float) -> None:
    other = {near: far, far: near}
    queue: list[tuple[float, int, int, bytes]] = []
    number = 0
    while True:
        wait = max(0.0, queue[0][0] - time.monotonic()) if queue else None
        for fd in select.select([near, far], [], [], wait)[0]:
            with contextlib.suppress(OSError):
                for _ in range(BURST):
                    frame = os.read(fd, LARGEST_FRAME)
                    number += 1
                    if random.random() >= loss:
                        due = time.monotonic() + late_s
                        heapq.heappush(queue, (due, number, other[fd], frame))
        while queue and queue[0][0] <= time.monotonic():
            _, _, fd, frame = heapq.heappop(queue)
            with contextlib.suppress(OSError):
                os.write(fd, frame)


if __name__ == "__main__":
    interface, tap, late, lost = sys.argv[1:]
    relay(open_interface(interface), open_tap(tap), float(late), float(lost))
