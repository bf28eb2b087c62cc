"""What SGLang 0.5.23 refuses of a request's body, and the three forms it says so in.

Bodies that do not parse are refused by its validation (`Invalid`, http_server.py), those of
/generate also by a contract of their own (`Contract`, api_contract.py); what parses and cannot be
meant by the code behind (`service.BadRequest`).
"""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

ROLES = (
    "user", "system", "assistant", "tool", "function", "developer", "latest_reminder", "root",
)  # fmt: skip
NEED_CONTENT = ("user", "system", "developer")
SAMPLING = (
    "max_new_tokens", "stop", "stop_token_ids", "stop_regex", "temperature", "top_p", "top_k",
    "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "min_new_tokens", "n",
    "json_schema", "regex", "ebnf", "structural_tag", "ignore_eos", "skip_special_tokens",
    "spaces_between_special_tokens", "no_stop_trim", "stream_interval", "logit_bias",
    "sampling_seed", "custom_params", "beam_width", "watermark", "choice",
)  # fmt: skip


class Invalid(Exception):
    """The body is not of the form the endpoint takes."""


class Contract(Exception):
    """A field of /generate that its JSON contract does not know, or of another type."""


def invalid(message: object) -> JSONResponse:
    """The answer to `Invalid`."""
    return error(str(message), "Bad Request")


def error(message: str, kind: str = "BadRequestError") -> JSONResponse:
    """The OpenAI endpoints' body of an error, status 400."""
    body = {"object": "error", "message": message, "type": kind, "param": None, "code": 400}
    return JSONResponse(body, status_code=400)


async def not_served(_: HttpRequest, trouble: Exception) -> Response:
    """404 and 405 as FastAPI words them."""
    status = trouble.status_code if isinstance(trouble, HTTPException) else 500
    detail = trouble.detail if isinstance(trouble, HTTPException) else ""
    return JSONResponse({"detail": detail}, status_code=status)


async def read_object(http: HttpRequest) -> dict[str, Any]:
    """The body as a JSON object. Raises Invalid."""
    try:
        body = await http.json()
    except ValueError as trouble:
        raise Invalid(f"json_invalid: {trouble}") from trouble
    if not isinstance(body, dict):
        raise Invalid("model_attributes_type: Input should be a valid dictionary")
    return body


def check_generate(body: dict[str, Any]) -> None:
    """Raises Invalid, Contract."""
    text = body.get("text")
    many = text if isinstance(text, list) else [text]
    if text is not None and not all(isinstance(one, str) for one in many):
        raise Invalid("string_type: text: Input should be a valid string")
    sampling = body.get("sampling_params") or {}
    if not isinstance(sampling, dict):
        raise Invalid("dict_type: sampling_params: Input should be a valid dictionary")
    for name, value in sampling.items():
        if name not in SAMPLING:
            expected = ", ".join(f"`{one}`" for one in SAMPLING)
            raise Contract(f"unknown field `{name}`, expected one of {expected}")
        kind = {"max_new_tokens": int, "temperature": int | float}.get(name)
        if kind is not None and value is not None and not isinstance(value, kind):
            raise Contract(f"invalid type: {type(value).__name__} {value!r} for `{name}`")


def check_openai(body: dict[str, Any], *, chat: bool) -> None:
    """Raises Invalid."""
    kinds: dict[str, Any] = {
        "max_tokens": int,
        "max_completion_tokens": int,
        "temperature": int | float,
        "stream": bool,
        "stream_options": dict,
        "return_spec_tokens_details": bool,
    }
    for name, kind in kinds.items():
        value = body.get(name)
        if value is not None and not isinstance(value, kind):
            raise Invalid(f"{name}: Input should be a valid {getattr(kind, '__name__', 'number')}")
    if not chat:
        return
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise Invalid("messages: Input should be a valid list")
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if str(role).lower() not in ROLES:
            raise Invalid(f"messages: 'role' must be one of {ROLES}")
        if str(role).lower() in NEED_CONTENT and message.get("content") is None:
            raise Invalid("messages: content: Field required")
