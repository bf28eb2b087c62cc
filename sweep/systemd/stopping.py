"""Stopping for real: the unit ended, no process left, the port closed, the GPUs given back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sweep.errors import LaunchError
from sweep.systemd.deadman import Hold
from sweep.systemd.gpus import GpuMemory
from sweep.systemd.service import Service
from sweep.systemd.site import Site
from sweep.systemd.state import reset_failed
from sweep.systemd.watch import Watch

_INTERVAL_S = 0.25
# systemd kills after the unit's own stop time; a process that a driver holds takes longer to go.
_KILL_MARGIN_S = 30.0
_ENDLESS_S = 600.0
_PORT_S = 5.0
_GPU_S = 60.0
_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


class Stopping:
    """Ends the server and waits until the host is as free as it was before it."""

    def __init__(
        self, site: Site, hold: Hold, service: Service, watch: Watch, memory: GpuMemory
    ) -> None:
        self._site = site
        self._hold = hold
        self._service = service
        self._watch = watch
        self._memory = memory

    def stop(self, uuids: Sequence[str] | None, before: Mapping[str, int]) -> float:
        """Stop and wait; the seconds it took. `uuids`: the server's cards, None for all.

        Nobody else's process is touched. Raises HostTaken; LaunchError: gpu_busy naming who can be
        seen, hang when the unit does not end, port_in_use when another process has its port.
        """
        clock = self._site.clock
        began = clock.monotonic()
        ended_at: float | None = None
        waiting = self._service.awaiting_end()
        before_look, after_look = self._service.stopping() + waiting, reset_failed(self._site)
        while True:
            state = self._watch.poll(before=before_look, after=after_look)
            before_look = waiting
            limit = span_s(state.stop_timeout) + _KILL_MARGIN_S
            now = clock.monotonic()
            if not state.ended and state.deadman == "gone":
                self._hold.require_ours()
            if not state.ended and now - began > limit:
                raise LaunchError("hang", self._service.left_over(state, now - began))
            if state.ended:
                ended_at = now if ended_at is None else ended_at
                if not state.listeners:
                    break
                if now - ended_at > _PORT_S:
                    raise LaunchError("port_in_use", self._service.port_owner(state.listeners))
            clock.sleep(_INTERVAL_S)
        cards = tuple(before) if uuids is None else uuids
        self._memory.wait_until_free(cards, before, _GPU_S)
        return clock.monotonic() - began


def span_s(shown: str) -> float:
    """A time span as `systemctl show` prints it ("1min 30s", "infinity"), in seconds."""
    parts = re.findall(r"([0-9.]+)\s*([a-z]+)", shown)
    if not parts:
        return _ENDLESS_S
    return sum(float(number) * _UNITS_S.get(unit, 0.0) for number, unit in parts)
