"""Looking at everything that can go wrong, in one script, and renewing the dead-man timer."""

from __future__ import annotations

from sweep.systemd.deadman import Hold
from sweep.systemd.jobs import Job, job_script, job_state
from sweep.systemd.lock import ACTIVE
from sweep.systemd.production import production_units, runs_by_command
from sweep.systemd.site import Site, blocks
from sweep.systemd.state import UnitState, look_script, unit_state


class Watch:
    """Polls our unit. The polls of a long wait cost one small script each."""

    def __init__(self, site: Site, hold: Hold) -> None:
        self._site = site
        self._hold = hold
        self._control_group = ""
        self._by_command = False

    def poll(self, job: Job | None = None) -> UnitState:
        """One look at our unit, its port, production, the timer, and a benchmark client."""
        site, hold = self._site, self._hold
        if hold.due:
            # Production's own check may be any command, so it is not run at every look.
            self._by_command = runs_by_command(site)
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
