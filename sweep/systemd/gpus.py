"""GPUs as nvidia-smi shows them: who holds memory, and waiting until ours is given back.

Everything here does nothing on a host without nvidia-smi.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sweep.errors import LaunchError
from sweep.host.script import sections
from sweep.systemd.processes import describe
from sweep.systemd.site import Site, text

_SMI = "nvidia-smi --format=csv,noheader,nounits"
_HAS_SMI = "command -v nvidia-smi >/dev/null 2>&1"
QUERY = f"{_HAS_SMI} && {_SMI} --query-gpu=index,uuid,name,driver_version,memory.used 2>/dev/null"

# A CUDA context that is left over holds several hundred MiB; the driver's own noise is a few.
TOLERANCE_MIB = 256
STABLE_READINGS = 2
INTERVAL_S = 0.4

_HOLDERS = f"{_HAS_SMI} && {_SMI} --query-compute-apps=gpu_uuid,pid,used_memory 2>/dev/null"


@dataclass(frozen=True)
class Gpu:
    """One card. memory_used_mib is None where the driver does not say (unified memory)."""

    index: int
    name: str
    uuid: str
    driver: str
    memory_used_mib: int | None


def parse(output: bytes) -> tuple[Gpu, ...]:
    """The output of `QUERY`. Lines that are not a card (a driver's complaint) are left out."""
    found = []
    for row in csv.reader(text(output).splitlines(), skipinitialspace=True):
        if len(row) == 5 and row[0].isdigit():
            index, uuid, name, driver, used = row
            memory = int(used) if used.isdigit() else None
            found.append(Gpu(int(index), name, uuid, driver, memory))
    return tuple(found)


def to_bytes(readings: Sequence[Gpu]) -> bytes:
    """Memory readings as they are kept on the host: {uuid: MiB}."""
    return json.dumps(_memory(readings)).encode()


def used_by(
    argv: Sequence[str], environment: Mapping[str, str], cards: Sequence[Gpu]
) -> tuple[Gpu, ...]:
    """The cards an SGLang command line uses: CUDA_VISIBLE_DEVICES, then base id, step, tp, pp, dp.

    As 0.5.23 counts them (srt/entrypoints/engine.py): rank r runs on base_gpu_id + r * gpu_id_step;
    dp multiplies the cards unless dp attention shares those of tp. Cards are taken in nvidia-smi's
    order, which is CUDA's too unless cards of several kinds are mixed.
    """
    visible = _visible(environment.get("CUDA_VISIBLE_DEVICES"), cards)
    ranks = _number(argv, ("--tensor-parallel-size", "--tp-size", "--tp"), 1)
    ranks *= _number(argv, ("--pipeline-parallel-size", "--pp-size"), 1)
    if "--enable-dp-attention" not in argv:
        ranks *= _number(argv, ("--data-parallel-size", "--dp-size", "--dp"), 1)
    first = _number(argv, ("--base-gpu-id",), 0)
    step = max(1, _number(argv, ("--gpu-id-step",), 1))
    return tuple(visible[first : first + ranks * step : step])


def _visible(setting: str | None, cards: Sequence[Gpu]) -> Sequence[Gpu]:
    if setting is None:
        return cards
    chosen = []
    for word in filter(None, (part.strip() for part in setting.split(","))):
        match = [card for card in cards if word == str(card.index) or card.uuid.startswith(word)]
        if not match:
            break  # CUDA ignores everything from the first word that is no card
        chosen.append(match[0])
    return chosen


def _number(argv: Sequence[str], names: tuple[str, ...], default: int) -> int:
    """The last value of a flag that has several spellings, in both forms, as argparse takes it."""
    found = default
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in names:
            value = value if equals else following
            found = int(value) if value.isdigit() else found
    return found


class GpuMemory:
    """Readings of the cards of one host, and waiting on them."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def read(self) -> tuple[Gpu, ...]:
        return parse(self._site.run(QUERY).stdout)

    def settle(self, uuids: Sequence[str], deadline_s: float) -> tuple[Gpu, ...]:
        """Read until nothing changes any more, or the deadline: the last reading.

        These cards have to be in it, else LaunchError gpu_busy: without a reading before it nobody
        could say later that a server has given its memory back.
        """
        clock = self._site.clock
        until = clock.monotonic() + deadline_s
        last = self.read()
        stable = 1
        while clock.monotonic() < until:
            if not _missing(uuids, last) and (not last or stable >= STABLE_READINGS):
                break
            clock.sleep(INTERVAL_S)
            now = self.read()
            stable = stable + 1 if _same(_memory(now), _memory(last)) else 1
            last = now
        if missing := _missing(uuids, last):
            raise LaunchError("gpu_busy", _unseen(missing, deadline_s))
        return last

    def wait_until_free(
        self, uuids: Sequence[str], before: Mapping[str, int], deadline_s: float
    ) -> None:
        """Wait until these cards hold what they held before; else LaunchError gpu_busy."""
        clock = self._site.clock
        until = clock.monotonic() + deadline_s
        limits = {uuid: mib for uuid, mib in before.items() if uuid in uuids}
        while limits:
            readings = self._readings()
            held = next(filter(None, (above(one, limits) for one in readings)), None)
            # A card that is not shown is not free: nvidia-smi hangs, or the card fell off its bus.
            unseen = sorted({uuid for one in readings for uuid in _missing(limits, one)})
            if readings and not held and not unseen:
                return
            if clock.monotonic() >= until:
                busy = self._busy(held, limits, deadline_s) if held else _unseen(unseen, deadline_s)
                raise LaunchError("gpu_busy", busy)
            clock.sleep(INTERVAL_S)

    def _readings(self) -> list[tuple[Gpu, ...]]:
        """As many readings as have to be alike, one after the other."""
        wait = f"sleep {INTERVAL_S} 2>/dev/null || sleep 1"
        between = f"\n{wait}\n"
        script = between.join(f"echo @@{number}; {QUERY}" for number in range(STABLE_READINGS))
        return [parse(one) for one in sections(self._site.run(script).stdout).values()]

    def _busy(self, held: Sequence[Gpu], limits: Mapping[str, int], waited_s: float) -> str:
        cards = ", ".join(
            f"GPU {gpu.index} holds {gpu.memory_used_mib} MiB (before our first start: "
            f"{limits[gpu.uuid]} MiB)"
            for gpu in held
        )
        return f"{waited_s:.0f} s after the stop {cards}; {self._who(held)}"

    def neighbours(self, uuids: Sequence[str]) -> tuple[str, ...]:
        """Whoever holds memory on these cards already, one sentence for each card."""
        held = above(self.read(), dict.fromkeys(uuids, 0))
        return tuple(
            f"GPU {gpu.index} holds {gpu.memory_used_mib} MiB before our first start; "
            f"{self._who([gpu])}"
            for gpu in held
        )

    def _who(self, held: Sequence[Gpu]) -> str:
        busy = {gpu.uuid for gpu in held}
        holders = [(pid, mib) for uuid, pid, mib in self._holders() if uuid in busy]
        seen = describe(self._site, (pid for pid, _ in holders))
        named = [f"{seen.get(pid, f'pid {pid}, not visible to us')} ({mib} MiB)"
                 for pid, mib in holders]  # fmt: skip
        return "held by " + ", ".join(named) if named else "nobody to be seen holds it"

    def _holders(self) -> list[tuple[str, int, str]]:
        """(GPU uuid, pid, MiB) of every process that computes there."""
        lines = text(self._site.run(_HOLDERS).stdout).splitlines()
        rows = csv.reader(lines, skipinitialspace=True)
        return [(row[0], int(row[1]), row[2]) for row in rows if len(row) == 3 and row[1].isdigit()]


def _unseen(uuids: Sequence[str], waited_s: float) -> str:
    cards = ", ".join(uuids) or "any card"
    return (
        f"{waited_s:.0f} s after the stop nvidia-smi does not show {cards}; see whether it answers"
    )


def _missing(uuids: Iterable[str], readings: Sequence[Gpu]) -> list[str]:
    """Those of the cards whose memory a reading does not tell."""
    return sorted(set(uuids) - _memory(readings).keys())


def _same(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return all(abs(mib - other.get(uuid, 0)) <= TOLERANCE_MIB for uuid, mib in one.items())


def _memory(readings: Sequence[Gpu]) -> dict[str, int]:
    return {gpu.uuid: gpu.memory_used_mib for gpu in readings if gpu.memory_used_mib is not None}


def above(readings: Sequence[Gpu], limits: Mapping[str, int]) -> list[Gpu]:
    """The cards that hold more than their limit and the tolerance; others do not matter."""
    return [
        gpu
        for gpu in readings
        if gpu.memory_used_mib is not None
        and gpu.uuid in limits
        and gpu.memory_used_mib > limits[gpu.uuid] + TOLERANCE_MIB
    ]
