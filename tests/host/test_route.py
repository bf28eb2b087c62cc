"""The way to a host, as `ssh -G` of this machine reads the configuration."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import pytest

from sweep.errors import HostRefused
from sweep.host.route import Hop, parse_jump, route
from sweep.inventory import HostSpec
from tests.host.conftest import SERVER

CONFIG = """\
Host gpu
  HostName 192.0.2.7
  Port 2222
  User serve
  IdentityFile ~/.ssh/gpu_key
  UserKnownHostsFile {directory}/known_%h %d/second
  GlobalKnownHostsFile none
  HostKeyAlias GPU-Alias
  HashKnownHosts yes
  IdentitiesOnly yes
  IdentityAgent none
Host behind
  ProxyJump first,joe@second:2022
Host second
  HostName 192.0.2.2
  ProxyJump ignored
Host first
  HostName 192.0.2.1
  ProxyJump zeroth
Host lonely
  ProxyJump none
Host circle
  ProxyJump circle2
Host circle2
  ProxyJump circle
Host commanded
  ProxyCommand connect --to %h:%p --as %r %% %n %Q
Host broken
"""


@pytest.fixture
def find(tmp_path: Path) -> Any:
    file = tmp_path / "config"
    file.write_text(CONFIG.format(directory=tmp_path))

    def find(address: str, **changes: Any) -> tuple[Hop, ...]:
        values = {"address": address, "ssh_config": str(file), "server": SERVER}
        return route(HostSpec(**(values | changes)))

    return find


def test_everything_of_one_host(find: Any, tmp_path: Path) -> None:
    (hop,) = find("gpu")
    assert hop == Hop(
        label="gpu",
        address="192.0.2.7",
        port=2222,
        user="serve",
        identity_files=(Path.home() / ".ssh/gpu_key",),
        identities_only=True,
        use_agent=False,
        known_hosts=(tmp_path / "known_192.0.2.7", Path.home() / "second"),
        host_key_name="gpu-alias",
        hash_known_hosts=True,
    )
    assert str(hop) == "serve@192.0.2.7 port 2222"


def test_the_inventory_wins_over_the_configuration(find: Any, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch()
    (hop,) = find("gpu", user="root", ssh_port=22, identity_file=str(key))
    assert (hop.user, hop.port, hop.identity_files[0]) == ("root", 22, key)


def test_an_unknown_name_is_an_address(find: Any) -> None:
    (hop,) = find("Some.Example")
    assert (hop.address, hop.port, hop.user) == ("some.example", 22, getpass.getuser())
    assert hop.host_key_name == "some.example"
    (hop,) = find("some.example", ssh_port=23)
    assert hop.host_key_name == "[some.example]:23"


def test_jumps_come_first_and_the_first_ones_own_before_them(find: Any) -> None:
    hops = find("behind")
    assert [hop.label for hop in hops] == ["zeroth", "first", "second", "behind"]
    second = hops[2]
    assert (second.address, second.port, second.user) == ("192.0.2.2", 2022, "joe")
    assert [hop.label for hop in find("lonely")] == ["lonely"]


def test_a_command_is_filled_in(find: Any) -> None:
    (hop,) = find("commanded", user="me")
    assert hop.proxy_command == "connect --to commanded:22 --as me % commanded %Q"


def test_a_circle_is_refused(find: Any) -> None:
    with pytest.raises(HostRefused, match="does not end"):
        find("circle")


def test_what_openssh_cannot_read_is_refused_in_its_words(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("Host *\n  NoSuchOption yes\n")
    with pytest.raises(HostRefused, match=r"(?i)bad configuration option: nosuchoption"):
        route(HostSpec(address="gpu", ssh_config=str(file), server=SERVER))


def test_a_key_that_is_not_there_is_refused(find: Any) -> None:
    with pytest.raises(HostRefused, match="/no/such/key does not exist"):
        find("gpu", identity_file="/no/such/key")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("host", ("host", None, None)),
        ("me@host:22", ("host", "me", 22)),
        (" ssh://me@host:22 ", ("host", "me", 22)),
        ("me@[2001:db8::1]:22", ("2001:db8::1", "me", 22)),
        ("[2001:db8::1]", ("2001:db8::1", None, None)),
        ("user@realm@host", ("host", "user@realm", None)),
    ],
)
def test_jump_hosts_are_read_as_openssh_writes_them(text: str, expected: Any) -> None:
    jump = parse_jump(text)
    assert (jump.alias, jump.user, jump.port) == expected


@pytest.mark.parametrize("text", ["", "host:port", "a:b:c"])
def test_other_jump_hosts_are_refused(text: str) -> None:
    with pytest.raises(HostRefused, match=r"cannot read the jump host"):
        parse_jump(text)


def test_without_ssh_plain_values_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (hop,) = route(HostSpec(address="gpu", user="root", ssh_port=2022, server=SERVER))
    assert (hop.address, hop.port, hop.user) == ("gpu", 2022, "root")
    assert hop.host_key_name == "[gpu]:2022"
    assert hop.known_hosts[0] == Path.home() / ".ssh/known_hosts"
    with pytest.raises(HostRefused, match="ssh_config can only be read"):
        route(HostSpec(address="gpu", ssh_config="/some/config", server=SERVER))
