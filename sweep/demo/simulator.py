"""`python -m sweep.demo.simulator <flags of sglang serve>`: a server that looks like SGLang 0.5.23.

It prints what SGLang prints, listens only after its "load", answers SGLang's endpoints, streams
several tokens at once, and ends as SGLang ends. Environment:

- SWEEP_SIM_SPEED: how many times faster than the published server it runs (default 1)
- SWEEP_SIM_START_S: seconds the whole start takes (default 1)
- SWEEP_SIM_FAIL: what goes wrong, see `failures`
- SWEEP_SIM_QUIRKS: what it does that spoils a comparison, see `quirks`
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, NoReturn

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sweep.demo import model, native, openai, state
from sweep.demo.arguments import Refusal, ServerArgs, parse
from sweep.demo.bodies import not_served
from sweep.demo.engine import Engine
from sweep.demo.failures import CHILD_FAILED, die, notice_and_die, read_faults
from sweep.demo.log import Log, uvicorn_logging
from sweep.demo.quirks import read_quirks
from sweep.demo.service import UP, Service
from sweep.demo.startup import Launch, start

NOTICED_S = 1.0
SETTLES_S = 5.0
OPEN_TO_ALL = ("/health", "/ready", "/metrics")


def main(argv: list[str]) -> NoReturn:
    """Run the server; never returns."""
    try:
        args = parse(argv)
    except Refusal as refusal:
        sys.stderr.write(refusal.traceback())
        sys.exit(1)
    launch = make_launch(args, os.environ.get("SWEEP_SIM_FAIL", ""))
    start(launch)
    asyncio.run(serve(launch, float(os.environ.get("SWEEP_SIM_SPEED", "1"))))
    sys.exit(0)


def make_launch(args: ServerArgs, fail: str) -> Launch:
    """One start of what the arguments ask for; the wrong configuration if that is the fault."""
    faults = read_faults(fail, args.steps)
    if faults.at_start("wrong_configuration"):
        steps = args.steps - 1 if args.steps > 1 else args.steps + 1
        changed = {"speculative_num_steps": steps, "speculative_num_draft_tokens": steps + 1}
        args = replace(args, fields=args.fields | changed)
    limits = model.Limits(
        args["max_running_requests"], args["max_total_tokens"], args["mem_fraction_static"]
    )
    drafts = int(args["speculative_num_draft_tokens"] or 0) if args.speculative else 0
    topk = int(args["speculative_eagle_topk"] or 1) if args.speculative else 1
    seconds = float(os.environ.get("SWEEP_SIM_START_S", "1"))
    truth = model.truth(args.steps, topk, drafts, limits)
    quirks = read_quirks(os.environ.get("SWEEP_SIM_QUIRKS", ""))
    return Launch(args, truth, Log(args["log_level"]), faults, seconds, quirks)


def make_app(service: Service) -> Starlette:
    """Every endpoint; `service` is what they share."""
    both = ["GET", "POST"]
    routes = [
        Route("/", native.root),
        Route("/health", native.health),
        Route("/health_generate", native.health),
        Route("/ready", native.ready),
        Route("/v1/models", state.models),
        Route("/model_info", state.model_info),
        Route("/get_model_info", state.get_model_info),
        Route("/server_info", state.server_info),
        Route("/get_server_info", state.get_server_info),
        Route("/v1/loads", state.loads),
        Route("/flush_cache", native.flush_cache, methods=both),
        Route("/freeze_gc", native.freeze_gc, methods=both),
        Route("/abort_request", native.abort_request, methods=["POST"]),
        Route("/set_internal_state", native.set_internal_state, methods=["POST", "PUT"]),
        Route("/generate", native.generate, methods=["POST", "PUT"]),
        Route("/v1/chat/completions", openai.chat_completions, methods=["POST"]),
        Route("/v1/completions", openai.completions, methods=["POST"]),
        Route("/sim/truth", state.truth),
    ]
    if service.launch.args["enable_metrics"]:
        routes.append(Route("/metrics", state.metrics))

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        engine = loop.create_task(service.engine.run())
        warmup = threading.Thread(target=warm_up, args=(service,), daemon=True)
        warmup.start()
        yield
        engine.cancel()

    handlers: Any = {HTTPException: not_served}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.state.service = service
    return app


class KeyCheck:
    """401 without `Authorization: Bearer KEY`, health and metrics excepted (srt/utils/auth.py)."""

    def __init__(self, app: ASGIApp, key: str | None) -> None:
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._key and not self._allowed(scope):
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b'{"error":"Unauthorized"}'})
            return
        await self._app(scope, receive, send)

    def _allowed(self, scope: Scope) -> bool:
        if scope["method"] == "OPTIONS" or str(scope["path"]).startswith(OPEN_TO_ALL):
            return True
        given: str = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        kind, _, key = given.partition(" ")
        return kind.lower() == "bearer" and bool(key == self._key)


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers: SGLang's take their place."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(launch: Launch, speed: float) -> None:
    """Listen and answer until a signal or a fault ends the process."""
    service = Service(launch, Engine(launch, speed=speed), speed)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: loop.create_task(_stop(service)))
    loop.add_signal_handler(signal.SIGINT, die)
    loop.add_signal_handler(signal.SIGQUIT, lambda: notice_and_die(launch.log, serving=True))
    args = launch.args
    config = uvicorn.Config(
        KeyCheck(make_app(service), args["api_key"]),
        host=args["host"],
        port=args["port"],
        loop="asyncio",
        http="h11",
        ws="none",
        log_config=dict(uvicorn_logging()),
        timeout_keep_alive=5,
    )
    try:
        await _Server(config).serve()
    except SystemExit:
        sys.exit(3)  # uvicorn's STARTUP_FAILURE, whatever this version of it says
    if launch.args["port"]:
        sys.exit(3)


async def _stop(service: Service) -> None:
    """SIGTERM as systemd sends it, to every process of the unit: nothing is drained.

    The scheduler ends at once, the main process takes that for a crash, and ends by SIGKILL.
    """
    if service.draining:
        return
    log = service.launch.log
    log.warn("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    service.draining = True
    service.engine.halt()
    await asyncio.sleep(NOTICED_S / service.speed)
    log.complain(
        f"Subprocess scheduler_0 (pid={os.getpid() + 1}) crashed with exit code -15. "
        "Triggering SIGQUIT for cleanup..."
    )
    log.complain(CHILD_FAILED)
    log.line("Sleeping 5 seconds before crash diagnostics to let GPU activity settle.")
    await asyncio.sleep(SETTLES_S / service.speed)
    die()


def warm_up(service: Service) -> None:
    """SGLang's own first requests, over HTTP from a thread of its own; then it is ready."""
    launch = service.launch
    key = launch.args["api_key"]
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    body = {
        "text": "The capital city of France is",
        "sampling_params": {"temperature": 0, "max_new_tokens": 8},
    }
    for _ in range(600):
        time.sleep(0.05)
        with contextlib.suppress(OSError):
            _call(launch, "GET", "/model_info", headers)
            break
    if launch.faults.at_start("never_healthy"):
        return
    if launch.faults.at_start("warmup"):
        launch.log.complain(
            "Initialization failed. warmup error: Traceback (most recent call last):\n"
            '  File "http_server.py", line 2520, in _execute_server_warmup\n'
            "    assert res.status_code == 200\nAssertionError: Internal Server Error\n"
        )
        die()
    if not launch.args["skip_server_warmup"]:
        _call(launch, "POST", "/generate", headers, body)
    service.status = UP
    _call(launch, "POST", "/freeze_gc", headers)
    launch.log.line("The server is fired up and ready to roll!")


def _call(
    launch: Launch, method: str, path: str, headers: dict[str, str], body: Any = None
) -> None:
    host = launch.args["host"]
    address = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
    connection = http.client.HTTPConnection(address, launch.args["port"], timeout=600)
    try:
        connection.request(method, path, json.dumps(body) if body else None, headers)
        connection.getresponse().read()
    finally:
        connection.close()


if __name__ == "__main__":
    main(sys.argv[1:])
