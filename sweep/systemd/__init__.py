"""The server's life on one host under systemd: locked, recorded, started, watched, restored.

Systemd(host, spec, clock, run_id)
    facts                               what the host is
    see() take(owner)                   what serves; lock, production's record, dead-man timer
    standing(secrets) use(unit)         what an earlier process of this run left running
    install(unit, secrets)              the unit file under /run
    start() poll() journal() stop()     one launch
    boot() production_trouble()         was the host started anew, does production serve again
    jobs                                benchmark clients as transient units
    restore() hand_over()               production back, nothing of ours left
runs_on(host, spec, clock)              runs that left something on a host
"""

from __future__ import annotations

from sweep.systemd.control import Systemd
from sweep.systemd.facts import OLDEST_SYSTEMD, HostFacts
from sweep.systemd.gpus import Gpu
from sweep.systemd.jobs import Job, Jobs, Left
from sweep.systemd.leftovers import HostRun, runs_on
from sweep.systemd.owner import Owner
from sweep.systemd.restore import Restored
from sweep.systemd.service import Standing, Started
from sweep.systemd.state import JobState, Listener, UnitState
from sweep.systemd.takeover import Served, Takeover

__all__ = [
    "OLDEST_SYSTEMD",
    "Gpu",
    "HostFacts",
    "HostRun",
    "Job",
    "JobState",
    "Jobs",
    "Left",
    "Listener",
    "Owner",
    "Restored",
    "Served",
    "Standing",
    "Started",
    "Systemd",
    "Takeover",
    "UnitState",
    "runs_on",
]
