"""What the live line says of a client, and whose a hang is."""

from __future__ import annotations

import json

import pytest

from sweep.bench.backends import TrialSpoilt
from sweep.bench.metrics import Measurement
from sweep.errors import LaunchError, PointError
from sweep.runner.watchdog import ServerHung, as_launch_error, progress_text

SAID = {"phase": "measure", "done": 3, "requests": 8, "tokens": 900, "silent_s": 0}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (json.dumps(SAID), "measure 3/8 requests, 900 tokens"),
        (json.dumps(SAID | {"silent_s": 9}), "measure 3/8 requests, 900 tokens"),
        (json.dumps(SAID | {"silent_s": 41}), "measure 3/8 requests, 900 tokens, silent for 41 s"),
        (json.dumps(SAID).ljust(199), "measure 3/8 requests, 900 tokens"),
        ("", ""),
        ("requests 3 of 8", ""),
        ("[1]", ""),
        ('{"phase": "measure"}', ""),
    ],
)
def test_progress_of_the_client(line: str, text: str) -> None:
    assert progress_text(line) == text


def test_a_hang_is_the_servers_and_keeps_what_was_measured() -> None:
    measured = Measurement({"requests_ok": 3})
    found = as_launch_error(TrialSpoilt("hang", "no byte for 480 s", measured))
    assert isinstance(found, ServerHung)
    assert isinstance(found, LaunchError)
    assert (found.failure, found.detail) == ("hang", "no byte for 480 s")
    assert found.measurement is measured


def test_other_trouble_stays_the_trials() -> None:
    error = PointError("client_error", "3 of 8 requests failed")
    assert as_launch_error(error) is error
