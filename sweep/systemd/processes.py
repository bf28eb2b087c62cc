"""Processes of the host, named so that a person can find them. Nobody else's is ever ended."""

from __future__ import annotations

from collections.abc import Iterable

from sweep.sglang.secrecy import without_secrets
from sweep.systemd.site import Site, text

_LONGEST_COMMAND = 160


def describe(site: Site, pids: Iterable[int]) -> dict[int, str]:
    """pid -> "pid 12 of root: /usr/bin/python3 -m ...", as far as they live and may be seen.

    Secrets in their arguments are masked.
    """
    wanted = sorted(set(pids))
    if not wanted:
        return {}
    listed = site.run(f"ps -o pid=,user=,args= -p {','.join(map(str, wanted))}")
    found = {}
    for line in text(listed.stdout).splitlines():
        pid, user, *command = line.split()
        # Before it is cut: half a secret looks like none.
        shown = without_secrets(" ".join(command))[:_LONGEST_COMMAND]
        found[int(pid)] = f"pid {pid} of {user}: {shown}"
    return found
