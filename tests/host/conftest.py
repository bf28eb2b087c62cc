"""Hosts to test the verbs on: the demo host and real ones, as every kind of user there is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sweep.host import Host, connect
from sweep.host.session import SshHost
from sweep.inventory import HostSpec, ServerSpec
from tests.testhost import Machine, Pool

SERVER = ServerSpec(command=("/bin/true",))


def spec_for(machine: Machine, user: str = "root", **changes: Any) -> HostSpec:
    """An inventory's host for a machine, found through the machine's own ssh_config."""
    alias = machine.name if user == "root" else f"{machine.name}-{user}"
    values = {"address": alias, "ssh_config": str(machine.ssh_config), "server": SERVER}
    return HostSpec(**(values | changes))


def write_config(path: Path, machine: Machine, *lines: str, name: str = "target") -> Path:
    """An ssh_config with one more host: the machine, as root, and what the lines say."""
    settings = (
        f"HostName {machine.address}",
        "User root",
        f"IdentityFile {machine.key}",
        "IdentitiesOnly yes",
    )
    text = "".join(f"  {line}\n" for line in (*lines, *settings))
    with path.open("a") as file:
        file.write(f"Host {name}\n{text}")
    return path


# Needs no host to be started: neither root nor a real system.
HERE = {"demo": {"transport": "demo"}, "local": {"transport": "local"}}
KINDS = {
    **dict.fromkeys(HERE, ("", {})),
    "bookworm": ("root", {}),
    "trixie": ("root", {}),
    "bookworm-sudo": ("ops", {"become": "sudo"}),
    "trixie-sudo": ("ops", {"become": "sudo"}),
    "bookworm-user": ("plain", {"scope": "user"}),
    "trixie-user": ("plain", {"scope": "user"}),
}


def kinds(*but: str) -> list[Any]:
    """Every kind of host except those named, as parameters."""
    return [
        pytest.param(kind, marks=() if kind in HERE else pytest.mark.testhost)
        for kind in KINDS
        if kind not in but
    ]


@pytest.fixture(scope="module", params=kinds())
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def host(kind: str, request: pytest.FixtureRequest) -> Iterator[Host]:
    """A connected host of each kind."""
    user, changes = KINDS[kind]
    if kind in HERE:
        spec = HostSpec.model_validate({**HERE[kind], "server": SERVER})
    else:
        pool: Pool = request.getfixturevalue("testhost")
        spec = spec_for(pool.shared(kind.partition("-")[0]), user, **changes)
    with connect(kind, spec) as connected:
        yield connected


@pytest.fixture
def connected() -> Iterator[Callable[..., SshHost]]:
    """`connect`, with the closing done for the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(connect(*args, **options))


@pytest.fixture
def folder(host: Host) -> Iterator[str]:
    """A directory on the host."""
    made = host.run(
        f"mkdir -p '{host.root}/var/tmp' && mktemp -d '{host.root}/var/tmp/test.XXXXXX'"
    )
    assert made.ok, made.tail()
    yield made.text.strip()
    host.run(f"rm -rf '{made.text.strip()}'")
