"""The hosts of these tests; after each test nothing of the tool may be left on its host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from sweep.host import connect
from tests.systemd.targets import Target, host_spec
from tests.testhost import Machine, Pool

# The demo host, the older systemd as root, the newer one as a user.
HOSTS = ("demo", "bookworm-root", "trixie-user")
# release, login user, settings of the inventory
IDENTITIES = {
    "bookworm-root": ("bookworm", "root", {}),
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


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The embedded host, which has to do all that the real ones do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWEEP_DEMO_DIR", str(tmp_path_factory.mktemp("demo")))
        spec = host_spec(transport="demo")
        with connect("demo", spec) as host:
            yield Target(host, spec, "demo")


@pytest.fixture(scope="session")
def connections(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Target]]:
    """Connections are kept: making one costs as much as a test."""
    made: dict[str, Target] = {}
    with ExitStack() as stack:

        def get(identity: str) -> Target:
            if identity == "demo":
                demo: Target = request.getfixturevalue("demo")
                return demo
            if identity not in made:
                pool: Pool = request.getfixturevalue("testhost")
                release, user, settings = IDENTITIES[identity]
                connection = connection_as(pool.shared(release), user, **settings)
                made[identity] = stack.enter_context(connection)
            return made[identity]

        yield get


Connections = Callable[[str], Target]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`target` is each of the module's HOSTS; a real one marks its test."""
    if "target" in metafunc.fixturenames:
        hosts = [
            host if host == "demo" else pytest.param(host, marks=pytest.mark.testhost)
            for host in getattr(metafunc.module, "HOSTS", HOSTS)
        ]
        metafunc.parametrize("target", hosts, indirect=True)


@pytest.fixture
def target(connections: Connections, request: pytest.FixtureRequest) -> Iterator[Target]:
    """A host as one identity, with nothing of the tool on it afterwards."""
    yield from clean(connections(request.param))


@pytest.fixture
def root(connections: Connections, testhost: Pool) -> Iterator[Target]:
    """One host as root, for what is the same for every identity."""
    yield from clean(connections("bookworm-root"))


@pytest.fixture
def bookworm(testhost: Pool) -> Machine:
    return testhost.shared("bookworm")
