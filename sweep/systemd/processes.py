"""Processes of the host, named so that a person can find them. Nobody else's is ever ended."""

from __future__ import annotations

from collections.abc import Iterable

from sweep.systemd.site import Site, text

_LONGEST_COMMAND = 160


def describe(site: Site, pids: Iterable[int]) -> dict[int, str]:
    """pid -> "pid 12 of root: /usr/bin/python3 -m ...", as far as they live and may be seen."""
    wanted = sorted(set(pids))
    if not wanted:
        return {}
    shown = site.run(f"ps -o pid=,user=,args= -p {','.join(map(str, wanted))}")
    found = {}
    for line in text(shown.stdout).splitlines():
        pid, user, *command = line.split()
        found[int(pid)] = f"pid {pid} of {user}: {' '.join(command)[:_LONGEST_COMMAND]}"
    return found
