"""What came back for one request: the bytes, and when each read of them came."""

from __future__ import annotations

import array
import itertools
import operator
from typing import Any, List, Optional, Tuple

STAMP_SIZE = 16  # a struct timespec: seconds and nanoseconds, a long each
UNKNOWN = bytes(STAMP_SIZE)


class Arrivals:
    """Reads, one after the other. While it is timed they are only kept, as they are.

    `log` holds three things for each, which is cheaper than an object of them: when it was read
    (seconds of CLOCK_REALTIME, just after), the kernel's stamp (SO_TIMESTAMPNS; None: it gave none)
    and the bytes.
    """

    __slots__ = ("_known", "log")

    def __init__(self) -> None:
        self.log: List[Any] = []
        self._known: Tuple[List[float], List[float]] = ([], [])

    def note(self, at: float, stamp: Optional[bytes], data: bytes) -> None:
        self.log += (at, stamp, data)

    def __len__(self) -> int:
        return len(self.log) // 3

    @property
    def last(self) -> Optional[float]:
        """When the last one was read."""
        return self.log[-3] if self.log else None

    @property
    def read(self) -> List[float]:
        return self.log[::3]

    @property
    def data(self) -> List[bytes]:
        return self.log[2::3]

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
        for data in self.log[:1:-3]:
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
        stamps, read = self.log[1::3], self.read
        whole = all(stamps) and set(map(len, stamps)) == {STAMP_SIZE}
        if not whole:
            stamps = [one if one and len(one) == STAMP_SIZE else UNKNOWN for one in stamps]
        packed = array.array("l", b"".join(stamps))
        times = zip(packed[::2], packed[1::2], read)
        moments = [second + part * 1e-9 if second else at for second, part, at in times]
        lags = list(map(operator.sub, read, moments))
        if not whole:
            lags = [lag for lag, stamp in zip(lags, stamps) if stamp is not UNKNOWN]
        self._known = moments, lags
        return self._known
