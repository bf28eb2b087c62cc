"""What the orchestrator itself adds to a launch, at several round trips. Printed, never asserted.

    python tests/bench/orchestrator_overhead.py [--round-trip-ms 0 20 80] [--launches 8]

A sweep of one point a launch on a real Debian host (root: tests/testhost), whose wire is delayed.
Of each launch's time, from its first stage to the next launch's, everything is left out that is
not the orchestrator's: the server's start (its process begins, its log says that it is ready), the
benchmark client (its unit begins and ends), the server's end (systemd begins to stop it, it is
gone). Host and controller are containers of one kernel, so both read one clock. `notice` is from
"ready" in the server's log to the stage after "wait healthy".

Beside each figure: how many empty scripts over the same connection that is. And in the same run,
what the bare commands need that somebody types who trusts everything: see `BY_HAND`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from sweep.host import Host, connect
from sweep.inventory_file import load_inventory
from tests.testhost import Pool, why_not
from tests.whole.gpuhost import ROOT, GpuHost, sweep_of

STAGES = ("install", "start", "wait healthy", "verify", "measure", "stop")
# Counts what goes over the wire: when each remote command began and ended.
COUNTING = """
import json, sys, time
from sweep.host.connection import Connection
execute, log = Connection.execute, open("calls.jsonl", "a", buffering=1)
def counted(self, *words, **more):
    began = time.time()
    try:
        return execute(self, *words, **more)
    finally:
        log.write(json.dumps([began, time.time()]) + "\\n")
Connection.execute = counted
from sweep.__main__ import main
sys.exit(main())
"""
EMPTY_SCRIPTS = 31
# One launch by hand: no lock, no record, no timer, no look at port, processes, production or GPUs.
# What starts is ready at once and measures nothing, so that only the commands are timed.
BY_HAND = (
    "printf '[Service]\\nExecStart=/bin/sleep 99\\n' > /run/systemd/system/by-hand.service"
    " && systemctl daemon-reload",
    "systemctl start by-hand",
    "systemctl is-active by-hand",
    "journalctl -q -n 50 -u by-hand",
    "systemd-run -q --collect --unit=by-hand-client /bin/true",
    "systemctl show -p ActiveState by-hand-client",
    "cat /run/systemd/system/by-hand.service",
    "systemctl stop by-hand",
    "journalctl -q -u by-hand",
)


@dataclass(frozen=True)
class Span:
    """A stretch of time, in seconds of the real-time clock."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin

    def within(self, other: Span) -> float:
        """Seconds of this one that lie in the other."""
        return max(0.0, min(self.end, other.end) - max(self.begin, other.begin))


@dataclass(frozen=True)
class LaunchTimes:
    """One launch: its stages, what in them is not the orchestrator's, and its remote commands."""

    stages: dict[str, Span]
    others: Sequence[Span]
    ready_at: float
    calls: Sequence[Span]

    def own_s(self, stage: str) -> float:
        """What the orchestrator spent in a stage."""
        span = self.stages[stage]
        return span.seconds - sum(other.within(span) for other in self.others)

    def round_trips(self, stage: str) -> int:
        span = self.stages[stage]
        return sum(1 for call in self.calls if span.begin <= call.begin < span.end)

    @property
    def total_s(self) -> float:
        return sum(map(self.own_s, self.stages))

    @property
    def notice_s(self) -> float:
        return self.stages["wait healthy"].end - self.ready_at


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def stage_spans(run: Path) -> list[tuple[str, dict[str, Span]]]:
    """(launch, its stages) in the order of the run; a stage ends where the next one begins."""
    lines = (run / "events.jsonl").read_text().splitlines()
    stages = [event for event in map(json.loads, lines) if event["event"] == "stage"]
    found: dict[str, dict[str, Span]] = {}
    for event, after in pairwise(stages):
        if "launch" in event and event["stage"] in STAGES:
            span = Span(moment(event["ts"]), moment(after["ts"]))
            found.setdefault(event["launch"], {})[event["stage"]] = span
    return list(found.items())


def journal(host: GpuHost) -> list[tuple[float, str, str]]:
    """(time, unit, message) of the server under test and the clients, systemd's own lines too."""
    fields = "--output-fields=MESSAGE,UNIT,_SYSTEMD_UNIT"
    text = host.machine.sh(f"journalctl --all -q -o json {fields} --since=-1h | grep -a sweep")
    found = []
    for line in text.splitlines():
        entry = json.loads(line)
        message = entry.get("MESSAGE")
        said = (
            message
            if isinstance(message, str)
            else bytes(message or b"").decode("utf-8", "replace")
        )
        unit = entry.get("UNIT") or entry.get("_SYSTEMD_UNIT") or ""
        found.append((int(entry["__REALTIME_TIMESTAMP"]) / 1e6, unit, said))
    return found


def launch_times(run: Path, host: GpuHost, calls: Sequence[Span]) -> list[LaunchTimes]:
    lines = journal(host)
    found = []
    for _, stages in stage_spans(run):
        begin = stages["start"].begin

        def at(words: str, unit: str, after: float) -> float:
            """When that unit's first line with these words was written, after that moment."""
            return next(
                when for when, name, said in lines
                if when >= after and name.startswith(unit) and words in said
            )  # fmt: skip

        server = at("Started sglang-sweep", "sglang-sweep", begin)
        ready = at("The server is fired up", "sglang-sweep", server)
        client = at("Started sweep-job", "sweep-job", ready)
        ended = at("Deactivated successfully", "sweep-job", client)
        stopping = at("Stopping sglang-sweep", "sglang-sweep", ended)
        stopped = at("Stopped sglang-sweep", "sglang-sweep", stopping)
        others = (Span(server, ready), Span(client, ended), Span(stopping, stopped))
        found.append(LaunchTimes(stages, others, ready, calls))
    return found


def sweep_once(host: GpuHost) -> list[LaunchTimes]:
    """One sweep, its remote commands counted."""
    host.machine.sh("journalctl -q --rotate; journalctl -q --vacuum-time=1s")
    command = [sys.executable, "-c", COUNTING, "run", "short"]
    done = subprocess.run(
        command, cwd=host.directory, capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        sys.exit(f"the sweep ended with {done.returncode}:\n{done.stderr}")
    calls = (host.directory / "calls.jsonl").read_text().splitlines()
    return launch_times(host.run, host, [Span(*json.loads(line)) for line in calls])


def bare_s(host: GpuHost, launches: int) -> tuple[list[float], list[float]]:
    """Seconds of an empty script, and of a launch by hand, over a connection that is open."""
    spec = load_inventory(host.directory / "inventory.yaml").hosts["gpu"]
    with connect("gpu", spec) as connected:
        empty = [_taken_s(connected, ":") for _ in range(EMPTY_SCRIPTS)]
        by_hand = [
            sum(_taken_s(connected, command) for command in BY_HAND) for _ in range(launches)
        ]
        connected.run("rm -f /run/systemd/system/by-hand.service; systemctl daemon-reload")
    return empty, by_hand


def _taken_s(connected: Host, script: str) -> float:
    began = time.perf_counter()
    connected.run(script)
    return time.perf_counter() - began


def spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):6.3f} s ({min(values):.3f} to {max(values):.3f})"


def show(
    round_trip_ms: float,
    launches: Sequence[LaunchTimes],
    empty: Sequence[float],
    by_hand: Sequence[float],
) -> None:
    script = statistics.median(empty)
    ratio = statistics.median(one.total_s for one in launches) / statistics.median(by_hand)
    print(f"round trip {round_trip_ms:g} ms; an empty script {spread(empty)}")
    print(f"  by hand         {spread(by_hand)}; a launch of ours is {ratio:.2f} of that")
    print(f"  {len(launches)} launches, the first left out: it stops production")
    rows = {"a launch": [one.total_s for one in launches]}
    rows |= {f"  {stage}": [one.own_s(stage) for one in launches] for stage in STAGES}
    rows["notice"] = [one.notice_s for one in launches]
    for name, values in rows.items():
        stage = name.strip()
        calls = [one.round_trips(stage) for one in launches] if stage in STAGES else []
        counted = f", {statistics.median(calls):g} remote commands" if calls else ""
        scripts = statistics.median(values) / script
        print(f"  {name:15} {spread(values)}  = {scripts:5.1f} empty scripts{counted}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--round-trip-ms", type=float, nargs="+", default=[0, 20, 80])
    parser.add_argument("--launches", type=int, default=8)
    options = parser.parse_args()
    if reason := why_not():
        print(f"left out: {reason}")
        return
    with Pool() as pool, tempfile.TemporaryDirectory(prefix="sweep-overhead-") as folder:
        machine = pool.fresh("overhead", release="trixie")
        for round_trip_ms in options.round_trip_ms:
            directory = Path(folder) / f"{round_trip_ms:g}ms"
            directory.mkdir()
            points = {"steps": f"1..{options.launches}", "concurrency": [1], "baseline": False}
            host = GpuHost(machine, ROOT, directory, {"short": sweep_of(**points)})
            host.dress()
            host.write_inventory()
            if round_trip_ms:
                machine.link.delay(round_trip_ms)
            empty, by_hand = bare_s(host, options.launches)
            show(round_trip_ms, sweep_once(host)[1:], empty, by_hand)
            machine.link.restore()


if __name__ == "__main__":
    main()
