"""How often the report is right: simulated sweeps with a known truth, against two naive rules.

    python tests/bench/decision_study.py [SWEEPS PER FAMILY AND DESIGN] [SEED] [DESIGN]

DESIGN: words of the name of one of the designs below, such as `anchors`; else all are studied.

Prints, per family of truths and design of the sweep: how often the recommended steps are the best
or within 1 % of it; the regret (what is lost against the best) beside that of the highest single
number and of the highest mean, with a * where ours is larger beyond chance; at how many loads noise
is called a gain where every steps is equally fast; and how often intervals hold the truth: those of
points (95 % is claimed of each), those of changes against the baseline, and all of these of a load
together (95 % is claimed of that). `seen` is the same of the loads where nothing was disturbed that
was measured once: such a trial looks like any other, so no interval can allow for it without being
useless for all the others; what is lost there is a limit of the design, not of the statistics.
Judges nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from sweep.report.analysis import analyse
from sweep.report.data import from_frame
from sweep.report.summary import Analysis, Load

LOADS = (1, 4, 16, 32, 64)
START_S, TRIAL_S = 300.0, 60.0
OUTLIERS = 0.03
# What a restart changes: within what is assumed until it was measured, and well beyond.
QUIET, ROUGH = (0.0, 0.01), (0.01, 0.03)
FAILED = 0.1


@dataclass(frozen=True)
class Family:
    """What kind of truth: `shape` of the curve, what disturbs the night."""

    name: str
    shape: str = "one peak"
    drift: bool = False
    outliers: bool = False
    failures: bool = False
    restart: tuple[float, float] = QUIET


@dataclass(frozen=True)
class Design:
    """How a sweep is measured: `trials` of each point, all in one launch or each in a pass of its
    own over all launches; or one trial, and the baseline measured again `anchors` times in all.
    `limit`: what it cannot show, whatever is made of its numbers."""

    name: str
    trials: tuple[int, ...]
    passes: bool = False
    anchors: int = 1
    limit: str = ""


FAMILIES = (
    Family("one peak"),
    Family("two peaks", "two peaks"),
    Family("capacity cliff", "cliff"),
    Family("ragged", "ragged"),
    Family("drift", drift=True),
    Family("outliers", outliers=True),
    Family("failed launches", failures=True),
    Family("rough restarts", restart=ROUGH),
    Family("everything", "cliff", drift=True, outliers=True, failures=True),
    Family("null", "flat"),
    Family("null, drift", "flat", drift=True),
    Family("null, outliers", "flat", outliers=True),
    Family("null, rough", "flat", restart=ROUGH),
)
DESIGNS = (
    Design(
        "2..5 trials in one launch",
        (2, 3, 4, 5),
        limit="known limit: neither drift nor restarts of more than the 1 % assumed can be seen",
    ),
    Design("2..5 passes", (2, 3, 4, 5), passes=True),
    Design(
        "1 trial, 4 anchors",
        (1,),
        anchors=4,
        limit="known limit: a disturbed trial of a point measured once cannot be seen",
    ),
    Design("1 trial", (1,), limit="known limit: noise, drift and restarts are all assumed"),
)


@dataclass
class Tally:
    """What came out, summed over loads; `sets`: all of them, and those where all could be seen."""

    loads: int = 0
    within: list[int] = field(default_factory=lambda: [0, 0, 0])
    regret: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    paired: list[tuple[float, float]] = field(default_factory=list)
    false_gains: int = 0
    cells: int = 0
    cells_held: int = 0
    changes: int = 0
    changes_held: int = 0
    sets: np.ndarray = field(default_factory=lambda: np.zeros(2, int))
    sets_held: np.ndarray = field(default_factory=lambda: np.zeros(2, int))


def truth(family: Family, steps: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """tok/s by (steps, load): acceptance against the time of a verify step, as SGLang behaves."""
    accepted = rng.uniform(0.5, 0.9)
    length = (1 - accepted ** (steps + 1)) / (1 - accepted)
    cost = rng.uniform(0.03, 0.12)
    crowd = rng.uniform(0.05, 0.4)
    table = np.empty((len(steps), len(LOADS)))
    for column, load in enumerate(LOADS):
        slower = 1 + steps * cost * (1 + crowd * np.sqrt(load))
        table[:, column] = 120 * load**0.75 * length / slower
    if family.shape == "flat":
        table[:] = table[:1]
    if family.shape == "ragged":
        table *= np.exp(rng.normal(0, 0.03, table.shape))
    if family.shape == "two peaks" and len(steps) > 4:
        valley = rng.integers(2, len(steps) - 2)
        table[valley] *= rng.uniform(0.85, 0.97)
    if family.shape == "cliff":
        admitted = np.floor(rng.integers(18, 40) * (1 - 0.07 * steps))
        for column, load in enumerate(LOADS):
            table[:, column] *= np.minimum(1, admitted / load) ** rng.uniform(0.3, 0.8)
    return table


def measure(
    family: Family, design: Design, rng: np.random.Generator
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, float]:
    """(the rows of one sweep, its steps, the truth, the noise)."""
    steps = np.arange(rng.choice([6, 8, 11]))
    table = truth(family, steps, rng)
    noise = float(np.exp(rng.uniform(np.log(0.005), np.log(0.08))))
    restart = rng.uniform(*family.restart)
    trials = int(rng.choice(design.trials))
    broken = set(steps[1:][rng.random(len(steps) - 1) < FAILED]) if family.failures else set()
    rows = []
    for start, (step, numbers) in enumerate(_launches(design, steps, trials)):
        shift = rng.normal(0, restart)
        for column, load in enumerate(LOADS):
            for number in numbers:
                value = table[step, column] * np.exp(shift + rng.normal(0, noise))
                disturbed = family.outliers and rng.random() < OUTLIERS
                if disturbed:
                    value *= rng.uniform(0.6, 0.9)
                fine = step not in broken
                rows.append((step, load, number, f"i-{start}", value, disturbed, fine))
    frame = pd.DataFrame(rows, columns=["steps", "concurrency", "trial", "invocation_id",
                                        "agg_tok_s", "disturbed", "fine"])  # fmt: skip
    return _on_the_clock(frame, family, rng), steps, table, noise


def _launches(design: Design, steps: np.ndarray, trials: int) -> Iterator[tuple[int, list[int]]]:
    """Each start of the night: its steps, and the numbers of the trials it measures."""
    again = [round(one) for one in np.linspace(0, len(steps), design.anchors)[1:]]
    if design.passes:
        yield from ((int(one), [trial]) for trial in range(1, trials + 1) for one in steps)
        return
    anchor = 1
    for place, one in enumerate(steps, 1):
        yield int(one), list(range(1, trials + 1))
        for _ in range(again.count(place)):
            anchor += 1
            yield 0, [anchor]


def _on_the_clock(frame: pd.DataFrame, family: Family, rng: np.random.Generator) -> pd.DataFrame:
    """With the time of each trial, and what the night did by then (the mean over it is 0)."""
    starts = frame["invocation_id"].ne(frame["invocation_id"].shift()).cumsum()
    seconds = starts * START_S + np.arange(len(frame)) * TRIAL_S
    night = (seconds - seconds.min()) / (seconds.max() - seconds.min())
    if family.drift:
        total = rng.uniform(0.01, 0.04) * rng.choice([-1, 1])
        curve = night if rng.random() < 0.5 else np.sin(night * np.pi / 2)
        frame["agg_tok_s"] *= np.exp(total * (curve - curve.mean()))
    frame["started_at"] = pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(seconds, unit="s")
    frame["status"] = np.where(frame["fine"], "ok", "failed")
    frame["failure"] = np.where(frame["fine"], None, "cuda_oom")
    frame.loc[~frame["fine"], "agg_tok_s"] = np.nan
    return frame.drop(columns="fine")


def judge(tally: Tally, analysis: Analysis, rows: pd.DataFrame, table: np.ndarray) -> None:
    """Add one sweep."""
    rows = rows[rows["status"] == "ok"]
    for load in analysis.groups[0].loads:
        column = LOADS.index(int(load.load))
        mine = rows[rows["concurrency"] == LOADS[column]]
        single = int(mine.loc[mine["agg_tok_s"].idxmax(), "steps"])
        mean = int(mine.groupby("steps")["agg_tok_s"].mean().idxmax())
        real = table[:, column]
        measured = real[[cell.steps for cell in load.cells if cell.ok]]
        lost = [1 - real[one] / measured.max() for one in (load.best, single, mean)]
        tally.loads += 1
        for which, loss in enumerate(lost):
            tally.regret[which] += loss
            tally.within[which] += loss <= 0.01
        tally.paired.append((lost[0] - lost[1], lost[0] - lost[2]))
        once = ~mine.duplicated("steps", keep=False)
        _intervals(tally, load, real, seen=not (once & mine["disturbed"]).any())


def _intervals(tally: Tally, load: Load, real: np.ndarray, *, seen: bool) -> None:
    good = [cell for cell in load.cells if cell.interval is not None]
    tally.cells += len(good)
    tally.cells_held += sum(cell.interval.holds(real[cell.steps]) for cell in good)
    changes = [cell.change for cell in good if cell.change is not None]
    tally.false_gains += any(change.verdict == "gain" for change in changes)
    held = [
        change.interval.holds(real[change.steps] / real[change.against] - 1) for change in changes
    ]
    tally.changes += len(held)
    tally.changes_held += sum(held)
    tally.sets += np.array([1, seen])
    tally.sets_held += np.array([1, seen]) * all(held)


def study(family: Family, design: Design, sweeps: int, rng: np.random.Generator) -> Tally:
    tally = Tally()
    for _ in range(sweeps):
        rows, _, table, _ = measure(family, design, rng)
        judge(tally, analyse(from_frame(rows)), rows, table)
    return tally


HEADER = f"{'':44}{'best or within 1 %':>24}{'regret':>25}{'false':>8}{'coverage':>36}\n" + (
    f"{'family':18}{'design':26}" + f"{'ours':>8}{'single':>8}{'mean':>8}" + f"{'ours':>9}"
    f"{'single':>8}{'mean':>8}{'gains':>8}{'points':>9}{'changes':>9}{'together':>9}{'seen':>9}"
)


def line(family: Family, design: Design, tally: Tally) -> str:
    """One line of the table; a * where ours loses more than a naive rule beyond chance."""
    n = tally.loads
    within = "".join(f"{one / n:8.1%}" for one in tally.within)
    regret = "".join(f"{one / n:8.2%}" for one in tally.regret)
    worse = np.array(tally.paired)
    beyond = worse.mean(axis=0) > 2 * worse.std(axis=0) / np.sqrt(n)
    false = f"{tally.false_gains / n:8.1%}" if family.shape == "flat" else f"{'':8}"
    return (
        f"{family.name:18}{design.name:26}{within}{'*' if beyond.any() else ' '}{regret}{false}"
        f"{tally.cells_held / tally.cells:9.1%}{tally.changes_held / tally.changes:9.1%}"
        + "".join(f"{held / of:9.1%}" for held, of in zip(tally.sets_held, tally.sets, strict=True))
    )


def main() -> None:
    sweeps = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    wanted = sys.argv[3] if len(sys.argv) > 3 else ""
    designs = [one for one in DESIGNS if wanted in one.name]
    print(f"{sweeps * len(FAMILIES) * len(designs)} simulated sweeps, {len(LOADS)} loads each")
    print(HEADER)
    for design in designs:
        for number, family in enumerate(FAMILIES):
            # A line is the same whatever else is studied.
            rng = np.random.default_rng([seed, DESIGNS.index(design), number])
            print(line(family, design, study(family, design, sweeps, rng)), flush=True)
        print(f"{'':18}{design.limit}", flush=True)


if __name__ == "__main__":
    main()
