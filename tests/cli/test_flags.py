"""Flags of a whole sweep: what the journal, the queue and the cards of its host give away."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from sweep.demo.places import candidates
from tests.cli.calling import sweep

INVENTORY = """\
hosts:
  demo:
    transport: demo
    server: {{env: {{SWEEP_SIM_QUIRKS: "{quirks}", SWEEP_SIM_SPEED: "8"}}}}
sweeps:
  short:
    host: demo
    steps: [3]
    concurrency: [4]
    baseline: false
    benchmark: {benchmark}
"""


def measured(place: Path, quirks: str, benchmark: str) -> tuple[pd.Series, dict]:
    """The row of a sweep with one launch and one point, and what its flags were earned with."""
    (place / "inventory.yaml").write_text(INVENTORY.format(quirks=quirks, benchmark=benchmark))
    shown = sweep("run", "short", cwd=place)
    assert shown.returncode == 0, shown.stderr
    run = max((place / "runs").iterdir())
    (record,) = (run / "bench").glob("*.json")
    evidence = json.loads(record.read_text())["bench"]["evidence"]
    return pd.read_csv(run / "results.csv").iloc[0], evidence


def test_what_the_journal_and_the_cards_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWEEP_DEMO_DIR", str(tmp_path / "demo"))
    hot = next(candidates()) / "etc/clock-reasons"
    hot.parent.mkdir(parents=True)
    hot.write_text("0x24")
    row, evidence = measured(tmp_path, "retract; old", "{max_tokens: 300}")
    # The client may be held up by whatever else this machine does.
    assert set(row["flags"].split(";")) - {"client_limited"} == {
        "retracted", "throttled", "simulated",
    }  # fmt: skip
    assert row["accept_source"] == "journal"
    assert row["accept_length"] == pytest.approx(3.64, abs=0.3)
    assert (row["throttle"], row["gpu_temp_c_max"]) == ("sw_power_cap+sw_thermal_slowdown", 61)
    assert evidence["gpus"]["cards"] == 4
    assert evidence["verdicts"].keys() - {"client_limited"} == {"retracted", "throttled"}
    assert evidence["verdicts"]["throttled"] == "sw_thermal_slowdown in 100% of samples"


def test_a_workload_of_ones_own_and_a_file_that_changed(tmp_path: Path) -> None:
    texts = tmp_path / "mine.jsonl"
    lines = [json.dumps({"prompt": f"Question number {number}?"}) for number in range(9)]
    texts.write_text("\n".join(lines))
    benchmark = "{workload: {file: mine.jsonl, name: mine}, requests: 8, max_tokens: 50}"
    row, _ = measured(tmp_path, "", benchmark)
    assert (row["workload"], row["temperature"], row["requests_ok"]) == ("mine", 0.7, 8)
    assert set(row["flags"].split(";")) <= {"client_limited", "simulated"}
    assert (row["throttle"], row["accept_source"]) == ("no", "requests")
    texts.write_text("\n".join(lines[1:]))
    shown = sweep("resume", "--trials", "2", cwd=tmp_path)
    assert shown.returncode == 4
    assert "benchmark.workload mine (texts " in shown.stderr
