"""The base root file systems, one per Debian release, built once and shared by all hosts."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from tests.testhost.shell import TesthostError, sh

RELEASES = ("bookworm", "trixie")  # systemd 252 and 257
HOME = Path("/var/lib/sweep-testhost")
TOOLS = HOME / "tools"
NSPAWN = TOOLS / "usr/bin/systemd-nspawn"
NSPAWN_LIBRARIES = TOOLS / "usr/lib/x86_64-linux-gnu/systemd"

PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "libpam-systemd", "dbus-user-session", "openssh-server",
    "sudo", "python3-minimal", "python3", "iproute2", "nftables", "procps", "ca-certificates",
)  # fmt: skip

# root; ops: sudo without a password; locked: sudo that wants one; plain: no sudo, but lingering;
# sglang: a service user without a login. Units that would only make noise are masked.
CONFIGURE = r"""
set -eu
cd "$1"
for user in ops locked plain; do chroot . useradd --create-home --shell /bin/bash $user; done
chroot . useradd --system --create-home --home-dir /var/lib/sglang --shell /usr/sbin/nologin sglang
echo 'ops ALL=(ALL) NOPASSWD: ALL' >etc/sudoers.d/ops
echo 'locked ALL=(ALL) ALL' >etc/sudoers.d/locked
chmod 0440 etc/sudoers.d/*
mkdir -p var/lib/systemd/linger
: >var/lib/systemd/linger/plain
cat >etc/ssh/sshd_config.d/test.conf <<'END'
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UseDNS no
END
rm -f etc/ssh/ssh_host_* etc/hostname var/lib/dbus/machine-id etc/resolv.conf
: >etc/resolv.conf
mkdir -p var/log/journal etc/systemd/journald.conf.d
printf '[Journal]\nStorage=persistent\nSystemMaxUse=64M\nAudit=no\n' \
    >etc/systemd/journald.conf.d/test.conf
cd etc/systemd/system
for unit in console-getty getty@tty1 apt-daily apt-daily-upgrade dpkg-db-backup e2scrub_reap \
    systemd-networkd systemd-timesyncd systemd-firstboot; do
    ln -sf /dev/null $unit.service
done
for unit in apt-daily apt-daily-upgrade dpkg-db-backup e2scrub_all fstrim; do
    ln -sf /dev/null $unit.timer
done
"""


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """One process at a time: builds, and handing out slots."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def base(release: str) -> Path:
    """The root file system of a release; built when there is none, or when the recipe changed."""
    if release not in RELEASES:
        raise TesthostError(f"no such release: {release} (there are {', '.join(RELEASES)})")
    image, mark = HOME / f"base-{release}", HOME / f"stamp-{release}"
    recipe = hashlib.sha256(" ".join((*PACKAGES, CONFIGURE)).encode()).hexdigest()
    with locked("build"):
        if not (mark.exists() and mark.read_text() == recipe):
            mark.unlink(missing_ok=True)
            sh("rm", "-rf", image)
            _build(release, image)
            mark.write_text(recipe)
    return image


def _build(release: str, image: Path) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    _update_lists(environment)
    _unpack_tools(environment)
    build = HOME / "build"
    build.mkdir(exist_ok=True)
    # dpkg syncs every file: on a tmpfs that costs nothing, on a disk more than all the rest.
    sh("umount", build, check=False)
    sh("mount", "-t", "tmpfs", "-o", "size=2g,mode=755", "sweep-testhost-build", build)
    try:
        environment |= {
            "PATH": f"{TOOLS}/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "TMPDIR": str(build),
        }
        options = [f"--include={','.join(PACKAGES)}", '--aptopt=APT::Install-Recommends "false"']
        useless = ("man", "doc", "locale", "info")
        options += [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in useless]
        sh(
            "mmdebstrap", "--mode=root", "--variant=minbase", *options,
            release, build / "root", _sources(release, build), env=environment,
        )  # fmt: skip
        sh("sh", "-c", CONFIGURE, "configure", build / "root", env=environment)
        sh("cp", "-a", build / "root", image)
    finally:
        sh("umount", build)
        build.rmdir()


def _update_lists(environment: dict[str, str]) -> None:
    for pause_s in (3, 10):  # mirrors hiccup, and a build is the start of a whole test run
        if sh("apt-get", "-q", "update", check=False, env=environment).returncode == 0:
            return
        time.sleep(pause_s)
    sh("apt-get", "-q", "update", env=environment)


def _unpack_tools(environment: dict[str, str]) -> None:
    """Unpacked, not installed: installing would upgrade this machine's own systemd."""
    if NSPAWN.exists():
        return
    fresh = HOME / "tools.new"
    sh("rm", "-rf", fresh)
    fresh.mkdir()
    wanted = ("mmdebstrap", "systemd-container", "libsystemd-shared")
    sh("apt-get", "-q", "download", *wanted, cwd=fresh, env=environment)
    for package in fresh.glob("*.deb"):
        sh("dpkg-deb", "-x", package, fresh)
        package.unlink()
    fresh.rename(TOOLS)


def _sources(release: str, build: Path) -> Path:
    """This machine's own apt sources (its mirror is one that works here) for another release."""
    for path in (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")):
        if path.exists():
            break
    else:
        raise TesthostError("no apt sources of Debian on this machine to build a test host from")
    found = re.search(r"VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text())
    if not found:
        raise TesthostError("/etc/os-release names no VERSION_CODENAME")
    copy = build / path.name
    copy.write_text(re.sub(rf"\b{found[1]}\b", release, path.read_text()))
    return copy
