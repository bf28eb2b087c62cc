"""What every kind of unit has: its file, its state, and how `systemctl show` names them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Literal

from sweep.demo.manager.unitfile import RELATIONS, UnitFile
from sweep.demo.manager.world import World

# How a job ended.
Outcome = Literal["done", "failed", "canceled", "dependency"]


class Unit:
    """One loaded unit. Subclasses start and stop it; `active` and `sub` are systemd's words."""

    def __init__(self, name: str, world: World, file: UnitFile) -> None:
        self.name = name
        self.world = world
        self.file = file
        self.transient = False
        self.collect = False
        self.active = "inactive"
        self.sub = "dead"
        self.result = "success"
        self.invocation_id = ""
        self.changed_at = 0.0
        self._changed = asyncio.Event()

    @property
    def running(self) -> bool:
        return self.active in ("active", "activating", "deactivating", "reloading")

    @property
    def exists(self) -> bool:
        return self.file.known

    @property
    def title(self) -> str:
        """`NAME - Description`, as the journal has it."""
        described = self.file.get("Description", "", "Unit")
        return f"{self.name} - {described}" if described else self.name

    def names(self, relation: str) -> tuple[str, ...]:
        return self.triggers() if relation == "Triggers" else self.file.names(relation)

    def triggers(self) -> tuple[str, ...]:
        return ()

    def refers_to(self, name: str) -> bool:
        """Whether this unit keeps another one loaded."""
        return any(name in self.names(relation) for relation in (*RELATIONS, "Triggers"))

    async def start(self) -> Outcome:
        raise NotImplementedError

    async def stop(self) -> Outcome:
        raise NotImplementedError

    async def until_ended(self) -> None:
        while self.running:
            self._changed.clear()
            await self._changed.wait()

    def reset_failed(self) -> None:
        if self.active == "failed":
            self.set_state("inactive", "dead")
        self.result = "success"

    def set_state(self, active: str, sub: str) -> None:
        self.active, self.sub = active, sub
        self.changed_at = time.time()
        self._changed.set()

    def say(self, message: str, priority: int = 6) -> None:
        self.world.say(self.name, self.invocation_id, message, priority)

    def properties(self) -> dict[str, str]:
        """In systemd's names; relations from the other side are added by the registry."""
        file = self.file
        found: dict[str, str] = {
            "Id": self.name,
            "Names": self.name,
            **{relation: " ".join(self.names(relation)) for relation in RELATIONS},
            "Triggers": " ".join(self.names("Triggers")),
            "PropagatesStopTo": "",
            "Description": file.get("Description", self.name, "Unit"),
            **self._loading(),
            "ActiveState": self.active,
            "FreezerState": "running",
            "SubState": self.sub,
            "FragmentPath": file.path,
            "DropInPaths": " ".join(file.drop_ins),
            "StateChangeTimestamp": timestamp(self.changed_at),
            "InvocationID": self.invocation_id,
            "Transient": "yes" if self.transient else "no",
            "CollectMode": "inactive-or-failed" if self.collect else "inactive",
            "NeedDaemonReload": "no",
            "Result": self.result,
        }
        found.update(self.more_properties())
        return found

    def _loading(self) -> dict[str, str]:
        if self.file.bad:
            why = f'BadUnitSetting "Unit {self.name} has a bad unit file setting."'
            return {"LoadState": "bad-setting", "LoadError": f"org.freedesktop.systemd1.{why}"}
        if self.exists or self.running:
            return {"LoadState": "loaded", "LoadError": ""}
        why = f'NoSuchUnit "Unit {self.name} not found."'
        return {"LoadState": "not-found", "LoadError": f"org.freedesktop.systemd1.{why}"}

    def more_properties(self) -> Mapping[str, str]:
        return {}


class Target(Unit):
    """A name for other units: up as soon as it is asked to be."""

    async def start(self) -> Outcome:
        self.set_state("active", "active")
        return "done"

    async def stop(self) -> Outcome:
        self.set_state("inactive", "dead")
        return "done"


def timestamp(moment: float) -> str:
    """As systemctl prints moments; empty for never."""
    return time.strftime("%a %Y-%m-%d %H:%M:%S %Z", time.localtime(moment)) if moment else ""
