"""The server under test: its unit installed, started, stopped, and nothing of it left running."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sweep.errors import HostRefused, HostTaken, LaunchError
from sweep.host.scripted import writing
from sweep.host.verbs import TIMED_OUT
from sweep.systemd.deadman import Hold
from sweep.systemd.lock import ACTIVE
from sweep.systemd.processes import describe
from sweep.systemd.production import production_units
from sweep.systemd.site import Site, names, properties, quote, text
from sweep.systemd.state import Listener, UnitState, listeners, port_script
from sweep.unit import RenderedUnit, SecretFiles

_START_TIMEOUT_S = 120.0
_END_WAIT_S = 2


@dataclass(frozen=True)
class Started:
    """One start of the unit, by systemd's invocation id. `started_at` is of our clock."""

    invocation_id: str
    started_at: datetime


@dataclass(frozen=True)
class Standing:
    """A start that an earlier process of this run left running.

    `unit_sha256` is of the unit file that it was started from, `started_at` by the host's clock.
    """

    unit_sha256: str
    invocation_id: str
    started_at: datetime


class Service:
    """Our unit on one host, for the run that holds the host."""

    def __init__(self, site: Site, hold: Hold) -> None:
        self._site = site
        self._hold = hold
        self._secrets: SecretFiles | None = None

    def standing(self, secret_files: SecretFiles) -> Standing | None:
        """What an earlier process of this run started here and left running; None: nothing.

        It is the start that the mark is about, never restarted, made by the very file that was
        installed, with the same secrets as now. Raises HostTaken.
        """
        site, paths = self._site, self._site.paths
        shown = "-p ActiveState -p InvocationID -p NRestarts -p FragmentPath -p DropInPaths"
        answer = site.ask("look for a server to go on with", f"""
{self._hold.guard()}
echo @@unit; {site.systemctl} show {shown} -- {quote(paths.unit)}
echo @@claim; cat {quote(paths.claim)} 2>/dev/null
echo @@mark; cat {quote(paths.start_mark)} 2>/dev/null
:""")  # fmt: skip
        self._hold.require(answer)
        found = _standing(answer, paths.unit, paths.unit_file)
        if found is None or not self._holds(paths.unit_file, found.unit_sha256):
            return None
        for path, content in self._secret_files(secret_files):
            if site.host.read(path) != content:
                return None
        self._secrets = secret_files
        return found

    def _holds(self, path: str, sha256: str) -> bool:
        content = self._site.host.read(path)
        return content is not None and hashlib.sha256(content).hexdigest() == sha256

    def install(self, unit: RenderedUnit, secret_files: SecretFiles) -> tuple[str, ...] | None:
        """Put the unit and its secrets in place; the units that starting it would stop.

        None, and nothing is changed: something of an earlier launch is up. Raises HostTaken;
        LaunchError exec_failed when systemd does not take the unit; HostRefused when somebody's
        drop-in would change it.
        """
        site, paths = self._site, self._site.paths
        if unit.name != paths.unit:
            raise ValueError(f"rendered for {unit.name}, this host's unit is {paths.unit}")
        if secret_files != self._secrets:
            if self._is_up():
                return None
            self._put_secrets(secret_files)
        content = unit.text.encode()
        answer = site.ask("install our unit", f"""
{self._unless_up()}
( {writing(paths.unit_file, len(content), 0o644)} ) || exit
{self._own_secrets()}
printf '%s\\n' {quote(unit.name, unit.sha256)} > {quote(paths.claim)} || exit
{site.systemctl} daemon-reload || exit
echo @@unit
{site.systemctl} show -p LoadState -p LoadError -p FragmentPath -p Conflicts -p DropInPaths \\
  -- {paths.unit}
""", stdin=content)  # fmt: skip
        self._hold.require(answer)
        if "up" in answer:
            return None
        shown = properties(answer["unit"])
        if shown["LoadState"] != "loaded" or shown["FragmentPath"] != paths.unit_file:
            why = shown.get("LoadError") or f"{shown['LoadState']} from {shown['FragmentPath']}"
            raise LaunchError("exec_failed", f"systemd does not load {paths.unit}: {why}")
        self._require_unchanged(shown.get("DropInPaths", ""))
        return tuple(name for name in names(shown["Conflicts"]) if name != "shutdown.target")

    def _is_up(self) -> bool:
        answer = self._site.ask("look at our unit", self._unless_up())
        self._hold.require(answer)
        return "up" in answer

    def _unless_up(self) -> str:
        """The head of a script that must not touch what a server that runs was started from."""
        return f"""
{self._hold.guard()}
case $({self._site.systemctl} show -p ActiveState -- {quote(self._site.paths.unit)}) in
  *=inactive | *=failed) ;;
  *) echo @@up; exit 0 ;;
esac
"""

    def start(self) -> Started:
        """Start the unit once, though the connection may break meanwhile.

        Raises HostTaken (not ours any more, or production was started), LaunchError port_in_use,
        or exec_failed when systemd did not even try.
        """
        site = self._site
        script = self._start_script(secrets.token_hex(8))
        started_at = site.clock.now()
        result = site.run(script, timeout_s=_START_TIMEOUT_S)
        if result.exit_status == TIMED_OUT:
            # systemd still works on it; the same script only asks now.
            result = site.run(script)
        return self._started(site.answer("start our unit", result), started_at)

    def require_free_port(self) -> None:
        """Raise LaunchError port_in_use naming who has the server's port."""
        answer = self._site.ask("look at our port", f"echo @@port; {port_script(self._site)}")
        found = listeners(answer["port"])
        if found:
            raise LaunchError("port_in_use", self.port_owner(found))

    def _started(self, answer: dict[str, bytes], started_at: datetime) -> Started:
        site = self._site
        self._hold.require(answer)
        if "preempted" in answer:
            raise HostTaken(
                f"{site.host.name}: somebody started {text(answer['preempted'])}; "
                "production is left running"
            )
        if "port" in answer:
            raise LaunchError("port_in_use", self.port_owner(listeners(answer["port"])))
        shown = properties(answer.get("unit"))
        if not shown.get("InvocationID"):
            why = text(answer.get("said")) or f"it is {shown.get('ActiveState', 'unknown')}"
            raise LaunchError("exec_failed", f"systemd did not start {site.paths.unit}: {why}")
        return Started(shown["InvocationID"], started_at)

    def stopping(self) -> str:
        """Shell lines that stop the run's benchmark clients, and ask systemd to stop the unit.

        Nothing where the host is another sweep's by now: its unit may have the same name.
        """
        site, paths = self._site, self._site.paths
        return f"""
( {self._hold.guard()}
for job in {quote(paths.run)}/jobs/*; do
  [ -e "$job" ] && {site.systemctl} stop "${{job##*/}}" 2>/dev/null
done
{site.systemctl} stop --no-block {quote(paths.unit)} 2>/dev/null ) >/dev/null
"""

    def awaiting_end(self) -> str:
        """Shell lines that wait for the end of a unit that is being stopped, for a moment."""
        stop = f"timeout {_END_WAIT_S} {self._site.systemctl} stop {quote(self._site.paths.unit)}"
        return f"""
( {self._hold.guard()}
command -v timeout && {stop} ) >/dev/null 2>&1
"""

    def left_over(self, state: UnitState, waited_s: float) -> str:
        """What of our unit did not end, for a message."""
        pids = {*state.cgroup_pids, *(one.pid for one in state.listeners if one.pid)}
        who = "; ".join(describe(self._site, pids).values())
        return (
            f"{waited_s:.0f} s after the stop {self._site.paths.unit} is {state.active} "
            f"({state.sub}); still there: {who or 'no process to be seen'}"
        )

    def _require_unchanged(self, drop_ins: str) -> None:
        unit = self._site.paths.unit
        edits = _edits(unit, drop_ins)
        if edits:
            raise HostRefused(
                f"{self._site.host.name}: {', '.join(edits)} changes {unit} behind the tool's "
                "back; remove it, or name another unit in hosts.*.unit of the inventory"
            )

    def _put_secrets(self, files: SecretFiles) -> None:
        """The same for every launch of a run, so sent once."""
        for path, content in self._secret_files(files):
            if content is not None:
                self._site.host.put(path, content, mode=0o600)
        self._secrets = files

    def _secret_files(self, files: SecretFiles) -> tuple[tuple[str, bytes | None], ...]:
        paths = self._site.paths
        return (paths.secrets_env, files.env), (paths.secrets_config, files.config)

    def _own_secrets(self) -> str:
        """The flags' file is read by SGLang itself, so it belongs to the server's user."""
        user, config = self._site.spec.server.user, quote(self._site.paths.secrets_config)
        if user is None or self._site.spec.scope == "user":
            return ""
        return f"if [ -e {config} ]; then chown -- {quote(user)} {config} || exit; fi"

    def _start_script(self, token: str) -> str:
        """Run twice with the same token, the second run only tells what the first has done.

        The mark keeps the token and the invocation id from before: an id that is another one now
        is of this very start, however it ended meanwhile. Its second line is that id, for a later
        process of this run; it is written before anything is told to this one, which may be gone.
        """
        site, paths = self._site, self._site.paths
        unit, mark = quote(paths.unit), quote(paths.start_mark)
        production = quote(*production_units(site))
        return f"""
{self._hold.guard()}
invocation() {{ {site.systemctl} show -p InvocationID --value -- {unit}; }}
now=$(invocation)
read -r token since before < {mark} 2>/dev/null
if [ "${{token-}}" != {token} ] || [ -z "$now" ] || [ "$now" = "${{before-}}" ]; then
  set -- {production}
  [ $# = 0 ] || for shown in $({site.systemctl} show -p Id -p ActiveState -p Job -- "$@"); do
    case $shown in
      Id=*) name=${{shown#Id=}} ;;
      # A start that systemd has to do still would be cancelled by ours.
      *=active|*=activating|*=reloading|Job=[1-9]*) echo @@preempted; echo "$name"; exit 0 ;;
    esac
  done
  taken=$({port_script(site)})
  if [ -n "$taken" ]; then echo @@port; printf '%s\\n' "$taken"; exit 0; fi
  {site.systemctl} reset-failed {unit} 2>/dev/null
  echo "{token} $(date +%s) $now" > {mark} || exit
  said=$({site.systemctl} start {unit} 2>&1)
  case $said in *onnect*|*ransport*)
    # Nobody was reached, or nobody told us: the invocation says which.
    [ "$(invocation)" != "$now" ] || said=$({site.systemctl} start {unit} 2>&1) ;;
  esac
fi
shown=$({site.systemctl} show -p InvocationID -p ActiveState -- {unit}) || exit
now=${{shown#*InvocationID=}}; now=${{now%%[!0-9a-f]*}}
noted=; {{ read -r first; read -r noted; }} < {mark}
[ -z "$now" ] || [ -n "$noted" ] || echo "$now" >> {mark}
echo @@said; printf '%s\\n' "${{said-}}"
echo @@unit; printf '%s\\n' "$shown"
"""

    def port_owner(self, found: Sequence[Listener]) -> str:
        """Who has the server's port, and what to do about it, for a message."""
        port = self._site.spec.server.port
        seen = describe(self._site, (one.pid for one in found if one.pid))
        owners = [seen.get(one.pid or 0, one.text) for one in found]
        return (
            f"port {port} is taken by {'; '.join(owners)}; end it, or name another port in "
            "hosts.*.server.port of the inventory"
        )


def _edits(unit: str, drop_ins: str) -> list[str]:
    """Drop-ins made for this very unit; those for all services are the host's own business."""
    return [path for path in drop_ins.split() if f"/{unit}.d/" in path]


def _standing(answer: dict[str, bytes], unit: str, unit_file: str) -> Standing | None:
    """The sections of `standing` as a value; None where anything is not as one start leaves it."""
    shown = properties(answer.get("unit"))
    claim = text(answer.get("claim")).split()
    mark, *noted = text(answer.get("mark")).splitlines() or [""]
    since = mark.split()[1:2]
    ours = shown.get("ActiveState") in ACTIVE and shown.get("FragmentPath") == unit_file
    edited = _edits(unit, shown.get("DropInPaths", ""))
    changed = edited or shown.get("NRestarts", "0") != "0"
    if not ours or changed or len(claim) != 2 or claim[0] != unit or not since:
        return None
    if not noted or noted[0] != shown.get("InvocationID") or not since[0].isdigit():
        return None
    return Standing(claim[1], noted[0], datetime.fromtimestamp(int(since[0]), UTC))
