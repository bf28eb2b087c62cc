"""SGLang's command line as data: how each flag is spelt, what it takes, what older ones became.

`flags.txt` is the command line of 0.5.23; `REMOVED` compares it with 0.5.9, 0.5.10.post1 and
0.5.13 to 0.5.20 (each release's srt/server_args.py and srt/arg_groups/).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Literal, cast

NEWEST = "0.5.23"

Kind = Literal["bool", "optional-bool", "int", "float", "size", "str", "json"]


@dataclass(frozen=True)
class Flag:
    """One flag. `name` is its canonical spelling without dashes in front, `field` its name in
    /server_info; `words` is true where it takes several words; `kind` is of each word; `choices`
    are the values that any release since 0.4.6 takes, the newest's first, empty where it takes
    any."""

    name: str
    field: str
    kind: Kind
    words: bool
    choices: tuple[str, ...] = ()


# What argparse takes for the one flag that begins so, and people write: facts for 0.4.3 to 0.5.23.
SHORT = MappingProxyType({"tp": "tp-size", "dp": "dp-size"})

# Old spelling -> (last release that takes it, what to write instead or "").
REMOVED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "collect-tokens-histogram": ("0.5.19", "enable-metrics"),
        "cuda-graph-bs": ("0.5.19", "cuda-graph-bs-decode"),
        "cuda-graph-max-bs": ("0.5.19", "cuda-graph-max-bs-decode"),
        "cuda-graph-tc-compiler": ("0.5.20", ""),
        "custom-sigquit-handler": ("0.5.19", ""),
        "debug-tensor-dump-inject": ("0.5.13", ""),
        "disable-hicache-numa-detect": ("0.5.9", ""),
        "disable-piecewise-cuda-graph": ("0.5.19", "cuda-graph-backend-prefill: disabled"),
        "disaggregation-decode-dp": ("0.5.9", ""),
        "disaggregation-decode-tp": ("0.5.9", ""),
        "disaggregation-prefill-pp": ("0.5.9", ""),
        "ds-channel-config-path": ("0.5.10.post1", ""),
        "ds-heavy-channel-num": ("0.5.10.post1", ""),
        "ds-heavy-channel-type": ("0.5.10.post1", ""),
        "ds-heavy-token-num": ("0.5.10.post1", ""),
        "ds-sparse-decode-threshold": ("0.5.10.post1", ""),
        "dsa-prefill-cp-mode": ("0.5.19", "cp-strategy"),
        "elastic-ep-rejoin": ("0.5.20", ""),
        "enable-breakable-cuda-graph": ("0.5.19", "cuda-graph-backend-prefill: breakable"),
        "enable-deepep-waterfill": ("0.5.15", ""),
        "enable-double-sparsity": ("0.5.10.post1", ""),
        "enable-dsa-prefill-context-parallel": ("0.5.19", "enable-prefill-cp"),
        "enable-expert-distribution-metrics": ("0.5.19", "expert-balancedness-report-mode"),
        "enable-gdn-replayssm-spec": ("0.5.19", "enable-linear-replayssm-spec"),
        "enable-nan-detection": ("0.5.10.post1", ""),
        "enable-nsa-prefill-context-parallel": ("0.5.19", "enable-prefill-cp"),
        "enable-piecewise-cuda-graph": ("0.5.13", ""),
        "enable-prefill-context-parallel": ("0.5.19", "enable-prefill-cp"),
        "enforce-piecewise-cuda-graph": ("0.5.19", ""),
        "hybrid-kvcache-ratio": ("0.5.13", "swa-full-tokens-ratio"),
        "keep-mm-feature-on-device": ("0.5.20", "mm-feature-transport"),
        "mamba-scheduler-strategy": ("0.5.19", "mamba-radix-cache-strategy"),
        "mm-max-concurrent-calls": ("0.5.9", ""),
        "mm-per-request-timeout": ("0.5.9", ""),
        "multi-item-scoring-delimiter": ("0.5.10.post1", ""),
        "nsa-decode-backend": ("0.5.19", "dsa-decode-backend"),
        "nsa-prefill-backend": ("0.5.19", "dsa-prefill-backend"),
        "nsa-prefill-cp-mode": ("0.5.19", "cp-strategy"),
        "optimistic-prefill-retries": ("0.5.15", ""),
        "piecewise-cuda-graph-compiler": ("0.5.19", ""),
        "piecewise-cuda-graph-max-tokens": ("0.5.19", "cuda-graph-max-bs-prefill"),
        "piecewise-cuda-graph-tokens": ("0.5.19", "cuda-graph-bs-prefill"),
        "prefill-cp-mode": ("0.5.19", "cp-strategy"),
        "prefill-round-robin-balance": ("0.5.19", ""),
        "speculative-dflash-draft-window-size": ("0.5.19", "speculative-draft-window-size"),
        "speculative-ngram-branch-length": ("0.5.9", ""),
        "speculative-ngram-max-match-window-size": ("0.5.9", ""),
        "speculative-ngram-min-match-window-size": ("0.5.9", ""),
        "speculative-skip-dp-mlp-sync": ("0.5.20", ""),
        "stat-loggers": ("0.5.19", ""),
        "stream-output": ("0.5.19", "incremental-streaming-output"),
        "torchao-config": ("0.5.17", ""),
    }
)


@functools.cache
def flags() -> Mapping[str, Flag]:
    """Every spelling of 0.5.23 and the short ones -> its flag; `no-X` for the flags with a no."""
    found: dict[str, Flag] = {}
    for line in resources.files(__package__).joinpath("flags.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        field, spellings, takes, _ = line.split(" ", 3)
        names = [spelling.removeprefix("--") for spelling in spellings.split(",")]
        shape, _, values = takes.partition("=")
        words, _, kind = shape.rpartition(":")
        choices = tuple(re.findall(r"[^|;]+", values))
        flag = Flag(names[0], field, cast("Kind", kind), bool(words), choices)
        found.update(dict.fromkeys(names, flag))
        if kind == "optional-bool":
            found[f"no-{flag.name}"] = Flag(f"no-{flag.name}", field, "bool", words=False)
    found.update({short: found[name] for short, name in SHORT.items()})
    return MappingProxyType(found)


def canonical(name: str) -> str:
    """The canonical spelling of a flag (`tp`, `tensor-parallel-size` -> `tp-size`); an unknown
    name stays as it is."""
    flag = flags().get(name)
    return flag.name if flag else name


def field_of(name: str) -> str:
    """What /server_info calls a flag: its field, or the name with underscores."""
    flag = flags().get(name)
    return flag.field if flag else name.replace("-", "_")


def is_speculative(name: str) -> bool:
    """Whether a flag only means something with speculation: steps 0 renders none of these."""
    return name.startswith(("speculative-", "no-speculative-", "decoupled-spec-")) or name in (
        "enable-multi-layer-eagle",
        "enable-linear-replayssm-spec",
        "uno-lora-path",
        "spec-trace-dir",
    )
