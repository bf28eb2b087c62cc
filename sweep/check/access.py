"""May we do on this host what a sweep does: rights, systemd, the journal, the clock."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sweep.check.finding import About, Answer, Finding, Identity, said, unreadable
from sweep.errors import HostRefused
from sweep.host import Host, Result
from sweep.inventory import BuiltinBenchmark
from sweep.systemd.facts import OLDEST_SYSTEMD, TOOLS
from sweep.systemd.paths import Paths

# The journal's time stamps and --until are read by people; measurements use one clock only.
CLOCK_TOLERANCE_S = 2.0


def questions(about: About) -> str:
    return f"""
echo @@id; id -u; id -un; id -Gn
echo @@running; {about.systemctl} is-system-running 2>&1
echo @@journal
# A user who has just logged in for the first time has nothing there yet.
for _ in 1 2 3 4 5; do
  last=$({about.journalctl} -n 1 -o cat 2>&1); status=$?
  [ -z "$last" ] && [ $status = 0 ] || break
  sleep 0.4
done
printf '%s\n' "$last"; echo "status $status"
echo @@journal-dirs; machine=$(cat /etc/machine-id 2>/dev/null)
for d in /var/log/journal /run/log/journal; do [ -d "$d/$machine" ] && echo $d; done
echo @@journal-size; journalctl --disk-usage 2>/dev/null
echo @@missing; for c in {" ".join(TOOLS)}; do command -v $c >/dev/null 2>&1 || echo $c; done
echo @@ntp; timedatectl show -p NTPSynchronized --value 2>/dev/null
echo @@selinux; getenforce 2>/dev/null
"""


def identity(about: About, root: str, answer: Answer) -> Identity | None:
    """Who the script ran as; None when it did not run at all."""
    lines = said(answer, "id").splitlines()
    if len(lines) < 2 or not lines[0].isdigit():
        return None
    uid = int(lines[0])
    groups = tuple(lines[2].split()) if len(lines) > 2 else ()
    return Identity(
        uid, lines[1], groups, Paths(root, about.spec.scope, uid, "check", about.spec.unit)
    )


def no_script(result: Result) -> Finding:
    """Why not even the first line of the script came back; rights were proven when connecting."""
    why = result.tail(3) or "nothing was printed"
    return Finding("problem", "check", f"the script ended with {result.exit_status}: {why}")


def findings(about: About, who: Identity, answer: Answer) -> Iterator[Finding]:
    yield _rights(about, who)
    yield _running(about, said(answer, "running"))
    yield from _journal(about, who, answer)
    missing = said(answer, "missing").split()
    if missing:
        yield Finding(
            "problem", "commands", f"missing on the host: {', '.join(missing)}",
            "install iproute2 (ss), diffutils (cmp), findutils, procps (ps)",
        )  # fmt: skip
    if said(answer, "ntp") == "no":
        yield Finding(
            "warning", "clock", "the host's clock is not synchronised; a step spoils a trial",
            "timedatectl set-ntp true",
        )  # fmt: skip
    if said(answer, "selinux") == "Enforcing":
        yield _selinux(about)


def _rights(about: About, who: Identity) -> Finding:
    if about.spec.scope == "system" and who.uid != 0 and not about.demo:
        return Finding(
            "problem", "rights", f"{who.user} may not manage system units",
            f"set hosts.{about.host}.become: sudo, or user: root, or scope: user",
        )  # fmt: skip
    return Finding("ok", "rights", f"acts as {who.user}, scope {about.spec.scope}")


def _running(about: About, state: str) -> Finding:
    subject = "systemd"
    if state in ("running", "degraded"):
        return Finding("ok", subject, f"{about.systemctl} says: {state}")
    if state in ("initializing", "starting"):
        return Finding("warning", subject, f"still {state}", "wait until it has booted")
    if about.spec.scope == "user" and not re.fullmatch(r"[a-z]+", state):
        return Finding(
            "problem", subject, f"no user manager can be reached: {state[-200:]}",
            "install dbus-user-session (or dbus-broker) there, and let the user linger",
        )  # fmt: skip
    if state in ("maintenance", "stopping", "offline"):
        return Finding("problem", subject, f"{about.systemctl} says: {state}")
    return unreadable(subject, f"{about.systemctl} is-system-running says {state or 'nothing'}")


def _journal(about: About, who: Identity, answer: Answer) -> Iterator[Finding]:
    lines = said(answer, "journal").splitlines()
    status = lines.pop() if lines and lines[-1].startswith("status ") else "status ?"
    stored = said(answer, "journal-dirs").split()
    size = re.search(r"take up (\S+)", said(answer, "journal-size"))
    if status == "status ?" or about.demo:
        if status != "status 0":
            yield unreadable("journal", "journalctl")
        return
    if status != "status 0" or not lines:
        yield _no_journal(who, stored, lines)
    elif "/var/log/journal" not in stored:
        yield Finding(
            "warning", "journal",
            "kept in memory only: the journal of a launch is gone after a reboot of the host, "
            "except for what the sweep has copied",
            "mkdir -p /var/log/journal && systemctl restart systemd-journald",
        )  # fmt: skip
    else:
        takes = f", takes {size[1]}" if size else ""
        yield Finding("ok", "journal", f"readable, persistent{takes}")


def _no_journal(who: Identity, stored: list[str], lines: list[str]) -> Finding:
    if not stored:
        return Finding(
            "problem", "journal", "journald stores nothing on this host",
            "set Storage=auto in /etc/systemd/journald.conf and restart systemd-journald",
        )  # fmt: skip
    detail = f": {lines[-1]}" if lines else ""
    return Finding(
        "problem", "journal", f"{who.user} cannot read it{detail}",
        f"as root: usermod -aG systemd-journal {who.user}   (then log in anew: "
        f"loginctl terminate-user {who.user})",
    )  # fmt: skip


def _selinux(about: About) -> Finding:
    command = about.spec.server.command[0]
    if command.startswith(("/root/", "/home/")):
        return Finding(
            "warning", "selinux",
            f"enforcing, and {command} lies in a home directory: systemd may be denied to start it "
            "(exec_failed, 203/EXEC)",
            f"look with: ls -Z {command}   and, if so: semanage fcontext -a -t bin_t ... ; "
            "restorecon -R ...",
        )  # fmt: skip
    return Finding("ok", "selinux", "enforcing; files are put with restorecon")


def clock_finding(offset_s: float) -> Finding:
    """The host's clock against this machine's, in seconds (positive: the host is ahead)."""
    if abs(offset_s) <= CLOCK_TOLERANCE_S:
        return Finding("ok", "clock", f"{offset_s:+.2f} s against this machine")
    return Finding(
        "warning", "clock",
        f"{offset_s:+.1f} s against this machine: times of rows and of the journal do not match, "
        "--until is judged by this machine's clock",
        "synchronise both (timedatectl set-ntp true)",
    )  # fmt: skip


def forwarding(host: Host, about: About) -> Iterator[Finding]:
    """Does sshd let the sweep reach the server's port? A client that runs here needs it to."""
    benchmark = about.plan.benchmark
    local = isinstance(benchmark, BuiltinBenchmark) and benchmark.run_on == "controller"
    try:
        with host.tunnel(about.spec.server.port, direct=True):
            return
    except HostRefused:
        yield Finding(
            "problem" if local else "warning", "forwarding",
            "sshd forwards no port: "
            + ("the client cannot reach the server from here" if local
               else f"requests to the server go through {about.spec.python} instead"),
            "set AllowTcpForwarding yes in its sshd_config"
            + (", or run_on: host in the benchmark" if local else ""),
        )  # fmt: skip


def systemd_findings(about: About, version: int, *, lingers: bool, user: str) -> Iterator[Finding]:
    """The version, and in user scope whether the user's manager outlives its logins."""
    if version < OLDEST_SYSTEMD:
        yield Finding(
            "problem", "systemd", f"version {version}; {OLDEST_SYSTEMD} or newer is needed",
            "use a host with a newer distribution",
        )  # fmt: skip
    else:
        yield Finding("ok", "systemd", f"version {version}")
    if about.spec.scope == "user" and not lingers and not about.demo:
        yield Finding(
            "problem", "linger", f"{user} does not linger: its units end with its last login",
            f"once on the host: loginctl enable-linger {user}",
        )  # fmt: skip
