"""SGLang's own endpoints on the simulated server: health, cache, abort, /generate (0.5.23)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse

from sweep.demo.bodies import Contract, Invalid, check_generate, invalid, read_object
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


async def root(_: HttpRequest) -> Response:
    """GET /."""
    return JSONResponse("SGLang is running")


async def ready(http: HttpRequest) -> Response:
    """GET /ready: health without a generation."""
    service: Service = http.app.state.service
    up = service.status == UP and not service.draining
    return Response(status_code=200 if up else 503)


async def flush_cache(http: HttpRequest) -> Response:
    """GET or POST /flush_cache: 200 when idle, else 400 (after `?timeout=` seconds of waiting)."""
    service: Service = http.app.state.service
    try:
        timeout_s = float(http.query_params.get("timeout", 0))
    except ValueError as trouble:
        return invalid(f"float_parsing: timeout: {trouble}")
    deadline = time.monotonic() + timeout_s
    while not service.engine.idle and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    if timeout_s and not service.engine.idle:
        return Response("Timed out waiting for idle state.", status_code=400)
    if service.engine.flush():
        return Response(
            "Cache flushed.\nPlease check backend logs for more details. (When there are running "
            "or waiting requests, the operation will not be performed.)\n"
        )
    return Response("Flush cache failed.\n", status_code=400)


async def abort_request(http: HttpRequest) -> Response:
    """POST /abort_request with `rid` (a prefix) or `abort_all`."""
    try:
        body = await read_object(http)
    except Invalid as trouble:
        return invalid(trouble)
    http.app.state.service.engine.abort(
        body.get("rid") or "", everything=bool(body.get("abort_all"))
    )
    return Response(status_code=200)


async def set_internal_state(http: HttpRequest) -> Response:
    """POST /set_internal_state: changing an accept threshold empties the acceptance totals."""
    service: Service = http.app.state.service
    try:
        changes = (await read_object(http)).get("server_args")
    except Invalid as trouble:
        return invalid(trouble)
    if not isinstance(changes, dict):
        return invalid("missing: server_args: Field required")
    if any(name.startswith("speculative_accept_threshold") for name in changes):
        service.engine.reporter.reset()
    service.launch.args.fields.update(changes)
    return JSONResponse([True])


async def freeze_gc(_: HttpRequest) -> Response:
    """GET or POST /freeze_gc."""
    return Response("Garbage collection frozen.\n")


async def generate(http: HttpRequest) -> Response:
    """POST /generate: `text` (one or a list) or `input_ids`, `sampling_params`, `stream`."""
    service: Service = http.app.state.service
    began = time.monotonic()
    body: dict[str, Any] = {}
    try:
        body = await read_object(http)
        check_generate(body)
        requests = _native_requests(service, body)
    except Invalid as trouble:
        return invalid(trouble)
    except Contract as trouble:
        return JSONResponse({"error": str(trouble)}, status_code=400)
    except BadRequest as trouble:
        if body.get("stream"):
            return StreamingResponse(_refusal(trouble), media_type="text/event-stream")
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
        yield _event(_native_body(request, update, began))
    yield b"data: [DONE]\n\n"


async def _refusal(trouble: BadRequest) -> AsyncIterator[bytes]:
    """A stream has been begun before the request is looked at: 200, and an error in it."""
    words = {"message": str(trouble), "type": "invalid_request_error", "code": 400}
    yield _event({"error": {**words, "retryable": False}})
    yield b"data: [DONE]\n\n"


def _event(body: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(body, separators=(',', ':'))}\n\n".encode()


def _native_body(request: Request, update: Update, began: float) -> dict[str, Any]:
    """The text is the whole text so far, in every event, and so are the ids."""
    return {
        "text": written(request, 0, update.tokens),
        "output_ids": [request.seed % 1000] * update.tokens,
        "meta_info": meta_info(request, update, began),
    }
