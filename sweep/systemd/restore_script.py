"""restore.sh: what a host needs to put production back by itself. Nothing but sh and systemd.

It never waits for ever: what does not stop is killed, what does not come up is named in the end.
"""

from __future__ import annotations

from sweep.inventory import ProductionCommands
from sweep.systemd.deadman import restore_properties
from sweep.systemd.health import health_script
from sweep.systemd.keeping import forget
from sweep.systemd.lock import holds
from sweep.systemd.paths import Paths
from sweep.systemd.production import Record, command
from sweep.systemd.site import KNOW_HOME, PATIENT, Site, quote

# Longer than systemd itself waits for our unit, with its kill (TimeoutStopSec twice).
_STOP_LIMIT_S = 300
_KILL_LIMIT_S = 15
_CHECK_LIMIT_S = 60
# A unit that failed and that nobody starts again is started so often, with that long between.
_ATTEMPTS, _BETWEEN_ATTEMPTS_S = 3, 5
# Without a health URL that answered before: so many looks, two a second, find the same starts up;
# more of them where systemd has started one again meanwhile.
_STEADY_LOOKS, _RESTARTED_LOOKS = 3, 20


def restore_script(site: Site, record: Record) -> bytes:
    """restore.sh: ours away, exactly the recorded set started. Safe to run again, at any time.

    Its argument is one of
        keep-down  only take ours away: another sweep has taken the debt over
        recall     only put back what lay in /run before a reboot
        boot       recall, and start the restore unit
    """
    paths = site.paths
    return f"""#!/bin/sh
# Written by sweep for run {paths.run_id}: stops what it runs here, starts what it found running.
# Needs sh and systemd. By hand, any time, more than once:  sh {paths.restore_script}
# After a reboot the same lies in {paths.kept}.
say() {{ echo "sweep {paths.run_id}: $*"; }}
{PATIENT}{_CLOCK}
forget_kept() {{
{forget(site)}}}
{_recall(site)}
mode=${{1-}}
case $mode in
  recall) recall; exit ;;
  boot)
{_boot(site)}
    exit ;;
esac
recall 2>/dev/null
{_stop_ours(site)}
if [ "$mode" = keep-down ]; then forget_kept; exit 0; fi
{_start_production(site, record) if record.owed else ""}
{_end(site, record)}""".encode()


# A clock that nobody sets: many a host gets its time only after it has booted.
_CLOCK = """now() {
  if read -r up _ </proc/uptime; then echo "${up%%.*}"; else date +%s; fi 2>/dev/null
}
nap() { sleep 0.4 2>/dev/null || sleep 1; }"""


def _recall(site: Site) -> str:
    """The lock, too, unless somebody has the host by now; its boot id says its owner is dead."""
    paths = site.paths
    run, kept = quote(paths.run), quote(paths.kept)
    old = quote(f"{paths.state}/old-{paths.run_id}")
    return f"""umask 022
recall() {{
  [ -e {run}/record.json ] && return
  [ -e {kept}/record.json ] || return
  mkdir -p {run}/jobs && chmod 711 {run} && cp -p {kept}/restore.sh {run}/restore.sh || return
  if [ -s {kept}/lock ] && cp -p {kept}/lock {old}; then
    ln {old} {quote(paths.lock)} 2>/dev/null; rm -f {old}
  fi
  cp -p {kept}/record.json {run}/.record.json && mv -f {run}/.record.json {run}/record.json
}}"""


def _boot(site: Site) -> str:
    paths, systemctl = site.paths, site.systemctl
    run = quote(paths.run)
    start = f"{site.systemd_run} --unit={paths.restore_unit} {restore_properties(site)}"
    return f"""    if [ ! -e {quote(paths.kept_record)} ]; then forget_kept; exit 0; fi
    if [ -n "$({systemctl} list-units --plain --no-legend --state=active 'sweep-restore-*.timer')" ]
    then say "a sweep has this host: its timer restores production"; exit 0; fi
    recall || {{ say "could not put back {run}"; exit 1; }}
    [ -e {run}/why ] || echo "the host was started anew in mid-sweep" > {run}/why
    say "the host was started anew in mid-sweep: {paths.restore_unit} restores production"
    {systemctl} start --no-block {paths.restore_unit} 2>/dev/null || {start}"""


def _stop_ours(site: Site) -> str:
    paths, systemctl = site.paths, site.systemctl
    run, unit = quote(paths.run), quote(paths.unit)
    return f"""why=$(cat {run}/why 2>/dev/null ||
  echo "nothing was heard of the sweep for {site.spec.deadman_s:g} s")
say "restoring: $why"
# true, not the colon: a redirection that fails there ends a script, with production down.
true > {run}/restoring
{KNOW_HOME}
{systemctl} stop {paths.timer} 2>/dev/null
rm -f {quote(paths.secrets_env, paths.secrets_config)}
set -- {unit}
for job in {run}/jobs/*; do [ -e "$job" ] && set -- "$@" "${{job##*/}}"; done
busy() {{
  shown=$({systemctl} show -p ActiveState -- "$@") || return 0
  printf '%s\\n' "$shown" | grep -qE '=(active|.*activating|reloading|refreshing)$'
}}
# ends LIMIT UNIT...: do they within so many seconds?
ends() {{
  end=$(($(now) + $1)); shift
  while busy "$@"; do [ "$(now)" -lt $end ] || return; nap; done
}}
say "found {paths.unit} $({systemctl} show --value -p ActiveState -- {unit})," \\
  "$(($# - 1)) benchmark clients noted"
{systemctl} stop --no-block -- "$@" 2>/dev/null
if ! ends {_STOP_LIMIT_S} "$@"; then
  say "not stopped after {_STOP_LIMIT_S} s: killed"
  for one in "$@"; do {systemctl} kill -s KILL -- "$one" 2>/dev/null; done
  ends {_KILL_LIMIT_S} "$@" || say "something of ours cannot even be killed; going on"
fi
rm -f {quote(paths.unit_file)}
{systemctl} daemon-reload
{systemctl} reset-failed {unit} 2>/dev/null
say "{paths.unit} is stopped and removed\""""


def _start_production(site: Site, record: Record) -> str:
    """Start what is owed, and look until it serves, until it failed too often, or for too long.

    No start waits for another one: production may be up long before what stops with it.
    """
    limit_s = round(site.spec.server.health_timeout_s)
    need = 1 if record.healthy else _STEADY_LOOKS
    return f"""{_start(site, record)}
{_look(site, record)}
{_serves(site, record)}
look
say "found:${{told:- no units of production}}"
start
end=$(($(now) + {limit_s}))
tries=1 steady=0 need={need} first= before= idle=
while :; do
  look
  if [ -z "$down" ]; then serves; fi
  if [ -n "$down" ]; then steady=0
  else
    first=${{first:-$starts}}
    if [ "$starts" = "$before" ]; then steady=$((steady + 1)); else steady=1; fi
    if [ $need -gt 1 ] && [ "$starts" != "$first" ]; then need={_RESTARTED_LOOKS}; fi
    [ $steady -ge $need ] && break
  fi
  before=$starts
  if [ -n "$down" ] && [ -z "$waiting" ]; then
    # Nothing more comes of itself.
    idle=${{idle:-$(now)}}
    if [ "$(now)" -ge $((idle + {_BETWEEN_ATTEMPTS_S})) ]; then
      [ $tries -ge {_ATTEMPTS} ] && break
      tries=$((tries + 1)) idle= first=
      say "not up:$down started again"
      start
    fi
  else idle=
  fi
  if [ "$(now)" -ge $end ]; then down=${{down:-" it does not stay up,"}}; break; fi
  nap
done
[ -z "$told" ] || say "now:$told"
[ -z "$down" ] || {{ say "not back:$down giving up"; exit 1; }}"""


def _start(site: Site, record: Record) -> str:
    """Define `start`. A target starts all it wants, and only what was up may come up."""
    targets = [unit for unit in record.units if unit.endswith(".target")]
    units = [unit for unit in record.units if unit not in targets]
    lines = []
    if units:
        words = quote(*units)
        lines.append(f"  {site.systemctl} reset-failed -- {words} 2>/dev/null")
        lines.append(f"  {site.systemctl} start --no-block -- {words}")
    if targets:
        alone = "--job-mode=ignore-dependencies"
        lines.append(f"  {site.systemctl} start --no-block {alone} -- {quote(*targets)}")
    start = _start_command(site, record)
    if start:
        # It may serve as a child of ours, and never end.
        failed = quote(f"{site.paths.run}/start-failed")
        lines.append(f"  rm -f {failed}")
        lines.append(f"  {{ runs || {start} || : > {failed}; }} &")
    body = "\n".join(lines) or "  :"
    return f"""{_runs(site)}start() {{
{body}
}}"""


def _start_command(site: Site, record: Record) -> str | None:
    production = site.spec.production
    if not record.by_command or not isinstance(production, ProductionCommands):
        return None
    return command(production.start)


def _runs(site: Site) -> str:
    production = site.spec.production
    if not isinstance(production, ProductionCommands):
        return ""
    return f"""limited() {{
  if command -v timeout >/dev/null; then timeout {_CHECK_LIMIT_S} "$@"; else "$@"; fi
}}
runs() {{ limited {command(production.check)} >/dev/null 2>&1; }}
"""


# Whether the unit that was read is up. systemd's words differ by its type: a oneshot that has done
# its work is inactive, one that is at it is activating; a service that fails and is started again
# and again is activating in between, and so is one that notifies, until it is ready.
_JUDGE = """judge() {
  starts="$starts $invocation" told="$told $id is $state/$sub,"
  case "${job:-0} $type $state/$sub $result" in
    *" active/"*|*" reloading/"*|*" refreshing/"*) return ;;
    *" activating/auto-restart"*) waiting=yes ;;
    *" oneshot activating/"*|"0 oneshot inactive/"*" success") return ;;
    *" activating/"*|*" deactivating/"*|[1-9]*) waiting=yes ;;
  esac
  down="$down $id is $state/$sub,"
}"""


def _look(site: Site, record: Record) -> str:
    """Define `look`. Of what is owed it sets `down`, what is not up; `waiting`, if some of that may
    still come; `told`, how all of it stands; `starts`, whose starts these are.
    """
    shown, deaf = ":", ""
    if record.units:
        # Or the shell found no room for what it was told, as bash does where /tmp is full.
        deaf = """
  [ -n "$told" ] || { down=" systemd does not answer,"; waiting=yes; }"""
        wanted = "-p Id -p Type -p ActiveState -p SubState -p Result -p Job -p InvocationID"
        shown = f"{site.systemctl} show {wanted} -- {quote(*record.units)}"
    runs = ""
    if _start_command(site, record):
        # What a start command says in the end may mean little: after the last one it is waited for.
        failed = quote(f"{site.paths.run}/start-failed")
        runs = f"""
  runs || {{
    down="$down production's check fails,"
    [ -e {failed} ] && [ "${{tries:-1}}" -lt {_ATTEMPTS} ] || waiting=yes
  }}"""
    return f"""{_JUDGE}
look() {{
  down= waiting= told= starts= id= type= result= job= invocation=
  shown=$({shown})
  while IFS='=' read -r key value; do
    case $key in
      Id) id=$value ;;
      Type) type=$value ;;
      ActiveState) state=$value ;;
      SubState) sub=$value ;;
      Result) result=$value ;;
      Job) job=$value ;;
      InvocationID) invocation=$value ;;
      '') [ -z "$id" ] || judge; id= type= result= job= invocation= ;;
    esac
  done <<END
$shown

END{deaf}{runs}
}}"""


def _serves(site: Site, record: Record) -> str:
    """Define `serves`: with everything up, what its health says."""
    if not record.healthy or site.spec.production_health is None:
        return "serves() { :; }"
    return f"""answers() {{
{health_script(site)}}}
serves() {{
  answers >/dev/null 2>&1 || {{ down=" production's health does not answer,"; waiting=yes; }}
}}"""


def results(paths: Paths) -> str:
    """Shell lines that print the clients whose results wait, and remove what the others left.

    One that was ended with its server may have lived long enough to write how it ended.
    """
    return f"""for job in {quote(paths.work)}/*/; do
  if grep -qsx 0 "$job/exit"; then basename "$job"; else rm -rf "$job"; fi
done"""


def _end(site: Site, record: Record) -> str:
    paths = site.paths
    run = quote(paths.run)
    said = "production serves again" if record.owed else "production was down and stays down"
    return f"""say "{said}"
{{ date -u +%Y-%m-%dT%H:%M:%SZ; echo "$why"; }} > {run}/restored.new
mv -f {run}/restored.new {run}/restored
forget_kept
# The timer may have been renewed while this ran.
{site.systemctl} stop {paths.timer} 2>/dev/null
forget=
if [ -e {run}/forget ]; then
  forget=yes
  rm -rf {run}
{results(paths)}
fi
# Last: whoever has it next may be this very run, in these very places.
if {holds(paths)}; then rm -f {quote(paths.lock)}; fi
[ -z "$forget" ] || rmdir {quote(paths.state, paths.work, paths.work_root)} 2>/dev/null
say "done"
exit 0
"""
