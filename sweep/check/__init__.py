"""Can this host run this sweep? Reads only: everything that could spoil the night.

One script asks for nearly all of it, so that a check is quick over a slow connection. Each module
here asks about one thing and judges the answer; the judging is pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import timedelta

from sweep.check import access, files, machine, night, ours, production, server
from sweep.check.finding import About, Answer, Finding, Identity, Level
from sweep.clock import Clock
from sweep.errors import HostError, HostUnreachable
from sweep.hints import PLAIN, Commands
from sweep.host import Host
from sweep.host.script import sections
from sweep.inventory import HostSpec
from sweep.plan import Plan
from sweep.systemd.facts import read_facts
from sweep.systemd.health import Health
from sweep.systemd.lock import read_lock
from sweep.systemd.production import look
from sweep.systemd.site import Site

__all__ = ["Finding", "Level", "check"]

NIGHT_S = 12 * 3600.0
# nvidia-smi and a hung file system may take their time; each is cut off much earlier.
_TIMEOUT_S = 180.0


def check(
    host: Host, spec: HostSpec, plan: Plan, clock: Clock, commands: Commands = PLAIN
) -> tuple[Finding, ...]:
    """Everything found out about the host, problems first; `commands` are what they propose.

    Changes nothing on the host. What cannot be read there is a finding, not an error. Raises
    HostUnreachable when the connection stays away.
    """
    now = clock.now()
    about = About(host.name, spec, plan, now, now + timedelta(seconds=NIGHT_S), commands)
    result = host.run(script(about, host.root), timeout_s=_TIMEOUT_S)
    answer = sections(result.stdout)
    who = access.identity(about, host.root, answer)
    if who is None:
        return (access.no_script(result),)
    found = [
        *access.findings(about, who, answer),
        *server.findings(about, who, answer),
        *files.findings(about, who, answer),
        *machine.findings(about, answer),
        *night.findings(about, answer),
        *_over_systemd(host, about, who, answer, clock),
    ]
    if "end" not in answer:
        last = list(answer)[-1]
        found.append(
            Finding(
                "warning", "check", f"not finished: after {last!r} the host said {result.tail(2)}"
            )
        )
    order = ("problem", "warning", "ok")
    return tuple(sorted(found, key=lambda finding: order.index(finding.level)))


def script(about: About, root: str) -> str:
    """All questions as one POSIX sh script. `root` is the demo host's private prefix, or empty."""
    root = shlex.quote(root)
    parts = (
        _functions(about, root),
        access.questions(about),
        ours.questions(about, root),
        production.questions(about),
        server.questions(about),
        files.questions(about),
        night.questions(about, root),
        machine.questions(about, root),
    )
    return "".join((*parts, "echo @@end\n"))


def _functions(about: About, root: str) -> str:
    """Shell functions: what several questions use: a time limit, and who a process is.

    Of production's and the sweep's own units the processes are those in their control groups, of
    any other process the unit is what its own entry under /proc says.
    """
    units = shlex.join((*about.production_units, about.spec.unit))
    groups = " ".join(
        f'{root}/sys/fs/cgroup{below}"$group"' for below in ("", "/systemd", "/unified")
    )
    return f"""
limited() {{ if command -v timeout >/dev/null; then timeout 20 "$@"; else "$@"; fi; }}
owner_of() {{ ps -o user=,args= -p "$1" 2>/dev/null | cut -c 1-2000; }}
members=$(for unit in {units}; do
  group=$({about.systemctl} show -p ControlGroup --value -- "$unit" 2>/dev/null)
  [ -n "$group" ] || continue
  find {groups} -name cgroup.procs -exec cat {{}} + 2>/dev/null | sed "s/$/ $unit/"
done)
unit_of() {{
  [ -n "$1" ] || return
  known=$(printf '%s\\n' "$members" | sed -n "s/^$1 //p" | head -n 1)
  if [ -n "$known" ]; then echo "$known"
  else sed -nE 's#.*/([^/]+\\.(service|scope)).*#\\1#p' "/proc/$1/cgroup" 2>/dev/null | head -n 1
  fi
}}
"""


def _over_systemd(
    host: Host, about: About, who: Identity, answer: Answer, clock: Clock
) -> Iterator[Finding]:
    """What the sweep itself reads before it takes a host, read by the same code."""
    site = Site(host, about.spec, clock, who.paths)
    try:
        facts = read_facts(host, about.spec, clock)
        yield from access.systemd_findings(
            about, facts.systemd_version, lingers=facts.lingers, user=who.user
        )
        yield access.clock_finding(facts.clock_offset_s)
        yield from access.forwarding(host, about)
        seen = look(site, about.production_units)
        health = Health(site).trouble()
        yield from production.findings(about, who, answer, seen, health)
        yield from ours.findings(about, who, answer, read_lock(site))
    except HostUnreachable:
        raise
    except HostError as error:
        yield Finding("problem", "systemd", str(error))
