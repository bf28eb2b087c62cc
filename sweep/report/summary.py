"""What an analysis says, as frozen values: every text, plot and export is drawn from these. Pure.

    Analysis
    └── Group                one setting of everything but steps and concurrency
        ├── Load             one concurrency: which number of steps, how sure, and why
        │   ├── Cell         one point: steps at this concurrency
        │   └── Effect       one number of steps against another
        ├── Capacity         what the server admits at a number of steps
        ├── Noise            how far two measurements of the same thing differ
        └── Drift            what the night itself changed

Rates, changes and intervals are fractions (0.05 is 5 %), throughput is tokens per second. None is
what is not known. An interval holds the truth in 95 of 100 sweeps, and a whole family of
comparisons of one load together (see `effects`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sweep.report.estimates import Fit

Metric = Literal["agg_tok_s", "per_req_tok_s"]
Verdict = Literal["gain", "loss", "tie", "undecided"]
# No change that anybody measures is larger, in per cent; what an interval may reach is.
_MANY = 100000
# Repeats that settle a comparison, when there were none.
WANTED_TRIALS = 3


@dataclass(frozen=True)
class Interval:
    """From `low` to `high`, in the unit of what it belongs to."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Noise:
    """The spread of one trial around the truth of its point: `sigma` is a fraction (0.03 is 3 %).

    `measured`: from repeats, on `df` degrees of freedom; else the assumed value and df 0.
    `restart`: what a restart of the server adds, a fraction; `restart_measured` likewise.
    `points` and `trials` say how many points with repeats it comes from; `outliers` how many
    trials were so far from their point's others that they count for less.
    """

    sigma: float
    df: int
    measured: bool
    points: int = 0
    trials: int = 0
    outliers: int = 0
    restart: float = 0.0
    restart_measured: bool = False

    def text(self) -> str:
        if not self.measured:
            return f"noise assumed to be {self.sigma:.0%}: nothing was measured twice"
        return (
            f"noise {self.sigma:.1%} of one trial, from {self.trials} trials of {self.points} "
            f"points ({self.df} degrees of freedom)"
        )


@dataclass(frozen=True)
class Drift:
    """What the night changed, from points measured again after another start.

    `total`: from the first trial to the last, a fraction; `interval` of it; `hours` between them;
    `points` measured again. `matters`: it clears the noise, so the comparisons allow for it.
    """

    total: float
    interval: Interval
    hours: float
    points: int
    matters: bool


@dataclass(frozen=True)
class Capacity:
    """What the server admits at a number of steps (sums over DP ranks), from its journal."""

    steps: int
    max_running_requests: int | None
    max_total_num_tokens: int | None


@dataclass(frozen=True)
class Effect:
    """`steps` against `against` at one load.

    `change`: the ratio less 1. `interval`: of the change; with no repeats it is what the assumed
    noise would give, and the verdict is `undecided`. `gain` and `loss` clear the noise; a `tie`
    does not.
    """

    steps: int
    against: int
    change: float
    interval: Interval
    verdict: Verdict

    def text(self) -> str:
        """`+1.5 %`, `-30 %`."""
        return percent(self.change)

    @property
    def said(self) -> str:
        """The verdict in words: `gain`; `gain (assumed noise)` where nothing was measured twice."""
        if self.verdict != "undecided":
            return self.verdict
        word = "gain" if self.interval.low > 0 else "loss" if self.interval.high < 0 else "tie"
        return f"{word} (assumed noise)"


@dataclass(frozen=True)
class Share:
    """Why a number of steps is as fast as it is, against steps 0 (or the lowest with acceptance).

    speed-up(k) = acceptance_length(k) x step_time(0) / step_time(k): each verify step gives more
    tokens and takes longer. `step_time_ms` is the time of one verify step as one request sees it;
    `step_cost` is step_time(k) / step_time(0), at least about 1. `marginal`: speed-up over that of
    the next lower steps measured, less 1. `wasted`: the share of proposed drafts that were
    rejected, 0..1.
    """

    steps: int
    against: int | None
    speed_up: float | None
    acceptance_length: float | None
    step_time_ms: float | None
    step_cost: float | None
    marginal: float | None
    wasted: float | None


@dataclass(frozen=True)
class Cell:
    """One point: `steps` at one load.

    `n` ok trials, `mean` (geometric) of the load's metric over them and its interval, `values`
    the trials in the order they ran, `change` against the group's baseline (None for itself).
    `concurrency` is a number also where the load is `max`. `capped`: more requests than the
    server admits ran, so this measures queueing as well; `capped_inferred`: concluded from fewer
    steps, since more steps never admit more. `flags` of any trial. A point with no ok trial has
    `failure` (one of rows.FAILURES) and its detail; one that was never measured is no cell.
    A point known in another unit only (per request, where the load goes by the aggregate) has n
    0 and no failure. `failed` counts trials whose latest attempt failed. `numbers` holds the
    mean over ok trials of every numeric column of results.csv that has one.
    """

    steps: int
    concurrency: int | None
    n: int
    mean: float | None
    interval: Interval | None
    values: tuple[float, ...]
    change: Effect | None
    capped: bool
    capped_inferred: bool
    flags: tuple[str, ...]
    failure: str | None
    failure_detail: str | None
    failed: int
    numbers: Mapping[str, float]

    @property
    def ok(self) -> bool:
        return self.n > 0


@dataclass(frozen=True)
class Load:
    """One concurrency: which number of steps.

    `load` is `1`, `16` or `max` as the sweep asked for it. `metric`: what decides, aggregate tok/s;
    at concurrency 1 the rate of the one request where that is known for more steps, and wherever
    there is nothing else. `baseline`: the steps that `change` is against. `highest`: the highest
    mean. `ties`: what cannot be told from it, itself among them, ascending; `as_good`: those of
    them that are the better ones with odds of at least three in ten. `best`: the fewest of
    `as_good`: what to use. `decided`: the noise was measured, and nothing ties with `best`.
    `runner_up`: the next highest mean against `best`. `peaks`: local maxima with a valley between
    them that clears the noise. `best_uncapped`: as `best`, among points that no queue slowed down;
    None where every one was. `unmeasured`: steps of the group that have no value here.
    `limited_by`: why more steps than `best` lose, when they do. `why` says it all in sentences.
    """

    load: str
    concurrency: int | None
    metric: Metric
    cells: tuple[Cell, ...]
    baseline: int | None
    unmeasured: tuple[int, ...]
    highest: int | None = None
    best: int | None = None
    ties: tuple[int, ...] = ()
    as_good: tuple[int, ...] = ()
    runner_up: Effect | None = None
    peaks: tuple[int, ...] = ()
    best_uncapped: int | None = None
    decided: bool = False
    shares: tuple[Share, ...] = ()
    limited_by: Literal["compute", "admission"] | None = None
    why: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"C={self.load}"

    @property
    def rivals(self) -> tuple[int, ...]:
        """What cannot be told from `best`."""
        return tuple(steps for steps in self.ties if steps != self.best)

    @property
    def open(self) -> frozenset[int]:
        """The steps whose order is open: best, highest, and what is next to them."""
        if self.best is None or self.decided or self.highest is None:
            return frozenset()
        found = {self.best, self.highest}
        if self.runner_up is not None and self.runner_up.steps in self.ties:
            found.add(self.runner_up.steps)
        return frozenset(found if len(found) > 1 else ())

    def cell(self, steps: int | None) -> Cell | None:
        return next((cell for cell in self.cells if cell.steps == steps), None)


@dataclass(frozen=True)
class Conditions:
    """What the answer holds for: the machine, the model and the load. Empty text is not known."""

    model: str = ""
    gpu: str = ""
    host: str = ""
    sglang_version: str = ""
    dp_size: int | None = None
    workload: str = ""
    temperature: float | None = None
    topk: int | None = None
    config: str = ""

    def lines(self) -> list[tuple[str, str]]:
        """(name, value) of what is known, for people."""
        known = [
            ("model", self.model), ("GPU", self.gpu), ("host", self.host),
            ("SGLang", self.sglang_version),
            ("dp_size", "" if self.dp_size in (None, 1) else str(self.dp_size)),
            ("workload", self.workload),
            ("temperature", "" if self.temperature is None else f"{self.temperature:g}"),
            ("topk", "" if self.topk is None else str(self.topk)), ("flags", self.config),
        ]  # fmt: skip
        return [(name, value) for name, value in known if value]


@dataclass(frozen=True)
class Group:
    """Everything of one input that differs in steps and concurrency alone.

    `source` is the `Source.id` it is from. `baseline`: steps 0 where it was measured, else the
    lowest. `notes`: what a reader must know before the numbers, `why`: what a step costs the server
    at every load; one sentence each. `repeating`: how a command begins that measures again.
    `launches`: the launch of each steps, for runs. `fit`: what comparisons are made from.
    `failed`: how many trials, by their failure.
    """

    id: str
    source: str
    label: str
    conditions: Conditions
    baseline: int | None
    steps: tuple[int, ...]
    loads: tuple[Load, ...]
    capacities: tuple[Capacity, ...]
    noise: Noise
    drift: Drift | None
    why: tuple[str, ...]
    notes: tuple[str, ...]
    repeating: str
    launches: Mapping[int, str]
    fit: Fit = field(repr=False, compare=False)
    failed: Mapping[str, int] = field(default_factory=dict)

    @property
    def nothing(self) -> str:
        """Why there is no answer, where there is none."""
        if not self.failed:
            return "nothing was measured yet"
        kinds = ", ".join(f"{count} with {kind}" for kind, count in self.failed.items())
        return f"nothing was measured: {sum(self.failed.values())} trials failed, {kinds}"

    @property
    def repeat_command(self) -> str | None:
        """The command that measures again what is not decided; None where all is."""
        steps = sorted({one for load in self.loads for one in load.open})
        if not steps:
            return None
        most = max((cell.n for load in self.loads for cell in load.cells), default=0)
        only = ",".join(map(str, steps))
        return f"{self.repeating}{only} --trials {max(WANTED_TRIALS, most + 2)}"

    def capacity(self, steps: int) -> Capacity | None:
        return next((one for one in self.capacities if one.steps == steps), None)


@dataclass(frozen=True)
class Analysis:
    """What the inputs say together; no group where there is no row yet."""

    groups: tuple[Group, ...]


def percent(change: float) -> str:
    """A change as people write it: `+125 %`, `-5.4 %`, `+1.5 %`."""
    points = change * 100
    if points >= _MANY:
        return f"above {_MANY:+.0f} %"
    return f"{points:+.0f} %" if abs(points) >= 9.95 else f"{points:+.1f} %"
