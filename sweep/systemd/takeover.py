"""Taking a host: lock it, write down what production is, arm the dead-man timer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sweep.errors import HostError, HostRefused, SweepError
from sweep.systemd.deadman import Hold
from sweep.systemd.health import Health
from sweep.systemd.keeping import forget, keep, recall_all
from sweep.systemd.leftovers import runs
from sweep.systemd.lock import Lock, release, take_lock
from sweep.systemd.paths import Paths
from sweep.systemd.production import (
    Record,
    Seen,
    look,
    production_units,
    read_record,
    require_production,
    runs_by_command,
)
from sweep.systemd.restore_script import restore_script
from sweep.systemd.site import Site, properties, quote, text

# Taking over from a dead run ends its server, which may take its whole stop time.
_CLEAN_UP_TIMEOUT_S = 400


@dataclass(frozen=True)
class Takeover:
    """What was found. `record` has to serve again in the end; `notes` are for the person.

    `kept`: a host that is rebooted restores it by itself.
    """

    record: Record
    notes: tuple[str, ...]
    kept: bool = True


@dataclass(frozen=True)
class Served:
    """What served in one boot of the host, which nobody has written down there."""

    record: Record
    boot_id: str


def see(site: Site, boot_id: str) -> Served:
    return Served(_found(site, look(site, production_units(site))), boot_id)


def take(
    site: Site, mine: Lock, health: Health, served: Served | None = None
) -> tuple[Hold, Takeover]:
    """Take the host for this run; the same run may take it again after its process died.

    `served`: where the host was started anew since, that has to serve again, too.
    Raises HostError when the host is started anew meanwhile; HostRefused: locked, being restored,
    or a unit of our name or production is not as it must be. Then nothing was changed.
    """
    _require_own_unit(site)
    # This process may have known the host before it was started anew.
    boot_id = text(
        site.ask("recall", f"{recall_all(site.paths)}echo @@boot; {site.boot_id}")["boot"]
    )
    mine = replace(mine, host_boot_id=boot_id)
    lock, taken_over = take_lock(site, mine)
    hold = Hold(site, lock)
    others: Sequence[str] | None = None
    try:
        others = runs(site, restored=False)
        _end_renamed(site)
        seen = look(site, production_units(site))
        require_production(site, seen)
        found = _found(site, seen)
        if found.owed and site.spec.production_health:
            found = found.with_health(health.trouble() is None)
        earlier = served.record if served and served.boot_id != boot_id else None
        record, debts = _with_debts(site, found, earlier, others)
        notes = [_serves(found), *debts, *_triggers(seen)]
        _make_directories(site, serving=found.owed)
        write_record(site, record)
        not_kept = keep(site)
        hold.arm()
        _require_same_boot(site, boot_id)
    except SweepError:
        release(site)
        if others is not None and site.paths.run_id not in others:
            run, state = quote(site.paths.run), quote(site.paths.state)
            site.run(f"{forget(site)}rm -rf {run}; rmdir {state} 2>/dev/null; :")
        raise
    for run in {*others, *runs(site, restored=True)} - {site.paths.run_id}:
        _clean_up(site, site.paths.of_run(run))
    notes_ = (taken_over, *notes, not_kept)
    return hold, Takeover(record, tuple(filter(None, notes_)), kept=not_kept is None)


def extend(site: Site, record: Record, names: Sequence[str]) -> Record:
    """The record, with further units that are about to be stopped, and all that stops with them."""
    new = look(site, [name for name in names if name not in record.judged])
    return _owing(site, record, new, names) if new else record


def look_again(site: Site, record: Record) -> Record:
    """The record, with whatever was started since it was made: it is about to be stopped."""
    started = [one for one in look(site, record.judged) if one.active]
    new = [one for one in started if one.name not in record.units]
    return _owing(site, record, new) if new else record


def _owing(site: Site, record: Record, new: Sequence[Seen], judged: Sequence[str] = ()) -> Record:
    """The record with these, too, written down before anything is done to them."""
    more = Record(
        run_id=record.run_id,
        unit=record.unit,
        units=tuple(one.name for one in new if one.active),
        judged=(*judged, *(one.name for one in new)),
    )
    joined = more.joined(record)
    write_record(site, joined)
    keep(site)
    return joined


def write_record(site: Site, record: Record) -> None:
    """The script first: a record is only there when the host can act on it."""
    site.host.put(site.paths.restore_script, restore_script(site, record), mode=0o700)
    site.host.put(site.paths.record, record.to_bytes(), mode=0o644)


def _found(site: Site, seen: Sequence[Seen]) -> Record:
    return Record(
        run_id=site.paths.run_id,
        unit=site.paths.unit,
        units=tuple(one.name for one in seen if one.active),
        judged=tuple(one.name for one in seen),
        by_command=runs_by_command(site),
    )


def _with_debts(
    site: Site, record: Record, earlier: Record | None, others: Sequence[str]
) -> tuple[Record, list[str]]:
    """The record with whatever else has to serve again, and what there is to say of that."""
    notes = []
    if earlier is not None and earlier.owed:
        record = record.joined(earlier)
        notes.append(f"served when the host was first seen, before its reboot: {earlier.names}")
    for run in others:
        # What a run that never gave the host back found.
        before = read_record(site, site.paths.of_run(run))
        if before is not None and before.owed:
            record = record.joined(before)
            notes.append(f"still to be restored from run {run}: {before.names}")
    return record, notes


def _triggers(seen: Sequence[Seen]) -> list[str]:
    return [
        f"{trigger} can start {one.name} in the middle of the sweep"
        for one in seen
        for trigger in one.triggers
    ]


def _serves(record: Record) -> str:
    if not record.owed:
        return "production is down, and stays down afterwards"
    health = {True: ", its health answers", False: ", its health does not answer", None: ""}
    return f"production is {record.names}{health[record.healthy]}: it is started again in the end"


def _make_directories(site: Site, *, serving: bool) -> None:
    """With production serving, whatever this run cleared before, it has to clear again."""
    paths = site.paths
    work_root, run, claim = quote(paths.work_root), quote(paths.run), quote(paths.claim)
    clear_again = f"rm -f {quote(paths.gpus)}" if serving else ""
    answer = site.ask("make the run's directories", f"""
umask 022
mkdir -p {run}/jobs || exit
# With the hash of what is installed, when this run has taken the host before: it may still run.
grep -qsx {quote(paths.unit)} {claim} || echo {quote(paths.unit)} > {claim} || exit
{clear_again}
mkdir -p {work_root}
if [ -O {work_root} ] && [ ! -L {work_root} ] && [ -d {work_root} ]; then :
else echo @@foreign; exit 0; fi
mkdir -p {quote(paths.work)} && chmod 711 {work_root} {quote(paths.work)} {run}
""")  # fmt: skip
    if "foreign" in answer:
        raise HostRefused(
            f"{site.host.name}: {paths.work_root} is not ours though it has our name; "
            "see who made it and remove it"
        )


def _end_renamed(site: Site) -> None:
    """End this run's own server where its unit had another name then: the inventory was edited.

    What it wrote down is kept. Raises HostError when that server does not end.
    """
    paths = site.paths
    before = read_record(site, paths)
    if before is None or before.unit == paths.unit:
        return
    old = replace(paths, unit=before.unit)
    unit, unit_file = quote(old.unit), quote(old.unit_file)
    result = site.run(
        f"""
[ -e {unit_file} ] || exit 0
{site.systemctl} stop -- {unit} || exit
rm -f {unit_file} {quote(paths.claim)}
{site.systemctl} daemon-reload
{site.systemctl} reset-failed -- {unit} 2>/dev/null
exit 0
""",
        timeout_s=_CLEAN_UP_TIMEOUT_S,
    )
    if not result.ok:
        raise HostError(
            f"{site.host.name}: {old.unit}, this run's unit before the inventory named another "
            f"one, cannot be stopped: {result.tail(3)}"
        )


def _clean_up(site: Site, other: Paths) -> None:
    """End what another run left, without starting production: that debt is ours now."""
    run = quote(other.run)
    site.run(
        f"""
[ -e {run}/restored ] || sh {quote(other.restore_script)} keep-down
{site.systemctl} stop {other.timer} 2>/dev/null
{forget(replace(site, paths=other))}
rm -rf {run}
rmdir {quote(other.work)} 2>/dev/null
""",
        timeout_s=_CLEAN_UP_TIMEOUT_S,
    )


def _require_same_boot(site: Site, boot_id: str) -> None:
    """Raise HostError when some of it was done before a reboot, and is gone."""
    answer = site.ask("look at the boot", f"echo @@boot; {site.boot_id}")
    if text(answer["boot"]) != boot_id:
        raise HostError(f"{site.host.name} was started anew while it was taken")


def _require_own_unit(site: Site) -> None:
    """Raise HostRefused when the unit's name is somebody else's: the tool edits only its own."""
    paths = site.paths
    answer = site.ask("look for a unit of our name", f"""
echo @@unit
{site.systemctl} show -p LoadState -p FragmentPath -- {quote(paths.unit)}
echo @@claims; cat {quote(paths.state)}/*/unit 2>/dev/null
:""")  # fmt: skip
    shown = properties(answer.get("unit"))
    where = shown.get("FragmentPath", "")
    ours = where == paths.unit_file and paths.unit in text(answer.get("claims")).splitlines()
    if shown.get("LoadState", "not-found") != "not-found" and not ours:
        what = where or f"{paths.unit} ({shown['LoadState']})"
        raise HostRefused(
            f"{site.host.name}: {paths.unit} is somebody else's unit: {what} was not written by "
            "this tool, which never edits another's unit; name another one in hosts.*.unit of the "
            "inventory"
        )
