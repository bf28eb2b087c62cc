"""Timers that start a service some time after they were started themselves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from sweep.demo.manager.unit import Outcome, Unit, timestamp
from sweep.demo.manager.unitfile import UnitFile
from sweep.demo.manager.world import World


class Timer(Unit):
    """OnActiveSec= only. `fire` starts the service; it returns when that has ended."""

    def __init__(
        self,
        name: str,
        world: World,
        file: UnitFile,
        fire: Callable[[str], Awaitable[None]],
        on_end: Callable[[Unit], None],
    ) -> None:
        super().__init__(name, world, file)
        self._fire = fire
        self._on_end = on_end
        self._waiting: asyncio.Task[None] | None = None
        self.next_at = 0.0
        self.last_at = 0.0

    def triggers(self) -> tuple[str, ...]:
        default = f"{self.name.removesuffix('.timer')}.service"
        return (self.file.get("Unit", default, "Timer"),)

    async def start(self) -> Outcome:
        if self._waiting is None:
            seconds = self.file.seconds("OnActiveSec", 0, "Timer")
            self.next_at = time.time() + seconds
            self._waiting = asyncio.get_running_loop().create_task(self._elapse(seconds))
            self.set_state("active", "waiting")
            self.say(f"Started {self.title}.")
        return "done"

    async def stop(self) -> Outcome:
        if self._waiting is not None:
            self._waiting.cancel()
            self._end()
        return "done"

    async def _elapse(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.last_at = time.time()
        self.next_at = 0.0
        self.set_state("active", "running")
        # What the timer started goes on when the timer is stopped now.
        await asyncio.shield(asyncio.ensure_future(self._fire(self.triggers()[0])))
        self._end()

    def _end(self) -> None:
        self._waiting = None
        self.next_at = 0.0
        self.set_state("inactive", "dead")
        self.say(f"{self.name}: Deactivated successfully.")
        self._on_end(self)

    def more_properties(self) -> Mapping[str, str]:
        return {
            "Unit": " ".join(self.triggers()),
            "NextElapseUSecRealtime": timestamp(self.next_at),
            "LastTriggerUSec": timestamp(self.last_at),
        }
