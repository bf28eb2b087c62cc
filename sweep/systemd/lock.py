"""One sweep on a host at a time: the lock, and when its owner is held for dead.

A lock is a file that appears whole (`ln`), so whoever reads it reads all of it. Its owner is dead
when the host was started anew, when it was a process of this machine that is gone, or when its
dead-man timer is armed no more. A dead owner's lock is replaced by the one who first claims it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from sweep.errors import HostRefused
from sweep.systemd.owner import HIDDEN, Owner, process_started
from sweep.systemd.paths import Paths
from sweep.systemd.site import Site, at_the_end, properties, quote, text

# Between taking the lock and arming the timer lie a few scripts: so long nobody doubts the owner.
YOUNG_MIN = 2
ACTIVE = ("active", "activating", "reloading")
# Production that is small is soon up again; whoever comes meanwhile need not come again.
_RESTORE_WAIT_S, _RESTORE_INTERVAL_S = 60.0, 0.5
_TRIES = 5


@dataclass(frozen=True)
class Lock:
    """The lock file's content. `host_boot_id` is of the host that is locked."""

    run_id: str
    unit: str
    host_boot_id: str
    owner: Owner

    @property
    def line(self) -> bytes:
        """The file's one line, without its end."""
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def parse(cls, content: bytes) -> Lock:
        """Raises ValueError for anything else than a lock."""
        try:
            values = json.loads(content)
            owner = Owner(**values.pop("owner"))
            return cls(owner=owner, **values)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a lock: {content[:200]!r}") from error


@dataclass(frozen=True)
class Found:
    """A lock that stands, and what the host knows about its owner's timer."""

    lock: Lock
    line: bytes
    young: bool
    timer_armed: bool
    restoring: bool


Started = Callable[[int], str | None]


def why_dead(
    found: Found, me: Owner, boot_id: str, started: Started = process_started
) -> str | None:
    """Why the lock's owner is held for dead, or None: it may be alive."""
    owner = found.lock.owner
    if found.lock.host_boot_id != boot_id:
        return "the host was started anew since"
    if owner.machine == me.machine:
        if owner.boot_id != me.boot_id:
            return "this machine was started anew since"
        now = started(owner.pid)
        if now not in (owner.pid_started, HIDDEN):
            return f"its process {owner.pid} is gone"
        if now != HIDDEN:
            return None
    if not found.timer_armed and not found.young:
        return "its dead-man timer is armed no more"
    return None


def holds(paths: Paths) -> str:
    """A shell command that succeeds while the lock is of this run, whichever process took it."""
    mark = json.dumps({"run_id": paths.run_id})[1:-1]
    return f"grep -qsF {quote(mark)} {quote(paths.lock)}"


def holds_exactly(paths: Paths, line: bytes) -> str:
    """A shell command that succeeds while the lock is this process's own."""
    read = f"holder=; read -r holder < {quote(paths.lock)}"
    return f'{{ {read}; [ "$holder" = {quote(line.decode())} ]; }} 2>/dev/null'


def release(site: Site) -> None:
    """Give up the lock, if it is of this run."""
    lock = quote(site.paths.lock)
    site.ask("release the lock", f"if {holds(site.paths)}; then rm -f {lock}; fi")


def take_lock(site: Site, mine: Lock) -> tuple[Lock, str | None]:
    """Lock the host for this run: the lock that stands, and why a former owner is held for dead.

    Taking the lock twice is fine. A host that is being restored is waited for, for a minute.
    Raises HostRefused naming an owner that may be alive, or when the restore takes longer.
    """
    for _ in range(_TRIES):
        taken = _try_lock(site, mine)
        if taken is not None:
            return taken
    raise HostRefused(
        f"{site.host.name}: its lock went from hand to hand while it was taken; try again"
    )


def _try_lock(site: Site, mine: Lock) -> tuple[Lock, str | None] | None:
    """None: the lock that was looked at is another one by now, or released."""
    found = _when_restored(site, mine)
    if found is None:
        return mine, None
    same = (found.lock.run_id, found.lock.host_boot_id) == (mine.run_id, mine.host_boot_id)
    if same and found.lock.owner.is_same_process(mine.owner):
        return found.lock, None
    reason = why_dead(found, mine.owner, mine.host_boot_id)
    owner = found.lock.owner
    if found.restoring:
        raise HostRefused(
            f"{site.host.name}: run {found.lock.run_id} is giving the host back right now; "
            "try again when production serves"
        )
    if reason is None:
        elsewhere = owner.machine != mine.owner.machine
        gone = " (if that machine is gone, until its dead-man timer fires)" if elsewhere else ""
        raise HostRefused(
            f"{site.host.name}: taken by run {found.lock.run_id} of {owner.text} since "
            f"{owner.started}; wait for it{gone}, end it with `sweep stop {found.lock.run_id}` "
            f"there, or give the host back with "
            f"`{site.commands.of_host('restore', site.host.name)}`"
        )
    if not _replace(site, mine, found):
        return None
    former = f"run {found.lock.run_id} of {owner.text}, begun {owner.started}"
    return mine, f"took over from {former}: {reason}"


def read_lock(site: Site) -> Found | None:
    """The lock that stands on this host, whoever's it is."""
    content = site.host.read(site.paths.lock)
    return None if content is None else _look(site, content)


def _when_restored(site: Site, mine: Lock) -> Found | None:
    """As `_place`, once nobody gives the host back any more; if that takes long, while they do."""
    until = site.clock.monotonic() + _RESTORE_WAIT_S
    while True:
        found = _place(site, mine)
        if found is None or not found.restoring or site.clock.monotonic() >= until:
            return found
        site.clock.sleep(_RESTORE_INTERVAL_S)


def _place(site: Site, mine: Lock) -> Found | None:
    """Put our lock there unless one stands; None: it is ours now."""
    paths = site.paths
    new, lock = quote(f"{paths.state}/new-{_mark(mine)}"), quote(paths.lock)
    script = f"""
umask 022
mkdir -p {quote(paths.state)} || exit
{at_the_end(f"rm -f {new}")}
rm -f {new} && {_printing(mine)} > {new} || exit
if ln {new} {lock} 2>/dev/null || cmp -s {new} {lock}
then echo @@mine
else echo @@lock; cat {lock}; [ -s {lock} ] || [ ! -e {lock} ] || echo '(empty)'
fi
"""
    while True:
        answer = site.ask("lock the host", script)
        if "mine" in answer:
            return None
        # Nothing to read: released between the two commands, so try again.
        if answer["lock"].strip():
            return _look(site, answer["lock"])


def _look(site: Site, content: bytes) -> Found:
    try:
        lock = Lock.parse(content)
        theirs = site.paths.of_run(lock.run_id)
    except ValueError as error:
        raise HostRefused(
            f"{site.host.name}: {site.paths.lock} is damaged, or of another version of this tool "
            f"({error}); when no sweep has the host (`{site.systemctl} list-timers 'sweep-*'` "
            f"there is empty), remove it: rm {site.paths.lock}"
        ) from error
    seen = site.ask("look at the lock's owner", _owner_script(site, theirs))
    return Found(
        lock=lock,
        line=content.strip(),
        young=not text(seen.get("old")),
        timer_armed=properties(seen.get("timer")).get("ActiveState") in ACTIVE,
        restoring=properties(seen.get("restore")).get("ActiveState") in ACTIVE,
    )


def _owner_script(site: Site, theirs: Paths) -> str:
    return f"""
echo @@old; find {quote(theirs.lock)} -mmin +{YOUNG_MIN} 2>/dev/null
echo @@timer; {site.systemctl} show -p ActiveState -- {theirs.timer} || exit
echo @@restore; {site.systemctl} show -p ActiveState -- {theirs.restore_unit} || exit
"""


def _printing(lock: Lock) -> str:
    """A shell command that prints the lock's line.

    Not from standard input, whose end may as well be that of a connection: half a lock is nobody's.
    Through cat, which names a full disk as what it is; the shell's own printf does not.
    """
    return f"printf '%s\\n' {quote(lock.line.decode())} | cat"


def _mark(lock: Lock) -> str:
    """Of one process: two of them may come at once for the same run, each with a copy of it."""
    return hashlib.sha256(lock.line).hexdigest()[:16]


def _replace(site: Site, mine: Lock, dead: Found) -> bool:
    """Put our lock in the dead one's place. Of several who try, the first to claim it wins.

    False: it is there no more. Somebody was quicker, or the host has restored itself.
    """
    paths = site.paths
    lock, state = quote(paths.lock), paths.state
    new, old = (quote(f"{state}/{name}-{_mark(mine)}") for name in ("new", "old"))
    claim = quote(f"{state}/claim-{hashlib.sha256(dead.line).hexdigest()[:16]}")
    script = f"""
umask 022
[ -d {quote(state)} ] || exit 0
find {quote(state)} -name 'claim-*' -mmin +1 -exec rm -f {{}} +
{at_the_end(f"rm -f {new} {old}")}
rm -f {new} && {_printing(mine)} > {new} || exit
printf '%s\\n' {quote(dead.line.decode())} > {old}
if ln {new} {claim} 2>/dev/null || cmp -s {new} {claim}; then
  if cmp -s {old} {lock}; then mv -f {claim} {lock}; else rm -f {claim}; fi
fi
if cmp -s {new} {lock}; then echo @@mine; fi
"""
    return "mine" in site.ask("take over the lock", script)
