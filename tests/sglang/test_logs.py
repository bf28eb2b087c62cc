"""Whole logs, `logs/*.log`, each with what must come out beside it, `logs/*.json`.

The lines are our own, in the form of the release or the failure the file is named after.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweep.rows import FAILURES
from sweep.sglang.journal import scrape, scrape_json

LOGS = sorted((Path(__file__).parent / "logs").glob("*.log"))


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_log(log: Path) -> None:
    expected = json.loads(log.with_suffix(".json").read_text("utf-8"))
    found = scrape(log.read_bytes()).as_json()
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_what_is_printed_is_json_of_the_same(log: Path) -> None:
    data = log.read_bytes()
    printed = json.loads(scrape_json(data))
    assert printed == json.loads(json.dumps(scrape(data).as_json()))
    assert printed["failure"] is None or printed["failure"] in FAILURES


def test_every_kind_a_log_can_show_is_there() -> None:
    shown = {json.loads(log.with_suffix(".json").read_text("utf-8"))["failure"] for log in LOGS}
    outside = {"start_timeout", "wrong_configuration", "hang", "preempted", "client_error"}
    assert shown - {None} == set(FAILURES) - outside
