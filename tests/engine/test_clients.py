"""A sweep measured with SGLang's own clients, of this release, on the demo host."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pandas
import pytest

from tests.engine.build import Engine

INVENTORY = """
hosts:
  demo: {{transport: demo}}
sweeps:
  theirs:
    host: demo
    steps: [2]
    baseline: false
    concurrency: [2]
    benchmark:
      {{kind: {kind}, workload: chat, max_tokens: 100, requests: 8, program: {program},
       tokenizer: {tokenizer}}}
"""


def python_of(engine: Engine, folder: Path) -> Path:
    """A Python that has SGLang, as an engineer's virtual environment has it."""
    told = " ".join(f"{name}={shlex.quote(value)}" for name, value in engine.environment.items())
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec env {told} {shlex.quote(str(engine.python))} "$@"\n')
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("kind", ["sglang", "sglang-rust"])
def test_a_sweep_with_a_client_of_sglang(kind: str, engine: Engine, tmp_path: Path) -> None:
    program, tokenizer = python_of(engine, tmp_path), engine.models / "target"
    text = INVENTORY.format(kind=kind, program=program, tokenizer=tokenizer)
    (tmp_path / "inventory.yaml").write_text(text)
    command = [sys.executable, "-m", "sweep", "run", "theirs", "--no-report", "--yes"]
    ran = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    (run,) = (tmp_path / "runs").iterdir()
    row = pandas.read_csv(run / "results.csv").iloc[0]
    assert row["status"] == "ok"
    assert row["workload"] == f"chat-{kind}"
    assert (row["requests"], row["requests_ok"]) == (8, 8)
    assert 8 < row["output_tokens"] <= 8 * 100
    assert row["agg_tok_s"] == pytest.approx(row["output_tokens"] / row["wall_s"])
    for column in ("ttft_ms_p50", "ttft_ms_p90", "tpot_ms_p99", "itl_ms_mean", "e2e_ms_p99"):
        assert row[column] > 0
    # Told every 40 decode steps, so that a trial must not be too short.
    assert row["accept_source"] == "server_totals"
    assert 1 < row["accept_length"] <= 3
    (theirs,) = run.glob(f"bench/*.{kind}.jsonl")
    assert json.loads(theirs.read_text())["completed"] == 8
    record = json.loads(
        theirs.with_name(theirs.name.replace(f".{kind}.jsonl", ".json")).read_text()
    )
    told = record["bench"]["evidence"]["benchmark"]
    assert told["missing"] == []
    assert told["version"] == "sglang 0.5.23"
