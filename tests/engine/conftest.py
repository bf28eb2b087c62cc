"""The engine for the tests of this directory, which run when asked for: `make test-engine`.

$SWEEP_ENGINE says how much is swept (`host.FORMS`); without it nothing here is collected, because
setting the engine up takes minutes and gigabytes.
"""

from __future__ import annotations

import os

import pytest

from tests.engine.build import Engine, NoEngineError
from tests.engine.build import engine as set_up

collect_ignore_glob = [] if os.environ.get("SWEEP_ENGINE") else ["test_*.py"]


@pytest.fixture(scope="session")
def engine() -> Engine:
    """SGLang on this machine's CPU. Where it cannot be: skipped, in CI a failure."""
    try:
        return set_up()
    except NoEngineError as error:
        reason = f"no engine: {error}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
