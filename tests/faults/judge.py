"""What has to hold after an injection, whatever the fault was."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from sweep.demo.model import truth
from sweep.host.script import INPUT_SILENCE_S, KILL_AFTER_S, MARK
from sweep.rows import COLUMNS
from tests.faults.ground import Ground
from tests.whole.gpuhost import SIM_ENV, latest_attempts

Trial = tuple[str, int]
Key = tuple[str, int, int]

SPEED = float(SIM_ENV["SWEEP_SIM_SPEED"])
# A loaded machine makes the simulated server slower, nothing makes it faster.
FASTEST, SLOWEST = 1.3, 0.02
# What a host's own life leaves behind; nothing of ours is ever there.
NOISE = re.compile(
    r"/run/(systemd|log|udev|user|lock|dbus|sshd|sudo|credentials|utmp|motd|mount|host|initctl)|"
    r"/var/(lib/(systemd|dbus|private|sglang/\.cache)|tmp/systemd-private)|/tmp/(systemd-private|\.)|"
    r".*/__pycache__|/root/\.cache"
)
PLACES = "/etc /home /opt /root /run /tmp /usr/local /var/lib /var/tmp"


@dataclass(frozen=True)
class Before:
    """What was there before the sweep was started."""

    files: frozenset[str]


def look_before(ground: Ground) -> Before:
    return Before(_files(ground))


@dataclass(frozen=True)
class Verdict:
    """One injection judged: how many rows were lost, wrong or twice, and every trouble in words."""

    lost: tuple[str, ...]
    wrong: tuple[str, ...]
    twice: tuple[str, ...]
    restored: bool
    left: tuple[str, ...]

    @property
    def troubles(self) -> tuple[str, ...]:
        gone = () if self.restored else ("production does not serve",)
        return (
            *(f"lost: {text}" for text in self.lost),
            *(f"wrong: {text}" for text in self.wrong),
            *(f"twice: {text}" for text in self.twice),
            *gone,
            *(f"left behind: {text}" for text in self.left),
        )


def judge(ground: Ground, before: Before, trials: frozenset[Trial], seen: set[Key]) -> Verdict:
    """Compare with what an undisturbed sweep has (`trials`) and what was there once (`seen`)."""
    frame = rows(ground)
    return Verdict(
        lost=tuple(_lost(ground, frame, trials, seen)),
        wrong=tuple(_wrong(ground, frame)),
        twice=tuple(_twice(frame)),
        restored=ground.is_serving(),
        left=tuple(_left(ground, before)),
    )


def rows(ground: Ground) -> pd.DataFrame:
    """results.csv as anybody reads it; empty where that cannot be done."""
    try:
        return pd.read_csv(ground.csv)
    except (OSError, ValueError):
        return pd.DataFrame(columns=list(COLUMNS))


def ok_trials(frame: pd.DataFrame) -> frozenset[Trial]:
    """(point, trial) whose latest attempt is ok."""
    latest = latest_attempts(frame)
    good = latest[latest["status"] == "ok"]
    return frozenset(zip(good["point"], good["trial"].astype(int), strict=True))


def records(ground: Ground) -> set[Key]:
    """The attempts that have been recorded so far, from bench/, where they are written first."""
    found = set()
    for path in ground.runs.glob("*/bench/p-*.json"):
        if match := re.fullmatch(r"(p-\w+)-t(\d+)-a(\d+)", path.stem):
            found.add((match[1], int(match[2]), int(match[3])))
    return found


def _keys(frame: pd.DataFrame) -> list[Key]:
    return [
        (str(point), int(trial), int(attempt))
        for point, trial, attempt in zip(
            frame["point"], frame["trial"], frame["attempt"], strict=True
        )
    ]


def _lost(
    ground: Ground, frame: pd.DataFrame, trials: frozenset[Trial], seen: set[Key]
) -> Iterator[str]:
    for key in sorted(seen - set(_keys(frame))):
        yield f"{key} was recorded once"
    done = ok_trials(frame)
    for trial in sorted(trials - done):
        yield f"{trial} has no ok row"
    for trial in sorted(done - trials):
        yield f"{trial} is in no undisturbed run"
    invocations = {}
    good = frame[frame["status"] == "ok"]
    for key, invocation in zip(_keys(good), good["invocation_id"], strict=True):
        invocations["{}-t{}-a{}".format(*key)] = str(invocation).removeprefix("i-")
    for death in ground.deaths:
        for name in sorted(death.finished & set(invocations)):
            if invocations[name] not in death.invocations:
                yield f"{name} had finished on the host when the sweep died, and was measured again"


def _twice(frame: pd.DataFrame) -> Iterator[str]:
    keys = _keys(frame)
    for key in sorted({key for key in keys if keys.count(key) > 1}):
        yield f"{key} has {keys.count(key)} rows"
    good = frame[frame["status"] == "ok"]
    for (point, trial), found in good.groupby(["point", "trial"]):
        if len(found) > 1:
            yield f"{point} trial {trial} was ok and measured again"


def _wrong(ground: Ground, frame: pd.DataFrame) -> Iterator[str]:
    run = ground.run.name
    started = _steps_of_invocations(ground)
    for _, row in frame.iterrows():
        name = f"{row['point']} a{row['attempt']} (steps {row['speculative_num_steps']})"
        if row["run_id"] != run:
            yield f"{name} is of run {row['run_id']}"
        if row["status"] == "ok":
            for text in _wrong_values(row, started):
                yield f"{name}: {text}"
        elif row["status"] != "failed" or not isinstance(row["failure"], str):
            yield f"{name} is {row['status']} ({row['failure']})"


def _wrong_values(row: pd.Series, started: Mapping[str, int]) -> Iterator[str]:
    steps, concurrency = int(row["speculative_num_steps"]), int(row["concurrency"])
    true = truth(steps)
    for column in ("max_running_requests", "max_total_num_tokens"):
        if row[column] != getattr(true, column):
            yield f"{column} is {row[column]}, not {getattr(true, column)}"
    if row["requests_ok"] != row["requests"]:
        yield f"{row['requests_ok']} of {row['requests']} requests are ok"
    ideal = true.aggregate(concurrency) * SPEED
    if not SLOWEST * ideal < row["agg_tok_s"] < FASTEST * ideal:
        yield f"{row['agg_tok_s']:.0f} tok/s, where the server gives {ideal:.0f}"
    if not 0.6 * true.accept_length() < row["accept_length"] < 1.4 * true.accept_length():
        yield f"acceptance {row['accept_length']}, not {true.accept_length():.2f}"
    if not 0 < row["concurrency_achieved"] <= concurrency + 1e-6:
        yield f"{row['concurrency_achieved']} in flight, not {concurrency}"
    invocation = str(row["invocation_id"]).removeprefix("i-")
    if not re.fullmatch("[0-9a-f]{32}", invocation):
        yield f"invocation {invocation}"
    elif started.get(invocation, steps) != steps:
        yield f"invocation {invocation} ran with {started[invocation]} steps"


def _steps_of_invocations(ground: Ground) -> dict[str, int]:
    """What each server of ours said that it runs with, as far as the host's journal has it."""
    unit = "sglang-sweep.service"
    shown = ground.machine.sh(
        f"journalctl --all -q -o json --output-fields=MESSAGE,_SYSTEMD_INVOCATION_ID "
        f"_SYSTEMD_UNIT={unit} + _SYSTEMD_USER_UNIT={unit} | grep server_args=",
        check=False,
    )
    found = {}
    for line in shown.splitlines():
        entry = json.loads(line)
        message = entry["MESSAGE"]
        said = message if isinstance(message, str) else bytes(message).decode(errors="replace")
        if match := re.search(r"'speculative_num_steps': (\d+|None)", said):
            steps = 0 if match[1] == "None" else int(match[1])
            found[str(entry.get("_SYSTEMD_INVOCATION_ID"))] = steps
    return found


# -- nothing of ours is left ------------------------------------------------------------------


def _left(ground: Ground, before: Before) -> Iterator[str]:
    end = time.monotonic() + INPUT_SILENCE_S + KILL_AFTER_S
    left = ground.host.leftovers()
    # A script whose connection was cut, unheard by the host, may wait for the rest of its input.
    while any(MARK in line for line in left) and time.monotonic() < end:
        time.sleep(1)
        left = ground.host.leftovers()
    yield from left
    yield from sorted(_files(ground) - before.files)
    for pid in _working_in(ground.directory):
        yield f"process {pid} on this machine"


def _files(ground: Ground) -> frozenset[str]:
    found = ground.machine.sh(f"find {PLACES} -xdev ! -type d 2>/dev/null", check=False)
    return frozenset(path for path in found.splitlines() if not NOISE.match(path))


def _working_in(directory: Path) -> Iterator[int]:
    """Processes of the tool here that have not ended; a forward ends with its process."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            place = (path / "cwd").readlink()
        except OSError:
            continue
        if place.is_relative_to(directory):
            yield int(path.name)
