"""Host keys: what known_hosts says, and the three modes against a real sshd."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sweep.errors import HostRefused, InventoryError
from sweep.host.hostkeys import check_mode, fingerprint, known_keys
from sweep.host.session import SshHost
from sweep.inventory import HostSpec
from tests.host.conftest import SERVER, write_config
from tests.testhost import Machine, Pool

BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAINyIJ3Vd5sJDZV0WCyNRnbNDCJGTRKbIH4h1sJ0nLTJv"
Connected = Callable[..., SshHost]


@pytest.mark.parametrize(
    ("names", "name"),
    [
        ("gpu1", "gpu1"),
        ("GPU1", "gpu1"),
        ("other,gpu1,third", "gpu1"),
        ("*.example.net", "gpu1.example.net"),
        ("gpu?", "gpu1"),
        ("[gpu1]:2222", "[gpu1]:2222"),
        ("[*.example.net]:2222", "[a.example.net]:2222"),
        ("*,!gpu2", "gpu1"),
    ],
)
def test_names_that_match(tmp_path: Path, names: str, name: str) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"# comment\n\n{names} ssh-ed25519 {BLOB} a comment\nother ssh-rsa AAAA\n")
    (key,) = known_keys(name, [tmp_path / "missing", file])
    assert (key.kind, key.file, key.line, key.marker) == ("ssh-ed25519", file, 3, "")


@pytest.mark.parametrize(
    ("names", "name"),
    [
        ("gpu1", "gpu11"),
        ("gpu1", "[gpu1]:2222"),
        ("*,!gpu*", "gpu1"),
        ("[gpu1]:2222", "gpu1"),
        ("gpu[12]", "gpu1"),
        ("|1|broken", "gpu1"),
        ("|1|AAAA|AAAA", "gpu1"),
    ],
)
def test_names_that_do_not(tmp_path: Path, names: str, name: str) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"{names} ssh-ed25519 {BLOB}\ngpu1 short\n")
    assert known_keys(name, [file]) == []


def test_openssh_hashes_and_prints_as_we_do(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    kind, blob, _ = Path(f"{key}.pub").read_text().split()
    file = tmp_path / "known_hosts"
    file.write_text(f"[gpu1]:22022 {kind} {blob}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", file], check=True, capture_output=True)
    assert "gpu1" not in file.read_text()
    (found,) = known_keys("[gpu1]:22022", [file])
    printed = subprocess.run(["ssh-keygen", "-lf", key], check=True, capture_output=True, text=True)
    assert fingerprint(found.blob) == printed.stdout.split()[1]


def test_modes_are_checked() -> None:
    print_ = "SHA256:" + "a" * 43
    assert [check_mode(mode) for mode in ("strict", "accept-new", print_, f"{print_}=")] == [
        "strict",
        "accept-new",
        print_,
        print_,
    ]
    for wrong in ("", "no", "Strict", "SHA256:short", "MD5:aa:bb", "a" * 43):
        with pytest.raises(InventoryError, match="none of strict, accept-new"):
            check_mode(wrong)


# -- against a real sshd


@pytest.fixture
def target(testhost: Pool) -> Machine:
    return testhost.shared("bookworm")


@pytest.fixture
def known_hosts(tmp_path: Path) -> Path:
    return tmp_path / "dir/known_hosts"


@pytest.fixture
def spec(target: Machine, known_hosts: Path, tmp_path: Path) -> HostSpec:
    """The target, with a known_hosts file of the test's own, that is not there yet."""
    lines = (f"UserKnownHostsFile {known_hosts}", "GlobalKnownHostsFile none")
    config = write_config(tmp_path / "config", target, *lines)
    return HostSpec(address="target", ssh_config=str(config), server=SERVER)


def real(machine: Machine) -> tuple[str, str]:
    """The line of its true key without the address, and its fingerprint as ssh-keygen prints it."""
    line = machine.known_hosts.read_text().partition(" ")[2]
    words = ["ssh-keygen", "-lf", str(machine.known_hosts)]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return line, printed.split()[1]


def test_strict_takes_a_known_key_and_says_which(
    connected: Connected, spec: HostSpec, target: Machine, known_hosts: Path
) -> None:
    line, print_ = real(target)
    known_hosts.parent.mkdir()
    known_hosts.write_text(f"{target.address} {line}")
    assert connected("gpu", spec).host_key == print_


def test_strict_refuses_an_unknown_key(
    connected: Connected, spec: HostSpec, target: Machine, known_hosts: Path
) -> None:
    with pytest.raises(HostRefused) as refused:
        connected("gpu", spec)
    assert f"{real(target)[1]} is not known" in str(refused.value)
    assert "ssh target" in str(refused.value)
    assert not known_hosts.exists()


@pytest.mark.parametrize("mode", ["strict", "accept-new"])
def test_another_key_is_refused_with_both_fingerprints(
    connected: Connected, spec: HostSpec, target: Machine, known_hosts: Path, mode: str
) -> None:
    known_hosts.parent.mkdir()
    known_hosts.write_text(f"{target.address} ssh-ed25519 {BLOB}\n")
    with pytest.raises(HostRefused, match="host key has CHANGED") as refused:
        connected("gpu", spec.model_copy(update={"host_key": mode}))
    for said in (fingerprint(base64.b64decode(BLOB)), real(target)[1], f"-R '{target.address}'"):
        assert said in str(refused.value)
    assert known_hosts.read_text().count("\n") == 1


def test_one_of_several_known_keys_is_enough(
    connected: Connected, spec: HostSpec, target: Machine, known_hosts: Path
) -> None:
    """Also when a kind the host does not have is known: ssh asks for the known kinds first."""
    known_hosts.parent.mkdir()
    known_hosts.write_text(
        f"{target.address} ssh-ed25519 {BLOB}\n{target.address} ssh-rsa AAAAB3NzaC1yc2E=\n"
        f"{target.address} {real(target)[0]}"
    )
    assert connected("gpu", spec).run("true").ok


def test_a_revoked_key_is_refused(
    connected: Connected, spec: HostSpec, target: Machine, known_hosts: Path
) -> None:
    line = f"{target.address} {real(target)[0]}"
    known_hosts.parent.mkdir()
    known_hosts.write_text(f"{line}@revoked {line}")
    with pytest.raises(HostRefused, match="revoked"):
        connected("gpu", spec)


def test_accept_new_keeps_the_key_and_knows_it_from_then_on(
    connected: Connected, spec: HostSpec, target: Machine, known_hosts: Path
) -> None:
    accepting = spec.model_copy(update={"host_key": "accept-new"})
    known_hosts.parent.mkdir()
    known_hosts.write_text("other ssh-ed25519 AAAA")  # no newline at its end
    assert connected("gpu", accepting).run("true").ok
    kept = f"other ssh-ed25519 AAAA\n{target.address} {real(target)[0]}"
    assert known_hosts.read_text() == kept
    assert connected("gpu", accepting).run("true").ok
    assert known_hosts.read_text() == kept
    assert connected("gpu", spec).run("true").ok


def test_accept_new_hashes_where_ssh_would(
    connected: Connected, spec: HostSpec, target: Machine, known_hosts: Path
) -> None:
    assert spec.ssh_config
    config = Path(spec.ssh_config)
    config.write_text(config.read_text() + "  HashKnownHosts yes\n")
    connected("gpu", spec.model_copy(update={"host_key": "accept-new"}))
    assert known_hosts.read_text().startswith("|1|")
    assert known_hosts.stat().st_mode & 0o777 == 0o600
    assert connected("gpu", spec).run("true").ok


def test_a_pinned_fingerprint_is_all_that_counts(
    connected: Connected, spec: HostSpec, target: Machine, known_hosts: Path
) -> None:
    known_hosts.parent.mkdir()
    known_hosts.write_text(f"{target.address} ssh-ed25519 {BLOB}\n")
    assert connected("gpu", spec.model_copy(update={"host_key": real(target)[1]})).run("true").ok
    pinned = "SHA256:" + "A" * 43
    with pytest.raises(HostRefused, match="pins") as refused:
        connected("gpu", spec.model_copy(update={"host_key": pinned}))
    assert real(target)[1] in str(refused.value)
    assert pinned in str(refused.value)


def test_a_host_that_was_installed_anew(connected: Connected, testhost: Pool) -> None:
    machine = testhost.fresh("anew")
    spec = HostSpec(address="anew", ssh_config=str(machine.ssh_config), server=SERVER)
    assert connected("gpu", spec).run("true").ok
    machine.new_host_key()
    machine.run("systemctl", "restart", "ssh")
    with pytest.raises(HostRefused, match="host key has CHANGED"):
        connected("gpu", spec)
    testhost.discard("anew")
