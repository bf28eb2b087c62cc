"""The hosts of these tests; after each test nothing of the tool may be left on its host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sweep.host import connect
from tests.systemd.targets import Target, host_spec
from tests.testhost import Machine, Pool

# release, login user, settings of the inventory
IDENTITIES = {
    "bookworm-root": ("bookworm", "root", {}),
    "bookworm-user": ("bookworm", "plain", {"scope": "user"}),
    "trixie-sudo": ("trixie", "ops", {"become": "sudo"}),
    "trixie-user": ("trixie", "plain", {"scope": "user"}),
}


@contextmanager
def connection_as(machine: Machine, user: str, **settings: object) -> Iterator[Target]:
    alias = machine.name if user == "root" else f"{machine.name}-{user}"
    spec = host_spec(address=alias, ssh_config=str(machine.ssh_config), **settings)
    with connect(f"{machine.release}-{user}", spec) as host:
        yield Target(host, spec, machine.release)


def clean(target: Target) -> Iterator[Target]:
    yield target
    left = target.left_over()
    if left:
        target.wipe()
    assert left == []


@pytest.fixture(scope="session", params=IDENTITIES)
def connection(testhost: Pool, request: pytest.FixtureRequest) -> Iterator[Target]:
    """One connection for all tests of an identity: making one costs as much as a test."""
    release, user, settings = IDENTITIES[request.param]
    with connection_as(testhost.shared(release), user, **settings) as target:
        yield target


@pytest.fixture
def target(connection: Target) -> Iterator[Target]:
    """A host as each of its identities, with nothing of the tool on it afterwards."""
    yield from clean(connection)


@pytest.fixture
def bookworm(testhost: Pool) -> Machine:
    return testhost.shared("bookworm")


@pytest.fixture(scope="session")
def root_connection(testhost: Pool) -> Iterator[Target]:
    with connection_as(testhost.shared("bookworm"), "root") as target:
        yield target


@pytest.fixture
def root(root_connection: Target) -> Iterator[Target]:
    """One host as root, for what is the same for every identity."""
    yield from clean(root_connection)
