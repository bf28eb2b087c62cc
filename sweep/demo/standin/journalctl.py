"""journalctl on the demo host's journal: matches, boots, and the outputs the tool reads."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_VALUED = {
    "-u": "unit", "--unit": "unit", "--user-unit": "unit", "-o": "output", "--output": "output",
    "-n": "lines", "--lines": "lines", "--output-fields": "fields", "-S": "since",
    "--since": "since", "-U": "until", "--until": "until", "-p": "priority",
    "--priority": "priority", "-t": "identifier", "--identifier": "identifier",
}  # fmt: skip
_TAKES_ITS_OWN = ("-b", "--boot")
# What json leaves out of a field longer than this, unless --all is given.
JSON_FIELD_MAX = 4096

Record = dict[str, str]


@dataclass
class _Asked:
    options: dict[str, list[str]] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    matches: list[str] = field(default_factory=list)
    boot: str | None = None

    def last(self, option: str, default: str = "") -> str:
        return self.options.get(option, [default])[-1]


def journalctl(root: str, words: list[str]) -> int:
    """Print what is asked for; the exit status."""
    asked = _read(words)
    files = sorted(Path(root, "var/log/journal").glob("*.jsonl"))
    if asked.flags & {"--sync", "--flush", "--rotate", "--relinquish-var"}:
        return 0
    if "--disk-usage" in asked.flags:
        size = sum(file.stat().st_size for file in files) / 2**20
        sys.stdout.write(f"Archived and active journals take up {size:.1f}M in the file system.\n")
        return 0
    if "--list-boots" in asked.flags:
        _list_boots(files)
        return 0
    chosen = [record for record in _records(_boots(files, asked.boot)) if _wanted(record, asked)]
    lines = asked.last("lines")
    if lines.isdigit():
        chosen = chosen[-int(lines) :] if int(lines) else []
    if asked.flags & {"-r", "--reverse"}:
        chosen.reverse()
    for record in chosen:
        sys.stdout.buffer.write(_format(record, asked))
    if not chosen and not asked.flags & {"-q", "--quiet"} and asked.last("output") in ("", "short"):
        sys.stdout.write("-- No entries --\n")
    return 0


def _read(words: list[str]) -> _Asked:
    asked = _Asked()
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if word == "-n" or (name == "--lines" and not equals):
            following = left[0] if left and left[0].lstrip("+").isdigit() else "10"
            asked.options["lines"] = [left.pop(0) if left and left[0] == following else following]
        elif name in _TAKES_ITS_OWN:
            asked.boot = value or (left.pop(0) if left and _is_boot(left[0]) else "0")
        elif word.startswith("--") and name in _VALUED:
            asked.options.setdefault(_VALUED[name], []).append(value if equals else left.pop(0))
        elif word[:2] in _VALUED and not word.startswith("--"):
            asked.options.setdefault(_VALUED[word[:2]], []).append(word[2:] or left.pop(0))
        elif word.startswith("-") and word != "-":
            asked.flags.add(word)
        else:
            asked.matches.append(word)
    return asked


def _is_boot(word: str) -> bool:
    return word.lstrip("-+").isdigit() or (len(word) == 32 and word.isalnum())


def _boots(files: list[Path], boot: str | None) -> list[Path]:
    """The files of the boots asked for: all, the last, the n-th before it, or one by its id."""
    if boot is None:
        return files
    if len(boot) == 32:
        return [file for file in files if file.stem.endswith(boot)]
    place = int(boot) - 1 if int(boot) <= 0 else int(boot) - 1 - len(files)
    return [files[place]] if -len(files) <= place < 0 else []


def _records(files: Iterable[Path]) -> Iterator[Record]:
    for file in files:
        with file.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):  # else it is being written right now
                    yield json.loads(line)


def _wanted(record: Record, asked: _Asked) -> bool:
    if "--user" in asked.flags and "_SYSTEMD_USER_UNIT" not in record:
        return False
    if asked.flags & {"-k", "--dmesg"}:  # a kernel of its own it has not
        return False
    return _named(record, asked) and _timely(record, asked) and _matches(record, asked.matches)


def _named(record: Record, asked: _Asked) -> bool:
    """By unit, identifier and priority."""
    units = [_unit_name(unit) for unit in asked.options.get("unit", [])]
    if units and not any(_of_unit(record, unit) for unit in units):
        return False
    identifiers = asked.options.get("identifier", [])
    if identifiers and record.get("SYSLOG_IDENTIFIER") not in identifiers:
        return False
    priority = asked.last("priority")
    return not priority.isdigit() or int(record.get("PRIORITY", "6")) <= int(priority)


def _timely(record: Record, asked: _Asked) -> bool:
    moment = int(record["__REALTIME_TIMESTAMP"]) / 1e6
    since, until = asked.last("since"), asked.last("until")
    return not (since and moment < _moment(since)) and not (until and moment > _moment(until))


def _of_unit(record: Record, unit: str) -> bool:
    """A line of the unit's processes, or of the manager about it."""
    if unit in (record.get("_SYSTEMD_UNIT"), record.get("_SYSTEMD_USER_UNIT")):
        return True
    return unit in (record.get("UNIT"), record.get("USER_UNIT"))


def _unit_name(word: str) -> str:
    return word if "." in word else f"{word}.service"


def _moment(text: str) -> float:
    """`@SECONDS` or a date and time of the local zone."""
    if text.startswith("@"):
        return float(text[1:])
    for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"):
        try:
            return time.mktime(time.strptime(text.split(".", maxsplit=1)[0], form))
        except ValueError:
            continue
    raise SystemExit(f"Failed to parse timestamp: {text}")


def _matches(record: Record, matches: list[str]) -> bool:
    """Of one field any value, of several fields each, of groups parted by `+` any."""
    groups: list[dict[str, set[str]]] = [{}]
    for match in matches:
        if match == "+":
            groups.append({})
        else:
            name, _, value = match.partition("=")
            groups[-1].setdefault(name, set()).add(value)
    return any(
        all(record.get(name) in values for name, values in group.items()) for group in groups
    )


def _format(record: Record, asked: _Asked) -> bytes:
    output = asked.last("output", "short")
    message = record["MESSAGE"].encode("latin-1")
    if output == "cat":
        return message + b"\n"
    if output.startswith("json"):
        return json.dumps(_json(record, asked), separators=(",", ":")).encode() + b"\n"
    if not asked.flags & {"-a", "--all"} and not _printable(message):
        message = b"[%dB blob data]" % len(message)
    seconds = int(record["__REALTIME_TIMESTAMP"]) / 1e6
    form = "%Y-%m-%dT%H:%M:%S%z" if output.startswith("short-iso") else "%b %d %H:%M:%S"
    moment = time.strftime(form, time.localtime(seconds))
    if output == "short-unix":
        moment = f"{seconds:.6f}"
    pid = f"[{record['_PID']}]" if "_PID" in record else ""
    head = f"{moment} {record['_HOSTNAME']} {record.get('SYSLOG_IDENTIFIER', 'unknown')}{pid}: "
    return head.encode() + message + b"\n"


def _json(record: Record, asked: _Asked) -> dict[str, object]:
    listed = asked.last("fields")
    wanted = set(listed.split(",")) | {"__REALTIME_TIMESTAMP", "_BOOT_ID"} if listed else None
    found: dict[str, object] = {}
    for name, text in record.items():
        if wanted is not None and name not in wanted and not name.startswith("__"):
            continue
        data = text.encode("latin-1") if name == "MESSAGE" else text.encode()
        if len(data) > JSON_FIELD_MAX and not asked.flags & {"-a", "--all"}:
            found[name] = None
        else:
            found[name] = data.decode() if _printable(data) else list(data)
    return found


def _printable(data: bytes) -> bool:
    """UTF-8 without control characters; tab and newline are none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return not any((ord(char) < 32 and char not in "\t\n") or ord(char) == 127 for char in text)


def _list_boots(files: list[Path]) -> None:
    for number, file in enumerate(files):
        records = list(_records([file]))
        if records:
            first, last = (
                time.strftime(
                    "%a %Y-%m-%d %H:%M:%S %Z",
                    time.localtime(int(record["__REALTIME_TIMESTAMP"]) / 1e6),
                )
                for record in (records[0], records[-1])
            )
            boot = records[0]["_BOOT_ID"]
            sys.stdout.write(f"{number - len(files) + 1:3d} {boot} {first} {last}\n")
