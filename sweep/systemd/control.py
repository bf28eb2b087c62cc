"""The server's life on one host: one object for one run, put together from the parts."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Literal

from sweep.clock import Clock
from sweep.hints import PLAIN, Commands
from sweep.host import Host
from sweep.inventory import HostSpec
from sweep.systemd.evidence import HostEvidence, host_evidence
from sweep.systemd.facts import HostFacts, read_facts, require_usable
from sweep.systemd.health import Health
from sweep.systemd.held import Held
from sweep.systemd.jobs import Job, Jobs
from sweep.systemd.journal import Journal
from sweep.systemd.lock import Lock
from sweep.systemd.owner import Owner
from sweep.systemd.paths import Paths
from sweep.systemd.processes import describe
from sweep.systemd.restore import Restored, Restorer
from sweep.systemd.room import full_disk_as_refusal, require_room
from sweep.systemd.service import Standing, Started
from sweep.systemd.site import Site, text
from sweep.systemd.state import Listener, UnitState
from sweep.systemd.takeover import Served, Takeover, see, take
from sweep.unit import RenderedUnit, SecretFiles

Boot = Literal["same", "going down", "new"]


class Systemd:
    """One run on one host: take it, launch by launch install, start, poll and stop, restore it.

    Every verb may be repeated. HostTaken means that the host gave itself back to production.
    """

    def __init__(
        self, host: Host, spec: HostSpec, clock: Clock, run_id: str, commands: Commands = PLAIN
    ) -> None:
        self._commands = commands
        self._host = host
        self._spec = spec
        self._clock = clock
        self._run_id = run_id
        self._held: Held | None = None
        self._heard_at: datetime | None = None

    @cached_property
    def facts(self) -> HostFacts:
        """What the host is, as it was when first asked."""
        return read_facts(self._host, self._spec, self._clock)

    @cached_property
    def site(self) -> Site:
        paths = Paths(
            root=self._host.root,
            scope=self._spec.scope,
            uid=self.facts.uid,
            run_id=self._run_id,
            unit=self._spec.unit,
            homes=self.facts.homes,
        )
        return Site(self._host, self._spec, self._clock, paths, self._commands)

    def see(self) -> Served:
        """What serves now, in case the host is started anew before it could be taken."""
        return see(self.site, self.facts.boot_id)

    @property
    def taken(self) -> bool:
        """It was: the host itself remembers what has to serve again."""
        return self._held is not None

    def take(self, owner: Owner, served: Served | None = None) -> Takeover:
        """Lock the host, record production, arm the dead-man timer. `served`: as `see` found it.

        Raises HostRefused: locked (naming the owner), systemd too old, no rights, no linger, our
        unit's name or a production unit is not as it must be.
        """
        require_usable(self._host, self._spec, self.facts)
        lock = Lock(self._run_id, self._spec.unit, self.facts.boot_id, owner)
        with full_disk_as_refusal():
            hold, takeover = take(self.site, lock, Health(self.site), served)
        self._held = Held(self.site, hold, takeover)
        self._heard_at = self._clock.now()
        return takeover

    def standing(self, secrets: SecretFiles) -> Standing | None:
        """The start that an earlier process of this run left running here, if it may be trusted.

        Raises HostTaken. `use` says that it is gone on with; otherwise `install` stops it.
        """
        return self._hold.standing(secrets)

    def use(self, unit: RenderedUnit) -> None:
        """Go on with what `standing` found, which this unit was rendered for."""
        self._hold.use(unit, self.facts)

    def install(self, unit: RenderedUnit, secrets: SecretFiles) -> None:
        """Put a launch's unit in place. What is left of an earlier launch is stopped first.

        Raises LaunchError (host_disk_full, exec_failed, and those of `stop`), HostTaken.
        """
        self._hold.install(unit, secrets, self.facts)

    def start(self) -> Started:
        """Start the installed unit; before the first start production is stopped.

        A unit whose process fails at once has started, too: `poll` tells. Raises LaunchError
        (port_in_use, exec_failed, gpu_busy: the stop before did not free the cards, and they are
        held still), HostTaken when the host is ours no more or production came back.
        """
        return self._hold.start()

    def findings(self) -> tuple[str, ...]:
        """What our first start found: production that was started since the host was taken, who
        held memory on the server's cards. Told once."""
        found, self._hold.findings = self._hold.findings, ()
        return found

    def poll(self, job: Job | None = None) -> UnitState:
        """How things stand, of a benchmark client too; renews the dead-man timer."""
        return self._heard(self._hold.watch.poll(job))

    def poll_when_ready(self, within_s: float) -> UnitState:
        """As `poll`, once the server that was seen starting seems ready or has ended; else after
        that time, or at once where the host cannot wait for it."""
        return self._heard(self._hold.watch.poll_when_ready(within_s))

    def poll_when_ended(self, job: Job, within_s: float) -> UnitState:
        """As `poll`, once the client that was seen running has ended; else likewise."""
        return self._heard(self._hold.watch.poll_when_ended(job, within_s))

    def _heard(self, state: UnitState) -> UnitState:
        if state.boot_id == self.facts.boot_id:
            self._heard_at = self._clock.now()
        return state

    def boot(self) -> Boot:
        """Is the host still the one that was taken, going down, or started anew?

        One that does not answer (no rights any more, too busy) is taken for the same.
        """
        site = self.site
        shown = site.run(f"{site.boot_id} || exit; systemctl is-system-running 2>/dev/null; :")
        boot_id, *state = text(shown.stdout).split() or [""]
        if not shown.ok or not boot_id:
            return "same"
        if boot_id != self.facts.boot_id:
            return "new"
        return "going down" if state == ["stopping"] else "same"

    @property
    def silent_s(self) -> float:
        """How long ago the host was last heard, before it went down."""
        heard_at = self._heard_at or self._clock.now()
        return (self._clock.now() - heard_at).total_seconds()

    def journal(
        self, invocation_id: str, *, ended: bool = False, lines: int | None = None
    ) -> bytes:
        """What one start wrote, and systemd about it; of one that ended, its last lines too."""
        journal = Journal(self.site)
        read = journal.read_ended if ended else journal.read
        return read(invocation_id, lines=lines)

    def journal_between(self, invocation_id: str, since: float, until: float) -> bytes:
        """What one start wrote in a time, in seconds since 1970 on the host's clock."""
        return Journal(self.site).between(invocation_id, since, until)

    def evidence(self) -> HostEvidence:
        """What the host can tell about a server of ours that hangs or died."""
        return host_evidence(self.site, self.poll().cgroup_pids)

    def stop(self) -> float:
        """Stop the server and the clients; the seconds until the host was free again.

        Raises LaunchError: hang, port_in_use, gpu_busy.
        """
        return self._hold.stop()

    def require_room(self) -> None:
        """Raise LaunchError host_disk_full when no client can write its result any more."""
        require_room(self.site, self.site.paths.work)

    def named(self, listener: Listener) -> str:
        """Who listens: pid, user and command line, as far as they may be seen."""
        known = describe(self.site, [listener.pid] if listener.pid else [])
        return known.get(listener.pid or 0, listener.text)

    @property
    def jobs(self) -> Jobs:
        return self._hold.jobs

    def restore(self, within_s: float | None = None) -> Restored:
        """Stop ours, start what was recorded, wait until it serves, leave nothing behind.

        Needs no `take` in this process; after one, a host that was started anew meanwhile gets
        its production back, too. `within_s` defaults to the server's health time-out.
        Raises HostError naming what did not come back.
        """
        within_s = self._spec.server.health_timeout_s if within_s is None else within_s
        # In the same boot a record that is gone was acted on: whoever stopped production meant it.
        known = self._held.record if self._held and self._started_anew() else None
        return self._restorer.restore("the sweep ended", within_s, known)

    def _started_anew(self) -> bool:
        """Is this another boot than the one that was taken? Raises HostError without an answer."""
        answer = self.site.ask("look at the boot", f"echo @@boot; {self.site.boot_id}")
        return text(answer["boot"]) != self.facts.boot_id

    def has_the_host(self) -> bool:
        """Is the host still this run's? Whose it is by now may have the same port and unit."""
        return self._hold.is_ours()

    @property
    def restores_after_boot(self) -> bool:
        """A host that is rebooted now restores production by itself."""
        return self._held is None or self._held.kept

    def production_trouble(self) -> str | None:
        """Why what this run found serving does not serve again yet, in one line; None: it does.

        For a host that gives itself back, after a reboot or because its timer fired: ask again
        until it is None, then `take` anew (with `resume`'s consent where the timer fired), or
        `restore`, which starts what nobody starts. Needs no `take` in this process, and changes
        nothing. None, too, when nothing is owed. Raises HostUnreachable, HostRefused for a record
        that cannot be read.
        """
        return self._restorer.trouble(self._held.record if self._held else None)

    def hand_over(self) -> None:
        """Leave stop and restore to a unit on the host, and return at once."""
        self._restorer.request("the sweep was interrupted", forget=True)

    @property
    def _restorer(self) -> Restorer:
        return Restorer(self.site, Health(self.site))

    @property
    def _hold(self) -> Held:
        if self._held is None:
            raise RuntimeError("the host was not taken: call take() first")
        return self._held
