"""systemctl's verbs: words in, what it prints and its exit status out."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase

from sweep.demo.manager.registry import Registry
from sweep.demo.manager.service import Service
from sweep.demo.manager.showing import Showing
from sweep.demo.manager.unit import Outcome
from sweep.demo.manager.words import Answer, Words, read_words, unit_name

VERSION = "systemd 257 (257-sweep-demo)\n-PAM -AUDIT -SELINUX default-hierarchy=unified\n"


class Systemctl:
    """Runs one command line after another on a registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._jobs: set[asyncio.Future[Outcome]] = set()

    async def run(self, argv: list[str]) -> Answer:
        words = read_words(argv)
        if "--version" in words.flags:
            return Answer(out=VERSION)
        verb = words.rest.pop(0) if words.rest else "list-units"
        names = self._names(words.rest)
        answer = Answer()
        jobs: dict[str, Callable[[str], Awaitable[Outcome]]] = {
            "start": self._starter(words),
            "stop": self._registry.stop,
            "restart": self._registry.restart,
            "try-restart": self._registry.restart,
        }
        if verb in jobs:
            await self._job(verb, jobs[verb], names, words, answer)
            return answer
        if words.rest and not names and verb != "show":
            return answer  # a pattern that fits nothing
        verbs = self._verbs()
        if verb not in verbs:
            answer.fail(1, f"Unknown command verb '{verb}', did you mean 'show'?")
            return answer
        verbs[verb](names, words, answer)
        return answer

    def _names(self, words: list[str]) -> list[str]:
        """Units by name; a pattern stands for the loaded units it fits."""
        names: list[str] = []
        for word in words:
            if any(char in word for char in "*?["):
                names += [name for name in self._registry.names() if fnmatchcase(name, word)]
            else:
                names.append(unit_name(word))
        return list(dict.fromkeys(names))

    def _verbs(self) -> dict[str, Callable[[list[str], Words, Answer], None]]:
        showing = Showing(self._registry)
        return {
            "show": showing.show,
            "is-active": showing.is_active,
            "is-failed": showing.is_failed,
            "is-enabled": showing.is_enabled,
            "is-system-running": showing.is_system_running,
            "cat": showing.cat,
            "list-units": showing.list_units,
            "list-timers": showing.list_timers,
            "list-dependencies": showing.list_dependencies,
            "status": showing.status,
            "daemon-reload": self._daemon_reload,
            "reset-failed": self._reset_failed,
            "kill": self._kill,
            "enable": self._enable,
            "disable": self._disable,
        }

    def _starter(self, words: Words) -> Callable[[str], Awaitable[Outcome]]:
        alone = words.last("job_mode") == "ignore-dependencies"
        return lambda name: self._registry.start(name, alone=alone)

    async def _job(
        self,
        verb: str,
        job: Callable[[str], Awaitable[Outcome]],
        names: list[str],
        words: Words,
        answer: Answer,
    ) -> None:
        futures = {}
        for name in names:
            known = self._registry.unit(name)
            if not known.exists and not known.running:
                word = "not loaded" if verb == "stop" else "not found"
                answer.fail(5, f"Failed to {verb} {name}: Unit {name} {word}.")
                continue
            if known.file.bad and verb != "stop":
                answer.fail(
                    1,
                    f"Failed to {verb} {name}: Unit {name} has a bad unit file setting.\n"
                    f"See system logs and 'systemctl status {name}' for details.",
                )
                continue
            # The job goes on whatever becomes of the command that asked for it.
            futures[name] = asyncio.ensure_future(job(name))
            self._jobs.add(futures[name])
            futures[name].add_done_callback(self._done)
        if "--no-block" in words.flags:
            return
        for name, future in futures.items():
            outcome = await asyncio.shield(future)
            if outcome != "done":
                answer.fail(1, self._complaint(name, outcome))

    def _done(self, future: asyncio.Future[Outcome]) -> None:
        self._jobs.discard(future)
        if not future.cancelled():
            future.exception()

    def _complaint(self, name: str, outcome: Outcome) -> str:
        if outcome == "canceled":
            return f"Job for {name} canceled."
        if outcome == "dependency":
            return f"A dependency job for {name} failed. See 'journalctl -xe' for details."
        reasons = {
            "exit-code": "the control process exited with error code",
            "signal": "a fatal signal was delivered to the control process",
            "timeout": "a timeout was exceeded",
            "resources": "of unavailable resources or another system error",
        }
        reason = reasons.get(self._registry.unit(name).result, "start request repeated too quickly")
        return (
            f"Job for {name} failed because {reason}.\n"
            f'See "systemctl status {name}" and "journalctl -xeu {name}" for details.'
        )

    def _daemon_reload(self, _: list[str], __: Words, ___: Answer) -> None:
        self._registry.reload()

    def _reset_failed(self, names: list[str], _: Words, answer: Answer) -> None:
        if not names:
            for unit in self._registry.all():
                unit.reset_failed()
        for name in names:
            known = self._registry.loaded(name)
            if known is None and not self._registry.unit(name).exists:
                answer.fail(
                    1, f"Failed to reset failed state of unit {name}: Unit {name} not loaded."
                )
            else:
                self._registry.unit(name).reset_failed()
        self._registry.forget()

    def _kill(self, names: list[str], words: Words, answer: Answer) -> None:
        given = words.last("signal", "SIGTERM")
        signum = (
            int(given) if given.isdigit() else signal.Signals["SIG" + given.removeprefix("SIG")]
        )
        for name in names:
            unit = self._registry.unit(name)
            if isinstance(unit, Service) and unit.running:
                unit.kill(signum, words.last("whom", "all"))
            else:
                answer.fail(1, f"Failed to kill unit {name}: Unit {name} not loaded.")

    def _enable(self, names: list[str], _: Words, answer: Answer) -> None:
        wants = self._registry.world.directories[0] / "multi-user.target.wants"
        for name in names:
            file = self._registry.unit(name).file
            if not file.path:
                answer.fail(1, f"Failed to enable unit: Unit file {name} does not exist.")
                continue
            wants.mkdir(parents=True, exist_ok=True)
            (wants / name).unlink(missing_ok=True)
            (wants / name).symlink_to(file.path)

    def _disable(self, names: list[str], _: Words, __: Answer) -> None:
        wants = self._registry.world.directories[0] / "multi-user.target.wants"
        for name in names:
            (wants / name).unlink(missing_ok=True)
