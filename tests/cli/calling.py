"""Calling the tool as a person does: another process, another directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def sweep(
    *arguments: str,
    cwd: Path,
    stdin: str = "",
    timeout: float = 120,
    report: bool = False,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """`python -m sweep ...` in a directory; its status, output and complaints.

    `report`: a run makes its report, which takes longer than all else of a short one.
    """
    briefly = ["--no-report"] if arguments[:1] in (("run",), ("resume",)) and not report else []
    return subprocess.run(
        [sys.executable, "-m", "sweep", *arguments, *briefly],
        cwd=cwd, input=stdin, text=True, capture_output=True, timeout=timeout, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


GPU = """\
hosts:
  gpu:
    address: gpu.does-not-resolve.invalid
    production: [sglang.service]
    production_health: http://127.0.0.1:30000/health
    server:
      command: [/opt/ml/bin/python3, -m, sglang.launch_server]
      args: {model-path: /models/m, speculative-algorithm: NEXTN, speculative-eagle-topk: 1}
sweeps:
  overnight: {host: gpu, steps: 1..3, concurrency: [1, 16]}
"""
