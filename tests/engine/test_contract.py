"""The simulated server and SGLang itself, held against each other: the same requests to both.

Both start with the same flags. Every request of `REQUESTS` goes to both, and so does what needs a
certain moment (the start, a running request, the end). Of each answer its shape is taken: status,
kind of content, keys and types, the order of events. What differs is said in one line each, and
every such line has to be in `ON_PURPOSE`, which says why; what is listed there and differs no
longer has to go.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sweep.sglang.journal import scrape
from tests.demo.simulated import free_port
from tests.engine.build import Engine
from tests.engine.host import ARGUMENTS, SPECULATION

pytestmark = pytest.mark.timeout(600)

LIMIT_S = 240
KEY = "k3y"
FLAGS: Mapping[str, object] = {
    **ARGUMENTS,
    **SPECULATION,
    "speculative-num-steps": 2,
    "decode-log-interval": 5,
    "api-key": KEY,
}
CHAT, PLAIN, GENERATE = "/v1/chat/completions", "/v1/completions", "/generate"
USAGE = {"include_usage": True, "continuous_usage_stats": True}
# Of /server_info, what the tool and the README rely on. The rest is some 400 arguments.
RELIED = (
    "version", "model_path", "served_model_name", "tokenizer_path", "launch_command", "status",
    "api_key", "dp_size", "tp_size", "enable_dp_attention", "chunked_prefill_size",
    "context_length", "mem_fraction_static", "max_total_tokens", "max_running_requests",
    "max_total_num_tokens", "max_req_input_len", "speculative_algorithm", "speculative_num_steps",
    "speculative_eagle_topk", "speculative_num_draft_tokens", "speculative_draft_model_path",
    "decode_log_interval", "startup_time", "internal_states", "avg_spec_accept_length",
    "last_gen_throughput", "effective_max_running_requests_per_dp", "memory_usage",
)  # fmt: skip
# Values that are part of a form: they are compared as they are.
WORDS = ("object", "type", "role", "finish_reason", "code", "owned_by")

# Difference (`*`: any text) -> why the simulated server does not do as SGLang does there.
ON_PURPOSE: Mapping[str, str] = {
    "said.graph *: absent, simulated said": "a CPU captures no graphs; what it plays is on a GPU",
    "GET *model_info .body.embedding: *, simulated absent": "embedding models: none is swept",
    "GET /metrics*.body.sglang:*: *, simulated absent": "what says nothing of a sweep",
    "GET /v1/loads .body.loads[0].*: *, simulated absent": "what does not tell if it is idle",
    '*max_new_tokens": 0}}*: *, simulated *': "an answer of no tokens is nothing to measure",
    "POST /v1/chat/completions [1].*: *, simulated *": "a crash of its validation: 400 is kinder",
}


def chat(prompt: str = "Count the trees.", **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}]
    return {"messages": messages, "max_tokens": 48, "temperature": 0, "ignore_eos": True, **more}


def plain(prompt: Any = "Count", **more: Any) -> dict[str, Any]:
    return {"prompt": prompt, "max_tokens": 48, "temperature": 0, "ignore_eos": True, **more}


def native(text: Any, **more: Any) -> dict[str, Any]:
    sampling = {"max_new_tokens": 48, "temperature": 0, "ignore_eos": True}
    return {"text": text, "sampling_params": sampling, **more}


def sampled(**sampling: Any) -> dict[str, Any]:
    return {"text": "a", "sampling_params": sampling}


# What is asked of both, in this order: method, path, body, and the key if it is not the right one.
REQUESTS: tuple[tuple[Any, ...], ...] = (
    ("GET", "/server_info"),
    ("GET", "/get_server_info"),
    ("GET", "/model_info"),
    ("GET", "/get_model_info"),
    ("GET", "/v1/models"),
    ("GET", "/v1/loads"),
    ("GET", "/"),
    # who may ask
    *(
        ("GET", path, None, key)
        for path in ("/health", "/health_generate", "/ready", "/metrics", "/server_info",
                     "/model_info", "/v1/models", "/v1/loads", "/there/is/none")
        for key in (None, "wrong")
    ),
    ("POST", CHAT, chat(), None),
    ("POST", GENERATE, b"{", None),
    ("POST", "/flush_cache", None, "wrong"),
    # what there is not
    ("GET", "/there/is/none"),
    ("GET", "/version"),
    ("GET", "/get_load"),
    ("POST", "/health"),
    ("DELETE", "/server_info"),
    ("GET", GENERATE),
    ("GET", CHAT),
    # answers, whole and as streams
    ("POST", GENERATE, native("Trains leave")),
    ("POST", GENERATE, native("Trains leave")),  # now cached
    ("POST", GENERATE, native("Leaves fall", stream=True)),
    ("POST", GENERATE, native(["one", "two"])),
    ("POST", GENERATE, {**native("two"), "text": None, "input_ids": [5, 6, 7]}),
    ("POST", CHAT, chat()),
    ("POST", CHAT, chat(return_spec_tokens_details=True)),
    ("POST", CHAT, chat(model="another", stream_options={"include_usage": True})),
    ("POST", CHAT, chat(stream=True)),
    ("POST", CHAT, chat(stream=True, stream_options={"include_usage": True})),
    ("POST", CHAT, chat(stream=True, stream_options=USAGE)),
    ("POST", CHAT, chat(stream=True, return_spec_tokens_details=True)),
    ("POST", CHAT, chat(stream=True, stream_options=USAGE, return_spec_tokens_details=True)),
    ("POST", PLAIN, plain()),
    ("POST", PLAIN, plain(stream=True)),
    ("POST", PLAIN, plain(stream=True, stream_options=USAGE, return_spec_tokens_details=True)),
    ("POST", PLAIN, plain([70, 71, 72], stream=True, stream_options=USAGE)),
    # bodies that are refused
    ("POST", GENERATE),
    ("POST", GENERATE, b"{"),
    ("POST", GENERATE, {}),
    ("POST", GENERATE, {"text": 5}),
    ("POST", GENERATE, {"text": "a", "sampling_params": 5}),
    ("POST", GENERATE, sampled(max_new_tokens="x")),
    ("POST", GENERATE, sampled(temperature="hot")),
    ("POST", GENERATE, sampled(there_is_none=1)),
    ("POST", GENERATE, sampled(max_new_tokens=0)),
    ("POST", GENERATE, sampled(max_new_tokens=300000)),
    ("POST", GENERATE, {**sampled(max_new_tokens=300000), "stream": True}),
    ("POST", CHAT),
    ("POST", CHAT, b"{"),
    ("POST", CHAT, {}),
    ("POST", CHAT, [1]),
    ("POST", CHAT, {"messages": []}),
    ("POST", CHAT, {"messages": "x"}),
    ("POST", CHAT, {"messages": [{"content": "x"}]}),
    ("POST", CHAT, {"messages": [{"role": "user"}]}),
    ("POST", CHAT, {"messages": [{"role": "nobody", "content": "x"}]}),
    ("POST", CHAT, chat(max_tokens="x")),
    ("POST", CHAT, chat(max_tokens=-1)),
    ("POST", CHAT, chat(max_tokens=300000)),
    ("POST", CHAT, chat(max_tokens=300000, stream=True)),
    ("POST", CHAT, chat(temperature="hot")),
    ("POST", CHAT, chat(temperature=-1)),
    ("POST", CHAT, chat(stream="perhaps")),
    ("POST", CHAT, chat(stream=True, stream_options=5)),
    ("POST", CHAT, chat(there_is_none=1)),
    ("POST", PLAIN, {}),
    ("POST", PLAIN, plain("")),
    ("POST", PLAIN, plain([])),
    ("POST", PLAIN, plain(max_tokens=300000)),
    # what changes it
    ("POST", "/abort_request"),
    ("POST", "/abort_request", b"{"),
    ("POST", "/abort_request", {}),
    ("POST", "/abort_request", {"rid": "nobody"}),
    ("POST", "/abort_request", {"abort_all": True}),
    ("POST", "/set_internal_state", {}),
    ("POST", "/freeze_gc"),
    ("GET", "/server_info"),  # with acceptance totals
    ("POST", "/flush_cache?timeout=x"),
    ("POST", "/flush_cache?timeout=5"),
    ("GET", "/flush_cache"),
    ("POST", "/flush_cache"),
    ("GET", "/server_info"),  # without them
    ("GET", "/metrics"),
)  # fmt: skip

_PER_RANK = r"token usage: [\d.]+, #running-req: \d+, #queue-req: \d+"
# The lines of a start and of serving, each with its whole form.
LINES: Mapping[str, str] = {
    "48 requests": r"Max running requests is reset to 48 for speculative decoding\. .*",
    "draft tokens": r"speculative_num_draft_tokens is adjusted to speculative_num_steps \+ 1 .*",
    "arguments": r"server_args=\{'.*'speculative_num_steps': 2\b.*\}",
    "load begin": r"Load weight begin\. avail mem=[\d.]+ GB",
    "load end": r"Load weight end\. elapsed=[\d.]+ s, type=\w+, avail mem=[\d.]+ GB, "
    r"mem usage=-?[\d.]+ GB\.",
    "baseline": r"Memory baseline taken\. mem usage=[\d.]+ GB",
    "pool": r"KV Cache is allocated\. dtype: torch\.bfloat16, #tokens: \d+, K size: [\d.]+ GB, "
    r"V size: [\d.]+ GB",
    "pool end": r"Memory pool end\. avail mem=[\d.]+ GB",
    "graph begin": r"Capture .* CUDA graph begin\. .*",
    "graph end": r"Capture .* CUDA graph end\. .*",
    "capacity": r"max_total_num_tokens=\d+, chunked_prefill_size=\d+, max_prefill_tokens=\d+, "
    r"max_running_requests=\d+, context_len=\d+, available_[cg]pu_mem=[\d.]+ GB",
    "radix cache": r"Init Unified Radix Cache\. Components: .* Tree Core: \w+",
    "tree cache": r"Tree cache initialized: source=\w+ impl=\w+ hybrid_swa=False hybrid_ssm=False "
    r"hicache_attached=False",
    "timings": r"Engine startup timings \(s\): load_weight=[\d.]+, kv_cache_allocation=[\d.]+, "
    r"scheduler_e2e=[\d.]+, cuda_graph=\{prefill=[\d.]+, decode=[\d.]+, target_verify=[\d.]+, "
    r"draft_prefill=[\d.]+, draft_decode=[\d.]+, draft_extend=[\d.]+\}, tokenizer_e2e=[\d.]+",
    "process": r"INFO:     Started server process \[\d+\]",
    "application": r"INFO:     Waiting for application startup\.",
    "application up": r"INFO:     Application startup complete\.",
    "listens": r"INFO:     Uvicorn running on http://127\.0\.0\.1:\d+ \(Press CTRL\+C to quit\)",
    "warm-up asks": r'INFO:     127\.0\.0\.1:\d+ - "GET /model_info HTTP/1\.1" 200 OK',
    "warm-up": r"Prefill batch, #new-seq: 1, #new-token: \d+, #cached-token: 0, "
    rf"{_PER_RANK}, #pending-token: 0, (?:cuda|cpu) graph: False, "
    r"input throughput \(token/s\): [\d.]+",
    "warmed up": r'INFO:     127\.0\.0\.1:\d+ - "POST /generate HTTP/1\.1" 200 OK',
    "frozen": r'INFO:     127\.0\.0\.1:\d+ - "POST /freeze_gc HTTP/1\.1" 200 OK',
    "ready": r"The server is fired up and ready to roll!",
    "decode": r"Decode batch, #running-req: 1, #token: \d+, token usage: [\d.]+, "
    r"accept len: \d\.\d\d, accept rate: \d\.\d\d, (?:cuda|cpu) graph: (?:True|False), "
    r"gen throughput \(token/s\): [\d.]+, #queue-req: 0",
    "flushed": r"Cache flushed successfully!",
    "not flushed": r"Cache not flushed because there are pending requests\. #queue-req: 0, "
    r"#running-req: 1",
    "ends": r"SIGTERM received\. signum=None frame=None\. Draining requests and shutting down\.{3}",
    "unhealthy": r"Health check request received during shutdown\. Returning 503\.",
    "scheduler gone": r"Subprocess scheduler_0 \(pid=\d+\) crashed with exit code -15\. "
    r"Triggering SIGQUIT for cleanup\.\.\.",
    "child failed": r"SIGQUIT received\. signum=None, frame=None\. It usually means one child "
    r"failed\.",
    "settles": r"Sleeping 5 seconds before crash diagnostics to let GPU activity settle\.",
}


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; the status is None where nobody listens."""

    status: int | None
    kind: str = ""
    body: bytes = b""

    @property
    def shape(self) -> dict[str, Any]:
        return {"status": self.status, "kind": self.kind, "body": self._body()}

    def _body(self) -> Any:
        """Keys and types of JSON, of each kind of event in turn; metrics by name; text as it is."""
        text = self.body.decode()
        if self.kind == "text/event-stream":
            return [event for event, _ in itertools.groupby(map(event_shape, text.split("\n\n")))]
        if self.kind == "application/json":
            return shape(json.loads(text))
        if text.startswith("# HELP"):
            return dict(re.findall(r"^# TYPE (sglang:\S+) (\w+)$", text, re.MULTILINE))
        return text


@dataclass
class Server:
    """One of the two as a process; `log` is what it has printed so far."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    log_file: Path
    phases: dict[str, list[int | None]] = field(default_factory=dict)

    @property
    def log(self) -> str:
        return self.log_file.read_bytes().decode()

    def open(
        self, method: str, path: str, body: Any = None, key: str | None = KEY
    ) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, body, headers)
        return connection

    def ask(self, method: str, path: str, body: Any = None, key: str | None = KEY) -> Answer:
        try:
            with contextlib.closing(self.open(method, path, body, key)) as connection:
                return read(connection)
        except OSError:
            return Answer(None)

    def until(self, text: str) -> None:
        end = time.monotonic() + LIMIT_S
        while text not in self.log:
            assert self.process.poll() is None, self.log
            assert time.monotonic() < end, f"{self.name} does not say {text!r}:\n{self.log}"
            time.sleep(0.05)

    def watch(self, path: str) -> None:
        """Writes down each change of the status of `path` up to the first 200."""
        seen = self.phases.setdefault(path, [])
        end = time.monotonic() + LIMIT_S
        while seen[-1:] != [200] and time.monotonic() < end:
            status = self.ask("GET", path, key=None).status
            if seen[-1:] != [status]:
                seen.append(status)
            time.sleep(0.01)

    def said(self) -> dict[str, int]:
        """Which of LINES it has printed and where the first of each begins, in that order."""
        log = self.log.replace("\r", "\n")
        found = {}
        for name, form in LINES.items():
            line = re.search(rf"\[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\] {form}$", log, re.MULTILINE)
            if line:
                found[name] = line.start()
        return dict(sorted(found.items(), key=lambda one: one[1]))


@dataclass(frozen=True)
class Pair:
    real: Server
    simulated: Server

    def __iter__(self) -> Iterator[Server]:
        return iter((self.real, self.simulated))

    def compare(self, place: str, look: Callable[[Server], Any]) -> Iterator[str]:
        yield from differences(look(self.real), look(self.simulated), place)


def read(connection: http.client.HTTPConnection) -> Answer:
    response = connection.getresponse()
    kind = response.headers.get_content_type() if "content-type" in response.headers else ""
    return Answer(response.status, kind, response.read())


def shape(value: Any) -> Any:
    """A value without its values: types instead of scalars, the kinds of items of a list."""
    if isinstance(value, dict):
        return {
            key: one if key in WORDS and isinstance(one, str | int) else shape(one)
            for key, one in value.items()
        }
    if isinstance(value, list):
        kinds = [shape(one) for one in value]
        return [kind for number, kind in enumerate(kinds) if kind not in kinds[:number]]
    return "null" if value is None else type(value).__name__


def event_shape(event: str) -> Any:
    """`data: {...}` as the shape of its JSON, anything else as it is."""
    data = event.removeprefix("data: ")
    return shape(json.loads(data)) if data.startswith("{") else event


def differences(real: Any, simulated: Any, place: str) -> Iterator[str]:
    """One line for each place where two shapes are not the same."""
    if isinstance(real, dict) and isinstance(simulated, dict):
        for key in {**real, **simulated}:
            ours = simulated.get(key, "absent")
            yield from differences(real.get(key, "absent"), ours, f"{place}.{key}")
    elif isinstance(real, list) and isinstance(simulated, list):
        pairs = itertools.zip_longest(real, simulated, fillvalue="absent")
        for number, (theirs, ours) in enumerate(pairs):
            yield from differences(theirs, ours, f"{place}[{number}]")
    elif real != simulated:
        yield f"{place}: {brief(real)}, simulated {brief(simulated)}"


def brief(value: Any) -> str:
    """A shape in a few words."""
    return type(value).__name__ if isinstance(value, dict | list) else str(value).strip()


def relied(answer: dict[str, Any]) -> dict[str, Any]:
    """Of the shape of /server_info, what `RELIED` names."""
    body = answer["body"]
    if isinstance(body, dict) and "internal_states" in body:
        states = [{key: state[key] for key in RELIED if key in state}
                  for state in body["internal_states"]]  # fmt: skip
        body = {key: body[key] for key in RELIED if key in body} | {"internal_states": states}
    return {**answer, "body": body}


def starting(pair: Pair) -> Iterator[str]:
    """Refused while it loads, 503 while it warms up, 200: each path, each phase."""
    for path in pair.real.phases:
        for server in pair:
            yield from differences([None, 503, 200], server.phases[path], f"phases {path}")


def answers(pair: Pair) -> Iterator[str]:
    for method, path, *rest in REQUESTS:
        body = rest[0] if rest else None
        place = f"{method} {path} {json.dumps(body) if isinstance(body, dict) else body or ''}"
        place += f" key {rest[1]}" if len(rest) > 1 else ""
        real, simulated = (relied(server.ask(method, path, *rest).shape) for server in pair)
        yield from differences(real, simulated, place)


def busy(pair: Pair) -> Iterator[str]:
    """What is answered while a request runs, and what becomes of one that is aborted."""
    more = {"max_tokens": 1500, "rid": "busy", "return_spec_tokens_details": True}

    def look(server: Server) -> dict[str, Any]:
        seen = {}
        for stream in (True, False):
            body = chat("Busy", stream=stream, stream_options=USAGE if stream else None, **more)
            with contextlib.closing(server.open("POST", CHAT, body)) as connection:
                wait_running(server)
                for path in ("/flush_cache", "/flush_cache?timeout=0.2"):
                    seen[path] = server.ask("POST", path).shape
                seen["ready"] = server.ask("GET", "/ready").shape
                seen["abort"] = server.ask("POST", "/abort_request", {"rid": "busy"}).shape
                seen[f"stream {stream}"] = read(connection).shape
        body = {**native("Busy", rid="busy"), "sampling_params": {"max_new_tokens": 1500}}
        body["sampling_params"]["ignore_eos"] = True
        with contextlib.closing(server.open("POST", GENERATE, body)) as connection:
            wait_running(server)
            seen["abort all"] = server.ask("POST", "/abort_request", {"abort_all": True}).shape
            seen["native"] = read(connection).shape
        with contextlib.closing(server.open("POST", CHAT, chat(stream=True, max_tokens=1500))):
            wait_running(server)
        seen["gone"] = server.ask("POST", "/flush_cache?timeout=5").shape
        return seen

    yield from pair.compare("busy", look)


def wait_running(server: Server) -> None:
    """Until it is not idle, and some verify steps further."""
    end = time.monotonic() + 20
    while server.ask("POST", "/flush_cache").status != 400:
        assert time.monotonic() < end, server.log
    time.sleep(0.3)


def statuses_until_gone(server: Server) -> dict[str, list[int]]:
    """What the health paths answer from now until nobody does, each change once; or for 0.5 s.

    When it is gone depends on how busy the machine is, what it says until then does not.
    """
    seen: dict[str, list[int]] = {"/health": [], "/ready": []}
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        for path, found in seen.items():
            status = server.ask("GET", path).status
            if status is None:
                return seen
            if found[-1:] != [status]:
                found.append(status)
    return seen


def ending(pair: Pair) -> Iterator[str]:
    """SIGTERM to the whole control group, as systemd sends it, while a request runs."""

    def look(server: Server) -> dict[str, Any]:
        body = chat("End", stream=True, max_tokens=300)
        with contextlib.closing(server.open("POST", CHAT, body)) as connection:
            wait_running(server)
            os.killpg(server.process.pid, signal.SIGTERM)
            seen = statuses_until_gone(server)
            try:
                stream: Any = read(connection).shape
            except (OSError, http.client.HTTPException) as error:
                stream = f"cut: {type(error).__name__}"
        return {**seen, "stream": stream, "exit status": server.process.wait(60)}

    yield from pair.compare("end", look)


def lines(pair: Pair) -> Iterator[str]:
    """Which lines there are, their forms, and the order of the first of each."""
    yield from pair.compare("said", lambda server: dict.fromkeys(server.said(), "said"))
    both = set(pair.real.said()) & set(pair.simulated.said())
    yield from pair.compare(
        "order", lambda server: [name for name in server.said() if name in both]
    )
    yield from pair.compare("scraped", lambda server: shape(scrape(server.log.encode()).as_json()))


SECTIONS = (starting, answers, busy, ending, lines)


@contextlib.contextmanager
def running(name: str, command: list[str], environment: dict[str, str], log_file: Path,
            port: int) -> Iterator[Server]:  # fmt: skip
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            ["nice", "-n", "10", *command, "--port", str(port), "--enable-metrics"],
            env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    server = Server(name, process, port, log_file)
    watchers = [
        threading.Thread(target=server.watch, args=(path,), daemon=True)
        for path in ("/ready", "/health", "/health_generate")
    ]
    try:
        for watcher in watchers:
            watcher.start()
        server.until("The server is fired up and ready to roll!")
        for watcher in watchers:
            watcher.join(LIMIT_S)
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def found(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, list[str]]]:
    """Section -> what differs."""
    directory = tmp_path_factory.mktemp("contract")
    models = {
        "model-path": engine.models / "target",
        "speculative-draft-model-path": engine.models / "draft",
    }
    flags = [
        str(word) for flag, value in {**FLAGS, **models}.items() for word in (f"--{flag}", value)
    ]
    real = [str(engine.python), "-m", "sglang.launch_server", *flags]
    simulated = [sys.executable, "-m", "sweep.demo.simulator", *flags]
    pace = {"SWEEP_SIM_SPEED": "1", "SWEEP_SIM_START_S": "1"}
    with (
        running("SGLang", real, engine.environment, directory / "real", free_port()) as one,
        running("simulated", simulated, pace, directory / "simulated", free_port()) as two,
    ):
        pair = Pair(one, two)
        yield {section.__name__: list(section(pair)) for section in SECTIONS}


def listed(difference: str) -> list[str]:
    """The entries of ON_PURPOSE it is one of."""
    return [
        entry
        for entry in ON_PURPOSE
        if re.fullmatch(re.escape(entry).replace(r"\*", ".*"), difference, re.DOTALL)
    ]


@pytest.mark.parametrize("section", [section.__name__ for section in SECTIONS])
def test_what_differs_is_listed(found: Mapping[str, list[str]], section: str) -> None:
    assert [one for one in found[section] if not listed(one)] == []


def test_what_is_listed_differs(found: Mapping[str, list[str]]) -> None:
    seen = {entry for one in itertools.chain(*found.values()) for entry in listed(one)}
    assert [entry for entry in ON_PURPOSE if entry not in seen] == []
