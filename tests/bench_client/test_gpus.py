"""What nvidia-smi samples beside a client, and what is made of it."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sweep.bench.gpus import SAMPLES, gpu_notes, watched
from sweep.bench.job import JobSpec

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC).timestamp()


def sample(
    second: float, card: int = 0, reasons: str = "0x0000000000000000", **more: object
) -> str:
    """A line as nvidia-smi prints it, in a place two hours east of Greenwich."""
    values = {"temp": 60, "clock": 2400, "power": 400.5, "memory": 89000} | more
    told = f"2026/03/01 14:{int(second // 60):02d}:{second % 60:06.3f}"
    numbers = ", ".join(str(value) for value in values.values())
    return f"{told}, {card}, {numbers}, {reasons}\n"


def notes(*lines: str, window: tuple[float, float] | None = (NOON, NOON + 60)):
    return gpu_notes("".join(lines).encode(), window)


def test_cards_and_samples_are_put_together():
    found = notes(
        sample(1, 0), sample(1, 1, temp=71, clock=2100, power=500.5),
        sample(3, 0, "0x0000000000000024"), sample(3, 1, "0x0000000000000004", memory=90000),
    )  # fmt: skip
    assert (found.cards, found.samples) == (2, 4)
    assert (found.temp_c_max, found.clock_mhz_min, found.clock_mhz_mean) == (71, 2100, 2325)
    assert (found.power_w_max, found.memory_mib_max) == (500.5, 90000)
    assert found.reasons == {"sw_power_cap": 0.5, "sw_thermal_slowdown": 0.25}
    assert found.troubles == {"sw_thermal_slowdown": 0.25}
    assert found.columns() == {
        "gpu_temp_c_max": 71, "throttle": "sw_power_cap+sw_thermal_slowdown",
    }  # fmt: skip


def test_only_what_was_sampled_while_it_was_measured_counts():
    early, late = sample(1, temp=90), sample(65, temp=91)
    assert notes(early, sample(30), late, window=(NOON + 10, NOON + 60)).temp_c_max == 60
    # Too short for a sample of its own.
    assert notes(early, late, window=(NOON + 61, NOON + 62)).temp_c_max == 91
    assert notes(early, late, window=None).samples == 2


@pytest.mark.parametrize(
    ("bits", "told"),
    [
        ("0x0000000000000000", "no"),
        ("0x0000000000000001", "no"),  # idle
        ("0x0000000000000002", "no"),  # clocks that somebody set
        ("0x0000000000000008", "hw_slowdown"),
        ("0x00000000000000C0", "hw_thermal_slowdown+hw_power_brake_slowdown"),
        ("[N/A]", None),
    ],
)
def test_reasons(bits, told):
    assert notes(sample(1, reasons=bits)).columns()["throttle"] == told


def test_what_a_card_does_not_say_is_unknown():
    found = notes(sample(1, temp="[N/A]", power="[Not Supported]"))
    assert (found.temp_c_max, found.power_w_max, found.clock_mhz_min) == (None, None, 2400)


@pytest.mark.parametrize("data", [None, b"", b"No devices were found\n", b"\xff\n, , , , , ,\n"])
def test_nothing_is_known_of_nothing(data):
    assert gpu_notes(data, (NOON, NOON + 1)) is None


FAKE = """#!/bin/sh
case "$*" in
  *UNKNOWN*) exit 2 ;;
  *" -l "*) while :; do echo "$*"; sleep 0.05; done ;;
esac
"""


def run(tmp_path: Path, argv: tuple[str, ...], unknown: str = "nothing"):
    (tmp_path / "bin").mkdir()
    smi = tmp_path / "bin/nvidia-smi"
    smi.write_text(FAKE.replace("UNKNOWN", unknown))
    smi.chmod(0o755)
    job = watched(JobSpec(argv=argv, files={}, outputs=("out",), timeout_s=60), ["GPU-a", "GPU-b"])
    assert job.outputs == ("out", SAMPLES)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    return subprocess.run(job.argv, cwd=tmp_path, env={"PATH": path}, check=False, timeout=60)


WAIT = "import time,os\nwhile not os.path.getsize('gpus.csv'): time.sleep(.01)\nprint(1)"


@pytest.mark.parametrize(
    ("unknown", "asked"),
    [("nothing", "clocks_event_reasons.active"), ("event", "clocks_throttle_reasons.active")],
)
def test_it_is_asked_in_the_words_of_its_driver_and_ended_with_the_client(tmp_path, unknown, asked):
    ended = run(tmp_path, (sys.executable, "-c", WAIT + "\nraise SystemExit(7)"), unknown)
    assert ended.returncode == 7
    lines = (tmp_path / SAMPLES).read_text().splitlines()
    assert lines
    assert asked in lines[0]
    assert "-i GPU-a,GPU-b " in lines[0]
    size = (tmp_path / SAMPLES).stat().st_size
    subprocess.run(["sleep", "0.2"], check=True)
    assert (tmp_path / SAMPLES).stat().st_size == size


def test_a_machine_without_cards(tmp_path):
    job = watched(JobSpec(argv=("echo", "a b", "$c"), files={}, outputs=(), timeout_s=60))
    ended = subprocess.run(
        job.argv, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=True
    )
    assert ended.stdout == b"a b $c\n"
    assert not (tmp_path / SAMPLES).exists()
