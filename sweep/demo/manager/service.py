"""A service's life: set up, started, watched, stopped, started again when its unit says so."""

from __future__ import annotations

import asyncio
import signal
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress

from sweep.demo.manager.execution import run_command, unit_environment
from sweep.demo.manager.exits import judge
from sweep.demo.manager.journal import Stream
from sweep.demo.manager.limits import StartLimit
from sweep.demo.manager.process import SetupFailed, members, send
from sweep.demo.manager.unit import Outcome, Unit, timestamp
from sweep.demo.manager.unitfile import Command, UnitFile
from sweep.demo.manager.world import World

INFINITE = float("inf")
_LOOK_S = 0.02


class Service(Unit):
    """One service unit. `on_end` hears every end that leaves it inactive or failed."""

    def __init__(
        self, name: str, world: World, file: UnitFile, on_end: Callable[[Unit], None]
    ) -> None:
        super().__init__(name, world, file)
        self._on_end = on_end
        self.exec_code = 0
        self.exec_status = 0
        self.main_pid = 0
        self.n_restarts = 0
        self.started_at = 0.0
        self._session = 0
        self._limit = StartLimit()
        self._life: asyncio.Task[None] | None = None
        self._up: asyncio.Future[Outcome] | None = None
        self._stopping = asyncio.Event()
        self._streams: list[Stream] = []

    # What systemctl asks for.

    async def start(self) -> Outcome:
        if self.sub == "auto-restart":
            await self._end_life()
        if self.active == "deactivating":
            await self.until_ended()
        if self.active == "active":
            return "done"
        if self._up is None or self._up.done():
            if self._limit_hit():
                return "failed"
            self.n_restarts = 0
            self._stopping.clear()
            self._up = asyncio.get_running_loop().create_future()
            self._life = asyncio.get_running_loop().create_task(self._live(self._up))
        return await asyncio.shield(self._up)

    async def stop(self) -> Outcome:
        if self.running:
            await self._end_life()
        return "done"

    def kill(self, signum: int, whom: str) -> None:
        """`systemctl kill`: whom is all, main or control."""
        send([self.main_pid] if whom == "main" and self.main_pid else self.pids(), signum)

    def pids(self) -> set[int]:
        """Every living process of the unit, written to its cgroup.procs as well."""
        if not self.invocation_id:
            return set()
        found = members({self.invocation_id: self._session}, self.world.children)[
            self.invocation_id
        ]
        self.world.write_cgroup(self.name, found)
        return found

    def reset_failed(self) -> None:
        super().reset_failed()
        self._limit.reset()

    async def _end_life(self) -> None:
        self._stopping.set()
        if self._life is not None:
            await asyncio.shield(self._life)

    def _limit_hit(self) -> bool:
        if self._limit.allows(self.file):
            return False
        if self.result == "success":
            self.result = "start-limit-hit"
        self.set_state("failed", "failed")
        self.say(f"{self.name}: Start request repeated too quickly.", 4)
        self.say(f"{self.name}: Failed with result '{self.result}'.", 4)
        self.say(f"Failed to start {self.title}.", 3)
        return True

    # One life: from the first start to the last end.

    async def _live(self, up: asyncio.Future[Outcome]) -> None:
        again = True
        while again:
            await self._once(up)
            again = self._restarts() and not self._stopping.is_set()
            if again:
                again = await self._before_restart()
        _tell(up, "canceled" if self._stopping.is_set() else "failed")
        self._on_end(self)

    def _restarts(self) -> bool:
        policy = self.file.get("Restart", "no")
        clean = self.result == "success"
        if policy == "always":
            return True
        if policy == "on-success":
            return clean
        if policy == "on-failure":
            return not clean
        return policy in ("on-abnormal", "on-abort") and self.exec_code > 1 and not clean

    async def _before_restart(self) -> bool:
        """Wait RestartSec=; False when stopped meanwhile, or too often started."""
        self.set_state("activating", "auto-restart")
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), self.file.seconds("RestartSec", 0.1))
            self.set_state("inactive", "dead")
            return False
        self.n_restarts += 1
        self.say(f"{self.name}: Scheduled restart job, restart counter is at {self.n_restarts}.", 6)
        return not self._limit_hit()

    async def _once(self, up: asyncio.Future[Outcome]) -> None:
        self.invocation_id = uuid.uuid4().hex
        self.result, self.exec_code, self.exec_status, self.main_pid = "success", 0, 0, 0
        self.started_at = time.time()
        self.set_state("activating", "start")
        self.say(f"Starting {self.title}...")
        try:
            await self._run(up)
        except SetupFailed as failed:
            self.say(f"{self.name}: Failed at step {failed.step}: {failed}", 3)
            self._note_exit(failed.status)
            if self.file.get("Type", "simple") == "simple":
                _tell(up, "done")  # the fork was all that was waited for
        except (OSError, ValueError) as error:  # an environment file, broken quoting
            self.say(f"{self.name}: Failed to run 'start' task: {error}", 4)
            self.result = "resources"
        self._finish(up)

    async def _run(self, up: asyncio.Future[Outcome]) -> None:
        oneshot = self.file.get("Type") == "oneshot"
        environment = unit_environment(self.world, self.file, self.invocation_id)
        for command in self.file.commands("ExecStartPre"):
            if not await self._control(command, environment):
                return
        commands = self.file.commands("ExecStart")
        for command in commands if oneshot else commands[:1]:
            process = await self._spawn(command, environment)
            self.main_pid = self._session = process.pid
            self.pids()
            if not oneshot:
                self.set_state("active", "running")
                self.say(f"Started {self.title}.")
                _tell(up, "done")
            await self._watch(process, environment)
            self._note_exit(process.returncode or 0, ignore=command.ignore_failure)
            if self.result != "success" or self._stopping.is_set():
                break
        for command in self.file.commands("ExecStopPost"):
            await self._control(command, environment)
        if oneshot and self.result == "success" and not self._stopping.is_set():
            await self._stay(up)
        await self._sweep_up()

    async def _stay(self, up: asyncio.Future[Outcome]) -> None:
        """A oneshot that did its work: up, and with RemainAfterExit= until it is stopped."""
        self.say(f"Finished {self.title}.")
        if self.file.get("RemainAfterExit") in ("yes", "true", "1", "on"):
            self.set_state("active", "exited")
            _tell(up, "done")
            await self._stopping.wait()

    async def _watch(
        self, process: asyncio.subprocess.Process, environment: Mapping[str, str]
    ) -> None:
        """Wait for the process's end, or end it when the unit is stopped."""
        ended = asyncio.ensure_future(process.wait())
        asked = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({ended, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not ended.done():
            self.set_state("deactivating", "stop-sigterm")
            self.say(f"Stopping {self.title}...")
            for command in self.file.commands("ExecStop"):
                await self._control(command, {**environment, "MAINPID": str(process.pid)})
            mode = self.file.get("KillMode", "control-group")
            signum = int(signal.Signals[self.file.get("KillSignal", "SIGTERM")])
            if mode != "none":
                send(self.pids() if mode == "control-group" else [process.pid], signum)
            if not await self._within_stop_time(ended):
                self.say(f"{self.name}: State 'stop-sigterm' timed out. Killing.", 4)
                self.result = "timeout"
                self.set_state("deactivating", "stop-sigkill")
                send(self.pids() if mode != "process" else [process.pid], signal.SIGKILL)
        await ended
        self.world.children.discard(process.pid)

    async def _within_stop_time(self, ended: asyncio.Future[int]) -> bool:
        limit = self.file.seconds("TimeoutStopSec", 90)
        done, _ = await asyncio.wait({ended}, timeout=None if limit in (0, INFINITE) else limit)
        return bool(done)

    async def _sweep_up(self) -> None:
        """End what the main process left behind, unless KillMode= lets it live."""
        if self.file.get("KillMode", "control-group") in ("process", "none"):
            self.pids()
            return
        until = time.monotonic() + (self.file.seconds("TimeoutStopSec", 90) or INFINITE)
        left = self.pids()
        if left:
            self.set_state("deactivating", "stop-sigterm")
            send(left, signal.SIGTERM)
        while left := self.pids():
            if time.monotonic() >= until:
                send(left, signal.SIGKILL)
            await asyncio.sleep(_LOOK_S)

    def _note_exit(self, status: int, *, ignore: bool = False) -> None:
        """`status` as asyncio has it: negative for a signal."""
        self.exec_code = 2 if status < 0 else 1
        self.exec_status = abs(status)
        clean, words = judge(self.file, status, ignore=ignore)
        if not clean:
            self.say(f"{self.name}: Main process exited, {words}", 5)
            if self.result == "success":
                self.result = "signal" if status < 0 else "exit-code"

    def _finish(self, up: asyncio.Future[Outcome]) -> None:
        for stream in self._streams:
            if self.pids():
                stream.drain()
            else:
                stream.close()
        self._streams.clear()
        self.main_pid = 0
        failed = self.result != "success"
        asked = self._stopping.is_set()
        if failed:
            self.say(f"{self.name}: Failed with result '{self.result}'.", 4)
            if not up.done():
                self.say(f"Failed to start {self.title}.", 3)
        elif not up.done() and not asked:
            up.set_result("done")
        else:
            self.say(f"{self.name}: Deactivated successfully.")
        if asked:
            self.say(f"Stopped {self.title}.")
        self.set_state(*(("failed", "failed") if failed else ("inactive", "dead")))

    async def _control(self, command: Command, environment: Mapping[str, str]) -> bool:
        """Run an ExecStartPre, ExecStop or ExecStopPost to its end; False fails the unit."""
        process = await self._spawn(command, environment)
        status = await process.wait()
        self.world.children.discard(process.pid)
        if status and not command.ignore_failure:
            self.say(f"{self.name}: Control process exited, status={status}", 5)
            self.result = "exit-code" if status > 0 else "signal"
            return False
        return True

    async def _spawn(
        self, command: Command, environment: Mapping[str, str]
    ) -> asyncio.subprocess.Process:
        fields = self.world.fields(self.name, self.invocation_id)
        process, stream = await run_command(self.world, self.file, command, environment, fields)
        self._streams.append(stream)
        return process

    def more_properties(self) -> Mapping[str, str]:
        file = self.file
        group = self.world.control_group(self.name)
        alive = bool(self.pids()) or self.running
        return {
            "Type": file.get("Type", "simple"),
            "Restart": file.get("Restart", "no"),
            "KillMode": file.get("KillMode", "control-group"),
            "User": file.get("User"),
            "Group": file.get("Group"),
            "WorkingDirectory": file.get("WorkingDirectory"),
            "Environment": " ".join(file.words("Environment")),
            "EnvironmentFiles": "\n".join(file.all("EnvironmentFile")),
            "MainPID": str(self.main_pid),
            "ExecMainPID": str(self._session),
            "ExecMainCode": str(self.exec_code),
            "ExecMainStatus": str(self.exec_status),
            "ExecMainStartTimestamp": timestamp(self.started_at),
            "NRestarts": str(self.n_restarts),
            "ControlGroup": group if alive else "",
            "StatusText": "",
            "MemoryCurrent": "[not set]",
        }


def _tell(up: asyncio.Future[Outcome], outcome: Outcome) -> None:
    """Whoever waits for the start hears of it once."""
    if not up.done():
        up.set_result(outcome)
