"""The dead-man timer: when nothing is heard of the sweep, the host restores production by itself.

A transient timer starts the restore unit, which runs restore.sh; every renewal restarts the timer.
The same unit restores when the sweep ends, so there is never more than one restore at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from sweep.errors import HostError, HostTaken
from sweep.systemd.lock import ACTIVE, Lock, holds_exactly
from sweep.systemd.site import Site, quote, text

# armed: the timer runs and the lock is ours. fired: restore.sh was started. gone: neither.
DeadMan = Literal["armed", "fired", "gone"]

# How often the timer is renewed: a small part of its time, so that little of it is lost.
_RENEWALS = 20


class Hold:
    """This process's hold on the host, from the lock and the armed timer to the restore."""

    def __init__(self, site: Site, lock: Lock) -> None:
        self._site = site
        self._mine = holds_exactly(site.paths, lock.line)
        self._renewed_at = float("-inf")

    def arm(self) -> None:
        """Start the timer anew. What an earlier restore of this run left is history."""
        run, timer = quote(self._site.paths.run), self._site.paths.timer
        history = " ".join(f"{run}/{name}" for name in ("restoring", "restored", "why", "forget"))
        result = self._site.run(f"""
rm -f {history}
{self._site.systemctl} stop {timer} 2>/dev/null
{self._new} && echo @@armed
""")
        if b"@@armed" not in result.stdout:
            raise HostError(
                f"{self._site.host.name}: could not arm the dead-man timer: {result.tail(3)}"
            )
        self._renewed_at = self._site.clock.monotonic()

    def guard(self) -> str:
        """The head of a script that changes something: it ends at once when the host is not ours.

        Its answer is to be given to `require`.
        """
        restoring = quote(f"{self._site.paths.run}/restoring")
        return f"if [ -e {restoring} ] || ! {self._mine}; then echo @@taken; exit 0; fi"

    def require(self, answer: dict[str, bytes]) -> None:
        """Raise HostTaken when a script's guard found that the host is not ours any more."""
        if "taken" in answer:
            site = self._site
            raise HostTaken(
                f"{site.host.name}: run {site.paths.run_id} holds this host no more: "
                "its dead-man timer, `sweep restore` or a reboot took it away; "
                f"go on with `{site.commands.of_run('resume', site.paths.run_id)}`"
            )

    def require_ours(self) -> None:
        """Raise HostTaken unless the host is ours now; HostError without an answer."""
        self.require(self._site.ask("look whose the host is", self.guard()))

    @property
    def due(self) -> bool:
        """Is it time to renew the timer?"""
        silent_s = self._site.clock.monotonic() - self._renewed_at
        return silent_s >= self._site.spec.deadman_s / _RENEWALS

    def renewal(self) -> str:
        """The section `deadman` of a poll: who has the host, and the timer renewed when due.

        The timer may fire between our look and our renewal; systemd does one after the other, so
        a second look finds the restore unit started, and the timer is taken back.
        """
        site, paths = self._site, self._site.paths
        restoring = quote(f"{paths.run}/restoring")
        renew = ":"
        if self.due:
            self._renewed_at = site.clock.monotonic()
            renew = f"""
  if {site.systemctl} restart {paths.timer} 2>/dev/null || {self._new} 2>/dev/null
  then renewed=armed; else renewed=gone; fi
  case $({site.systemctl} show -p ActiveState -- {paths.restore_unit}) in
    *={"|*=".join(ACTIVE)}) {site.systemctl} stop {paths.timer} 2>/dev/null; renewed=fired ;;
  esac
  echo $renewed"""
        return f"""
echo @@deadman
if [ -e {restoring} ]; then echo fired
elif ! {self._mine}; then echo gone
else {renew}
fi
"""

    @property
    def units(self) -> tuple[str, str]:
        """What a poll has to show for `state`, in this order."""
        return self._site.paths.restore_unit, self._site.paths.timer

    def state(self, section: bytes | None, shown: Sequence[Mapping[str, str]]) -> DeadMan:
        """What a poll says: its section `deadman`, and `units` as they were just before."""
        said = text(section)
        restoring, timer = (block.get("ActiveState") in ACTIVE for block in shown)
        if said == "fired" or restoring:
            return "fired"
        return "armed" if said == "armed" or (timer and said != "gone") else "gone"

    @property
    def _new(self) -> str:
        """The command that makes the timer.

        A unit that another one names stays loaded after it ended, with its result and its
        invocation id; the timer is that other one for the unit under test. It names it in a way
        that orders nothing: a renewal must not wait until a unit has stopped.
        """
        site, paths = self._site, self._site.paths
        return (
            f"{site.systemd_run} --unit={paths.timer.removesuffix('.timer')} "
            f"--on-active={site.spec.deadman_s:.3f}s --timer-property=AccuracySec=1s "
            f"--timer-property=PropagatesReloadTo={quote(paths.unit)} {restore_properties(site)}"
        )


def restore_properties(site: Site) -> str:
    """The end of a systemd-run command line that makes the restore unit.

    KillMode: what production's own start command leaves running must outlive the restore.
    """
    description = quote(f"sweep: give the host back after run {site.paths.run_id}")
    script = quote(site.paths.restore_script)
    return f"--property=KillMode=process --description={description} /bin/sh {script}"
