"""Clearing the host before the first launch: production away, then the GPUs' memory noted.

Our unit conflicts with production, so starting it would stop production, too. It is stopped before
for the reading: what the cards hold between production and us is what they must hold after us.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sweep.errors import HostError
from sweep.systemd import gpus
from sweep.systemd.deadman import Hold
from sweep.systemd.gpus import GpuMemory
from sweep.systemd.production import Record, production_units, stop_command
from sweep.systemd.site import Site, blocks, quote

_INTERVAL_S = 0.3
_STOP_DEADLINE_S = 300.0
_SETTLE_DEADLINE_S = 60.0
_COMMAND_TIMEOUT_S = 300.0


class Clearing:
    """Done once in a run, whichever process of it comes first: the reading lies on the host."""

    def __init__(self, site: Site, memory: GpuMemory) -> None:
        self._site = site
        self._memory = memory
        self._before: Mapping[str, int] | None = None

    def before(self) -> Mapping[str, int] | None:
        """MiB by GPU uuid before our first start; None: the host was not cleared yet."""
        if self._before is None:
            content = self._site.host.read(self._site.paths.gpus)
            self._before = None if content is None else json.loads(content)
        return self._before

    def clear(self, hold: Hold, record: Record, cards: Sequence[str]) -> Mapping[str, int]:
        """Stop production and read the cards, unless this run did so before.

        Raises HostTaken when the host is not ours any more, HostError when production goes on,
        LaunchError gpu_busy when one of these cards is not shown.
        """
        known = self.before()
        if known is not None:
            return known
        self._stop_units(hold)
        stop = stop_command(self._site)
        if stop is not None and record.by_command:
            self._stop_command(hold, stop)
        reading = gpus.to_bytes(self._memory.settle(cards, _SETTLE_DEADLINE_S))
        self._site.host.put(self._site.paths.gpus, reading)
        self._before = json.loads(reading)
        return self._before or {}

    def _stop_units(self, hold: Hold) -> None:
        site, clock = self._site, self._site.clock
        names = production_units(site)
        until = clock.monotonic() + _STOP_DEADLINE_S
        while names:
            answer = site.ask("stop production", f"""
{hold.guard()}
{site.systemctl} stop --no-block -- {quote(*names)}
echo @@units; {site.systemctl} show -p Id -p ActiveState -- {quote(*names)} || exit
{hold.renewal()}
""")  # fmt: skip
            hold.require(answer)
            up = [
                block["Id"]
                for block in blocks(answer.get("units"))
                if block["ActiveState"] not in ("inactive", "failed")
            ]
            if not up:
                return
            if clock.monotonic() >= until:
                raise HostError(
                    f"{site.host.name}: {', '.join(up)} did not stop within "
                    f"{_STOP_DEADLINE_S:.0f} s"
                )
            clock.sleep(_INTERVAL_S)

    def _stop_command(self, hold: Hold, stop: str) -> None:
        answer = self._site.ask(
            "stop production with its own command",
            f"{hold.guard()}\n{stop} >&2",
            timeout_s=_COMMAND_TIMEOUT_S,
        )
        hold.require(answer)
