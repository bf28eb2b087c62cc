"""From run directories and CSV files to one typed frame of trials. Never asks the host.

A CSV needs `speculative_num_steps` (or `steps`), `concurrency` and at least one of `agg_tok_s`,
`per_req_tok_s`; every other column of results.csv is used where it is there, cells may be empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from sweep.errors import RunDirectoryError, SweepError, UsageError
from sweep.plan import Plan
from sweep.plan_document import plan_from_doc
from sweep.report.csv_file import read_csv
from sweep.results import Event, RunDirectory, Status, open_run, read_status
from sweep.results.table import INTEGERS, REALS
from sweep.rows import COLUMNS

STEPS = "speculative_num_steps"
METRICS = ("agg_tok_s", "per_req_tok_s")
TIMES = ("started_at", "finished_at")

# What else people call our columns: a table that was typed by hand, the published sweep.
_ALIASES = {"steps": STEPS, "tokens": "output_tokens", "max_running": "max_running_requests"}
_EVENT_COLUMNS = ("source", "at", "kind", "stage", "launch", "point", "concurrency", "trial")


@dataclass(frozen=True)
class Source:
    """One input. `id` names it in every frame; `path` is the CSV or the run's directory.

    `plan`, `document` (plan.json) and `status` are those of a run, None or empty for a CSV;
    `left_out` says what could not be used, a sentence each.
    """

    id: str
    path: Path
    kind: Literal["run", "csv"]
    plan: Plan | None = None
    document: Mapping[str, Any] = field(default_factory=dict)
    status: Status | None = None
    left_out: tuple[str, ...] = ()

    @property
    def running(self) -> bool:
        return self.status is not None and self.status.state == "running"


@dataclass(frozen=True)
class Results:
    """What all inputs hold.

    `trials`: one row per trial, its latest attempt, in the order of the file: `source`, `load`
    (the concurrency as asked for: "16" or "max"), then every column of results.csv. Whole numbers
    are Int64, other numbers float64, texts string, `started_at` and `finished_at` UTC datetimes;
    what is unknown is NA. `status` is "ok" or "failed".
    `attempts`: the same columns, every attempt.
    `events`: what happened when (runs only): source, at (UTC), kind, stage, launch, point,
    concurrency, trial, text.
    """

    sources: tuple[Source, ...]
    attempts: pd.DataFrame
    trials: pd.DataFrame
    events: pd.DataFrame

    @property
    def ok(self) -> pd.DataFrame:
        """The trials that were measured."""
        return self.trials[self.trials["status"] == "ok"]

    @property
    def failures(self) -> pd.DataFrame:
        """The trials whose latest attempt failed."""
        return self.trials[self.trials["status"] != "ok"]

    def source(self, source_id: str) -> Source:
        return next(source for source in self.sources if source.id == source_id)


def load_results(inputs: Sequence[Path]) -> Results:
    """Everything the inputs hold: run directories (also of a run still going on) and CSV files.

    Raises:
        UsageError: an input that is no run and no table of measurements, with what it lacks.
        RunDirectoryError: a run of another version, or unreadable.
    """
    sources: list[Source] = []
    frames: list[pd.DataFrame] = []
    events: list[pd.DataFrame] = []
    for path in inputs:
        source, frame, happened = _load(path, _free_id(path, sources))
        sources.append(source)
        frames.append(frame)
        events.append(happened)
    attempts = pd.concat([frame for frame in frames if len(frame)] or [_no_trials()])
    attempts = attempts.reset_index(drop=True)
    happened = pd.concat([one for one in events if len(one)] or [_event_frame("", ())])
    return Results(
        tuple(sources), attempts, latest_attempts(attempts), happened.reset_index(drop=True)
    )


def _no_trials() -> pd.DataFrame:
    """The frame of inputs that hold no row yet."""
    empty = _typed(pd.DataFrame())
    for place, name in enumerate(("source", "load")):
        empty.insert(place, name, pd.Series(dtype="string"))
    return empty


def latest_attempts(attempts: pd.DataFrame) -> pd.DataFrame:
    """The row of each (source, point, trial): the one with the highest attempt."""
    ordered = attempts.sort_values("attempt", kind="stable")
    last = ordered.drop_duplicates(["source", "point", "trial"], keep="last")
    return last.sort_index().reset_index(drop=True)


def _free_id(path: Path, taken: Iterable[Source]) -> str:
    path = path.resolve()
    name = path.parent.name if path.name == "results.csv" else path.name
    name = name.removesuffix(".csv")
    known = {source.id for source in taken}
    number = 2
    found = name
    while found in known:
        found, number = f"{name}-{number}", number + 1
    return found


def _load(path: Path, source_id: str) -> tuple[Source, pd.DataFrame, pd.DataFrame]:
    if path.is_dir() and (path / "plan.json").exists():
        return _load_run(path, source_id)
    if path.is_dir():
        path = path / "results.csv"
        if not path.exists():
            raise UsageError(
                f"{path.parent} is no run: it has neither plan.json nor results.csv; "
                "name a run's directory or a CSV file"
            )
    return _load_csv(path, source_id)


# -- runs ---------------------------------------------------------------------------------------


def _load_run(path: Path, source_id: str) -> tuple[Source, pd.DataFrame, pd.DataFrame]:
    run = open_run(path.parent, path)
    document = run.plan()
    plan = plan_from_doc(document.get("plan", {}))
    source = Source(source_id, path, "run", plan, document, _status(run))
    frame = _typed(pd.DataFrame.from_records([dict(row.values) for row in run.rows()]))
    asked = {point.id: str(point.concurrency) for _, point in plan.points()}
    frame.insert(0, "source", source_id)
    frame.insert(1, "load", _loads(frame, asked))
    return source, frame, _event_frame(source_id, run.events())


def _status(run: RunDirectory) -> Status | None:
    # How it stands is told where it can be; the results can be read all the same.
    try:
        return read_status(run)
    except SweepError:
        return None


def _event_frame(source_id: str, events: Sequence[Event]) -> pd.DataFrame:
    records = [
        {"source": source_id, "at": event.at, "kind": event.kind, **_placed(event)}
        for event in events
    ]
    frame = pd.DataFrame.from_records(records, columns=[*_EVENT_COLUMNS, "text"])
    frame["at"] = pd.to_datetime(frame["at"], utc=True)
    return frame


def _placed(event: Event) -> dict[str, Any]:
    fields = dict(event.fields)
    placed = {name: fields.pop(name, None) for name in _EVENT_COLUMNS[3:]}
    text = fields.pop("text", None) or fields.pop("reason", None)
    rest = " ".join(f"{name}={value}" for name, value in fields.items())
    return {**placed, "text": str(text) if text else rest}


# -- tables -------------------------------------------------------------------------------------


def _load_csv(path: Path, source_id: str) -> tuple[Source, pd.DataFrame, pd.DataFrame]:
    raw = read_csv(path)
    frame, left_out = _measurements(raw, source_id)
    return Source(source_id, path, "csv", left_out=left_out), frame, _event_frame(source_id, ())


def from_frame(raw: pd.DataFrame, source_id: str = "table") -> Results:
    """A table that is in memory already, such as a notebook's; as `load_results` of its CSV."""
    attempts, left_out = _measurements(raw, source_id)
    source = Source(source_id, Path(source_id), "csv", left_out=left_out)
    return Results((source,), attempts, latest_attempts(attempts), _event_frame(source_id, ()))


def _measurements(raw: pd.DataFrame, source_id: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The rows of a table that can be used, whole and typed; what could not."""
    raw = raw.rename(columns={a: b for a, b in _ALIASES.items() if b not in raw.columns})
    missing = [name for name in (STEPS, "concurrency") if name not in raw.columns]
    if missing or not set(METRICS) & set(raw.columns):
        lacks = [{STEPS: f"{STEPS} (or steps)"}.get(name, name) for name in missing]
        lacks += [] if set(METRICS) & set(raw.columns) else [" or ".join(METRICS)]
        raise UsageError(
            f"{source_id} is no table of measurements: it lacks the column {', '.join(lacks)}; "
            f"it has {', '.join(map(str, raw.columns[:12])) or 'none'}"
        )
    frame, left_out = _usable(_typed(raw))
    frame.insert(0, "source", source_id)
    frame.insert(1, "load", _loads(frame, {}))
    return _numbered(frame), left_out


def _usable(frame: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The rows that say what was measured where; how many do not."""
    frame = frame.assign(status=frame["status"].str.strip().str.lower())
    known = frame["status"].fillna("ok").isin(["ok", "failed"])
    failed = frame["status"].fillna("") == "failed"
    placed = (frame[STEPS] >= 0).fillna(False) & (frame["concurrency"] >= 1).fillna(False)
    measured = frame[list(METRICS)].notna().any(axis=1) | failed
    said = []
    if count := int((~placed).sum()):
        said.append(f"left out: {_rows(count)} without whole numbers of steps and concurrency")
    if count := int((placed & ~known).sum()):
        said.append(f"left out: {_rows(count)} whose status is neither ok nor failed")
    if count := int((placed & known & ~measured).sum()):
        said.append(f"left out: {_rows(count)} without {' or '.join(METRICS)}")
    frame = frame[placed & known & measured].reset_index(drop=True)
    frame["status"] = frame["status"].fillna("ok")
    if count := int((frame.duplicated() & (frame["status"] != "failed")).sum()):
        said.append(f"the same as another in every column: {_rows(count)}; copies are no repeats")
    return frame, tuple(said)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _numbered(frame: pd.DataFrame) -> pd.DataFrame:
    """With point, trial and attempt in every row: a table without them repeats a point by rows."""
    setting = ["host", "model", "workload", "temperature", "config", "speculative_eagle_topk"]
    place = [*setting, STEPS, "load"]
    numbers = frame.groupby(place, dropna=False, sort=False).ngroup()
    if frame["point"].isna().any():
        frame["point"] = ("p-" + numbers.astype(str)).astype("string")
    if frame["trial"].isna().any() or (
        frame["attempt"].isna().any() and frame.duplicated(["point", "trial"]).any()
    ):
        frame["trial"] = (frame.groupby("point").cumcount() + 1).astype("Int64")
        frame["attempt"] = 1
    frame["attempt"] = frame["attempt"].fillna(1).astype("Int64")
    if (frame.groupby(["point", "trial"])["run_id"].nunique() > 1).any():
        # Of several runs in one table: trial 1 of one is no attempt at trial 1 of the other.
        numbers = frame.groupby(["run_id", "trial"], dropna=False, sort=False).ngroup()
        frame["trial"] = (numbers + 1).astype("Int64")
    return frame


# -- both ---------------------------------------------------------------------------------------


def _loads(frame: pd.DataFrame, asked: Mapping[str, str]) -> pd.Series[Any]:
    """The concurrency as it was asked for: a number as text, or `max`."""
    planned = frame["point"].map(asked).astype("string")
    return planned.fillna(frame["concurrency"].astype("string"))


def _typed(raw: pd.DataFrame) -> pd.DataFrame:
    """Every column of results.csv with its type; what a cell cannot hold is NA."""
    return pd.DataFrame({name: _column(raw, name) for name in COLUMNS}, index=raw.index)


def _column(raw: pd.DataFrame, name: str) -> pd.Series[Any]:
    if name not in raw.columns:
        kind = "Int64" if name in INTEGERS else "float64" if name in REALS else "string"
        kind = "datetime64[ns, UTC]" if name in TIMES else kind
        return pd.Series(None, index=raw.index, dtype=kind)
    found = raw[name]
    if name in INTEGERS:
        numbers = pd.to_numeric(found, errors="coerce").astype("float64")
        return numbers.where(numbers % 1 == 0).astype("Int64")
    if name in REALS:
        numbers = pd.to_numeric(found, errors="coerce").astype("float64")
        return numbers.where(numbers.abs() != float("inf"))
    if name in TIMES:
        return pd.to_datetime(found, errors="coerce", utc=True, format="ISO8601")
    return found.astype("string")


def run_frames(path: Path) -> Results:
    """One run (its directory) or table as typed frames.

    Raises:
        RunDirectoryError: there is no such run, or it cannot be read.
    """
    if not path.exists():
        raise RunDirectoryError(f"no run {path}: no such directory or file")
    return load_results([path])
