"""What the cards did while a trial was measured: temperature, clocks, power, memory, throttling.

nvidia-smi samples them itself every `EVERY_S` seconds, as one process beside the client: starting
it anew for each look would cost as much as the client does. Where there is none, nothing is known.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from statistics import fmean

from sweep.bench.job import JobSpec
from sweep.rows import Cell

SAMPLES = "gpus.csv"
EVERY_S = 2
_FIELDS = "timestamp,index,temperature.gpu,clocks.sm,power.draw,memory.used"
# Drivers from 535 on say `event`; the older word goes away some day.
# $1 are the cards, all if it is empty; the others are the words of the client.
_BESIDE = f"""
cards=$1; shift
if command -v nvidia-smi >/dev/null 2>&1; then
  smi="nvidia-smi --format=csv,noheader,nounits ${{cards:+-i $cards}}"
  for reasons in clocks_event_reasons clocks_throttle_reasons; do
    $smi --query-gpu=$reasons.active >/dev/null 2>&1 && break
  done
  $smi -l {EVERY_S} --query-gpu={_FIELDS},$reasons.active >{SAMPLES} 2>/dev/null </dev/null &
  beside=$!
fi
"$@"; status=$?
[ -z "${{beside-}}" ] || kill "$beside" 2>/dev/null
exit $status
"""

# Bits of clocks_event_reasons.active (nvml.h, nvmlClocksEventReasons). Idle cards and clocks that
# somebody set are no throttling.
REASONS = {
    0x04: "sw_power_cap", 0x08: "hw_slowdown", 0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown", 0x80: "hw_power_brake_slowdown",
}  # fmt: skip
# At its power limit a card is where it should be, night after night. The others are trouble.
HARMLESS = frozenset({"sw_power_cap"})
NOT_THROTTLED = "no"


@dataclass(frozen=True)
class GpuNotes:
    """Of all cards and samples of a trial. `reasons` are the shares of samples that show each.

    temp_c_max: degrees Celsius; clock_mhz: of the SMs; power_w: of one card; memory_mib_max: used.
    None: the cards do not say.
    """

    cards: int
    samples: int
    temp_c_max: float | None
    clock_mhz_min: float | None
    clock_mhz_mean: float | None
    power_w_mean: float | None
    power_w_max: float | None
    memory_mib_max: float | None
    reasons: dict[str, float] | None

    @property
    def troubles(self) -> dict[str, float]:
        """The reasons that make a row differ from its neighbours."""
        found = (self.reasons or {}).items()
        return {name: share for name, share in found if name not in HARMLESS}

    def columns(self) -> dict[str, Cell]:
        """What the row holds of it."""
        told = None if self.reasons is None else "+".join(self.reasons) or NOT_THROTTLED
        return {"gpu_temp_c_max": self.temp_c_max, "throttle": told}

    def as_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class _Sample:
    time: float
    card: str
    temp_c: float | None
    clock_mhz: float | None
    power_w: float | None
    memory_mib: float | None
    reasons: int | None


def watched(job: JobSpec, cards: Sequence[str] = ()) -> JobSpec:
    """The job with nvidia-smi beside it, as long as it runs, where there is one.

    `cards` are the UUIDs of those to look at; none means all.
    """
    return replace(
        job,
        argv=("/bin/sh", "-c", _BESIDE, "sh", ",".join(cards), *job.argv),
        outputs=(*job.outputs, SAMPLES),
    )


def gpu_notes(data: bytes | None, window: tuple[float, float] | None) -> GpuNotes | None:
    """What `watched` sampled, within the window (seconds of CLOCK_REALTIME there); None: nothing.

    A trial shorter than the time between two samples is told by all there are.
    """
    lines = csv.reader((data or b"").decode("utf-8", "replace").splitlines(), skipinitialspace=True)
    samples = [sample for sample in map(_sample, lines) if sample is not None]
    if not samples:
        return None
    if window is not None:
        # nvidia-smi prints local time; its last line is from the trial's end.
        zone_s = round((samples[-1].time - window[1]) / 900) * 900
        since, until = window[0] + zone_s, window[1] + zone_s
        samples = [one for one in samples if since <= one.time <= until] or samples
    return _summary(samples)


def _summary(samples: Sequence[_Sample]) -> GpuNotes:
    masks = [one.reasons for one in samples if one.reasons is not None]
    seen = Counter(name for mask in masks for bit, name in REASONS.items() if mask & bit)
    clocks = [one.clock_mhz for one in samples if one.clock_mhz is not None]
    power = [one.power_w for one in samples if one.power_w is not None]
    return GpuNotes(
        cards=len({one.card for one in samples}),
        samples=len(samples),
        temp_c_max=max((one.temp_c for one in samples if one.temp_c is not None), default=None),
        clock_mhz_min=min(clocks, default=None),
        clock_mhz_mean=round(fmean(clocks), 1) if clocks else None,
        power_w_mean=round(fmean(power), 1) if power else None,
        power_w_max=max(power, default=None),
        memory_mib_max=max(
            (one.memory_mib for one in samples if one.memory_mib is not None), default=None
        ),
        reasons={name: round(seen[name] / len(masks), 3) for name in REASONS.values() if seen[name]}
        if masks
        else None,
    )


def _sample(row: Sequence[str]) -> _Sample | None:
    """One line; None for whatever else a driver prints."""
    if len(row) != 7:
        return None
    try:
        moment = datetime.strptime(row[0], "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC)
    except ValueError:
        return None
    temp, clock, power, memory = (_number(cell) for cell in row[2:6])
    mask = int(row[6], 16) if row[6].startswith("0x") else None
    return _Sample(moment.timestamp(), row[1], temp, clock, power, memory, mask)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None  # [N/A]
