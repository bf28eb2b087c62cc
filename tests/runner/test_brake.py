"""When a night is stopped early."""

from __future__ import annotations

import pytest

from sweep.runner.brake import Brake


@pytest.mark.parametrize(
    ("failures", "tripped_at"),
    [
        ([None, None, None], None),
        (["cuda_oom", "cuda_oom", "cuda_oom"], 3),
        (["cuda_oom", "cuda_oom", None, "cuda_oom", "cuda_oom"], None),
        ([None, "cuda_oom", "hang", "cuda_oom", "cuda_oom", "cuda_oom"], 6),
        (["bad_argument"], 1),
        (["model_not_found"], 1),
        ([None, "bad_argument", "bad_argument"], None),
        ([None, "bad_argument", "bad_argument", "bad_argument"], 4),
        (["cuda_oom"], None),
    ],
)
def test_trips_on_failures_alike_in_a_row_and_on_a_hopeless_first_launch(
    failures: list[str | None], tripped_at: int | None
) -> None:
    brake = Brake(3)
    reasons = [brake.after_launch(failure) for failure in failures]
    first = next((index for index, reason in enumerate(reasons, 1) if reason), None)
    assert first == tripped_at
