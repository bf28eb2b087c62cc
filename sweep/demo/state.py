"""What the simulated server says of itself: models, arguments, state, load, metrics (0.5.23)."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response

from sweep.demo.arguments import VERSION
from sweep.demo.service import Service


async def models(http: HttpRequest) -> Response:
    """GET /v1/models."""
    args = http.app.state.service.launch.args
    card = {
        "id": args["served_model_name"],
        "object": "model",
        "created": int(time.time()),
        "owned_by": "sglang",
        "root": args["served_model_name"],
        "parent": None,
        "max_model_len": http.app.state.service.launch.context_length,
    }
    return JSONResponse({"object": "list", "data": [card]})


async def model_info(http: HttpRequest) -> Response:
    """GET /model_info."""
    args = http.app.state.service.launch.args
    answer = {
        "model_path": args["model_path"],
        "served_model_name": args["served_model_name"],
        "tokenizer_path": args["tokenizer_path"],
        "is_generation": True,
        "preferred_sampling_params": args["preferred_sampling_params"],
        "weight_version": "default",
        "load_format": args["load_format"],
        "reasoning_parser": args["reasoning_parser"],
        "tool_call_parser": args["tool_call_parser"],
        "disaggregation_mode": args["disaggregation_mode"],
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": "qwen3_5_moe",
        "architectures": ["Qwen3_5MoeForCausalLM"],
    }
    return JSONResponse(answer)


async def get_model_info(http: HttpRequest) -> Response:
    """GET /get_model_info, the old name."""
    _deprecated(http, "/get_model_info", "/model_info")
    return await model_info(http)


async def server_info(http: HttpRequest) -> Response:
    """GET /server_info: every resolved argument, and one internal state for each DP rank."""
    service: Service = http.app.state.service
    launch, reporter = service.launch, service.engine.reporter
    truth, args = launch.truth, launch.args
    startup = {
        "load_weight": launch.seconds * 0.4,
        "kv_cache_allocation": launch.seconds * 0.1,
        "scheduler_e2e": launch.seconds * 0.9,
        "cuda_graph": launch.graphs(launch.seconds * 0.3),
    }
    state: dict[str, Any] = {
        **args.fields,
        "world_size": args["tp_size"] * args["dp_size"],
        "startup_time": startup,
        "effective_max_running_requests_per_dp": truth.max_running_requests,
        "last_gen_throughput": reporter.last_gen_throughput,
        "memory_usage": {
            "weight": 61.67,
            "kvcache": round(truth.max_total_num_tokens * 24576 / 2**30, 3),
            "startup_available": 7.45,
            "token_capacity": truth.max_total_num_tokens,
            "token_capacity_swa": None,
            "graph": launch.graphs(1.65),
        },
    }
    average = reporter.avg_spec_accept_length
    if args.speculative and average is not None and not launch.tells_nothing:
        state["avg_spec_accept_length"] = average
    answer = {
        **args.fields,
        "launch_command": args.launch_command,
        "status": "ready",
        "max_total_num_tokens": truth.max_total_num_tokens,
        "max_req_input_len": min(launch.context_length, truth.max_total_num_tokens) - 6,
        "startup_time": {**startup, "tokenizer_e2e": launch.seconds},
        "internal_states": [state] * args["dp_size"],
        "version": VERSION,
        "frontend": "python",
    }
    return JSONResponse(answer)


async def get_server_info(http: HttpRequest) -> Response:
    """GET /get_server_info, the old name."""
    _deprecated(http, "/get_server_info", "/server_info")
    return await server_info(http)


async def loads(http: HttpRequest) -> Response:
    """GET /v1/loads: what runs and waits on each DP rank (the newest keys are left out)."""
    service: Service = http.app.state.service
    launch, pool = service.launch, service.engine.pool()
    capacity = launch.truth.max_total_num_tokens
    rank = {
        "timestamp": time.time(),
        "num_running_reqs": pool.running,
        "num_waiting_reqs": pool.queued,
        "num_used_tokens": pool.tokens,
        "num_total_tokens": pool.tokens,
        "max_total_num_tokens": capacity,
        "max_running_requests": launch.truth.max_running_requests,
        "token_usage": round(pool.tokens / capacity, 4),
        "gen_throughput": service.engine.reporter.last_gen_throughput,
    }
    answer = {
        "timestamp": datetime.now(UTC).isoformat(),
        "version": VERSION,
        "accelerator": None,
        "num_accelerators": launch.args["tp_size"] * launch.args["dp_size"],
        "loads": [{"dp_rank": number, **rank} for number in range(launch.args["dp_size"])],
    }
    return JSONResponse(answer)


def _deprecated(http: HttpRequest, old: str, new: str) -> None:
    http.app.state.service.launch.log.warn(
        f"Endpoint '{old}' is deprecated and will be removed in a future version. "
        f"Please use '{new}' instead."
    )


async def truth(http: HttpRequest) -> Response:
    """GET /sim/truth: not SGLang's. What a measurement should find, and how much faster it runs."""
    service: Service = http.app.state.service
    return JSONResponse({**service.launch.truth.as_dict(), "speed": service.speed})


async def metrics(http: HttpRequest) -> Response:
    """GET /metrics in Prometheus text, when started with --enable-metrics."""
    service: Service = http.app.state.service
    launch, reporter, pool = service.launch, service.engine.reporter, service.engine.pool()
    args = launch.args
    share = pool.tokens / launch.truth.max_total_num_tokens
    gauges: dict[str, float] = {
        "num_running_reqs": pool.running,
        "num_queue_reqs": pool.queued,
        "num_used_tokens": pool.tokens,
        "token_usage": round(share, 2),
        "full_token_usage": round(share, 4),
        "gen_throughput": reporter.last_gen_throughput,
        "max_total_num_tokens": launch.truth.max_total_num_tokens,
        "num_retracted_reqs": 0,
    }
    counters: dict[str, float] = {
        "prompt_tokens_total": reporter.prompt_tokens,
        "generation_tokens_total": reporter.generated_tokens,
        "num_requests_total": reporter.requests,
    }
    if reporter.cached_tokens:  # as there, only once there is something to count
        counters["cached_tokens_total"] = reporter.cached_tokens
    if args.speculative:
        gauges["spec_accept_length"] = reporter.accept_length
        gauges["spec_accept_rate"] = reporter.accept_rate
        gauges["spec_num_steps"] = args.steps
        gauges["spec_num_draft_tokens"] = launch.truth.draft_tokens
        counters["spec_verify_calls_total"] = reporter.verify_calls
    labels = f'{{engine_type="unified",model_name="{args["served_model_name"]}"}}'
    lines = []
    for kind, values in (("gauge", gauges), ("counter", counters)):
        for name, value in values.items():
            lines.append(f"# HELP sglang:{name} {name.replace('_', ' ')}")
            lines.append(f"# TYPE sglang:{name} {kind}")
            lines.append(f"sglang:{name}{labels} {float(value)}")
    return PlainTextResponse("\n".join(lines) + "\n")
