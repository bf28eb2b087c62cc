"""Shell lines that wait on the host for what a look is for, and no longer than they were told to.

A look that comes a moment after a server is ready, or a client has ended, needs no further one; and
waiting there costs the host less than being asked again and again, which counts beside a trial.
They only wait: what they saw is never taken for true. Where they cannot, they are through at once.
"""

from __future__ import annotations

from sweep.systemd.site import Site, quote

# 503 is a server that starts, and a line in its log each time. No answer is one that generates.
_UNTIL_READY = """
import os, socket, sys, time
port, pid, until = int(sys.argv[1]), int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
def pause():
    try:
        with socket.create_connection(("127.0.0.1", port), 0.25) as server:
            server.sendall(b"GET /health_generate HTTP/1.0\\r\\n\\r\\n")
            return 0.15 if b" 503 " in server.recv(64) else None
    except ConnectionRefusedError:
        return 0.05
    except OSError:
        return None
while os.path.exists("/proc/%d" % pid) and time.monotonic() < until:
    seconds = pause()
    if seconds is None:
        break
    time.sleep(seconds)
"""
_LOOK_EVERY_S = 0.05


def until_ready(site: Site, pid: int, seconds: float) -> str:
    """Until the server's port answers as a server that is not starting any more, or `pid` ended."""
    python = f'"$(command -v {quote(site.spec.python)} || echo python3)"'
    words = quote(_UNTIL_READY, str(site.spec.server.port), str(pid), f"{seconds:g}")
    return f"{python} -I -S -c {words} >/dev/null 2>&1 </dev/null\n"


def until_ended(pid: int, seconds: float) -> str:
    """Until a process has ended: one that sleeps, and no process of ours for each look."""
    return f"timeout {seconds:g} tail -s {_LOOK_EVERY_S} --pid={pid} -f /dev/null >/dev/null 2>&1\n"
