"""systemctl's verbs that only look."""

from __future__ import annotations

from pathlib import Path

from sweep.demo.manager.registry import Registry
from sweep.demo.manager.timer import Timer
from sweep.demo.manager.unit import Unit, timestamp
from sweep.demo.manager.words import Answer, Words


class Showing:
    """One method for each verb: names and options in, text and status into the answer."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def show(self, names: list[str], words: Words, answer: Answer) -> None:
        wanted = [
            name
            for listed in (*words.options.get("property", []), *words.options.get("value_of", []))
            for name in listed.split(",")
        ]
        value_only = "--value" in words.flags or "value_of" in words.options
        blocks = []
        for name in names:
            unit = self._registry.unit(name)
            found = {
                **unit.properties(),
                **self._registry.reverse(name),
                "UnitFileState": self._file_state(unit),
                "UnitFilePreset": "disabled",
            }
            keys = [key for key in found if key in wanted] if wanted else list(found)
            blocks.append(
                "".join(
                    f"{found[key]}\n" if value_only else f"{key}={found[key]}\n" for key in keys
                )
            )
        self._registry.forget()
        answer.out = "\n".join(blocks)

    def _file_state(self, unit: Unit) -> str:
        if unit.transient:
            return "transient"
        if not unit.exists:
            return ""
        if self._registry.enabled(unit.name):
            return "enabled"
        return "disabled" if unit.file.all("WantedBy", "Install") else "static"

    def is_active(self, names: list[str], words: Words, answer: Answer) -> None:
        states = [self._registry.unit(name).active for name in names]
        if not words.flags & {"-q", "--quiet"}:
            answer.out = "".join(f"{state}\n" for state in states)
        answer.status = 0 if "active" in states else 3

    def is_failed(self, names: list[str], words: Words, answer: Answer) -> None:
        states = [self._registry.unit(name).active for name in names]
        if not words.flags & {"-q", "--quiet"}:
            answer.out = "".join(f"{state}\n" for state in states)
        answer.status = 0 if "failed" in states else 1

    def is_enabled(self, names: list[str], _: Words, answer: Answer) -> None:
        for name in names:
            state = self._file_state(self._registry.unit(name))
            if not state:
                answer.fail(
                    1, f"Failed to get unit file state for {name}: No such file or directory"
                )
            else:
                answer.out += f"{state}\n"
                answer.status = max(answer.status, int(state == "disabled"))

    def is_system_running(self, _: list[str], __: Words, answer: Answer) -> None:
        failed = any(unit.active == "failed" for unit in self._registry.all())
        answer.out = "degraded\n" if failed else "running\n"
        answer.status = int(failed)

    def cat(self, names: list[str], _: Words, answer: Answer) -> None:
        for name in names:
            file = self._registry.unit(name).file
            if not file.path:
                answer.fail(1, f"No files found for {name}.")
                continue
            for path in filter(None, (file.path, *file.drop_ins)):
                text = Path(path).read_text("utf-8", "surrogateescape")
                answer.out += ("\n" if answer.out else "") + f"# {path}\n{text}"

    def list_units(self, names: list[str], words: Words, answer: Answer) -> None:
        kinds = words.last("type").split(",")
        states = words.last("state").split(",")
        for unit in self._registry.all():
            shown = unit.running or unit.active == "failed" or words.flags & {"-a", "--all"}
            kind = unit.name.rpartition(".")[2]
            if (
                not shown
                or (kinds != [""] and kind not in kinds)
                or (states != [""] and not {unit.active, unit.sub} & set(states))
                or (names and unit.name not in names)
            ):
                continue
            title = unit.file.get("Description", unit.name, "Unit")
            answer.out += f"{unit.name} loaded {unit.active} {unit.sub} {title}\n"
        self._registry.forget()

    def list_timers(self, names: list[str], words: Words, answer: Answer) -> None:
        timers = [
            unit
            for unit in self._registry.all()
            if isinstance(unit, Timer) and unit.running and (not names or unit.name in names)
        ]
        legend = "--no-legend" not in words.flags and words.last("legend") != "no"
        if legend:
            answer.out = "NEXT LEFT LAST PASSED UNIT ACTIVATES\n"
        for timer in timers:
            service = " ".join(timer.triggers())
            answer.out += (
                f"{timestamp(timer.next_at) or '-'} - {timestamp(timer.last_at) or '-'} - "
                f"{timer.name} {service}\n"
            )
        if legend:
            answer.out += f"\n{len(timers)} timers listed.\n"
        self._registry.forget()

    def list_dependencies(self, names: list[str], words: Words, answer: Answer) -> None:
        for name in names or ["multi-user.target"]:
            unit = self._registry.unit(name)
            if "--reverse" in words.flags:
                found = " ".join(self._registry.reverse(name).values()).split()
            else:
                found = [*unit.names("Requires"), *unit.names("BindsTo"), *unit.names("Wants")]
            answer.out += "".join(f"{one}\n" for one in (name, *dict.fromkeys(found)))
        self._registry.forget()

    def status(self, names: list[str], _: Words, answer: Answer) -> None:
        for name in names:
            unit = self._registry.unit(name)
            if not unit.exists and not unit.running:
                answer.fail(4, f"Unit {name} could not be found.")
                continue
            answer.out += (
                f"● {unit.title}\n"
                f"     Loaded: loaded ({unit.file.path}; {self._file_state(unit)})\n"
                f"     Active: {unit.active} ({unit.sub})\n"
            )
            answer.status = max(answer.status, 0 if unit.active == "active" else 3)
