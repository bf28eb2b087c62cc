"""The OpenAI endpoints of the simulated server: bodies and stream framing of SGLang 0.5.23.

Chunks as srt/entrypoints/openai/{sse_utils,serving_chat,serving_completions}.py write them: a role
chunk, content chunks of several tokens each, a finish chunk, then `sglext` and `usage` with empty
choices when asked for, then [DONE].
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse

from sweep.demo.bodies import Invalid, check_openai, error, invalid, read_object
from sweep.demo.engine import Request, Update
from sweep.demo.service import (
    BadRequest,
    Service,
    prompt_of,
    spec_details,
    usage,
    weight_versions,
    written,
)
from sweep.demo.wording import count_tokens


@dataclass(frozen=True)
class Shape:
    """What differs between chat and plain completions."""

    chunk: str
    whole: str
    chat: bool


CHAT = Shape("chat.completion.chunk", "chat.completion", chat=True)
PLAIN = Shape("text_completion", "text_completion", chat=False)


async def chat_completions(http: HttpRequest) -> Response:
    """POST /v1/chat/completions."""
    return await _answer(http, CHAT)


async def completions(http: HttpRequest) -> Response:
    """POST /v1/completions."""
    return await _answer(http, PLAIN)


async def _answer(http: HttpRequest, shape: Shape) -> Response:
    service: Service = http.app.state.service
    try:
        body = await read_object(http)
        check_openai(body, chat=shape.chat)
        request = _request(service, body, shape)
    except Invalid as trouble:
        return invalid(trouble)
    except BadRequest as trouble:
        return error(str(trouble))
    head = {
        "id": request.rid,
        "object": shape.chunk if body.get("stream") else shape.whole,
        "created": int(time.time()),
        "model": body.get("model") or "default",
    }
    if body.get("stream"):
        events = _events(service, request, body, shape, head)
        return StreamingResponse(events, media_type="text/event-stream")
    last = Update(0)
    async for update in service.generate(request):
        last = update
    return JSONResponse(_whole(request, last, body, shape, head))


def _request(service: Service, body: dict[str, Any], shape: Shape) -> Request:
    if shape.chat:
        prompt, tokens = prompt_of(body.get("messages") or [])
    else:
        given = body.get("prompt")
        if not given and isinstance(given, str | list):
            raise BadRequest("Prompt cannot be empty")
        if isinstance(given, list) and all(isinstance(one, int) for one in given):
            prompt, tokens = " ".join(map(str, given)), len(given)
        elif isinstance(given, str):
            prompt, tokens = given, count_tokens(given)
        else:
            raise Invalid("prompt: Field required")
    wanted = body.get("max_completion_tokens") or body.get("max_tokens")
    if wanted is None and not shape.chat:
        wanted = 16
    return service.request(prompt, tokens, {**body, "max_new_tokens": wanted}, body.get("rid"))


async def _events(
    service: Service, request: Request, body: dict[str, Any], shape: Shape, head: dict[str, Any]
) -> AsyncIterator[bytes]:
    options = body.get("stream_options") or {}
    sent, last, first = 0, Update(0), True
    async for update in service.generate(request):
        if first and shape.chat:
            yield _event({**head, "choices": [_delta(role="assistant", content="")]})
        first, last = False, update
        if update.tokens > sent:
            text = written(request, sent, update.tokens)
            choice = _delta(content=text) if shape.chat else _text(text, update)
            chunk = {**head, "choices": [choice]}
            if options.get("continuous_usage_stats"):
                chunk["usage"] = usage(request, update)
            elif not shape.chat:
                chunk["usage"] = None
            yield _event(chunk)
            sent = update.tokens
    if shape.chat:
        yield _event({**head, "choices": [_ended(_delta(), last)]})
    details = {} if service.launch.tells_nothing else spec_details(request)
    if body.get("return_spec_tokens_details") and details:
        extension = {"spec_tokens_details": _padded(details)}
        yield _event({**head, "choices": [], "usage": None, "sglext": extension})
    if options.get("include_usage"):
        total = usage(request, last)
        if not shape.chat:
            total = {name: count for name, count in total.items() if count is not None}
        yield _event({**head, "choices": [], "usage": total})
    yield b"data: [DONE]\n\n"


def _whole(
    request: Request, last: Update, body: dict[str, Any], shape: Shape, head: dict[str, Any]
) -> dict[str, Any]:
    text = written(request, 0, last.tokens)
    if shape.chat:
        message = {
            "role": "assistant",
            "content": text,
            "reasoning_content": None,
        }
        choice = _ended({"index": 0, "message": message, "logprobs": None}, last)
    else:
        choice = _text(text, last)
    metadata = {"weight_version": "default", "weight_versions": weight_versions(last)}
    answer = {**head, "choices": [choice], "usage": usage(request, last), "metadata": metadata}
    details = spec_details(request)
    if body.get("return_spec_tokens_details") and details:
        answer["sglext"] = {"spec_tokens_details": _padded(details)}
    return answer


def _delta(role: str | None = None, content: str | None = None) -> dict[str, Any]:
    delta: dict[str, Any] = {"reasoning_content": None}
    if role is not None:
        delta["role"] = role
    if content is not None:
        delta["content"] = content
    return {
        "index": 0,
        "delta": delta,
        "logprobs": None,
        "finish_reason": None,
        "matched_stop": None,
    }


def _text(text: str, update: Update) -> dict[str, Any]:
    return _ended({"index": 0, "text": text, "logprobs": None}, update)


def _ended(choice: dict[str, Any], update: Update) -> dict[str, Any]:
    finish = update.finish or {}
    return {
        **choice,
        "finish_reason": finish.get("type"),
        "matched_stop": finish.get("matched"),
    }


def _padded(details: dict[str, Any]) -> dict[str, Any]:
    """SpecTokensDetails has more fields than /generate's meta_info; these are never set here."""
    return {
        **details,
        "spec_cap_length": 0.0,
        "spec_block_accept_length": 0.0,
        "spec_cap_lens_histogram": [],
    }


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"
