"""The journal of one start of our unit, as bytes, and of nothing else."""

from __future__ import annotations

import re

from sweep.errors import HostError
from sweep.systemd.site import Site, quote

# journald takes lines over a socket: the last ones of a process that just ended may be on the way.
_LAG_LOOKS = 12
_LAG_INTERVAL_S = 0.25
_STEADY_LOOKS = 3
_NOTHING_TO_READ, _NOT_SYNCED = 1, 3
_TIMEOUT_S = 120.0
_JOURNALCTL = "journalctl --quiet --no-pager"
_INVOCATION = re.compile(r"[0-9a-f]{32}")


class Journal:
    """Reads what one invocation of the unit wrote, and what systemd wrote about it."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def read(self, invocation_id: str, *, lines: int | None = None) -> bytes:
        """Everything up to now, or the last `lines` lines.

        As root journald is told to write what it has first; a user cannot, see `read_ended`.
        No lines is not an error, nor is a journal that this user may not read: evidence is
        missing then, which the caller sees. Raises HostError when journalctl does not work.
        """
        return self._read(invocation_id, lines)[0]

    def read_ended(self, invocation_id: str, *, lines: int | None = None) -> bytes:
        """As `read`, of an invocation that has ended: its last lines are waited for."""
        content, synced = self._read(invocation_id, lines)
        steady = 1
        for _ in range(_LAG_LOOKS):
            if synced or (content and steady >= _STEADY_LOOKS):
                break
            self._site.clock.sleep(_LAG_INTERVAL_S)
            before = content
            content, synced = self._read(invocation_id, lines)
            steady = steady + 1 if content == before else 1
        return content

    def between(self, invocation_id: str, since: float, until: float) -> bytes:
        """As `read`, of a time only: seconds since 1970 on the host's clock."""
        return self._look(invocation_id, f"--since @{since:.6f} --until @{until:.6f}")[0]

    def _read(self, invocation_id: str, lines: int | None) -> tuple[bytes, bool]:
        return self._look(invocation_id, f"-n {lines}" if lines is not None else "")

    def _look(self, invocation_id: str, limit: str) -> tuple[bytes, bool]:
        if not _INVOCATION.fullmatch(invocation_id):
            raise ValueError(f"not an invocation id: {invocation_id!r}")
        # Standard output is the journal and nothing else: whether the sync worked is the status.
        result = self._site.run(self._script(invocation_id, limit), timeout_s=_TIMEOUT_S)
        if result.exit_status not in (0, _NOTHING_TO_READ, _NOT_SYNCED):
            raise HostError(
                f"{self._site.host.name}: the journal of {self._site.paths.unit} cannot be read: "
                f"{result.tail(3)}"
            )
        return result.stdout, result.exit_status == 0

    def _script(self, invocation_id: str, limit: str) -> str:
        """What carries the invocation's id, and the rest of its output by the stream it came in.

        What journald says of it, too (`Suppressed 12 messages from ...`). A user's journalctl is
        not told --user: journald's own words stand in the system's journal, and the ids suffice.

        journald asks for the id when it sees a process's first line; of a unit that has ended by
        then it finds none (seen on 252 and 257). All processes of a start write into one stream,
        found by a line that has the id, or by the main process and the time of the start.
        """
        site = self._site
        about = "USER_INVOCATION_ID" if site.spec.scope == "user" else "INVOCATION_ID"
        newest = f"{_JOURNALCTL} -n 1 -o export --output-fields=_STREAM_ID _TRANSPORT=stdout"
        stream = "2>/dev/null | sed -n 's/^_STREAM_ID=//p'"
        return f"""
journalctl --sync >/dev/null 2>&1; synced=$?
stream=$({newest} _SYSTEMD_INVOCATION_ID={invocation_id} {stream})
if [ -z "$stream" ]; then
  shown=$({site.systemctl} show -p InvocationID -p ExecMainPID -- {quote(site.paths.unit)})
  read -r token since before < {quote(site.paths.start_mark)} 2>/dev/null
  case $shown in *InvocationID={invocation_id}*)
    pid=$(printf '%s\\n' "$shown" | sed -n 's/^ExecMainPID=//p')
    [ -n "${{since-}}" ] && stream=$({newest} --since "@$since" _PID="$pid" {stream})
  esac
fi
{_JOURNALCTL} {limit} -o cat --all _SYSTEMD_INVOCATION_ID={invocation_id} \\
  + {about}={invocation_id} + OBJECT_SYSTEMD_INVOCATION_ID={invocation_id} \\
  ${{stream:+ + _STREAM_ID=$stream}} || exit
[ $synced = 0 ] || exit {_NOT_SYNCED}
"""
