"""A detached run on its host: put there, started, looked at, fetched, stopped, forgotten."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sweep.detached.bundle import Bundle
from sweep.detached.place import Place
from sweep.errors import HostError
from sweep.host import Host, Result
from sweep.results import RunDirectory, copies
from sweep.systemd.site import PATIENT, properties, quote

TRANSFER_S = 600.0
# The tool gives the host back after SIGTERM, and production may take its time.
STOP_S = 1800
ALIVE = ("active", "activating", "deactivating", "reloading")
# Sends what this side does not have yet. {name: [size, time of change in ns]} comes in.
_CHANGED = """
import io, json, os, sys, tarfile
root, known = sys.argv[1], json.load(sys.stdin)
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|gz", format=tarfile.PAX_FORMAT) as archive:
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            path = os.path.join(folder, name)
            inside = os.path.relpath(path, root)
            try:
                found = os.stat(path)
                if name.startswith(".") or known.get(inside) == [found.st_size, found.st_mtime_ns]:
                    continue
                with open(path, "rb") as file:
                    data = file.read()
            except FileNotFoundError:
                continue
            member = tarfile.TarInfo(inside)
            member.size = len(data)
            member.pax_headers = {"SWEEP.mtime_ns": str(found.st_mtime_ns)}
            archive.addfile(member, io.BytesIO(data))
"""


@dataclass(frozen=True)
class Remote:
    """One detached run, through a connection to its host."""

    host: Host
    place: Place

    @property
    def _systemctl(self) -> str:
        return "systemctl --user" if self.place.scope == "user" else "systemctl"

    @property
    def _show(self) -> str:
        return f"{self._systemctl} show -p ActiveState -- {self.place.unit}"

    @property
    def _unfinished(self) -> str:
        return f"{self.place.base}.new"

    def install(self, bundle: Bundle) -> None:
        """Everything to its place, or nothing. Raises HostError."""
        base, new = quote(self.place.base), quote(self._unfinished)
        script = (
            f"umask 077\nrm -rf {base} {new} && mkdir -p {new} && tar -xzf - -C {new} && "
            f"mv {new} {base}\n"
        )
        result = self.host.run(script, timeout_s=TRANSFER_S, stdin=bundle.to_tar())
        self._must("copy the tool", result)

    def put_secret(self, name: str, value: str) -> None:
        """A file of its own, in memory, that nobody else can read. Raises HostError."""
        self.host.put(f"{self.place.secrets}/{name}", value.encode() + b"\n", mode=0o600)

    def prove(self) -> str | None:
        """Why the tool does not run there, in Python's own words; None: it does."""
        result = self.host.run(
            f"cd {quote(self.place.base)} && PYTHONPATH={quote(self.place.library)} "
            f"{quote(self.place.python)} -c 'import sweep.cli.carry_out'\n",
            timeout_s=120,
        )
        return None if result.ok else result.tail(1)

    def start(self, words: Sequence[str]) -> None:
        """Run `sweep WORDS` there as a transient unit. Raises HostRefused when systemd does not."""
        place = self.place
        user = ("--user",) if place.scope == "user" else ()
        settings = (
            "KillMode=mixed",  # what it started ends by its own hand
            f"TimeoutStopSec={STOP_S}",
            "UMask=0077",
            f"WorkingDirectory={place.base}",
            f"StandardOutput=append:{place.output}",
            f"StandardError=append:{place.output}",
            f"ExecStopPost=/bin/rm -rf {place.secrets}",
        )
        line = quote(
            "systemd-run", *user, "--quiet", "--collect", f"--unit={place.unit}",
            f"--description=sweep {place.run_id}", f"--setenv=PYTHONPATH={place.library}",
            "--setenv=PYTHONUNBUFFERED=1", *(f"--property={one}" for one in settings),
            "--", place.python, "-m", "sweep", *words,
        )  # fmt: skip
        # A connection that is lost at this moment makes the script run twice.
        script = f"{self._systemctl} is-active --quiet {place.unit} || {line}\n"
        self._must("start the sweep there", self.host.run(script))

    def active(self) -> bool:
        """Its unit still works. Raises HostError where systemd does not say."""
        result = self.host.run(f"{PATIENT}{self._show}\n")
        self._must("look at the sweep there", result)
        return properties(result.stdout)["ActiveState"] in ALIVE

    def fetch(self, run: RunDirectory) -> bool:
        """Bring the copy here up to date; whether the run still works there.

        What is missing there is no error: it may have been forgotten already.
        """
        active = self.active()
        there = quote(self.place.run)
        script = (
            f"[ -d {there} ] || exit 0\n"
            f"exec {quote(self.place.python, '-I', '-c', _CHANGED, self.place.run)}\n"
        )
        known = json.dumps(copies.known(run)).encode()
        result = self.host.run(script, timeout_s=TRANSFER_S, stdin=known)
        self._must("fetch the run", result)
        # Somebody else who looked may have brought it home meanwhile, and gone on with it.
        if result.stdout and copies.place(run) == self.place.to_bytes():
            copies.receive(run, result.stdout)
        return active

    def stop(self) -> None:
        """Ask it to end in the orderly way; it gives its host back first."""
        self.host.run(f"{self._systemctl} stop --no-block {self.place.unit} 2>/dev/null; :\n")

    def forget_secrets(self) -> None:
        """They have been read."""
        self.host.run(f"rm -rf {quote(self.place.secrets)}\n")

    def forget(self) -> None:
        """Nothing of it is left there; what it fetched is here. Raises HostError while it works."""
        place = self.place
        own = quote(place.base, self._unfinished, place.secrets)
        parents = quote(*(path.rsplit("/", 1)[0] for path in (place.base, place.secrets)))
        script = (
            f"{PATIENT}case $({self._show}) in\n"
            '  *=inactive | *=failed) ;; *) echo "its sweep is at work" >&2; exit 1 ;;\nesac\n'
            f"rm -rf {own}\nrmdir {parents} 2>/dev/null; :\n"
        )
        self._must("tidy up there", self.host.run(script, timeout_s=60))

    def _must(self, what: str, result: Result) -> None:
        if not result.ok:
            raise HostError(f"{self.host.name}: cannot {what}: {result.tail(3)}")
