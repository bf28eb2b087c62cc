"""Whatever goes wrong in a sweep: no row is lost, wrong or twice, and production serves again."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.campaign import Outcome, inject
from tests.faults.catalogue import Injection
from tests.faults.field import Field
from tests.faults.ground import Ground


def test_fault(
    field: Field,
    ground: Ground,
    injection: Injection,
    record_property: Callable[[str, object], None],
) -> None:
    outcome = inject(injection, ground, field.trials)
    record_property("injection", outcome.as_dict())
    assert not outcome.troubles, report(injection, outcome, ground)


def report(injection: Injection, outcome: Outcome, ground: Ground) -> str:
    """What did not hold, where the fault struck, what the tool said, how to repeat just this."""
    return "\n".join(
        (
            f"{injection.name} at {outcome.where} on {ground.machine.release}, "
            f"exit statuses {outcome.statuses}",
            *(f"  {text}" for text in outcome.troubles),
            ground.said(),
            f"again: {injection.again}",
        )
    )
