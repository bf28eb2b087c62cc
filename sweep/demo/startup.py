"""What SGLang 0.5.23 prints from its first warning to the line before uvicorn, in its order.

Order and wording: srt/entrypoints/engine.py, srt/managers/scheduler.py, srt/mem_cache/*.py,
srt/model_executor/**, srt/speculative/eagle_worker_v2.py of that release.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from sweep.demo.arguments import ServerArgs
from sweep.demo.failures import (
    Faults,
    died_initializing,
    model_missing,
    scheduler_dies,
)
from sweep.demo.log import Log
from sweep.demo.model import Truth

GRAPH_SIZES = (1, 2, 4, 8, 12, 16, 24, 32)
MODEL_CONTEXT = 262144
PHASES = (
    "prefill", "decode", "target_verify", "draft_prefill", "draft_decode", "draft_extend",
)  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """One start: what was asked for, what is true of it, where its lines go, how long it takes."""

    args: ServerArgs
    truth: Truth
    log: Log
    faults: Faults
    seconds: float
    quirks: frozenset[str] = frozenset()

    @property
    def tells_nothing(self) -> bool:
        """Whether requests and /server_info keep the acceptance to themselves."""
        return bool(self.quirks & {"old", "mute"})

    @property
    def hybrid(self) -> bool:
        """Whether the model keeps linear attention states: they print other usage figures."""
        return bool(re.search(r"qwen3[._-]?(next|[5-9])|nemotron-h", self.model.lower()))

    @property
    def model(self) -> str:
        return str(self.args["model_path"])

    def ranks(self, *, tp: bool = True) -> Iterator[str]:
        """The prefixes of the schedulers: every one, or those with tensor rank 0."""
        dps, tps = self.args["dp_size"], self.args["tp_size"]
        for dp in range(dps):
            for rank in range(tps if tp else 1):
                yield (f" DP{dp}" if dps > 1 else "") + (f" TP{rank}" if tps > 1 else "")

    @property
    def context_length(self) -> int:
        """What is in effect: without --context-length the model's own, said nowhere but here."""
        return int(self.args["context_length"] or MODEL_CONTEXT)

    @property
    def drafting(self) -> bool:
        """Whether a draft model is loaded beside the target."""
        return self.args.steps > 0 and self.args["speculative_algorithm"] != "NGRAM"

    @property
    def rank0(self) -> str:
        return next(self.ranks())

    def graphs(self, total: float) -> dict[str, float]:
        """`total` spread over the phases whose graphs are captured; the others are there with 0."""
        used = ("target_verify", "draft_decode", "draft_extend") if self.args.steps else ("decode",)
        return {phase: total / len(used) if phase in used else 0.0 for phase in PHASES}

    def spend(self, share: float) -> None:
        time.sleep(self.seconds * share)


def start(launch: Launch) -> None:
    """Print the whole start and take `launch.seconds` for it; a fault ends the process instead."""
    if launch.faults.at_start("exit0"):
        sys.exit(0)
    for warning in launch.args.warnings:
        launch.log.warn(warning)
    launch.log.line(f"server_args={launch.args.fields}")
    if launch.faults.at_start("model_missing"):
        model_missing(launch.log, launch.model)
    for stage in (_load_weights, _allocate_pools, _capture_graphs):
        stage(launch)
    if not launch.faults.at_start("no_line"):
        _scheduler_lines(launch)
    _ready_to_listen(launch)


def _fail(launch: Launch, *kinds: str) -> None:
    for kind in kinds:
        if launch.faults.at_start(kind):
            scheduler_dies(launch.log, kind, launch.rank0, serving=False)


def _load_weights(launch: Launch) -> None:
    log = launch.log
    launch.spend(0.1)
    _fail(launch, "nccl")
    for rank in launch.ranks():
        log.line("Memory baseline taken. mem usage=0.44 GB", rank)
        log.line("Load weight begin. avail mem=94.28 GB", rank)
    for done in range(5):
        _bar(log, done)
        launch.spend(0.08)
        if done == 2 and launch.faults.at_start("host_oom"):
            log.raw("\n")
            died_initializing(log)
    log.raw("\n")
    took = launch.seconds * 0.4
    for rank in launch.ranks():
        log.line(
            f"Load weight end. elapsed={took:.2f} s, type={_architecture(launch.model)}, "
            "avail mem=32.61 GB, mem usage=61.67 GB.",
            rank,
        )
    _fail(launch, "weights")
    if launch.drafting:
        for rank in launch.ranks():
            log.line("Memory baseline taken. mem usage=62.11 GB", rank)
            log.line("Load weight begin. avail mem=32.61 GB", rank)
            _bar(log, 4)
            log.raw("\n")
            log.line(
                f"Load weight end. elapsed={took / 20:.2f} s, "
                f"type={_architecture(launch.model)}MTP, avail mem=31.05 GB, mem usage=1.56 GB.",
                rank,
            )
    if launch.args.speculative and launch.args["speculative_num_draft_tokens"] is None:
        scheduler_dies(log, "draft_tokens", launch.rank0, serving=False)


def _bar(log: Log, done: int) -> None:
    bar = f"{'#' * done * 2:<8}"
    log.raw(f"\rMulti-thread loading shards: {done * 25:3d}% Completed | {done}/4 [{bar}, 1.9it/s]")


def _architecture(model: str) -> str:
    return "Qwen3_5MoeForCausalLM" if "qwen" in model.lower() else "LlamaForCausalLM"


def _allocate_pools(launch: Launch) -> None:
    _fail(launch, "kv", "oom")
    truth, log = launch.truth, launch.log
    size_gb = truth.max_total_num_tokens * 24576 / 2**30
    for rank in launch.ranks():
        if launch.hybrid:
            slots = truth.max_running_requests * 3
            message = (
                f"Mamba Cache is allocated. max_mamba_cache_size: {slots}, conv_state size: "
                f"{slots * 0.0012:.2f}GB, ssm_state size: {slots * 0.035:.2f}GB "
            )
            if launch.args.steps:
                extra = truth.max_running_requests * truth.draft_tokens * 0.035
                message += (
                    f"intermediate_ssm_state_cache size: {extra:.2f}GB "
                    f"intermediate_conv_window_cache size: {extra / 30:.2f}GB "
                )
            log.line(message, rank)
        log.line(
            f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {truth.max_total_num_tokens}, "
            f"K size: {size_gb / 2:.2f} GB, V size: {size_gb / 2:.2f} GB",
            rank,
        )
        log.line("Memory pool end. avail mem=9.12 GB", rank)
        if launch.drafting:
            log.line(
                "KV Cache is allocated. dtype: torch.bfloat16, #tokens: "
                f"{truth.max_total_num_tokens}, K size: {size_gb / 20:.2f} GB, "
                f"V size: {size_gb / 20:.2f} GB",
                rank,
            )
            log.line("Memory pool end. avail mem=9.10 GB", rank)
    launch.spend(0.1)


def _capture_graphs(launch: Launch) -> None:
    names = ("target verify", "draft decode", "draft extend") if launch.args.steps else ("decode",)
    room = 9.10
    for number, name in enumerate(names):
        begin = (
            f"Capture {name} CUDA graph begin. backend=full, "
            f"bs={list(GRAPH_SIZES)}, avail mem={room:.2f} GB"
        )
        for rank in launch.ranks():
            launch.log.line(begin, rank)
        for done, size in enumerate(reversed(GRAPH_SIZES)):
            launch.log.raw(
                f"\rCapturing batches (bs={size} avail_mem={room:.2f} GB): "
                f"{100 * done // len(GRAPH_SIZES):3d}%|{'█' * done:<8}| {done}/8 [00:00<00:00]"
            )
            launch.spend(0.3 / len(names) / len(GRAPH_SIZES))
            if done == 3:
                _fail(launch, "graph_capture")
        # The last bar has no newline: the next record stands glued behind it, as in real logs.
        if number < len(names) - 1:
            launch.log.raw("\n")
        elapsed = launch.seconds * 0.3 / len(names)
        for rank in launch.ranks():
            launch.log.line(
                f"Capture {name} CUDA graph end. elapsed={elapsed:.2f} s, mem usage=0.55 GB, "
                f"avail mem={room - 0.55:.2f} GB.",
                rank,
            )
        room -= 0.55


def _scheduler_lines(launch: Launch) -> None:
    args, truth = launch.args, launch.truth
    for rank in launch.ranks(tp=False):
        launch.log.raw("\rCapturing batches (bs=1 avail_mem=7.45 GB): 100%|████████| 8/8 [00:00]")
        launch.log.line(
            f"max_total_num_tokens={truth.max_total_num_tokens}, "
            f"chunked_prefill_size={args['chunked_prefill_size']}, "
            f"max_prefill_tokens={args['max_prefill_tokens']}, "
            f"max_running_requests={truth.max_running_requests}, "
            f"context_len={launch.context_length}, available_gpu_mem=7.45 GB",
            rank,
        )


def _ready_to_listen(launch: Launch) -> None:
    launch.spend(0.1)
    launch.log.line(
        "Init Unified Radix Cache. Components: (<ComponentType.FULL: 0>,). "
        "Tree Core: RustUnifiedTreeCore",
        launch.rank0,
    )
    launch.log.line(
        "Tree cache initialized: source=default impl=UnifiedRadixCache hybrid_swa=False "
        f"hybrid_ssm={launch.hybrid} hicache_attached=False",
        launch.rank0,
    )
    whole = launch.seconds
    took = launch.graphs(whole * 0.3)
    graphs = ", ".join(f"{phase}={seconds:.2f}" for phase, seconds in took.items())
    launch.log.line(
        f"Engine startup timings (s): load_weight={whole * 0.4:.2f}, "
        f"kv_cache_allocation={whole * 0.1:.2f}, scheduler_e2e={whole * 0.9:.2f}, "
        f"cuda_graph={{{graphs}}}, tokenizer_e2e={whole:.2f}"
    )
