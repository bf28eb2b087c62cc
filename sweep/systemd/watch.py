"""Looking at everything that can go wrong, in one script, and renewing the dead-man timer."""

from __future__ import annotations

from sweep.systemd.deadman import Hold
from sweep.systemd.jobs import Job, job_script, job_state
from sweep.systemd.lock import ACTIVE
from sweep.systemd.production import production_units, runs_by_command
from sweep.systemd.site import Site, blocks
from sweep.systemd.state import UnitState, look_script, unit_state

# Production's own check may be any command: it costs at most a twentieth of the time.
_CHECK_EVERY_S, _CHECK_SHARE, _CHECK_LIMIT_S = 5.0, 20, 15.0


class Watch:
    """Polls our unit. The polls of a long wait cost one small script each."""

    def __init__(self, site: Site, hold: Hold) -> None:
        self._site = site
        self._hold = hold
        self._control_group = ""
        self._by_command = False
        self._check_at = float("-inf")

    def poll(self, job: Job | None = None) -> UnitState:
        """One look at our unit, its port, production, the timer, and a benchmark client."""
        site, hold = self._site, self._hold
        self._check()
        units = (*hold.units, *production_units(site))
        script = look_script(site, self._control_group, units) + hold.renewal()
        answer = site.ask("look at our unit", script + (job_script(site, job) if job else "") + ":")
        _, restoring, timer, *production_shown = blocks(answer["unit"])
        production = [one["Id"] for one in production_shown if one["ActiveState"] in ACTIVE]
        if self._by_command:
            production.append("production")
        state = unit_state(
            answer,
            production_active=tuple(production),
            deadman=hold.state(answer.get("deadman"), (restoring, timer)),
            job=job_state(answer) if job else None,
        )
        self._control_group = state.control_group or self._control_group
        return state

    def _check(self) -> None:
        """Look now and then whether somebody has started production that systemd does not run."""
        clock = self._site.clock
        began = clock.monotonic()
        if began < self._check_at:
            return
        self._by_command = runs_by_command(self._site, limit_s=_CHECK_LIMIT_S)
        took_s = clock.monotonic() - began
        self._check_at = began + max(_CHECK_EVERY_S, _CHECK_SHARE * took_s)
