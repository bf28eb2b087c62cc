"""One row of `results.csv`: its columns, its words, and how a cell is written.

The header is fixed by `SCHEMA`. Unknown is empty, never 0. Read right by plain `pandas.read_csv`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

SCHEMA = 1

COLUMNS = (
    "schema", "run_id", "host", "launch", "point", "trial", "attempt", "status", "failure",
    "failure_detail", "flags", "speculative_num_steps", "speculative_eagle_topk",
    "speculative_num_draft_tokens", "config", "workload", "temperature", "concurrency",
    "max_running_requests", "max_total_num_tokens", "dp_size", "requests", "requests_ok",
    "output_tokens", "wall_s", "agg_tok_s", "per_req_tok_s", "decode_tok_s", "steady_tok_s",
    "accept_length", "accept_rate", "accept_source",
    "ttft_ms_mean", "ttft_ms_p50", "ttft_ms_p90", "ttft_ms_p99",
    "tpot_ms_mean", "tpot_ms_p50", "tpot_ms_p90", "tpot_ms_p99",
    "itl_ms_mean", "itl_ms_p50", "itl_ms_p90", "itl_ms_p99",
    "itl_chunk_ms_p50", "itl_chunk_ms_p99",
    "e2e_ms_mean", "e2e_ms_p50", "e2e_ms_p90", "e2e_ms_p99",
    "concurrency_achieved", "client_cpu", "client_lag_ms_p99", "startup_s", "gpu",
    "gpu_temp_c_max", "throttle", "model", "sglang_version", "invocation_id", "unit_sha256",
    "started_at", "finished_at",
)  # fmt: skip

FAILURES = (
    "bad_argument", "invalid_configuration", "exec_failed", "start_timeout", "warmup_failed",
    "wrong_configuration", "cuda_oom", "kv_cache_too_small", "graph_capture", "nccl",
    "port_in_use", "model_not_found", "host_oom_kill", "host_disk_full", "gpu_busy", "watchdog",
    "hang", "scheduler_crash", "preempted", "client_error", "unknown",
)  # fmt: skip

FLAGS = (
    "capped", "client_limited", "short_output", "retracted", "cold", "unstable", "drift",
    "throttled", "foreign_requests", "journal_incomplete", "no_acceptance_data", "simulated",
)  # fmt: skip

# The columns a benchmark fills in: what `bench` returns as measured values.
MEASURED = COLUMNS[COLUMNS.index("requests") : COLUMNS.index("startup_s")]

Cell = str | int | float | None

_NOTHING: Mapping[str, Cell] = MappingProxyType({})


_PLACES = {name: place for place, name in enumerate(COLUMNS)}
_POINT, _TRIAL, _ATTEMPT = (_PLACES[name] for name in ("point", "trial", "attempt"))


@dataclass(frozen=True, slots=True, init=False)
class Row:
    """One row of `results.csv`: a cell for every column of `COLUMNS`; None means unknown.

    Kept as the cells alone, because a run may have a hundred thousand of them.
    """

    _cells: tuple[Cell, ...]

    def __init__(self, values: Mapping[str, Cell] = _NOTHING) -> None:
        unknown = values.keys() - _PLACES.keys()
        if unknown:
            raise ValueError(f"not a column of results.csv: {', '.join(sorted(unknown))}")
        object.__setattr__(self, "_cells", tuple(map(values.get, COLUMNS)))

    @classmethod
    def of_cells(cls, cells: tuple[Cell, ...]) -> Row:
        """The row with these cells, one for each column, in the order of `COLUMNS`."""
        row = cls.__new__(cls)
        object.__setattr__(row, "_cells", cells)
        return row

    @property
    def values(self) -> dict[str, Cell]:
        """The known cells by their column."""
        cells = zip(COLUMNS, self._cells, strict=True)
        return {name: cell for name, cell in cells if cell is not None}

    def __getitem__(self, column: str) -> Cell:
        return self._cells[_PLACES[column]]

    @property
    def key(self) -> tuple[str, int, int]:
        """(point id, trial, attempt): unique within a run."""
        cells = self._cells
        return str(cells[_POINT]), int(cells[_TRIAL] or 0), int(cells[_ATTEMPT] or 0)

    @property
    def ok(self) -> bool:
        return self["status"] == "ok"

    def cells(self) -> list[str]:
        """The row as the CSV holds it, in the order of `COLUMNS`."""
        return [cell_text(cell) for cell in self._cells]


def cell_text(value: Cell) -> str:
    """One cell: '' for unknown, floats by repr, text on a single line."""
    if value is None:
        return ""
    if isinstance(value, bool):
        raise TypeError("a cell holds text or a number, not a truth value")
    if isinstance(value, float):
        return repr(value)
    return " ".join(str(value).split("\n")).replace("\r", " ").replace("\0", "")


def flags_text(flags: Iterable[str]) -> str | None:
    """Flags as the `flags` cell holds them: joined by ';', in the order of `FLAGS`, or None."""
    given = set(flags)
    unknown = given - set(FLAGS)
    if unknown:
        raise ValueError(f"not a flag: {', '.join(sorted(unknown))}")
    return ";".join(name for name in FLAGS if name in given) or None


def utc(moment: datetime) -> str:
    """A moment as rows hold it: UTC, ISO 8601, milliseconds, `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
