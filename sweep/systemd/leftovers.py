"""Runs that still have something on a host: for `sweep restore`, and for whoever comes next."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sweep.clock import Clock
from sweep.host import Host
from sweep.inventory import HostSpec
from sweep.systemd.lock import read_lock, why_dead
from sweep.systemd.owner import Owner
from sweep.systemd.paths import Homes, Paths
from sweep.systemd.production import read_record
from sweep.systemd.site import Site, quote, text


@dataclass(frozen=True)
class HostRun:
    """A run with a record, or the lock, on a host.

    owes      what it found serving and has to start again; "nothing" when production was down
    restored  the host has started that again
    owner     whoever has the host for this run, when the lock is of it
    dead      why that owner is held for dead; None: it may be alive
    """

    run_id: str
    owes: str
    restored: bool
    owner: str | None = None
    dead: str | None = None


def runs(site: Site, *, restored: bool) -> list[str]:
    """Runs with a record on this host, this one among them; also those from before a reboot.

    Raises HostError: what was not answered is not "none", and would cost them their production.
    """
    state, kept = quote(site.paths.state), quote(site.paths.kept_root)
    answer = site.ask("look for runs", f"""
echo @@runs
for run in {state}/*/; do
  [ -e "$run/record.json" ] && [ {"-e" if restored else "! -e"} "$run/restored" ] && basename "$run"
done
for run in {":" if restored else f"{kept}/*/"}; do
  [ -e "$run/record.json" ] || continue
  name=$(basename "$run")
  [ -e {state}/"$name"/record.json ] || echo "$name"
done
:""")  # fmt: skip
    return text(answer["runs"]).split()


def runs_on(host: Host, spec: HostSpec, clock: Clock) -> tuple[HostRun, ...]:
    """Every run that left something on the host, with who holds the host. Changes nothing."""
    # Any run will do to find the others: their places differ by the name alone.
    uid, homes = host.run(f"id -u; {Homes.ASK}").text.split("\n", maxsplit=1)
    paths = Paths(host.root, spec.scope, int(uid), "r", spec.unit, Homes.parse(homes))
    site = Site(host, spec, clock, paths)
    boot_id = site.run(site.boot_id).text.strip()
    found = read_lock(site)
    listed = [
        HostRun(run_id, record.names if record else "nothing", restored)
        for restored in (False, True)
        for run_id in runs(site, restored=restored)
        for record in [read_record(site, paths.of_run(run_id))]
    ]
    if found is None:
        return tuple(listed)
    lock = found.lock
    if lock.run_id not in [one.run_id for one in listed]:
        # Its process died, or is at work, between the lock and the record.
        listed.append(HostRun(lock.run_id, "nothing", restored=False))
    dead = why_dead(found, Owner.here(clock.now()), boot_id)
    return tuple(
        replace(one, owner=lock.owner.text, dead=dead) if one.run_id == lock.run_id else one
        for one in listed
    )
