"""Giving the host back: start the restore unit, wait until production serves, leave nothing."""

from __future__ import annotations

from dataclasses import dataclass

from sweep.errors import HostError
from sweep.systemd.deadman import restore_properties
from sweep.systemd.health import Health
from sweep.systemd.lock import ACTIVE, release
from sweep.systemd.production import Record, read_record
from sweep.systemd.site import Site, blocks, properties, quote, text

_INTERVAL_S = 0.5
# Without a health URL: so often in a row the units have to be up.
_STEADY_LOOKS = 3


@dataclass(frozen=True)
class Restored:
    """What was started again, and how long it took until it served."""

    units: tuple[str, ...]
    seconds: float
    text: str


class Restorer:
    """Gives the host back after one run, with nothing but what lies on the host."""

    def __init__(self, site: Site, health: Health) -> None:
        self._site = site
        self._health = health

    def request(self, why: str, *, forget: bool = False) -> bool:
        """Start the restore unit and return; False: there is no record, so nothing to restore.

        With `forget` the host removes what the run left in /run, too: nobody will ask for it.
        """
        site, paths = self._site, self._site.paths
        run = quote(paths.run)
        start = f"{site.systemd_run} --unit={paths.restore_unit} {restore_properties(site)}"
        script = f"""
[ -e {quote(paths.restore_script)} ] || exit 0
echo @@record
[ -e {run}/restored ] && exit 0
[ -e {run}/why ] || echo {quote(why)} > {run}/why
{f": > {run}/forget" if forget else ""}
{site.systemctl} start --no-block {paths.restore_unit} 2>/dev/null || {start}
"""
        return "record" in site.ask("start the restore", script)

    def restore(self, why: str, within_s: float) -> Restored:
        """Restore, wait until production serves, and leave nothing of ours on the host.

        Raises HostError naming what did not come back within `within_s`; then the record stays,
        so that the restore can be repeated.
        """
        site = self._site
        began = site.clock.monotonic()
        record = read_record(site, site.paths) if self.request(why) else None
        if record is None:
            release(site)
            self._clear()
            return Restored((), 0.0, "nothing was recorded as production: nothing to restore")
        self._wait(record, began + within_s)
        seconds = site.clock.monotonic() - began
        self._clear()
        if not record.owed:
            return Restored((), seconds, "production was down before and stays down")
        return Restored(record.units, seconds, f"{record.names} again up after {seconds:.0f} s")

    def _wait(self, record: Record, until: float) -> None:
        clock = self._site.clock
        steady = 0
        while True:
            at_work, down = self._look(record)
            trouble = "the restore unit is still at work" if at_work else down
            steady = 0 if trouble else steady + 1
            if steady and record.owed and self._site.spec.production_health:
                trouble = self._health.trouble() or ""
                if not trouble:
                    return
            elif steady >= (_STEADY_LOOKS if record.owed else 1):
                return
            if clock.monotonic() >= until:
                raise HostError(self._not_back(record, trouble))
            clock.sleep(_INTERVAL_S)

    def _look(self, record: Record) -> tuple[bool, str]:
        """Whether restore.sh is still at work, and what is not up, as a message.

        Raises HostError when it ended without having done its work.
        """
        site, paths = self._site, self._site.paths
        shown = "-p Id -p ActiveState -p SubState -p Result -p ExecMainStatus"
        units = f"{site.systemctl} show {shown} -- {quote(*record.units)}" if record.units else ""
        # The unit is looked at before the file that it writes last.
        answer = site.ask("look at production", f"""
echo @@unit; {site.systemctl} show -p ActiveState -- {paths.restore_unit}
echo @@restored; cat {quote(paths.run)}/restored 2>/dev/null
echo @@production; {units}
:""")  # fmt: skip
        restored = bool(text(answer.get("restored")))
        at_work = properties(answer.get("unit")).get("ActiveState") in ACTIVE
        down = [one for one in blocks(answer.get("production")) if one["ActiveState"] not in ACTIVE]
        states = ", ".join(_state(one) for one in down)
        if not restored and not at_work:
            raise HostError(self._not_back(record, states or "restore.sh failed"))
        return not restored, states

    def _not_back(self, record: Record, trouble: str) -> str:
        site, paths = self._site, self._site.paths
        tails = [self._tail(unit) for unit in (*record.units, paths.restore_unit)]
        lines = "\n".join(filter(None, tails))
        return (
            f"{site.host.name}: production did not come back ({record.names}): {trouble}\n{lines}\n"
            f"mend it there, then: sweep restore {site.host.name}"
        )

    def _tail(self, unit: str) -> str:
        lines = text(
            self._site.run(f"{self._site.journalctl} -n 5 -o cat --all -u {quote(unit)}").stdout
        )
        return f"{unit}: " + lines.replace("\n", f"\n{unit}: ") if lines else ""

    def _clear(self) -> None:
        """Remove the run's directory under /run, and the empty ones around it and the work's."""
        paths = self._site.paths
        self._site.run(f"""
rm -rf {quote(paths.run)}
rmdir {quote(paths.state, paths.work, paths.work_root)} 2>/dev/null
:""")


def _state(shown: dict[str, str]) -> str:
    words = [shown.get("SubState", "")]
    if shown.get("Result", "success") != "success":
        words.append(f"{shown['Result']} {shown.get('ExecMainStatus', '')}")
    return f"{shown['Id']} is {shown['ActiveState']} ({', '.join(words)})"
