"""The texts that come with the tool: data/NAME.jsonl, one prompt a line."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

from sweep.workloads.texts import Conversation, Turn


@cache
def shipped(name: str) -> tuple[Conversation, ...]:
    """The texts of a workload of `benchmarks.WORKLOADS`, in the order of their file."""
    data = resources.files("sweep.workloads").joinpath("data", f"{name}.jsonl").read_text("utf-8")
    return tuple(
        Conversation((Turn(json.loads(line)["prompt"]),)) for line in data.splitlines() if line
    )
