"""What served on the host before us: found, written down there, and the script that starts it.

The record lies on the host, so that the host can put production back when we cannot.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sweep.errors import HostRefused
from sweep.inventory import ProductionCommands
from sweep.systemd.lock import ACTIVE, holds
from sweep.systemd.paths import Paths
from sweep.systemd.site import KNOW_HOME, Site, blocks, names, quote

# Stopping a unit stops whatever names it in one of these, directly or through others.
_STOP_WITH_IT = ("RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo")
# The restore unit's own time to get a production unit up again that fails to start.
_ATTEMPTS, _BETWEEN_ATTEMPTS_S = 3, 5


@dataclass(frozen=True)
class Record:
    """What has to serve again.

    units       were active: production itself, and all that stops with it
    judged      every unit looked at, those that were down too
    by_command  production that systemd does not run was running (`production: {start: ...}`)
    healthy     production_health answered; None: not asked
    """

    run_id: str
    unit: str
    units: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
    by_command: bool = False
    healthy: bool | None = None

    @property
    def owed(self) -> bool:
        return bool(self.units) or self.by_command

    @property
    def names(self) -> str:
        """Of what is owed, for a message."""
        named = [*self.units, *(["production's start command"] if self.by_command else [])]
        return ", ".join(named) or "nothing"

    def with_health(self, healthy: bool) -> Record:
        return dataclasses.replace(self, healthy=healthy)

    def joined(self, other: Record) -> Record:
        """Both debts in one: what either record holds has to serve again."""
        return dataclasses.replace(
            self,
            units=_once([*other.units, *self.units]),
            judged=_once([*other.judged, *self.judged]),
            by_command=self.by_command or other.by_command,
            healthy=self.healthy or other.healthy,
        )

    def to_bytes(self) -> bytes:
        return json.dumps(dataclasses.asdict(self), indent=1).encode() + b"\n"

    @classmethod
    def parse(cls, content: bytes) -> Record:
        """Raises ValueError for anything else than a record."""
        try:
            values = json.loads(content)
            values.update(units=tuple(values["units"]), judged=tuple(values["judged"]))
            return cls(**values)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a record of production: {content[:200]!r}") from error


@dataclass(frozen=True)
class Seen:
    """A unit of production, or one that stops with it. `triggers` can start it at any time."""

    name: str
    active: bool
    exists: bool
    triggers: tuple[str, ...]


def look(site: Site, units: Sequence[str]) -> list[Seen]:
    """These units and, over as many steps as it takes, all that systemd stops with them."""
    if not units:
        return []
    answer = site.ask("look at production", _look_script(site, units))
    return [
        Seen(
            name=block["Id"],
            active=block.get("ActiveState") in ACTIVE,
            exists=block.get("LoadState") != "not-found",
            triggers=names(block.get("TriggeredBy", "")),
        )
        for block in blocks(answer.get("units"))
    ]


def require_production(site: Site, seen: Iterable[Seen]) -> None:
    """Raise HostRefused for a production unit that is not there: the real one would go on."""
    wanted = site.spec.production
    for one in seen:
        if not one.exists and not isinstance(wanted, ProductionCommands) and one.name in wanted:
            raise HostRefused(
                f"{site.host.name}: production unit {one.name} does not exist there "
                f"({site.systemctl}); correct hosts.*.production in the inventory"
            )


def production_units(site: Site) -> tuple[str, ...]:
    production = site.spec.production
    return () if isinstance(production, ProductionCommands) else production


def runs_by_command(site: Site) -> bool:
    """Does the inventory's own `check` say that production runs?"""
    production = site.spec.production
    if not isinstance(production, ProductionCommands):
        return False
    return site.run(command(production.check), timeout_s=60).ok


def command(words: str) -> str:
    """One of the inventory's own shell commands, kept apart from our script and its input."""
    return f"sh -c {quote(words)} </dev/null"


def _look_script(site: Site, units: Sequence[str]) -> str:
    wanted = " ".join(f"-p {name}" for name in _STOP_WITH_IT)
    follow = " ".join(f"-e 's/^{name}=//p'" for name in _STOP_WITH_IT)
    # As `names` in site.py: systemctl quotes names with a backslash in its lists.
    unquote = r"""-e 's/"//g' -e 's/\\\\/\\/g'"""
    return f"""
set -f
seen=' '
echo @@units
set -- {quote(*units)}
while [ $# -gt 0 ]; do
  next=
  for unit in "$@"; do
    case "$seen" in *" $unit "*) continue ;; esac
    seen="$seen$unit "
    shown=$({site.systemctl} show -p Id -p LoadState -p ActiveState -p TriggeredBy {wanted} \\
      -- "$unit")
    printf '%s\\n\\n' "$shown"
    next="$next $(printf '%s\\n' "$shown" | sed -n {follow} |
      sed {unquote})"
  done
  set -- $next
done
"""


def restore_script(site: Site, record: Record) -> bytes:
    """restore.sh: ours away, exactly the recorded set started. Safe to run again, at any time.

    With the argument `keep-down` it only takes ours away: another sweep has taken the debt over.
    """
    paths = site.paths
    systemctl = site.systemctl
    run = quote(paths.run)
    return f"""#!/bin/sh
# Written by sweep for run {paths.run_id}: stops what it runs here, starts what it found running.
# Needs sh and systemd. By hand, any time, more than once:  sh {paths.restore_script}
say() {{ echo "sweep {paths.run_id}: $*"; }}
why=$(cat {run}/why 2>/dev/null ||
  echo "nothing was heard of the sweep for {site.spec.deadman_s:g} s")
say "restoring: $why"
: > {run}/restoring
{KNOW_HOME}
{systemctl} stop {paths.timer} 2>/dev/null
rm -f {quote(paths.secrets_env, paths.secrets_config)}
for job in {run}/jobs/*; do
  [ -e "$job" ] && {systemctl} stop "${{job##*/}}" 2>/dev/null
done
{systemctl} stop {quote(paths.unit)} 2>/dev/null
rm -f {quote(paths.unit_file)}
{systemctl} daemon-reload
{systemctl} reset-failed {quote(paths.unit)} 2>/dev/null
say "{paths.unit} is stopped and removed"
[ "${{1-}}" = keep-down ] && exit 0
down=
{_start_units(site, record)}{_start_command(site, record)}
if [ -n "$down" ]; then
  say "not back:$down"
  exit 1
fi
{{ date -u +%Y-%m-%dT%H:%M:%SZ; echo "$why"; }} > {run}/restored.new
mv -f {run}/restored.new {run}/restored
if {holds(paths)}; then rm -f {quote(paths.lock)}; fi
# The timer may have been renewed while this ran.
{systemctl} stop {paths.timer} 2>/dev/null
if [ -e {run}/forget ]; then
  rm -rf {run}
  rmdir {quote(paths.state, paths.work, paths.work_root)} 2>/dev/null
fi
say "done"
exit 0
""".encode()


def _start_units(site: Site, record: Record) -> str:
    targets = [unit for unit in record.units if unit.endswith(".target")]
    units = [unit for unit in record.units if unit not in targets]
    script = ""
    if units:
        words = quote(*units)
        script += f"""try=1
while :; do
  {site.systemctl} reset-failed -- {words} 2>/dev/null
  {site.systemctl} start -- {words} && break
  [ $try -ge {_ATTEMPTS} ] && break
  try=$((try + 1))
  sleep {_BETWEEN_ATTEMPTS_S}
done
"""
    if targets:
        # A target starts all it wants; only what was up may come up.
        script += f"{site.systemctl} start --job-mode=ignore-dependencies -- {quote(*targets)}\n"
    if record.units:
        script += f"""for unit in {quote(*record.units)}; do
  state=$({site.systemctl} show --value -p ActiveState -- "$unit")
  say "$unit is $state"
  case $state in active|activating|reloading) ;; *) down="$down $unit" ;; esac
done
"""
    return script


def _start_command(site: Site, record: Record) -> str:
    production = site.spec.production
    if not record.by_command or not isinstance(production, ProductionCommands):
        return ""
    return f"""{command(production.check)} >/dev/null 2>&1 || {command(production.start)}
if {command(production.check)} >/dev/null 2>&1
then say "production's check passes"
else say "production's check does not pass yet"
fi
"""


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def stop_command(site: Site) -> str | None:
    """Production's own stop command, where it has one."""
    production = site.spec.production
    return command(production.stop) if isinstance(production, ProductionCommands) else None


def read_record(site: Site, paths: Paths) -> Record | None:
    """A run's record on the host; None when there is none.

    Raises HostRefused for one that cannot be read: production would be forgotten.
    """
    content = site.host.read(paths.record)
    if content is None:
        return None
    try:
        return Record.parse(content)
    except ValueError as error:
        raise HostRefused(
            f"{site.host.name}: {paths.record} cannot be read ({error}); give the host back by "
            f"hand with `sh {paths.restore_script}` there, then remove {paths.run}"
        ) from error
