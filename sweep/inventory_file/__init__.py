"""inventory.yaml as an `Inventory`: read carefully, held against every rule, all errors at once.

The forms in which steps, concurrencies and settings are written are those of the command line too.
"""

from __future__ import annotations

from sweep.inventory_file.forms import (
    parse_concurrency,
    parse_setting,
    parse_steps,
    parse_workload,
)
from sweep.inventory_file.loading import line_of, load_inventory, where_written
from sweep.inventory_file.notify import is_url

__all__ = [
    "is_url",
    "line_of", "load_inventory",
    "parse_concurrency", "parse_setting", "parse_steps", "parse_workload",
    "where_written",
]  # fmt: skip
