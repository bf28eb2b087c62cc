"""trial.json: beside each benchmark client on the host, all that its row needs beyond its result.

Whoever finds a client that has ended, in a later process or after a lost connection, makes the row
from that: the server may be gone by then. No secrets: its /server_info is redacted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sweep.plan import Due, Plan
from sweep.runner.launch import Ready
from sweep.runner.record import Trial
from sweep.sglang.verify import Capacity
from sweep.systemd import Started

TICKET = "trial.json"


def write_ticket(trial: Trial, ready: Ready) -> bytes:
    """The trial and its server as JSON; `read_ticket` makes the same of it."""
    capacity = ready.capacity
    document = {
        "subject": f"{trial.launch.label} C={trial.concurrency} trial {trial.due.trial}",
        "launch": trial.launch.id,
        "point": trial.due.point.id,
        "trial": trial.due.trial,
        "attempt": trial.due.attempt,
        "began": trial.began.isoformat(),
        "server": {
            "invocation": ready.started.invocation_id,
            "started_at": ready.started.started_at.isoformat(),
            "startup_s": ready.startup_s,
            "unit_sha256": ready.unit_sha256,
            "max_running_requests": capacity.max_running_requests,
            "max_total_num_tokens": capacity.max_total_num_tokens,
            "dp_size": capacity.dp_size,
            "flags": sorted(capacity.flags),
            "info": dict(ready.info),
        },
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def read_ticket(content: bytes | None, plan: Plan) -> Trial | None:
    """The trial; None for no ticket, a damaged one, or a point that the plan has no more."""
    try:
        document = json.loads(content or b"")
        places = {(launch.id, point.id): (launch, point) for launch, point in plan.points()}
        launch, point = places[document["launch"], document["point"]]
        due = Due(point, int(document["trial"]), int(document["attempt"]))
        ready = _ready(document["server"])
        return Trial(launch, due, datetime.fromisoformat(document["began"]), ready)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def read_subject(content: bytes | None) -> str | None:
    """What is measured, for people, whatever the plan has by now; None for no ticket."""
    try:
        return str(json.loads(content or b"")["subject"])
    except (ValueError, KeyError, TypeError):
        return None


def _ready(server: Mapping[str, Any]) -> Ready:
    return Ready(
        started=Started(str(server["invocation"]), datetime.fromisoformat(server["started_at"])),
        startup_s=server["startup_s"],
        capacity=Capacity(
            max_running_requests=server["max_running_requests"],
            max_total_num_tokens=server["max_total_num_tokens"],
            dp_size=server["dp_size"],
            flags=frozenset(server["flags"]),
        ),
        info=dict(server["info"]),
        unit_sha256=str(server["unit_sha256"]),
    )
