"""All units of one manager: loading, forgetting, and jobs with what they pull in."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterable, Iterator

from sweep.demo.manager.process import send
from sweep.demo.manager.service import Service
from sweep.demo.manager.timer import Timer
from sweep.demo.manager.unit import Outcome, Target, Unit
from sweep.demo.manager.unitfile import REVERSE, UnitFile, load
from sweep.demo.manager.world import World

# Stopping a unit stops those that name it in one of these.
STOPPED_WITH = ("Requires", "Requisite", "BindsTo", "PartOf")


class NotFound(Exception):
    """No unit file and no transient unit has that name."""


class Registry:
    """Units by name. A unit is loaded while it runs, has failed, or another loaded one names it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._units: dict[str, Unit] = {}
        self._held: list[str] = []
        self._background: set[asyncio.Task[None]] = set()

    def unit(self, name: str) -> Unit:
        """The unit as it stands; one that is nowhere has no file."""
        if name not in self._units:
            file = load(name, self.world.directories, self.world.specifiers)
            self._units[name] = self._make(name, file)
        return self._units[name]

    def existing(self, name: str) -> Unit:
        unit = self.unit(name)
        if not unit.exists and not unit.running:
            raise NotFound(name)
        return unit

    def loaded(self, name: str) -> Unit | None:
        """The unit if it is worth remembering: running, failed, or a transient one."""
        unit = self._units.get(name)
        known = unit and (unit.running or unit.active == "failed" or unit.transient)
        return unit if known else None

    def add_transient(self, file: UnitFile, *, collect: bool) -> Unit:
        unit = self._make(file.name, file)
        unit.transient, unit.collect = True, collect
        self._units[file.name] = unit
        return unit

    def names(self) -> list[str]:
        """Of the loaded units."""
        return sorted(self._units)

    def all(self) -> Iterable[Unit]:
        """Loaded units and those that have a file."""
        files = {
            path.name
            for directory in self.world.directories
            if directory.is_dir()
            for path in directory.iterdir()
            if path.is_file()
        }
        return [self.unit(name) for name in sorted(files | set(self._units))]

    def reload(self) -> None:
        """daemon-reload: unit files are read anew."""
        for name, unit in list(self._units.items()):
            if not unit.transient:
                unit.file = load(name, self.world.directories, self.world.specifiers)
        self.forget()

    def forget(self) -> None:
        """Unload what nothing keeps; a loaded unit keeps those it names."""
        gone = [name for name in self._units if not self._kept(name)]
        while gone:
            for name in gone:
                del self._units[name]
            gone = [name for name in self._units if not self._kept(name)]

    def _kept(self, name: str) -> bool:
        unit = self._units[name]
        if unit.running or name in self._held or self.enabled(name):
            return True
        if unit.active == "failed" and not unit.collect:
            return True
        return any(
            other.refers_to(name)
            for other in self._units.values()
            if other is not unit and (other.running or other.transient or other.name in self._held)
        )

    def enabled(self, name: str) -> bool:
        """Whether a boot starts it; such a unit stays loaded."""
        return any(
            (place / f"{target}.target.wants" / name).is_symlink()
            for place in self.world.directories
            for target in ("multi-user", "default")
        )

    def reverse(self, name: str) -> dict[str, str]:
        """Relations as `show` has them from the other side: RequiredBy=, TriggeredBy=, ..."""
        everything = list(self.all())
        return {
            shown: " ".join(other.name for other in everything if name in other.names(relation))
            for relation, shown in REVERSE.items()
        }

    # Jobs.

    async def start(self, name: str, *, alone: bool = False) -> Outcome:
        """Start with what it needs, after stopping what it conflicts with; `alone` only itself."""
        with self._holding(name) as unit:
            return await (unit.start() if alone else self._start_all(unit))

    async def _start_all(self, unit: Unit) -> Outcome:
        name = unit.name
        rivals = [
            other
            for other in list(self._units.values())
            if other.running and (name in other.names("Conflicts") or _names(unit, other))
        ]
        ordered = [rival for rival in rivals if _ordered(unit, rival)]
        others = [rival for rival in rivals if rival not in ordered]
        beside = [asyncio.ensure_future(self.stop(rival.name)) for rival in others]
        await asyncio.gather(*(self.stop(rival.name) for rival in ordered))
        if not await self._start_needed(unit):
            return "dependency"
        outcome = await unit.start()
        await asyncio.gather(*beside)
        return outcome

    async def _start_needed(self, unit: Unit) -> bool:
        for name in (*unit.names("Requires"), *unit.names("BindsTo")):
            try:
                if await self.start(name) != "done":
                    return False
            except NotFound:
                return False
        for name in unit.names("Wants"):
            if self.unit(name).exists:
                await self.start(name)
        return True

    async def stop(self, name: str) -> Outcome:
        """Stop it and what stops with it; those ordered after it go first."""
        with self._holding(name) as unit:
            with_it = self.stopped_with(name)
            first = [other for other in with_it if name in other.names("After")]
            await asyncio.gather(*(self.stop(other.name) for other in first))
            rest = [other for other in with_it if other not in first]
            outcome, *_ = await asyncio.gather(unit.stop(), *(self.stop(one.name) for one in rest))
            return outcome

    def stopped_with(self, name: str) -> list[Unit]:
        return [
            other
            for other in list(self._units.values())
            if other.running
            and other.active != "deactivating"
            and any(name in other.names(relation) for relation in STOPPED_WITH)
        ]

    async def restart(self, name: str) -> Outcome:
        with self._holding(name):
            again = [one.name for one in self.stopped_with(name)]
            await self.stop(name)
            outcome = await self.start(name)
        for other in again:
            await self.start(other)
        return outcome

    @contextlib.contextmanager
    def _holding(self, name: str) -> Iterator[Unit]:
        """A unit with a job stays loaded, though it may run neither before nor after."""
        unit = self.existing(name)
        self._held.append(name)
        try:
            yield unit
        finally:
            self._held.remove(name)
            self.forget()

    async def stop_all(self) -> None:
        """The host goes down: services first, nothing is started again."""
        running = [unit for unit in self._units.values() if unit.running]
        timers = [unit for unit in running if isinstance(unit, Timer)]
        await asyncio.gather(*(unit.stop() for unit in timers))
        await asyncio.gather(*(unit.stop() for unit in running if unit not in timers))

    def kill_all(self) -> None:
        """Power off: whatever is left of any unit dies at once."""
        for unit in self._units.values():
            if isinstance(unit, Service):
                send(unit.pids(), signal.SIGKILL)

    def _make(self, name: str, file: UnitFile) -> Unit:
        if name.endswith(".timer"):
            return Timer(name, self.world, file, self._fire, self._ended)
        if name.endswith(".service"):
            return Service(name, self.world, file, self._ended)
        return Target(name, self.world, file)

    async def _fire(self, name: str) -> None:
        await self.start(name)
        await self.unit(name).until_ended()

    def _ended(self, unit: Unit) -> None:
        """Some units may not outlive another; what nobody names any more is forgotten."""
        bound = [
            other
            for other in list(self._units.values())
            if other.running and unit.name in other.names("BindsTo")
        ]
        for other in bound:
            task = asyncio.get_running_loop().create_task(self._stop_quietly(other.name))
            self._background.add(task)
            task.add_done_callback(self._background.discard)
        asyncio.get_running_loop().call_soon(self.forget)

    async def _stop_quietly(self, name: str) -> None:
        await self.stop(name)


def _names(unit: Unit, other: Unit) -> bool:
    return other.name in unit.names("Conflicts")


def _ordered(one: Unit, other: Unit) -> bool:
    """Whether After= or Before= orders the two, in whichever direction."""
    return any(
        second.name in first.names(relation)
        for first, second in ((one, other), (other, one))
        for relation in ("After", "Before")
    )
