"""Where a detached run lies on its host, and what its unit is called. Pure but for one question."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter

from sweep.errors import HostError, RunDirectoryError
from sweep.host import Host
from sweep.systemd.paths import require_name

# Directories that stay over a reboot, and that are in memory: the system's or the user's own.
_HOMES = {
    "system": "echo /var/lib; echo /run\n",
    "user": 'echo "${XDG_STATE_HOME:-$HOME/.local/state}"; echo "/run/user/$(id -u)"\n',
}


@dataclass(frozen=True)
class Place:
    """`base` holds lib/ (the tool), templates/ and runs/RUN/; nobody else can read it.

    `secrets` is a directory in memory, gone when they have been read. `python` runs it all.
    `events`: how many the run had when it was sent; `report`: one is wanted when it is home.
    """

    run_id: str
    scope: str
    base: str
    secrets: str
    python: str
    events: int = 0
    report: bool = True

    @property
    def unit(self) -> str:
        return f"sweep-detached-{self.run_id}.service"

    @property
    def runs(self) -> str:
        return f"{self.base}/runs"

    @property
    def run(self) -> str:
        return f"{self.runs}/{self.run_id}"

    @property
    def output(self) -> str:
        return f"{self.run}/output.log"

    @property
    def library(self) -> str:
        return f"{self.base}/lib"

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def parse(cls, data: bytes) -> Place:
        """What `to_bytes` made. Raises RunDirectoryError when it is not one of those."""
        try:
            return TypeAdapter(cls).validate_json(data)
        except ValueError as error:
            raise RunDirectoryError(
                "what says where this run was detached to cannot be read; was it edited?"
            ) from error


def place_for(host: Host, run_id: str, *, scope: str, python: str) -> Place:
    """The place of a run on a host it has not been to yet. Raises HostError."""
    result = host.run(_HOMES[scope])
    lines = result.text.splitlines()
    if not result.ok or len(lines) != 2 or not all(line.startswith("/") for line in lines):
        raise HostError(f"{host.name}: where a run can be kept is not known: {result.tail(3)}")
    state, runtime = (f"{line}/sweep-detached/{require_name(run_id)}" for line in lines)
    return Place(run_id, scope, state, runtime, python)
