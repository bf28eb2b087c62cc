"""adaptive.json, read by SGLang itself."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sweep.report.adaptive import Adaptive, adaptive
from sweep.report.recommend import recommend
from tests.engine.build import Engine
from tests.engine.test_arguments import asking
from tests.report.made import group_of, shadowed, table

pytestmark = pytest.mark.timeout(900)

SCRIPT = Path(__file__).parent / "schedule.py"


def schedule_of(*tables: pd.DataFrame) -> Adaptive:
    return adaptive(recommend(group_of(pd.concat(tables, ignore_index=True))))


def read_by_sglang(
    engine: Engine, place: Path, schedule: Adaptive, batches: Sequence[int]
) -> dict[str, Any]:
    assert schedule.text is not None
    place.write_text(schedule.text)
    words = [str(SCRIPT), str(place), str(schedule.start), *map(str, batches)]
    ran = subprocess.run(
        [str(engine.python), *words], env={**os.environ, **engine.environment}, text=True,
        capture_output=True, check=False, timeout=600,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_sglang_follows_the_schedule(engine: Engine, tmp_path: Path) -> None:
    schedule = schedule_of(
        table({0: 100, 2: 150, 4: 200}, loads=(1,)), table({0: 100, 2: 150, 4: 120}, loads=(16,))
    )
    found = read_by_sglang(engine, tmp_path / "adaptive.json", schedule, (1, 3, 4, 16, 64))
    assert found["candidates"] == [2, 4]
    assert found["steps"] == {"1": 4, "3": 4, "4": 2, "16": 2, "64": 2}


def test_sglang_takes_two_that_are_tied(engine: Engine, tmp_path: Path) -> None:
    flat = shadowed(table({0: 100, 1: 150, 2: 190, 5: 170}, noise=0.01, loads=(1,)), 2, 4, 0.001)
    schedule = schedule_of(flat)
    found = read_by_sglang(engine, tmp_path / "adaptive.json", schedule, (1,))
    assert found["candidates"] == [2, 4]


def test_sglang_takes_the_flags_that_go_with_it(engine: Engine, tmp_path: Path) -> None:
    schedule = schedule_of(table({0: 100, 2: 150, 4: 200}, loads=(1,)))
    assert schedule.text is not None
    path = tmp_path / "adaptive.json"
    path.write_text(schedule.text)
    words = ["--model-path", "/t", "--speculative-draft-model-path", "/d",
             "--speculative-algorithm", "EAGLE", *schedule.flags(str(path))]  # fmt: skip
    with asking(engine, tmp_path) as ask:
        (answer,) = ask([words])
    assert "fields" in answer, answer
    assert answer["fields"]["speculative_adaptive"] is True
    assert answer["fields"]["speculative_num_steps"] == schedule.start
