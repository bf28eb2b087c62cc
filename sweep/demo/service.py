"""What every endpoint of the simulated server shares: status, engine, requests, their meta_info."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from sweep.demo.engine import Engine, Request, Update
from sweep.demo.startup import Launch
from sweep.demo.wording import count_tokens, text_of

STARTING, UP, UNHEALTHY = "Starting", "Up", "UnHealthy"


class BadRequest(Exception):
    """The body cannot be meant."""


@dataclass
class Service:
    """One simulated server from its first request to its end."""

    launch: Launch
    engine: Engine
    speed: float
    status: str = STARTING
    draining: bool = False
    open: dict[str, Request] = field(default_factory=dict)

    @property
    def context_length(self) -> int:
        return self.launch.context_length

    def request(
        self, prompt: str, prompt_tokens: int, body: dict[str, Any], rid: str | None = None
    ) -> Request:
        """A request from sampling parameters in SGLang's native names. Raises BadRequest."""
        wanted = body.get("max_new_tokens")
        tokens = self.context_length - prompt_tokens - 1 if wanted is None else int(wanted)
        if tokens < 1 or prompt_tokens + tokens > self.context_length:
            raise BadRequest(
                "Requested token count exceeds the model's maximum context length of "
                f"{self.context_length} tokens. You requested a total of {prompt_tokens + tokens} "
                f"tokens: {prompt_tokens} tokens from the input messages and {tokens} tokens for "
                "the completion. Please reduce the number of tokens in the input messages or the "
                "completion to fit within the limit."
            )
        temperature = float(body.get("temperature") or 0.0)
        if not 0 <= temperature < float("inf"):
            raise BadRequest(
                f"temperature must be a non-negative finite number, got {temperature}."
            )
        return Request(
            rid=rid or uuid.uuid4().hex,
            prompt=prompt,
            prompt_tokens=prompt_tokens,
            max_tokens=tokens,
            temperature=temperature,
            ignore_eos=bool(body.get("ignore_eos")),
        )

    async def generate(self, request: Request) -> AsyncIterator[Update]:
        """Updates to the last one; a caller that goes away aborts the request."""
        self.open[request.rid] = request
        self.engine.submit(request)
        try:
            while True:
                update = await request.updates.get()
                while update.finish is None and not request.updates.empty():
                    update = request.updates.get_nowait()
                yield update
                if update.finish is not None:
                    return
        finally:
            self.open.pop(request.rid, None)
            if request.finish is None:
                self.engine.abort(request.rid)

    async def probe(self, timeout_s: float) -> bool:
        """Whether the scheduler shows a sign of life; asks for one token if it is idle."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if self.engine.idle:
            self.engine.submit(Request(f"HEALTH_CHECK_{uuid.uuid4().hex}", "", 1, 1, probe=True))
        while loop.time() - began < timeout_s:
            await asyncio.sleep(1 / self.speed)
            if self.engine.last_progress > began:
                return True
        return False


def meta_info(request: Request, update: Update, began: float) -> dict[str, Any]:
    """`meta_info` of /generate, keys of 0.5.23 (srt/managers/tokenizer_manager.py)."""
    moment = time.time()
    took = time.monotonic() - began
    info: dict[str, Any] = {
        "id": request.rid,
        "finish_reason": update.finish,
        "prompt_tokens": request.prompt_tokens,
        "weight_version": "default",
        "num_retractions": 0,
        "storage_prefetch_wait": 0.0,
        "storage_staging_wait": 0.0,
        "forward_entry_time": moment - took,
        "prefill_finished_time": moment - took,
        "queue_time": 0.0,
        "reasoning_tokens": 0,
        "completion_tokens": update.tokens,
        "cached_tokens": request.cached,
        "cached_tokens_details": {"device": request.cached, "host": 0} if request.cached else None,
        "dp_rank": None,
    }
    if update.finish is not None or update.tokens <= 1:
        info["response_sent_to_client_ts"] = moment
    if update.finish is not None:
        info |= {
            "weight_versions": weight_versions(update),
            "e2e_latency": took,
            "request_received_ts": moment - took,
            "first_token_latency": 0.0,
            "api_server_dispatch_finish_ts": moment - took,
            "request_finished_ts": moment,
            "decode_throughput": update.tokens / max(took, 1e-6),
            **spec_details(request),
        }
    return info


def weight_versions(update: Update) -> list[dict[str, Any]]:
    """Which weights gave which tokens: the same ones all of them."""
    return [{"version": "default", "start": 0, "end": update.tokens}]


def spec_details(request: Request) -> dict[str, Any]:
    """The speculation figures of one request; empty while nothing was verified or drafted."""
    proposed = request.verified * (len(request.histogram) - 1)
    if not proposed:
        return {}
    return {
        "spec_accept_rate": request.correct / proposed,
        "spec_accept_length": request.tokens / request.verified,
        "spec_num_correct_drafts": request.correct,
        "spec_num_proposed_drafts": proposed,
        "spec_verify_ct": request.verified,
        "spec_correct_drafts_histogram": list(request.histogram),
    }


def usage(request: Request, update: Update) -> dict[str, Any]:
    """UsageInfo of the OpenAI endpoints (srt/entrypoints/openai/protocol.py)."""
    return {
        "prompt_tokens": request.prompt_tokens,
        "total_tokens": request.prompt_tokens + update.tokens,
        "completion_tokens": update.tokens,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    }


def written(request: Request, start: int, end: int) -> str:
    """The text of output tokens start..end of a request."""
    return text_of(request.seed, start, end)


def prompt_of(messages: list[Any]) -> tuple[str, int]:
    """A chat as one prompt and its tokens, template included. Raises BadRequest."""
    parts = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = " ".join(str(part.get("text", "")) for part in content)
        parts.append(f"<|{message['role']}|>{content}")
    if not parts:
        raise BadRequest("Messages cannot be empty.")
    text = "\n".join(parts)
    return text, count_tokens(text) + 4 * len(parts)
