"""The lines of a speculating SGLang 0.5.9, in its own words: runs on the engine's interpreter.

    python older_lines.py RANKS FLAGS...

No model is loaded. The flags go through 0.5.9's parser and resolution, its engine begins to start
and is ended where it would start a scheduler; then schedulers without a model say how much they
admit, and count and log one interval of decoding. RANKS is a JSON list with an object for each:
what a model would have made of it (test_older.py has the names). What is logged, and its format,
are SGLang's; the numbers are not.
"""

from __future__ import annotations

import contextlib
import json
import sys
from types import SimpleNamespace
from typing import Any

from sglang.srt.disaggregation.utils import DisaggregationMode
from sglang.srt.entrypoints import engine
from sglang.srt.managers import scheduler
from sglang.srt.server_args import ServerArgs, prepare_server_args
from sglang.srt.server_args import set_global_server_args_for_scheduler as set_global
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from sglang.srt.utils import configure_logger

GROUPS = (
    "get_tp_group", "get_attention_tp_group", "get_attention_cp_group", "get_pp_group",
    "get_world_group",
)  # fmt: skip


class Enough(Exception):
    """Here a scheduler would be started."""


def begin(args: ServerArgs) -> None:
    def end(*_: object, **__: object) -> None:
        raise Enough

    engine._launch_scheduler_processes = end
    with contextlib.suppress(Enough):
        engine._launch_subprocesses(args, end, end, end)


class Scheduler(scheduler.Scheduler):
    """Its own, with what a worker would tell it in place of the worker."""

    def __init__(self, args: ServerArgs, numbers: dict[str, Any]) -> None:
        self.numbers = numbers
        self.server_args = args
        self.device = args.device
        self.spec_algorithm = SpeculativeAlgorithm.from_string(args.speculative_algorithm)
        self.tp_rank = self.gpu_id = self.attn_tp_rank = 0
        self.pp_size = 1
        self.is_hybrid_swa, self.is_hybrid_ssm = False, bool(numbers.get("mamba"))
        self.enable_metrics = self.enable_kv_cache_events = False
        self.enable_metrics_for_all_schedulers = False
        self.disaggregation_mode = DisaggregationMode.NULL
        self.model_config = SimpleNamespace(context_len=numbers["context_len"])
        self.waiting_queue = [None] * numbers["waiting"]
        self.forward_ct = 0
        self.init_metrics(tp_rank=0, pp_rank=0, dp_rank=None)

    def init_tp_model_worker(self) -> None:
        args, told = self.server_args, self.numbers
        found = (
            told["tokens"], args.max_prefill_tokens, args.max_running_requests, None, 1, 1, 1,
            args.device, None, None, None, None,
        )  # fmt: skip
        self.tp_worker = SimpleNamespace(
            get_worker_info=lambda: found, get_pad_input_ids_func=lambda: None
        )

    def maybe_init_draft_worker(self) -> None:
        self.draft_worker = None

    def _get_token_info(self) -> tuple[int, float, int, int]:
        used, tokens = self.numbers["used"], self.numbers["tokens"]
        return used, used / tokens, tokens - used, 0

    def _get_mamba_token_info(self) -> tuple[float, ...]:
        used, share, free, _ = self._get_token_info()
        mamba = self.numbers["mamba"]
        return used, mamba["used"], share, mamba["used"] / mamba["size"], free, 0, 0, 0


def speak(args: ServerArgs, numbers: dict[str, Any]) -> None:
    configure_logger(args, prefix=numbers["prefix"])
    scheduler.get_available_gpu_memory = lambda *_, **__: numbers["free_gb"]
    one = Scheduler(args, numbers)
    one.init_model_worker()
    batch = SimpleNamespace(reqs=[None] * numbers["running"])
    for accepted in numbers["accepted"]:
        one.update_spec_metrics(numbers["running"], accepted)
    one.log_decode_stats(True, batch)


def main() -> None:
    ranks, words = json.loads(sys.argv[1]), sys.argv[2:]
    args = prepare_server_args(words)
    begin(args)
    set_global(args)
    for name in GROUPS:
        setattr(scheduler, name, lambda: SimpleNamespace(cpu_group=None))
    for numbers in ranks:
        speak(args, numbers)


if __name__ == "__main__":
    main()
