"""SGLang's own endpoints on the simulated server: /generate, state, cache, metrics (0.5.23)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from sweep.demo.arguments import VERSION
from sweep.demo.engine import Request, Update
from sweep.demo.service import STARTING, UNHEALTHY, UP, BadRequest, Service, meta_info, written
from sweep.demo.wording import count_tokens

HEALTH_TIMEOUT_S = 20.0


async def health(http: HttpRequest) -> Response:
    """GET /health, /health_generate: 503 while starting or stopping, else a token is asked for."""
    service: Service = http.app.state.service
    if service.draining:
        service.launch.log.line("Health check request received during shutdown. Returning 503.")
        return Response(status_code=503)
    if service.status == STARTING:
        return Response(status_code=503)
    if await service.probe(HEALTH_TIMEOUT_S / service.speed):
        service.status = UP
        return Response(status_code=200)
    service.launch.log.complain(
        "Health check failed. Server couldn't get a response from detokenizer for last "
        f"{HEALTH_TIMEOUT_S:.0f} seconds."
    )
    service.status = UNHEALTHY
    return Response(status_code=503)


async def ready(http: HttpRequest) -> Response:
    """GET /ready: health without a generation."""
    service: Service = http.app.state.service
    up = service.status == UP and not service.draining
    return Response(status_code=200 if up else 503)


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
        "max_model_len": args["context_length"],
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
    state: dict[str, Any] = {
        **args.fields,
        "world_size": args["tp_size"] * args["dp_size"],
        "startup_time": {"scheduler_e2e": launch.seconds * 0.9},
        "effective_max_running_requests_per_dp": truth.max_running_requests,
        "last_gen_throughput": reporter.last_gen_throughput,
        "memory_usage": {
            "weight": 61.67,
            "kvcache": round(truth.max_total_num_tokens * 24576 / 2**30, 3),
            "startup_available": 7.45,
            "token_capacity": truth.max_total_num_tokens,
            "token_capacity_swa": None,
            "graph": {"target_verify": 0.55} if args.steps else {"decode": 0.55},
        },
    }
    average = reporter.avg_spec_accept_length
    if args.speculative and average is not None:
        state["avg_spec_accept_length"] = average
    answer = {
        **args.fields,
        "launch_command": args.launch_command,
        "status": "ready",
        "max_total_num_tokens": truth.max_total_num_tokens,
        "max_req_input_len": min(args["context_length"], truth.max_total_num_tokens) - 6,
        "startup_time": {"tokenizer_e2e": launch.seconds},
        "internal_states": [state] * args["dp_size"],
        "version": VERSION,
        "frontend": "python",
    }
    return JSONResponse(answer)


async def get_server_info(http: HttpRequest) -> Response:
    """GET /get_server_info, the old name."""
    _deprecated(http, "/get_server_info", "/server_info")
    return await server_info(http)


def _deprecated(http: HttpRequest, old: str, new: str) -> None:
    http.app.state.service.launch.log.warn(
        f"Endpoint '{old}' is deprecated and will be removed in a future version. "
        f"Please use '{new}' instead."
    )


async def flush_cache(http: HttpRequest) -> Response:
    """GET or POST /flush_cache: 200 when idle, else 400 (after `?timeout=` seconds of waiting)."""
    service: Service = http.app.state.service
    deadline = time.monotonic() + float(http.query_params.get("timeout", 0))
    while not service.engine.idle and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    if service.engine.flush():
        return PlainTextResponse(
            "Cache flushed.\nPlease check backend logs for more details. (When there are running "
            "or waiting requests, the operation will not be performed.)\n"
        )
    return PlainTextResponse("Flush cache failed.\n", status_code=400)


async def abort_request(http: HttpRequest) -> Response:
    """POST /abort_request with `rid` (a prefix) or `abort_all`."""
    body = await http.json()
    http.app.state.service.engine.abort(
        body.get("rid") or "", everything=bool(body.get("abort_all"))
    )
    return Response(status_code=200)


async def set_internal_state(http: HttpRequest) -> Response:
    """POST /set_internal_state: changing an accept threshold empties the acceptance totals."""
    service: Service = http.app.state.service
    changes = (await http.json()).get("server_args") or {}
    if any(name.startswith("speculative_accept_threshold") for name in changes):
        service.engine.reporter.reset()
    service.launch.args.fields.update(changes)
    return JSONResponse([{"updated": True, "server_args": service.launch.args.fields}])


async def freeze_gc(_: HttpRequest) -> Response:
    """GET or POST /freeze_gc."""
    return PlainTextResponse("Garbage collection frozen.\n")


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
        "cached_tokens_total": reporter.cached_tokens,
        "num_requests_total": reporter.requests,
    }
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


async def generate(http: HttpRequest) -> Response:
    """POST /generate: `text` (one or a list) or `input_ids`, `sampling_params`, `stream`."""
    service: Service = http.app.state.service
    began = time.monotonic()
    try:
        body = await http.json()
        requests = _native_requests(service, body)
    except (BadRequest, ValueError, TypeError, AttributeError) as trouble:
        return JSONResponse({"error": {"message": str(trouble)}}, status_code=400)
    if body.get("stream"):
        events = _native_events(service, requests[0], began)
        return StreamingResponse(events, media_type="text/event-stream")
    answers = await asyncio.gather(*(_native_answer(service, one, began) for one in requests))
    return JSONResponse(answers if isinstance(body.get("text"), list) else answers[0])


def _native_requests(service: Service, body: dict[str, Any]) -> list[Request]:
    ids = body.get("input_ids")
    texts = body.get("text")
    sampling = {"max_new_tokens": 128, **(body.get("sampling_params") or {})}
    if ids is not None:
        prompt = " ".join(map(str, ids))
        return [service.request(prompt, max(1, len(ids)), sampling, body.get("rid"))]
    if texts is None:
        raise BadRequest("Either text, input_ids or input_embeds should be provided.")
    many = texts if isinstance(texts, list) else [texts]
    rid = body.get("rid") if len(many) == 1 else None
    return [service.request(text, count_tokens(text), sampling, rid) for text in many]


async def _native_answer(service: Service, request: Request, began: float) -> dict[str, Any]:
    last = Update(0)
    async for update in service.generate(request):
        last = update
    return _native_body(request, last, began)


async def _native_events(service: Service, request: Request, began: float) -> AsyncIterator[bytes]:
    async for update in service.generate(request):
        body = json.dumps(_native_body(request, update, began), separators=(",", ":"))
        yield f"data: {body}\n\n".encode()
    yield b"data: [DONE]\n\n"


def _native_body(request: Request, update: Update, began: float) -> dict[str, Any]:
    """The text is the whole text so far, in every event."""
    return {
        "text": written(request, 0, update.tokens),
        "output_ids": [],
        "meta_info": meta_info(request, update, began),
    }
