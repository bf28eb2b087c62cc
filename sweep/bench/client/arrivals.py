"""What came back for one request: the bytes, and when each read of them came."""

from __future__ import annotations

import array
import itertools
import operator
from typing import List, Optional, Tuple

STAMP_SIZE = 2 * array.array("l").itemsize  # a struct timespec: seconds, nanoseconds
UNKNOWN = bytes(STAMP_SIZE)


class Arrivals:
    """Reads, one after the other. While it is timed they are only kept, as they are.

    `read`: when each was read (seconds of CLOCK_REALTIME, just after); `stamps`: the kernel's
    (SO_TIMESTAMPNS), UNKNOWN where it gave none; `data`: the bytes. Times are packed: as objects
    they would lie all over the memory, and take longer to find again than to reckon with.
    """

    __slots__ = ("_known", "data", "read", "stamps")

    def __init__(self) -> None:
        self.read = array.array("d")
        self.stamps = bytearray()
        self.data: List[bytes] = []
        self._known: Tuple[List[float], List[float]] = ([], [])

    def note(self, at: float, stamp: Optional[bytes], data: bytes) -> None:
        self.read.append(at)
        self.stamps += stamp or UNKNOWN
        self.data.append(data)

    def __len__(self) -> int:
        return len(self.data)

    @property
    def last(self) -> Optional[float]:
        """When the last one was read."""
        return self.read[-1] if self.read else None

    @property
    def raw(self) -> bytes:
        return b"".join(self.data)

    @property
    def ends(self) -> List[int]:
        """Where each ends in the raw bytes."""
        return list(itertools.accumulate(map(len, self.data)))

    def tail(self, size: int) -> bytes:
        """So many of the last bytes, or some more."""
        last = b""
        for data in reversed(self.data):
            last = data + last
            if len(last) >= size:
                break
        return last

    def moments(self) -> List[float]:
        """When the kernel had each, else when it was read; in seconds of CLOCK_REALTIME.

        A read that joined several packets carries the time of the last one (Linux, tcp_recvmsg).
        """
        return self._times()[0]

    def lags(self) -> List[float]:
        """Seconds from the kernel's stamp to the reading, of each read that has a stamp."""
        return self._times()[1]

    def _times(self) -> Tuple[List[float], List[float]]:
        """Moments and lags, worked out once, as both are asked for."""
        if len(self._known[0]) == len(self):
            return self._known
        read = self.read
        whole = len(self.stamps) == STAMP_SIZE * len(read)
        packed = array.array("l", bytes(self.stamps) if whole else UNKNOWN * len(read))
        seconds, parts = packed[::2], map(operator.mul, packed[1::2], itertools.repeat(1e-9))
        moments = list(map(operator.add, seconds, parts))
        lags = list(map(operator.sub, read, moments))
        if 0 in seconds:
            lags = [lag for lag, second in zip(lags, seconds) if second]
            moments = [moment or at for moment, at in zip(moments, read)]
        self._known = moments, lags
        return self._known
