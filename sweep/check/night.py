"""What is going to happen on the host until the sweep is done, without anybody asking."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from sweep.check.finding import About, Answer, Finding, said, unreadable

# Timers that restart services, replace drivers or reboot.
UPGRADES = re.compile(
    r"(apt-daily-upgrade|unattended-upgrades?|dnf-automatic.*|yum-cron|needrestart.*|"
    r"packagekit-offline.*|rpm-ostreed-automatic|transactional-update|os-update|snapd\.refresh|"
    r".*reboot.*|kured.*)\.timer"
)
# Timers of distributions that a server under test does not notice.
HARMLESS = re.compile(
    r"(systemd-tmpfiles-clean|man-db|logrotate|dpkg-db-backup|e2scrub_(all|reap)|fstrim|motd-news|"
    r"apt-daily|apt-news|esm-cache|ua-timer|fwupd-refresh|update-notifier-.*|anacron|sysstat-.*|"
    r"plocate-updatedb|mlocate(-updatedb)?|updatedb|phpsessionclean|certbot|dnf-makecache|"
    r"unbound-anchor|snapd\.snap-repair|shadow|pam_namespace|raid-check|mdcheck_.*|mdmonitor-.*|"
    r"btrfs-.*|xfs_scrub.*|systemd-.*|launchpadlib-cache-clean|chkrootkit|sweep-restore-.*)\.timer"
)
_NEXT = re.compile(
    r"[A-Z][a-z]{2} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\s.*?(\S+\.timer)\s+(\S+)\s*$"
)


def questions(about: About, root: str) -> str:
    timers = "list-timers --all --no-legend --no-pager --full"
    own = f"TZ=UTC {about.systemctl} {timers} 2>/dev/null" if about.spec.scope == "user" else ":"
    return f"""
echo @@timers; TZ=UTC systemctl {timers} 2>&1; echo "status $?"
{own}
echo @@shutdown; cat {root}/run/systemd/shutdown/scheduled 2>/dev/null
echo @@reboot-required; [ -e {root}/run/reboot-required ] && echo yes
echo @@upgrades; {{ apt-config dump 2>/dev/null | grep -E \\
  '^(Unattended-Upgrade::Automatic-Reboot |APT::Periodic::Unattended-Upgrade )'
grep -hE '^ *(reboot|apply_updates) *=' {root}/etc/dnf/automatic.conf
grep -rhE '^ *.nrconf.restart. *=' {root}/etc/needrestart; }} 2>/dev/null
command -v needrestart >/dev/null 2>&1 && echo needrestart
echo @@cron; grep -rhE '(reboot|shutdown|poweroff|systemctl|docker|podman|sglang|nvidia)' \\
  {root}/etc/crontab {root}/etc/cron.d {root}/var/spool/cron 2>/dev/null |
  grep -v '^ *#' | cut -c 1-160 | head -n 20
"""


def findings(about: About, answer: Answer) -> Iterator[Finding]:
    yield from _timers(about, answer)
    yield from _shutdown(about, said(answer, "shutdown"))
    if said(answer, "reboot-required"):
        yield Finding(
            "warning", "reboot",
            "the host waits for a reboot (a new kernel or driver is installed): the GPU tools may "
            "not match the loaded driver",
            "reboot it before the night",
        )  # fmt: skip
    jobs = said(answer, "cron").splitlines()
    if jobs:
        yield Finding(
            "warning", "cron", f"jobs that may touch the server: {'; '.join(jobs[:3])}"
            + (f"; and {len(jobs) - 3} more" if len(jobs) > 3 else ""),
            "read them; what runs in the night disturbs a measurement",
        )  # fmt: skip


def _timers(about: About, answer: Answer) -> Iterator[Finding]:
    lines = said(answer, "timers").splitlines()
    if "status 0" not in lines:
        yield unreadable("timers", lines[-2] if len(lines) > 1 else "systemctl list-timers")
        return
    due = sorted((at, name, starts) for at, name, starts in _due(lines) if at <= about.until)
    upgrades = [one for one in due if UPGRADES.fullmatch(one[1])]
    production = [one for one in due if one[2] in about.production_units]
    others = [
        one
        for one in due
        if one not in upgrades and one not in production and not HARMLESS.fullmatch(one[1])
    ]
    if production:
        yield Finding(
            "problem", "timers", f"{_named(production)} starts production in mid-sweep",
            f"systemctl stop {production[0][1]}   (and start it again in the morning)",
        )  # fmt: skip
    if upgrades:
        names = " ".join(name for _, name, _ in upgrades)
        yield Finding(
            "warning", "timers",
            f"{_named(upgrades)}: upgrades may restart services or replace the driver"
            f"{_settings(said(answer, 'upgrades'))}",
            f"systemctl stop {names}   (and start it again in the morning)",
        )  # fmt: skip
    if others:
        yield Finding(
            "warning", "timers", f"due in the night: {_named(others)}",
            "stop those that load the host or use its GPUs",
        )  # fmt: skip
    if not (production or upgrades or others):
        hours = (about.until - about.now) / timedelta(hours=1)
        yield Finding("ok", "timers", f"nothing that disturbs is due within {hours:.1f} h")


def _due(lines: list[str]) -> Iterator[tuple[datetime, str, str]]:
    for line in lines:
        if found := _NEXT.match(line):
            yield datetime.fromisoformat(f"{found[1]}+00:00"), found[2], found[3]


def _named(due: list[tuple[datetime, str, str]]) -> str:
    named = [f"{name} at {at:%H:%M} UTC" for at, name, _ in due]
    return ", ".join(named[:5]) + (f" and {len(named) - 5} more" if len(named) > 5 else "")


def _settings(text: str) -> str:
    """What makes an upgrade worse, as the host's own configuration says it."""
    said_so = []
    if re.search(r'Automatic-Reboot "(true|1)"|^ *reboot *= *(when-\w+|yes)', text, re.MULTILINE):
        said_so.append("it is set to reboot")
    if re.search(r"nrconf\{restart\} *= *['\"]a", text):
        said_so.append("needrestart restarts services by itself")
    elif re.search(r"^needrestart$", text, re.MULTILINE):
        said_so.append("needrestart is installed")
    return f" ({', '.join(said_so)})" if said_so else ""


def _shutdown(about: About, scheduled: str) -> Iterator[Finding]:
    values = dict(line.split("=", 1) for line in scheduled.splitlines() if "=" in line)
    if not values.get("USEC", "").isdigit():
        return
    at = datetime.fromtimestamp(int(values["USEC"]) / 1e6, UTC)
    yield Finding(
        "problem" if at <= about.until else "warning", "reboot",
        f"a {values.get('MODE', 'shutdown')} of the host is scheduled for "
        f"{at:%Y-%m-%d %H:%M} UTC",
        "shutdown -c",
    )  # fmt: skip
