"""One host: made, switched on, looked into, switched off, removed."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from tests.testhost.base import NSPAWN, NSPAWN_LIBRARIES
from tests.testhost.link import Link
from tests.testhost.processes import Cgroup, children
from tests.testhost.shell import TesthostError, read, sh, wait_until

USERS = ("root", "ops", "locked", "plain")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# systemd's own signals to PID 1
POWEROFF, REBOOT = signal.SIGRTMIN + 4, signal.SIGRTMIN + 5
# nspawn ends with 133 when the host reboots itself: start it again on the same disk and wire.
SUPERVISOR = 'while :; do "$@"; status=$?; [ $status = 133 ] || exit $status; done'


class Machine:
    """A Debian host with users root, ops (sudo), locked (sudo with a password), plain (lingers).

    name          its host name, and an alias in `ssh_config`; NAME-USER are the other users
    address       its IPv4 address; sshd on port 22
    key           the private key all users accept
    known_hosts   its host key, under its address
    ssh_config    all of this in OpenSSH's words, strict about the host key
    root          its file system as this machine sees it (without its tmpfs mounts such as /run)
    release       bookworm (systemd 252) or trixie (systemd 257)
    """

    def __init__(self, name: str, link: Link, directory: Path, cgroup: Cgroup) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name):
            raise TesthostError(f"not a host name: {name!r}")
        self.name = name
        self.link = link
        self.address = link.address
        self.release = ""
        self.key = directory.parent / "id_ed25519"
        self.known_hosts = directory / "known_hosts"
        self.ssh_config = directory / "ssh_config"
        self.root = directory / "root"
        self._disk = directory / "disk"
        self._console = directory / "console.log"
        self._cgroup = cgroup
        self._supervisor: subprocess.Popen[bytes] | None = None

    # -- life

    def create(self, layers: Sequence[Path], *, release: str, disk: str) -> None:
        """A disk of the given size (tmpfs, "200m") over read-only layers, the topmost first."""
        self.release = release
        self._disk.mkdir(parents=True)
        self.root.mkdir()
        options = f"size={disk},mode=755"
        sh("mount", "-t", "tmpfs", "-o", options, "sweep-testhost", self._disk)
        upper, work = self._disk / "upper", self._disk / "work"
        upper.mkdir()
        work.mkdir()
        lower = ":".join(map(str, layers))
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        sh("mount", "-t", "overlay", "-o", options, "overlay", self.root)
        self._write_identity()

    def on(self) -> None:
        """Switch on, and wait until every user can log in."""
        if self.leader:
            raise TesthostError(f"{self.name} is on already")
        self.link.up()
        self._cgroup.make()
        nspawn = [
            str(NSPAWN), "--quiet", f"--directory={self.root}", f"--machine={self.name}", "--boot",
            f"--network-namespace-path=/run/netns/{self.link.namespace}", "--register=no",
            "--keep-unit", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
            "--console=pipe",
        ]  # fmt: skip
        environment = {
            "PATH": PATH,
            "LD_LIBRARY_PATH": str(NSPAWN_LIBRARIES),
            "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
        }
        script = f"{self._cgroup.enter_script}\n{SUPERVISOR}"
        with self._console.open("ab") as log:
            self._supervisor = subprocess.Popen(
                ["sh", "-c", script, self.name, *nspawn],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self.wait_for_login()

    def off(self, *, hard: bool = True) -> None:
        """hard: the power goes, nothing is said or written any more. Else an orderly shutdown."""
        leader = self.leader
        if hard or not leader:
            self.link.down()
            self._cgroup.kill()
        else:
            os.kill(leader, POWEROFF)
        if self._supervisor:
            try:
                self._supervisor.wait(30)
            except subprocess.TimeoutExpired:
                self.link.down()
                self._cgroup.kill()
                self._supervisor.wait(30)
        self._supervisor = None
        self.link.down()
        # A group that was killed once stays marked: Linux 6.18 kills what systemd 257 starts from
        # it into new groups (clone into a cgroup compares the two marks). Make them all anew.
        self._cgroup.remove()

    def reboot(self, *, hard: bool = False) -> None:
        """Boot again on the same disk, and wait until every user can log in."""
        if hard:
            self.off()
            self.on()
            return
        leader = self.leader
        if not leader:
            raise TesthostError(f"{self.name} is off")
        os.kill(leader, REBOOT)
        wait_until(lambda: not Path(f"/proc/{leader}").exists(), "the shutdown", timeout_s=90)
        self.wait_for_login()

    def heal(self) -> None:
        """Whatever a test did to it: switched on, on a good wire, with room on its disk."""
        if not self.leader:
            if self._supervisor:
                self.off()
            self.on()
        self.link.restore()
        self.free_disk()
        # An sshd that was killed too often is not started again: systemd's start limit.
        self.sh("systemctl reset-failed ssh.service; systemctl start ssh.service")
        self.wait_for_login()

    def killed(self) -> None:
        """Somebody else killed its processes: collect what remains of our child."""
        if self._supervisor:
            self._supervisor.wait(30)

    def remove(self) -> None:
        self.off()
        for path in (self.root, self._disk):
            if path.is_mount() and sh("umount", path, check=False).returncode:
                sh("umount", "-l", path)

    # -- looking inside

    @property
    def leader(self) -> int | None:
        """The host's PID 1, as this machine numbers it; None when it is off."""
        if not self._supervisor or self._supervisor.poll() is not None:
            return None
        for nspawn in children(self._supervisor.pid):
            for pid in children(nspawn):
                if re.search(r"^NSpid:\t\d+\t1$", read(f"/proc/{pid}/status"), re.MULTILINE):
                    return pid
        return None

    @property
    def live_root(self) -> Path:
        """Its file system as the host itself sees it, /run and /tmp included."""
        return Path(f"/proc/{self._need_leader()}/root")

    def run(
        self, *argv: str, stdin: str = "", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as root and not over SSH."""
        environment = {"PATH": PATH, "LC_ALL": "C.UTF-8", "HOME": "/root"}
        namespaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
        enter = ("nsenter", "-t", str(self._need_leader()), *namespaces, "--root", "--wd", "--")
        return sh(*enter, *argv, stdin=stdin, check=check, env=environment)

    def sh(self, script: str, *, check: bool = True) -> str:
        """Run a shell script inside, as root; its standard output, stripped."""
        return self.run("sh", "-c", script, check=check).stdout.strip()

    def install_service(self, name: str, text: str, *, start: bool = True) -> None:
        """A unit under /etc/systemd/system, as a host's production has it; enabled if it can be."""
        (self.root / "etc/systemd/system" / name).write_text(text)
        self.run("systemctl", "daemon-reload")
        if "[Install]" in text:
            self.run("systemctl", "enable", "--quiet", name)
        if start:
            self.run("systemctl", "start", name)

    def remove_service(self, name: str) -> None:
        self.sh(f"systemctl disable --now --quiet {shlex.quote(name)}; true")
        (self.root / "etc/systemd/system" / name).unlink(missing_ok=True)
        self.sh(f"systemctl daemon-reload; systemctl reset-failed {shlex.quote(name)}; true")

    def wait_for_login(self) -> None:
        """sshd answers, and the boot is so far that users other than root are let in."""

        def ready() -> bool:
            if self._supervisor and self._supervisor.poll() is not None:
                raise TesthostError(f"{self.name} ended: {read(self._console)[-1500:]}")
            with contextlib.suppress(OSError, TesthostError):
                if (self.live_root / "run/nologin").exists():
                    return False
                with socket.create_connection((self.address, 22), 1) as sock:
                    sock.settimeout(2)
                    return sock.recv(4) == b"SSH-"
            return False

        wait_until(ready, f"{self.name}: a login", timeout_s=90)

    # -- faults that are not the wire's

    def drop_logins(self) -> None:
        """End every SSH connection to it, from its side; sshd itself goes on."""
        self.run("pkill", "-KILL", "-f", r"^sshd(-session)?: [a-z]+( |@|$)", check=False)

    def fill_disk(self) -> None:
        """No room for anybody: writing fails with ENOSPC, for journald too."""
        with (self.root / "FILL").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(65536))

    def free_disk(self) -> None:
        (self.root / "FILL").unlink(missing_ok=True)

    def oom_kill(self, unit: str) -> None:
        """What systemd-oomd does: mark the unit's cgroup and kill it. The Result is oom-kill."""
        group = self.run("systemctl", "show", "--property=ControlGroup", "--value", unit)
        path = self.live_root / f"sys/fs/cgroup{group.stdout.strip()}"
        pids = [int(pid) for pid in read(path / "cgroup.procs").split()]
        for attribute in ("user.oomd_ooms", "user.oomd_kill"):
            os.setxattr(path, attribute, str(len(pids)).encode())
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    # --

    def new_host_key(self) -> str:
        """Another host key, as after a reinstallation; `known_hosts` keeps the old one."""
        for path in (self.root / "etc/ssh").glob("ssh_host_*"):
            path.unlink()
        return self._make_host_key()

    def _need_leader(self) -> int:
        leader = self.leader
        if leader is None:
            raise TesthostError(f"{self.name} is off")
        return leader

    def _make_host_key(self) -> str:
        """Returns the public key as known_hosts has it, without the address."""
        path = self.root / "etc/ssh/ssh_host_ed25519_key"
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", path)
        return " ".join(Path(f"{path}.pub").read_text().split()[:2])

    def _write_identity(self) -> None:
        etc = self.root / "etc"
        (etc / "hostname").write_text(f"{self.name}\n")
        (etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {self.name}\n")
        # An empty machine-id would be a first boot, with presets that undo the masks.
        (etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
        public = Path(f"{self.key}.pub").read_text()
        for user in USERS:
            home = self.root / ("root" if user == "root" else f"home/{user}")
            owner = home.stat()
            keys = home / ".ssh/authorized_keys"
            keys.parent.mkdir(mode=0o700, exist_ok=True)
            keys.write_text(public)
            keys.chmod(0o600)
            for path in (keys.parent, keys):
                os.chown(path, owner.st_uid, owner.st_gid)
        self.known_hosts.write_text(f"{self.address} {self._make_host_key()}\n")
        self.ssh_config.write_text("".join(self._config_of(user) for user in USERS))

    def _config_of(self, user: str) -> str:
        return (
            f"Host {self.name}{'' if user == 'root' else '-' + user}\n"
            f"  HostName {self.address}\n  HostKeyAlias {self.address}\n  User {user}\n"
            f"  IdentityFile {self.key}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.known_hosts}\n  StrictHostKeyChecking yes\n"
            "  BatchMode yes\n  ConnectTimeout 5\n\n"
        )
