"""What served on the host before us: found, and written down there.

The record lies on the host, so that the host can put production back when we cannot.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sweep.errors import HostRefused
from sweep.inventory import ProductionCommands
from sweep.systemd.lock import ACTIVE
from sweep.systemd.paths import Paths
from sweep.systemd.site import Site, blocks, names, quote

DOWN = ("inactive", "failed")
# Stopping a unit stops whatever names it in one of these, directly or through others.
_STOP_WITH_IT = ("RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo")
# Starting what names a unit in one of these starts that unit, too. UpheldBy: since systemd 249.
_PULL_IN = ("WantedBy", "RequiredBy", "BoundBy", "UpheldBy")


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
    """A unit of production, or one that stops with it.

    active     it is up, or systemd has its start to do still, as in a host that boots
    triggers   active timers, sockets, paths that can start it at any time, or what pulls it in
    upheld_by  active units that have systemd start it again as soon as it is stopped
    """

    name: str
    active: bool
    exists: bool
    triggers: tuple[str, ...] = ()
    upheld_by: tuple[str, ...] = ()


def look(site: Site, units: Sequence[str]) -> list[Seen]:
    """These units and, over as many steps as it takes, all that systemd stops with them."""
    if not units:
        return []
    answer = site.ask("look at production", _look_script(site, units))
    shown = blocks(answer.get("units"))
    around = {
        block["Id"]: block
        for section in ("triggers", "around")
        for block in blocks(answer.get(section))
    }
    active = {name for name, block in around.items() if block.get("ActiveState") in ACTIVE}
    walked = {block["Id"] for block in shown}
    return [
        Seen(
            name=block["Id"],
            active=_is_wanted(block),
            exists=block.get("LoadState") != "not-found",
            triggers=tuple(name for name in _triggers(block, around) if name in active),
            upheld_by=tuple(
                name for name in names(block.get("UpheldBy", "")) if name in active - walked
            ),
        )
        for block in shown
    ]


def _is_wanted(shown: Mapping[str, str]) -> bool:
    state = shown.get("ActiveState")
    return state in ACTIVE or (state in DOWN and shown.get("Job", "0") not in ("", "0"))


def _triggers(shown: Mapping[str, str], around: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """What triggers a unit, or a unit whose start pulls it in."""
    pulling = [name for relation in _PULL_IN for name in names(shown.get(relation, ""))]
    triggered = [shown, *(around[name] for name in pulling if name in around)]
    return _once(name for one in triggered for name in names(one.get("TriggeredBy", "")))


def require_production(site: Site, seen: Iterable[Seen]) -> None:
    """Raise HostRefused for a unit that is not there (the real one would go on), or cannot be kept
    stopped."""
    wanted = site.spec.production
    for one in seen:
        if one.active and one.upheld_by:
            raise HostRefused(
                f"{site.host.name}: {', '.join(one.upheld_by)} upholds {one.name}: systemd would "
                "start it again as soon as it is stopped; name that unit in hosts.*.production, "
                "too, or remove its Upholds= (UpheldBy=)"
            )
        if not one.exists and not isinstance(wanted, ProductionCommands) and one.name in wanted:
            raise HostRefused(
                f"{site.host.name}: production unit {one.name} does not exist there "
                f"({site.systemctl}); correct hosts.*.production in the inventory"
            )


def production_units(site: Site) -> tuple[str, ...]:
    production = site.spec.production
    return () if isinstance(production, ProductionCommands) else production


def runs_by_command(site: Site, *, limit_s: float = 60.0) -> bool:
    """Does the inventory's own `check` say that production runs? Not when it takes too long."""
    production = site.spec.production
    if not isinstance(production, ProductionCommands):
        return False
    return site.run(command(production.check), timeout_s=limit_s).ok


def command(words: str) -> str:
    """One of the inventory's own shell commands, kept apart from our script and its input."""
    return f"sh -c {quote(words)} </dev/null"


def _look_script(site: Site, units: Sequence[str]) -> str:
    own = ("Id", "LoadState", "ActiveState", "Job", "TriggeredBy")
    wanted = " ".join(f"-p {name}" for name in dict.fromkeys((*own, *_STOP_WITH_IT, *_PULL_IN)))
    follow = " ".join(f"-e 's/^{name}=//p'" for name in _STOP_WITH_IT)
    # As `names` in site.py: systemctl quotes names with a backslash in its lists.
    unquote = r"""-e 's/"//g' -e 's/\\\\/\\/g'"""
    around = " ".join(f"-e 's/^{name}=//p'" for name in (*_PULL_IN, "TriggeredBy"))
    return f"""
set -f
listed() {{
  text=$1; shift
  printf '%s\\n' "$text" | sed -n "$@" | sed {unquote}
}}
seen=' ' all=
echo @@units
set -- {quote(*units)}
while [ $# -gt 0 ]; do
  next=
  for unit in "$@"; do
    case "$seen" in *" $unit "*) continue ;; esac
    seen="$seen$unit "
    shown=$({site.systemctl} show {wanted} -- "$unit") || exit
    printf '%s\\n\\n' "$shown"
    all="$all
$shown"
    next="$next $(listed "$shown" {follow})"
  done
  set -- $next
done
shown=
for section in around triggers; do
  set -- $(listed "$all$shown" {around})
  [ $# -gt 0 ] || break
  shown=$({site.systemctl} show -p Id -p ActiveState -p TriggeredBy -- "$@") || exit
  printf '@@%s\\n%s\\n' $section "$shown"
done
"""


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def stop_command(site: Site) -> str | None:
    """Production's own stop command, where it has one."""
    production = site.spec.production
    return command(production.stop) if isinstance(production, ProductionCommands) else None


def read_record(site: Site, paths: Paths) -> Record | None:
    """A run's record on the host, be it the one that a reboot left; None when there is none.

    Raises HostRefused for one that cannot be read: production would be forgotten.
    """
    for place in (paths.record, paths.kept_record):
        content = site.host.read(place)
        if content is None:
            continue
        try:
            return Record.parse(content)
        except ValueError as error:
            directory = place.rpartition("/")[0]
            raise HostRefused(
                f"{site.host.name}: {place} cannot be read ({error}); give the host back by hand "
                f"with `sh {directory}/restore.sh` there, then remove {directory}"
            ) from error
    return None
