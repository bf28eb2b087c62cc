"""The largest numbers the tool takes: far above what anybody means, small enough to be carried out.

A slip of the finger is refused before it fills this machine's memory.
"""

from __future__ import annotations

MOST_STEPS = 1000
MOST_CONCURRENCY = 65536
MOST_TRIALS = 1000
MOST_REQUESTS = 1_000_000
MOST_TOKENS = 1_000_000  # of one request
MOST_LAUNCHES = 999
MOST_RATE = 10_000.0  # requests per second
