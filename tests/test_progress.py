"""What is said of a result while a sweep runs."""

from __future__ import annotations

import pytest

from sweep.progress import row_line
from tests.results.made import make_row


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        ({}, "steps=3 C=4  542.6 tok/s"),
        ({"accept_length": 2.76, "flags": "simulated"},
         "steps=3 C=4  542.6 tok/s, acceptance 2.76 [simulated]"),
        ({"status": "failed", "failure": "hang", "failure_detail": "no answer"},
         "steps=3 C=4 failed: hang: no answer"),
    ],
)  # fmt: skip
def test_a_row_in_one_line(cells: dict[str, str | float], line: str) -> None:
    assert row_line(make_row(**cells)) == line
