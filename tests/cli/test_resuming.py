"""What a resume goes on with where the inventory is not to be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.cli.options import Options
from sweep.cli.resuming import _current
from tests.results.made import make_plan
from tests.runner.made import NOWHERE


@pytest.mark.parametrize("sent", [True, False])
def test_only_a_run_that_was_not_sent_to_its_host_misses_its_inventory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sent: bool
) -> None:
    document = {"host": NOWHERE.model_dump(mode="json", exclude_defaults=True), "sent": sent}
    plan, gone = make_plan(), tmp_path / "inventory.yaml"
    assert _current(Options(None, None, 0, color=False), gone, document, plan) == (plan, NOWHERE)
    assert ("is gone" in capsys.readouterr().err) is not sent
