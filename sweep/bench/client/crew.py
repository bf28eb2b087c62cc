"""Several processes that measure together, where one core is not enough.

Each has its share of the places, and takes the next request when one is free. They connect, begin
when all have, and obey the process that started them: it alone knows the deadline, the signals and
the progress file.
"""

from __future__ import annotations

import array
import errno
import os
import tempfile
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

from .exchange import Exchange
from .guard import TICK_S, Clock, Guard, Spoilt, never
from .part import Part

# In flight, for each process: less than half a core where each gets a chunk every 5 ms.
PLACES = 128
GO = "go"
COUNTED = ("done", "failed", "tokens", "flying")


class Progress(NamedTuple):
    """How far one of them is. `silent_s`, `heard`: as `Guard.silent` has them."""

    counts: Dict[str, int]
    silent_s: float = 0.0
    heard: bool = False


class Share(NamedTuple):
    """What one process does: so many in flight, as long as there are `exchanges` that wait.

    `waiting`: those that nobody has taken yet, one after the other.
    """

    places: int
    exchanges: Sequence[Exchange]
    waiting: Iterator[Exchange]


Work = Callable[[Share, Guard, Callable[[], None]], Part]  # the last is to be called once connected


def processes(job: Dict[str, Any]) -> int:
    """How many are to measure: as many as the job says, else what the cores allow."""
    places = int(job["concurrency"])
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    wanted = int(job.get("processes") or min(here, -(-places // PLACES)))
    return max(1, min(places, wanted))


def queue(count: int) -> BinaryIO:
    """A file of the numbers below `count`, for `in_turn`."""
    file: BinaryIO = tempfile.TemporaryFile(buffering=0)
    numbers = array.array("L", range(count)).tobytes()
    if file.write(numbers) != len(numbers):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    file.seek(0)
    return file


def in_turn(exchanges: Sequence[Exchange], numbers: BinaryIO) -> Iterator[Exchange]:
    """Each of them goes to one of the processes that have this file from the one that opened it.

    They share its place in it, and the kernel lets one read at a time. So whoever has room takes
    the next, and none of them is out of work before the others.
    """
    while True:
        read = numbers.read(array.array("L").itemsize)
        if not read:
            return
        yield exchanges[array.array("L", read)[0]]


class Obedient(Guard):
    """The guard of one of them: tells the first process how far it is, and ends when told to."""

    def __init__(self, pipe: Any, clock: Clock) -> None:
        super().__init__({"timeout_s": 0}, clock, never)  # no limit is judged here
        self.pipe = pipe
        self.seen = Progress({})

    def connected(self) -> None:
        """Waits for the others. Spoilt when there is nothing to wait for any more."""
        self.pipe.send(None)
        self._hear()
        self.check()

    def verdict(self) -> Optional[str]:
        if self.reason is None and self.pipe.poll():
            self._hear()
        return self.reason

    def _hear(self) -> None:
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            said = "the process that started this one has gone"
        self.reason = None if said == GO else said

    def silent(self, seconds: float, heard: bool) -> None:
        self.seen = Progress({}, seconds, heard)

    def tell(self, counts: Dict[str, int]) -> None:
        self.pipe.send(self.seen._replace(counts=counts))


class Member:
    """One process, as the one that started it sees it."""

    def __init__(self, process: Any, pipe: Any) -> None:
        self.process = process
        self.pipe = pipe
        self.progress = Progress(dict.fromkeys(COUNTED, 0))
        self.connected = False
        self.part: Optional[Part] = None
        self.idle_since = 0.0

    def hear(self, now: float) -> None:
        """Takes one message: Progress, Part, or None: it has connected.

        Raises Spoilt: what it met, or that it died.
        """
        try:
            said: Any = self.pipe.recv()
        except (EOFError, OSError) as error:
            self.process.join(TICK_S)
            code = self.process.exitcode
            raise Spoilt("a process of the client ended early (exit code %s)" % code) from error
        if isinstance(said, Spoilt):
            raise said
        if isinstance(said, Progress):
            if self.owed and not said.counts["flying"]:
                self.idle_since = now
            self.progress = said
        elif isinstance(said, Part):
            self.part = said
        else:
            self.connected = True

    @property
    def owed(self) -> bool:
        """Does the server owe it something?"""
        return self.progress.counts["flying"] > 0

    def silent_s(self, now: float) -> float:
        """How long nothing has come to it, as far as it has told."""
        return self.progress.silent_s if self.owed else now - self.idle_since

    def say(self, word: str) -> None:
        if self.part is None:
            try:
                self.pipe.send(word)
            except OSError:  # it died, which `hear` tells
                pass


class Crew:
    """All of them. `measure` starts them, and leaves none behind."""

    def __init__(self, guard: Guard, exchanges: Sequence[Exchange]) -> None:
        self.guard = guard
        self.exchanges = exchanges
        self.members: List[Member] = []
        self.ordered: List[str] = []

    def measure(self, places: int, count: int, work: Work) -> List[Part]:
        """Returns what each of `count` has when all is answered, or the guard wants an end.

        Raises Spoilt when one of them dies or cannot connect.
        """
        try:
            with queue(len(self.exchanges)) as numbers:
                for number in range(count):
                    waiting = in_turn(self.exchanges, numbers)
                    share = Share(len(range(number, places, count)), self.exchanges, waiting)
                    self._start(share, work)
            return self._parts()
        except OSError as error:  # no process or no temporary file can be made
            raise Spoilt("cannot measure with %d processes: %s" % (count, error)) from error
        finally:
            for member in self.members:
                member.process.kill()
                member.process.join()
                member.pipe.close()

    def _start(self, share: Share, work: Work) -> None:
        # Forked: what there is to send is there already, and nothing is to be found or imported.
        from multiprocessing import get_context  # noqa: PLC0415 - one is enough, as a rule

        context = get_context("fork")
        ours, theirs = context.Pipe()
        others = [member.pipe for member in self.members]
        arguments = (theirs, [*others, ours], self.guard.clock, share, work)
        process = context.Process(target=obey, args=arguments)
        process.start()
        self.members.append(Member(process, ours))
        theirs.close()

    def _parts(self) -> List[Part]:
        from multiprocessing.connection import wait  # noqa: PLC0415

        while True:
            busy = [member for member in self.members if member.part is None]
            if not busy:
                return self._whole([one.part for one in self.members if one.part is not None])
            ready = wait([member.pipe for member in busy], TICK_S)
            for member in busy:
                if member.pipe in ready:
                    self._hear(member)
            if all(member.connected for member in self.members):
                self._order(GO)
            self._judge()

    def _whole(self, parts: List[Part]) -> List[Part]:
        """Spoilt if a request was nobody's, or more than one's: a kernel that shares no place."""
        indexes = sorted(item["index"] for one in parts for item in one.records)
        if indexes != list(range(len(self.exchanges))):
            counts = (len(self.exchanges), len(indexes), PLACES)
            hint = "; with up to %d in flight one process measures alone"
            raise Spoilt(("%d requests were taken %d times" + hint) % counts)
        return parts

    def _hear(self, member: Member) -> None:
        try:
            member.hear(self.guard.clock.monotonic())
        except Spoilt:
            self.guard.check()  # it only did what it was told: this is why
            raise

    def _judge(self) -> None:
        """Ends all if the guard says so: silent is the server only if it is so to all of them."""
        counts = [member.progress.counts for member in self.members]
        total = {name: sum(one[name] for one in counts) for name in COUNTED}
        now, silent_s = self.guard.clock.monotonic(), 0.0
        if total["flying"]:
            silent_s = min(member.silent_s(now) for member in self.members)
        self.guard.silent(silent_s, any(member.progress.heard for member in self.members))
        reason = self.guard.verdict()
        if reason is not None:
            self._order(reason)
        total.update(requests=len(self.exchanges), silent_s=int(silent_s))
        self.guard.tell(total)

    def _order(self, word: str) -> None:
        if word not in self.ordered:
            self.ordered.append(word)
            for member in self.members:
                member.say(word)


def obey(pipe: Any, others: List[Any], clock: Clock, share: Share, work: Work) -> None:
    """What one of them does, in a process of its own."""
    for other in others:
        other.close()  # else it would not be told when the first process has gone
    guard = Obedient(pipe, clock)
    try:
        try:
            told: Any = work(share, guard, guard.connected)
        except Spoilt as spoilt:
            told = spoilt
        pipe.send(told)
    except ConnectionError:
        pass  # the first process has gone: nobody wants to know any more
