"""Looking at everything that can go wrong, in one script, and renewing the dead-man timer."""

from __future__ import annotations

from sweep.systemd.deadman import Hold
from sweep.systemd.jobs import Job, job_files_script, job_state
from sweep.systemd.lock import ACTIVE
from sweep.systemd.production import production_units, runs_by_command
from sweep.systemd.site import Site, blocks
from sweep.systemd.state import UnitState, look_script, unit_state
from sweep.systemd.waiting import until_ended, until_ready

# Production's own check may be any command: it costs at most a twentieth of the time.
_CHECK_EVERY_S, _CHECK_SHARE, _CHECK_LIMIT_S = 5.0, 20, 15.0


class Watch:
    """Polls our unit. The polls of a long wait cost one small script each."""

    def __init__(self, site: Site, hold: Hold) -> None:
        self._site = site
        self._hold = hold
        self._control_group = ""
        self._main_pid = 0
        self._job_pids: dict[str, int] = {}
        self._by_command = False
        self._check_at = float("-inf")

    def poll_when_ready(self, within_s: float) -> UnitState:
        """A look as soon as the server seems ready, or to have ended; else after that time."""
        pid = self._main_pid
        return self.poll(before=until_ready(self._site, pid, within_s) if pid else "")

    def poll_when_ended(self, job: Job, within_s: float) -> UnitState:
        """A look as soon as the benchmark client has ended; else after that time."""
        pid = self._job_pids.get(job.unit, 0)
        return self.poll(job, before=until_ended(pid, within_s) if pid else "")

    def poll(self, job: Job | None = None, *, before: str = "", after: str = "") -> UnitState:
        """One look at our unit, its port, production, the timer, and a benchmark client.

        `before` and `after` are shell lines that go with it, and print nothing.
        """
        site, hold = self._site, self._hold
        self._check()
        production = production_units(site)
        others = (*hold.units, *production, *([job.unit] if job else []))
        look = look_script(site, self._control_group, others)
        files = job_files_script(job) if job else ""
        script = f"{before}{look}{hold.renewal()}{files}{after}:"
        answer = site.ask("look at our unit", script)
        _, restoring, timer, *shown = blocks(answer["unit"])
        active = [one["Id"] for one in shown[: len(production)] if one["ActiveState"] in ACTIVE]
        if self._by_command:
            active.append("production")
        state = unit_state(
            answer,
            production_active=tuple(active),
            deadman=hold.state(answer.get("deadman"), (restoring, timer)),
            job=job_state(answer, shown[-1]) if job else None,
        )
        self._control_group = state.control_group or self._control_group
        self._main_pid = state.main_pid
        self._job_pids = {job.unit: int(shown[-1].get("MainPID") or 0)} if job else {}
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
