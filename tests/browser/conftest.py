"""The tests of this directory run when asked for, `make test-browser`: they need a browser."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("SWEEP_BROWSER") else ["test_*.py"]
