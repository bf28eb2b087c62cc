"""Fixtures for the whole suite: real Debian hosts, see `tests.testhost`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.testhost import RELEASES, Machine, Pool, why_not

SLOW_FIRST = ("whole", "systemd", "cli")


def pytest_configure() -> None:
    """Signals are what they are by default, whoever started the tests, and so for what they start.

    A shell ignores SIGINT for what it runs in the background, and the tool leaves ignored signals
    alone.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    # Nothing in the suite judges how fast something is, on a machine that does other things too.
    settings.register_profile(
        "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever uses a test host is marked so: `-m "not testhost"` leaves it out.

    What takes long comes first, so that several processes are through at about the same time.
    """
    for item in items:
        if "testhost" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.testhost)
    items.sort(key=lambda item: [folder not in item.path.parts for folder in SLOW_FIRST])


@pytest.fixture(scope="session")
def testhost() -> Iterator[Pool]:
    """The run's pool of real hosts: `testhost.shared("trixie")`, `testhost.fresh("gpu")`.

    Without root there are none and the test is skipped; in CI that is a failure.
    """
    reason = why_not()
    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    with Pool() as pool:
        yield pool


@pytest.fixture(params=RELEASES)
def machine(testhost: Pool, request: pytest.FixtureRequest) -> Machine:
    """The run's common host, once with systemd 252 (bookworm), once with 257 (trixie)."""
    return testhost.shared(request.param)
