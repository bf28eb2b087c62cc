"""SGLang's client in Rust, `sglang.benchmark.rust_client` (read in 0.5.23), for high rates.

It takes the words of the one in Python (`sglang`), as far as that uses ShareGPT's form, and appends
the same keys.
"""

from __future__ import annotations

from dataclasses import replace

from sweep.bench.backends import sglang
from sweep.bench.backends.client import Asked, Words


def command(asked: Asked) -> Words:
    python = asked.spec.program or asked.python
    return (python, "-m", "sglang.benchmark.rust_client", *sglang.flags(asked))


CLIENT = replace(
    sglang.CLIENT,
    kept="sglang-rust.jsonl",
    install="install sglang 0.5.23 or newer into that Python, or name another as the benchmark's "
    "program",
    command=command,
)
