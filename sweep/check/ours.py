"""What of this tool's own lies on the host already, and whether its unit's name is free."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from sweep.check.finding import About, Answer, Finding, Identity, said, unreadable
from sweep.systemd.lock import Found, why_dead
from sweep.systemd.owner import Owner
from sweep.systemd.site import properties

_ACTIVE = ("active", "activating", "reloading", "deactivating")


def questions(about: About, root: str) -> str:
    runtime, kept = f"{root}/run", f"{root}/var/lib"
    if about.spec.scope == "user":
        runtime, kept = f"{root}/run/user/$(id -u)", '"${XDG_STATE_HOME:-$HOME/.local/state}"'
    shown = "-p LoadState -p ActiveState -p FragmentPath -p DropInPaths"
    return f"""
echo @@unit; {about.systemctl} show {shown} -- {shlex.quote(about.spec.unit)}
echo @@records; for f in {runtime}/sweep/*/record.json {kept}/sweep/*/record.json; do
  [ -e "$f" ] || continue
  d=${{f%/*}}; [ -e "$d/restored" ] || echo "${{d##*/}}"; done | sort -u
echo @@boot; cat /proc/sys/kernel/random/boot_id 2>/dev/null
"""


def findings(about: About, who: Identity, answer: Answer, lock: Found | None) -> Iterator[Finding]:
    shown = properties(answer.get("unit"))
    if shown:
        yield from _unit(about, who, shown)
    else:
        yield unreadable("unit", f"what {about.systemctl} knows of {about.spec.unit}")
    held = None
    if lock is not None:
        held = lock.lock.run_id
        yield _lock(about, lock, said(answer, "boot"))
    for run in said(answer, "records").split():
        if run != held:
            yield Finding(
                "warning", "restore", f"run {run} has not given the host back as it found it",
                about.restore,
            )  # fmt: skip


def _unit(about: About, who: Identity, shown: dict[str, str]) -> Iterator[Finding]:
    name, ours = about.spec.unit, who.paths.unit_file
    fragment = shown.get("FragmentPath", "")
    if fragment and fragment != ours:
        yield Finding(
            "problem", "unit", f"{name} exists already: {fragment} is not the tool's ({ours})",
            f"give hosts.{about.host}.unit another name; the tool never edits somebody else's unit",
        )  # fmt: skip
    elif shown.get("LoadState") == "masked":
        yield Finding(
            "problem", "unit", f"{name} is masked", f"{about.systemctl} unmask {name}"
        )  # fmt: skip
    elif shown.get("ActiveState") in _ACTIVE:
        yield Finding(
            "problem", "unit", f"{name} is {shown['ActiveState']}: a sweep runs, or was left there",
            f"sweep status, or {about.restore}",
        )  # fmt: skip
    else:
        yield Finding("ok", "unit", f"{name} is free")
    drop_ins = shown.get("DropInPaths", "")
    if drop_ins:
        yield Finding(
            "warning", "unit", f"drop-ins change every unit the sweep renders: {drop_ins}",
            f"remove them, or give hosts.{about.host}.unit another name",
        )  # fmt: skip


def _lock(about: About, found: Found, boot_id: str) -> Finding:
    lock = found.lock
    if found.restoring:
        return Finding(
            "problem", "lock", f"run {lock.run_id} is giving the host back right now",
            "try again when production serves",
        )  # fmt: skip
    dead = why_dead(found, Owner.here(about.now), boot_id)
    whose = f"run {lock.run_id} of {lock.owner.text}, begun {lock.owner.started}"
    if dead is None:
        return Finding(
            "problem", "lock", f"taken by {whose}",
            f"wait for it, or end it with `sweep stop {lock.run_id}` there, or " + about.restore,
        )  # fmt: skip
    return Finding(
        "warning", "lock", f"left by {whose}: {dead}; the next sweep takes over",
        f"{about.commands.of_run('resume', lock.run_id)} goes on with it, {about.restore} ends it",
    )  # fmt: skip
