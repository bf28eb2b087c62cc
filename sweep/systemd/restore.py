"""Giving the host back: start the restore unit, wait until production serves, leave nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sweep.errors import HostError
from sweep.sglang.redact import redact_text
from sweep.systemd.deadman import restore_properties
from sweep.systemd.health import Health
from sweep.systemd.keeping import forget, recall
from sweep.systemd.lock import ACTIVE, holds, release
from sweep.systemd.production import Record, read_record
from sweep.systemd.restore_script import results
from sweep.systemd.site import Site, blocks, quote, text
from sweep.systemd.takeover import write_record

_INTERVAL_S, _FIRST_INTERVAL_S = 0.5, 0.1
# A unit that was just asked for is not seen at work at once: so often in a row it is not.
_STEADY_LOOKS = 3
_UP = ("active", "reloading", "refreshing")


@dataclass(frozen=True)
class Restored:
    """What was started again, and how long it took until it served."""

    units: tuple[str, ...]
    seconds: float
    text: str


@dataclass(frozen=True)
class _Look:
    """The restore unit and the recorded units at one moment."""

    at_work: bool
    restored: bool
    production: tuple[Mapping[str, str], ...]

    @property
    def down(self) -> str:
        """What is not up, with why."""
        return ", ".join(_state(one) for one in self.production if not is_up(one))

    @property
    def serves(self) -> bool:
        """Production is up, and nothing is being done about it."""
        return not self.at_work and all(one["ActiveState"] == "active" for one in self.production)

    @property
    def trouble(self) -> str:
        """What there is to wait for; empty: production is restored."""
        if self.at_work:
            return ": ".join(filter(None, ("the host is still restoring production", self.down)))
        return self.down or ("" if self.restored else "the host has not restored production")

    @property
    def failed(self) -> bool:
        """Nothing is at work any more that could change it."""
        failed = any(one["ActiveState"] == "failed" for one in self.production)
        return not self.at_work and (failed or not self.restored)


def is_up(shown: Mapping[str, str]) -> bool:
    """As restore.sh judges: see `restore_script`."""
    active, oneshot = shown["ActiveState"], shown.get("Type") == "oneshot"
    if active == "inactive":
        queued = shown.get("Job", "0") not in ("", "0")
        return oneshot and shown.get("Result") == "success" and not queued
    return active in _UP or (active == "activating" and oneshot)


def _state(shown: Mapping[str, str]) -> str:
    words = [shown.get("SubState", "")]
    if shown.get("Result", "success") != "success":
        words.append(f"{shown['Result']} {shown.get('ExecMainStatus', '')}")
    return f"{shown['Id']} is {shown['ActiveState']} ({', '.join(words)})"


class Restorer:
    """Gives the host back after one run, with nothing but what lies on the host."""

    def __init__(self, site: Site, health: Health) -> None:
        self._site = site
        self._health = health

    def request(self, why: str, *, forget: bool = False) -> bool:
        """Start the restore unit and return; False: there is no record, so nothing to restore.

        What the host has restored already is not started again: a person may have stopped it
        since. With `forget` the host also removes what the run left in /run: nobody will ask.
        """
        site, paths = self._site, self._site.paths
        run = quote(paths.run)
        start = f"{site.systemd_run} --unit={paths.restore_unit} {restore_properties(site)}"
        script = f"""
{recall(paths)}
[ -e {quote(paths.restore_script)} ] || exit 0
echo @@record
{f"true > {run}/forget" if forget else ""}
if [ -e {run}/restored ]; then
  {self._remove if forget else ":"}
  exit 0
fi
[ -e {run}/why ] || echo {quote(why)} > {run}/why
{site.systemctl} start --no-block {paths.restore_unit} 2>/dev/null || {start}
"""
        return "record" in site.ask("start the restore", script)

    def restore(self, why: str, within_s: float, known: Record | None = None) -> Restored:
        """Restore, wait until production serves, and leave nothing of ours on the host.

        `known` is what has to serve again where the host has no record any more: it was started
        anew, and production that no boot starts is still down.
        Raises HostError naming what did not come back within `within_s`; then the record stays,
        so that the restore can be repeated.
        """
        site = self._site
        began = site.clock.monotonic()
        site.run(recall(site.paths))
        record = read_record(site, site.paths)
        if record is None and known is not None and self._is_free():
            write_record(site, known)
            record = known
        if record is None:
            release(site)
            said = "nothing was recorded as production: nothing to restore"
            return Restored((), 0.0, said + self._tidy())
        restored_at = self._restored_at(record)
        if restored_at:
            said = f"the host itself started {record.names} at {restored_at}"
            return Restored(record.units, 0.0, said + self._tidy())
        earlier = self._look(record)
        self.request(why)
        self._wait(record, began + within_s, again=why if earlier.at_work else None)
        seconds = site.clock.monotonic() - began
        said = f"{record.names} again up after {seconds:.0f} s"
        if earlier.serves and not record.by_command:
            said = f"{record.names} was up: there was nothing to start"
        if not record.owed:
            said = "production was down before and stays down"
        return Restored(record.units, seconds, said + self._tidy())

    def trouble(self, known: Record | None = None) -> str | None:
        """Why what is owed does not serve yet, or None. `known` as in `restore`."""
        record = read_record(self._site, self._site.paths)
        owed = record or known
        if owed is None or not owed.owed:
            return None
        look = self._look(owed)
        trouble = look.trouble if record is not None or look.at_work else look.down
        return trouble or (self._health.trouble() if owed.healthy else None)

    def _is_free(self) -> bool:
        """Is this host no other sweep's by now?"""
        lock = quote(self._site.paths.lock)
        free = f"[ ! -e {lock} ] || {holds(self._site.paths)}"
        answer = self._site.ask("look at the lock", f"echo @@free; if {free}; then echo yes; fi")
        return text(answer["free"]) == "yes"

    def _restored_at(self, record: Record) -> str:
        """When the host restored this run; empty when it did not, or what it started has failed,
        or it is still at it."""
        mark = f"{self._site.paths.run}/restored"
        content = self._site.host.read(mark)
        if content is None:
            return ""
        look = self._look(record)
        if look.at_work:
            return ""
        if any(one["ActiveState"] == "failed" for one in look.production):
            self._site.run(f"rm -f {quote(mark)}")
            return ""
        return text(content).split("\n", maxsplit=1)[0]

    def _wait(self, record: Record, until: float, *, again: str | None) -> None:
        """Until production serves. `again`: should a restore that began earlier fail, ask anew."""
        clock = self._site.clock
        failed, interval_s = 0, _FIRST_INTERVAL_S
        while True:
            look = self._look(record)
            trouble = look.trouble
            if not trouble and record.healthy:
                trouble = self._health.trouble() or ""
            if not trouble:
                return
            failed = failed + 1 if look.failed else 0
            if failed >= _STEADY_LOOKS and again is not None:
                self.request(again)
                failed, again = 0, None
            if failed >= _STEADY_LOOKS or clock.monotonic() >= until:
                # Not done, whatever restore.sh saw: the next restore has to start it again.
                self._site.run(f"rm -f {quote(self._site.paths.run)}/restored")
                raise HostError(self._not_back(record, trouble))
            clock.sleep(interval_s)
            interval_s = min(_INTERVAL_S, 2 * interval_s)

    def _look(self, record: Record) -> _Look:
        site, paths = self._site, self._site.paths
        shown = "-p Id -p Type -p ActiveState -p SubState -p Result -p ExecMainStatus -p Job"
        # The unit is looked at before the file that it writes last.
        answer = site.ask("look at production", f"""
echo @@units; {site.systemctl} show {shown} -- {quote(paths.restore_unit, *record.units)} || exit
echo @@restored; cat {quote(paths.run)}/restored 2>/dev/null
:""")  # fmt: skip
        restoring, *production = blocks(answer["units"])
        at_work = restoring["ActiveState"] in ACTIVE
        return _Look(at_work, bool(text(answer.get("restored"))), tuple(production))

    def _not_back(self, record: Record, trouble: str) -> str:
        site, paths = self._site, self._site.paths
        tails = [self._tail(unit) for unit in record.units]
        tails.append(self._tail(paths.restore_unit, "_TRANSPORT=stdout"))
        lines = "\n".join(filter(None, tails))
        return (
            f"{site.host.name}: production did not come back ({record.names}): {trouble}\n{lines}\n"
            f"mend it there, then: {site.commands.of_host('restore', site.host.name)}"
        )

    def _tail(self, unit: str, *matches: str) -> str:
        words = f"{self._site.journalctl} -n 5 -o cat --all -u {quote(unit, *matches)}"
        lines = text(redact_text(self._site.run(words).stdout))
        return f"{unit}: " + lines.replace("\n", f"\n{unit}: ") if lines else ""

    def _tidy(self) -> str:
        """Leave nothing of the run but results that nobody has fetched yet: what to say of them."""
        answer = self._site.ask("tidy up", self._remove)
        waiting = text(answer.get("results")).split()
        if not waiting:
            return ""
        run_id, work = self._site.paths.run_id, self._site.paths.work
        resume = self._site.commands.of_run("resume", run_id)
        return f"; {len(waiting)} finished benchmark clients' results wait in {work} for `{resume}`"

    @property
    def _remove(self) -> str:
        """Shell lines that remove all of the run but finished clients' files, and empty places."""
        paths = self._site.paths
        return f"""
# Restored, the lock was given up: who has it now is this very run, gone on with meanwhile.
if ! {holds(paths)}; then
{forget(self._site)}rm -rf {quote(paths.run)}
echo @@results
{results(paths)}
rmdir {quote(paths.state, paths.work, paths.work_root)} 2>/dev/null
fi
:"""
