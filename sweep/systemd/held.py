"""What one process has while it holds a host: launches are installed, started and stopped."""

from __future__ import annotations

from sweep.errors import HostTaken
from sweep.systemd import gpus
from sweep.systemd.clearing import Clearing
from sweep.systemd.deadman import Hold
from sweep.systemd.facts import HostFacts
from sweep.systemd.gpus import GpuMemory
from sweep.systemd.jobs import Jobs
from sweep.systemd.room import full_disk_as_launch_error
from sweep.systemd.service import Service, Standing, Started
from sweep.systemd.site import Site
from sweep.systemd.stopping import Stopping
from sweep.systemd.takeover import Takeover, extend, look_again
from sweep.systemd.watch import Watch
from sweep.unit import RenderedUnit, SecretFiles

# Cards that were not given back within the time of a stop get this long once more.
_STILL_HELD_S = 10.0


class Held:
    """The parts that exist while this process holds the host."""

    def __init__(self, site: Site, hold: Hold, takeover: Takeover) -> None:
        self._site = site
        self._hold = hold
        self.record, self.kept = takeover.record, takeover.kept
        self._memory = GpuMemory(site)
        self._clearing = Clearing(site, self._memory)
        self._service = Service(site, hold)
        self._cards: tuple[str, ...] | None = None
        self._not_given_back = False
        self.findings: tuple[str, ...] = ()
        self.watch = Watch(site, hold)
        self.jobs = Jobs(site, hold)

    def is_ours(self) -> bool:
        try:
            self._hold.require_ours()
        except HostTaken:
            return False
        return True

    def install(self, unit: RenderedUnit, secrets: SecretFiles, facts: HostFacts) -> None:
        while not self._installed(unit, secrets):
            self.stop()
        self.use(unit, facts)

    def _installed(self, unit: RenderedUnit, secrets: SecretFiles) -> bool:
        """Put the unit in place, unless something of an earlier launch is up."""
        with full_disk_as_launch_error():
            stops = self._service.install(unit, secrets)
            if stops is not None:
                self.record = extend(self._site, self.record, stops)
        return stops is not None

    def standing(self, secrets: SecretFiles) -> Standing | None:
        return self._service.standing(secrets)

    def use(self, unit: RenderedUnit, facts: HostFacts) -> None:
        used = gpus.used_by(unit.argv, unit.environment, facts.gpus)
        # Where the driver does not say what a card holds there is nothing to wait for.
        self._cards = tuple(card.uuid for card in used if card.memory_used_mib is not None)

    def start(self) -> Started:
        first = self._clearing.before() is None
        if first:
            # Nobody stops production for a port that is not to be had.
            self._service.require_free_port()
        with full_disk_as_launch_error():
            if first:
                self._owe_what_was_started()
            before = self._clearing.clear(self._hold, self.record, self._cards or ())
            cards = tuple(before) if self._cards is None else self._cards
            if first:
                self.findings += self._memory.neighbours(cards)
            if self._not_given_back:
                self._memory.wait_until_free(cards, before, _STILL_HELD_S)
                self._not_given_back = False
            return self._service.start()

    def _owe_what_was_started(self) -> None:
        """A host that was still booting when it was taken, or a person, may start production."""
        known = self.record
        self.record = look_again(self._site, known)
        new = [name for name in self.record.units if name not in known.units]
        if new:
            self.findings += (f"{', '.join(new)} was started meanwhile: again in the end",)

    def stop(self) -> float:
        stopping = Stopping(self._site, self._hold, self._service, self.watch, self._memory)
        self._not_given_back = True
        took_s = stopping.stop(self._cards, self._clearing.before() or {})
        self._not_given_back = False
        return took_s
