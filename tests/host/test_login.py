"""Getting in: keys, the agent, sudo; and every way of not getting in, told apart."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sweep.errors import HostError, HostRefused, HostUnreachable, InventoryError
from sweep.host.session import SshHost
from sweep.inventory import HostSpec
from tests.host.conftest import SERVER, spec_for
from tests.testhost import Machine, Pool

Connected = Callable[..., SshHost]


@pytest.fixture
def target(testhost: Pool) -> Machine:
    return testhost.shared("bookworm")


@pytest.fixture
def with_key(target: Machine, tmp_path: Path) -> Callable[..., HostSpec]:
    """The target, reached with these key files only."""

    def make(*keys: Path, only: str = "yes") -> HostSpec:
        config = tmp_path / "config"
        files = "".join(f"  IdentityFile {key}\n" for key in keys) or "  IdentityFile none\n"
        config.write_text(
            f"Host target\n  HostName {target.address}\n  User root\n  IdentitiesOnly {only}\n"
            f"  UserKnownHostsFile {target.known_hosts}\n{files}"
        )
        return HostSpec(address="target", ssh_config=str(config), server=SERVER)

    return make


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A running, empty ssh-agent."""
    path = tmp_path / "agent"
    words = ["ssh-agent", "-D", "-a", str(path)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not path.exists():
        assert process.poll() is None
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
    yield
    process.terminate()
    process.wait()


def copy(key: Path, to: Path, *, passphrase: str = "", public: bool = False) -> Path:
    shutil.copyfile(key, to)
    to.chmod(0o600)
    if passphrase:
        words = ["ssh-keygen", "-q", "-p", "-P", "", "-N", passphrase, "-f", str(to)]
        subprocess.run(words, check=True, capture_output=True)
    if public:
        shutil.copyfile(f"{key}.pub", f"{to}.pub")
    return to


def other_key(path: Path, kind: str = "ed25519") -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", path], check=True)
    return path


@pytest.mark.usefixtures("no_agent")
def test_no_key_at_all(connected: Connected, with_key: Callable[..., HostSpec]) -> None:
    with pytest.raises(HostRefused, match="no key to log in with"):
        connected("gpu", with_key())


@pytest.mark.usefixtures("no_agent")
@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_a_key_the_host_does_not_take(
    connected: Connected, with_key: Callable[..., HostSpec], tmp_path: Path, kind: str
) -> None:
    key = other_key(tmp_path / "other", kind)
    with pytest.raises(HostRefused, match=f"no key is accepted. {key}: refused"):
        connected("gpu", with_key(key))


@pytest.mark.usefixtures("no_agent")
def test_the_right_one_of_several(
    connected: Connected, with_key: Callable[..., HostSpec], tmp_path: Path, target: Machine
) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_text("no key")
    spec = with_key(other_key(tmp_path / "other"), garbage, tmp_path / "missing", target.key)
    assert connected("gpu", spec).run("true").ok


@pytest.mark.usefixtures("no_agent")
def test_too_many_keys_are_told_from_wrong_ones(
    connected: Connected, with_key: Callable[..., HostSpec], tmp_path: Path, target: Machine
) -> None:
    keys = [other_key(tmp_path / f"other{n}") for n in range(7)]
    with pytest.raises(HostRefused, match="hung up"):
        connected("gpu", with_key(*keys, target.key))


@pytest.mark.usefixtures("no_agent")
def test_an_encrypted_key_without_an_agent(
    connected: Connected, with_key: Callable[..., HostSpec], tmp_path: Path, target: Machine
) -> None:
    key = copy(target.key, tmp_path / "locked", passphrase="secret", public=True)
    with pytest.raises(HostRefused, match=f"encrypted, and no agent holds it .*ssh-add {key}"):
        connected("gpu", with_key(key))


@pytest.mark.usefixtures("agent")
def test_keys_of_the_agent(
    connected: Connected, with_key: Callable[..., HostSpec], tmp_path: Path, target: Machine
) -> None:
    key = copy(target.key, tmp_path / "locked", passphrase="secret", public=True)
    with pytest.raises(HostRefused, match="encrypted"):
        connected("gpu", with_key(key))
    subprocess.run(["ssh-add", "-q", target.key], check=True, capture_output=True)
    assert connected("gpu", with_key(key)).run("true").ok
    only_public = Path(f"{key}.pub")
    assert connected("gpu", with_key(only_public)).run("true").ok
    assert connected("gpu", with_key(only="no")).run("true").ok
    with pytest.raises(HostRefused, match="no key"):
        connected("gpu", with_key(only="yes"))


@pytest.fixture
def no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


# -- rights


@pytest.mark.parametrize("user", ["locked", "plain"])
def test_sudo_that_wants_a_password(connected: Connected, target: Machine, user: str) -> None:
    with pytest.raises(HostRefused, match="sudo refuses") as refused:
        connected("gpu", spec_for(target, user, become="sudo"))
    assert f"{user} ALL=(root) NOPASSWD: ALL" in str(refused.value)
    assert "password is required" in str(refused.value)


def test_the_line_it_tells_to_paste_is_enough(connected: Connected, target: Machine) -> None:
    rule = target.root / "etc/sudoers.d/sweep"
    rule.write_text("locked ALL=(root) NOPASSWD: ALL\n")
    try:
        host = connected("gpu", spec_for(target, "locked", become="sudo"))
        assert host.run("id -u").text == "0\n"
    finally:
        rule.unlink()


def test_a_login_that_runs_nothing(connected: Connected, target: Machine) -> None:
    target.run("usermod", "--shell", "/usr/sbin/nologin", "locked")
    try:
        with pytest.raises(HostRefused, match=r"runs no script .*not available"):
            connected("gpu", spec_for(target, "locked"))
    finally:
        target.run("usermod", "--shell", "/bin/bash", "locked")


@pytest.mark.parametrize("user", ["root", "ops"])
def test_a_login_that_talks(connected: Connected, target: Machine, user: str) -> None:
    home = "root" if user == "root" else "home/ops"
    talk = target.root / home / ".bashrc"
    before = talk.read_text() if talk.exists() else ""
    talk.write_text("echo Welcome; echo @@id; echo noise >&2; printf 'no end'\n")
    try:
        host = connected("gpu", spec_for(target, user, become="sudo" if user == "ops" else "none"))
        assert host.run("echo x; exit 3").stdout == b"x\n"
        host.put("/tmp/talk", b"\xff\n")
        assert host.read("/tmp/talk") == b"\xff\n"
        assert host.read("/tmp/none") is None
    finally:
        talk.write_text(before)


def test_a_host_that_allows_one_session(connected: Connected, target: Machine) -> None:
    config = target.root / "etc/ssh/sshd_config.d/one.conf"
    config.write_text("MaxSessions 1\n")
    target.run("systemctl", "restart", "ssh")

    def no_wait(_seconds: float) -> None:
        raise AssertionError("the connection was taken for lost")

    try:
        host = connected("gpu", spec_for(target), sleep=no_wait)
        for number in range(30):
            assert host.run(f"echo {number}").text == f"{number}\n"
    finally:
        config.unlink()
        target.run("systemctl", "restart", "ssh")


def test_a_login_that_runs_something_else(connected: Connected, target: Machine) -> None:
    config = target.root / "etc/ssh/sshd_config.d/forced.conf"
    config.write_text("Match User plain\n  ForceCommand echo only backups here\n")
    target.run("systemctl", "restart", "ssh")
    try:
        with pytest.raises(HostRefused, match=r"runs no script .*only backups here"):
            connected("gpu", spec_for(target, "plain"))
    finally:
        config.unlink()
        target.run("systemctl", "restart", "ssh")


def test_identities(connected: Connected, target: Machine) -> None:
    as_user = connected("gpu", spec_for(target, "plain", scope="user"))
    assert as_user.run("id -un; systemctl --user is-system-running").text == "plain\nrunning\n"
    with_sudo = connected("gpu", spec_for(target, "ops", become="sudo"))
    assert with_sudo.run("id -un; systemctl is-system-running").text == "root\nrunning\n"
    both = connected("gpu", spec_for(target, "ops", become="sudo", scope="user"))
    assert both.run("id -un").text == "ops\n"


def test_what_a_user_may_not_write(connected: Connected, target: Machine) -> None:
    host = connected("gpu", spec_for(target, "plain"))
    with pytest.raises(HostError, match=r"cannot write /etc/x: .*Permission denied"):
        host.put("/etc/x", b"x")
    with pytest.raises(HostError, match=r"cannot read /etc/shadow: .*Permission denied"):
        host.read("/etc/shadow")


def test_a_full_disk_says_so(connected: Connected, testhost: Pool) -> None:
    machine = testhost.fresh("small", disk="48m")
    host = connected("gpu", spec_for(machine))
    host.put("/root/kept", b"before")
    with pytest.raises(HostError, match=r"cannot write /root/kept: .*No space left on device"):
        host.put("/root/kept", bytes(64_000_000))
    assert host.read("/root/kept") == b"before"
    assert host.run("ls -A /root | grep kept").text == "kept\n"
    machine.fill_disk()
    with pytest.raises(HostError, match="No space left on device"):
        host.put("/root/kept", b"after" * 10_000)
    assert host.read("/root/kept") == b"before"
    testhost.discard("small")


# -- nobody there


def plain(address: str, port: int | None = None, **changes: object) -> HostSpec:
    return HostSpec(address=address, ssh_port=port, server=SERVER, **changes)  # type: ignore[arg-type]


def test_a_name_that_does_not_resolve(connected: Connected) -> None:
    with pytest.raises(HostUnreachable, match="does not resolve"):
        connected("gpu", plain("no-such-host.invalid"))


def test_a_port_without_a_server(connected: Connected) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(HostUnreachable, match="No SSH server listens"):
        connected("gpu", plain("127.0.0.1", port))


@pytest.mark.parametrize(
    "greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"SSH-1.0-old\r\n", b"\xff\xfe\x00\n"]
)
def test_a_server_that_is_no_ssh(connected: Connected, greeting: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.sendall(greeting)

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises((HostUnreachable, HostRefused), match="cannot connect"):
            connected("gpu", plain("127.0.0.1", listener.getsockname()[1]))


def test_a_wrong_mode_names_its_place(connected: Connected) -> None:
    with pytest.raises(InventoryError, match=r"hosts\.gpu\.host_key: 'maybe' is none of"):
        connected("gpu", plain("127.0.0.1", host_key="maybe"))


def test_nothing_is_said_on_standard_error(
    connected: Connected, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(HostUnreachable):
        connected("gpu", plain("127.0.0.1", port))
    assert capfd.readouterr() == ("", "")
    assert os.environ.get("SSH_ASKPASS") is None
