"""`python -m sweep.demo.manager ROOT`: the daemon. Ready when it prints a line; ends with stdin."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path

if __name__ == "__main__" and not __package__:
    # Run as a file, in isolated mode, so that nothing around it can change what is imported.
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from sweep.demo.manager.journal import Journal
from sweep.demo.manager.process import adopt_orphans
from sweep.demo.manager.registry import Registry
from sweep.demo.manager.transient import SystemdRun
from sweep.demo.manager.verbs import Systemctl
from sweep.demo.manager.words import Answer
from sweep.demo.manager.world import World

SOCKET = "manager.sock"
SHUTDOWN_S = 3.0


class Manager:
    """The system's manager and the user's, behind one socket."""

    def __init__(self, root: Path) -> None:
        boot_id = (root / "proc/sys/kernel/random/boot_id").read_text().strip()
        journal = Journal(root / "var/log/journal", boot_id.replace("-", ""), os.uname().nodename)
        settings = root / "etc/systemd/default-environment.json"
        defaults = json.loads(settings.read_text()) if settings.exists() else {}
        self._registries = {
            scope: Registry(World(root, scope, boot_id, journal, tuple(defaults.items())))
            for scope in ("system", "user")
        }

    async def boot(self) -> None:
        """Start what is enabled."""
        for registry in self._registries.values():
            for unit in list(registry.all()):
                if registry.enabled(unit.name):
                    await registry.start(unit.name)
            registry.forget()

    async def answer(self, request: bytes) -> bytes:
        """One command: {"tool", "scope", "argv"} in, {"status", "out", "error"} back."""
        asked = json.loads(request)
        registry = self._registries[asked["scope"]]
        tool = Systemctl(registry) if asked["tool"] == "systemctl" else SystemdRun(registry)
        try:
            answer = await tool.run(asked["argv"])
        except Exception as error:  # noqa: BLE001 - a command must hear of it, and the others go on
            answer = Answer(70, "", f"{asked['tool']}: the demo's stand-in failed: {error!r}\n")
        return json.dumps(vars(answer)).encode() + b"\n"

    async def shut_down(self) -> None:
        with contextlib.suppress(TimeoutError):
            stops = [registry.stop_all() for registry in self._registries.values()]
            await asyncio.wait_for(asyncio.gather(*stops), SHUTDOWN_S)
        for registry in self._registries.values():
            registry.kill_all()


async def serve(root: Path) -> None:
    """Answer commands until standard input closes or a signal comes."""
    adopt_orphans()
    manager = Manager(root)
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(0, lambda: None if os.read(0, 4096) else over.set())
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(signum, over.set)
    listener = socket.socket(socket.AF_UNIX)
    # Bound by a short name from inside the directory: the whole path may be too long for a socket.
    os.chdir(root / "run")
    listener.bind(SOCKET)
    os.chdir("/")

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readline()
        reply = await manager.answer(request)
        with contextlib.suppress(ConnectionError):
            writer.write(reply)
            await writer.drain()
            writer.close()

    server = await asyncio.start_unix_server(converse, sock=listener, limit=2**22)
    await manager.boot()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await over.wait()
    server.close()
    await manager.shut_down()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
