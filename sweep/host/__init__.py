"""A host, over SSH or this machine: run a script, write and read a file, reach a port.

The seam is `verbs.Host`.

    verbs        Host and Result: the seam
    script       how scripts are wrapped, how their answers are told apart
    scripted     files over scripts              local  this machine, without SSH
    route        where to connect, over which jump hosts (`ssh -G`)
    hostkeys     is it the right host?          login   with which key?
    wire         sockets and the heartbeat      exchange, tunnel, relay  what goes over a channel
    connection   one connection                 sessions  its sessions, the next opened ahead
    session      the verbs, reconnecting below them
    trouble      paramiko's errors as ours

fabric and paramiko are loaded by `connect` only: most commands of the tool never need them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sweep.host.local import LocalHost
from sweep.host.script import sections
from sweep.host.scripted import ScriptedHost
from sweep.host.verbs import Host, Result
from sweep.inventory import HostSpec

__all__ = ["Host", "Result", "connect", "sections"]


def connect(
    name: str,
    spec: HostSpec,
    *,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> ScriptedHost:
    """Connect to a host of the inventory; a context manager.

    `transport: demo` starts one first; `transport: local` is this machine and needs no connection.

    Tries once: HostUnreachable when nobody answers or the name does not resolve, HostRefused for
    host keys, logins and sudo. Afterwards a lost connection is made anew for `reconnect_for_s`,
    with growing pauses spent in `sleep`.
    """
    if spec.transport == "local":
        return LocalHost(name, spec)
    from sweep.host.opening import DemoSession, open_ssh  # noqa: PLC0415 - loads fabric
    from sweep.host.session import Waiting  # noqa: PLC0415

    opener = DemoSession if spec.transport == "demo" else open_ssh
    return opener(name, spec, Waiting(monotonic, sleep))
