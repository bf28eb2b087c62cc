"""SGLang's HTTP interface, as far as a sweep needs it: health, what runs, flush, abort.

Standard library only, straight to the socket: no proxy from the environment ever comes between.
Every call has one deadline for everything, connecting and each byte included, so neither a server
that never answers nor one that drips bytes can hold a sweep.
"""

from __future__ import annotations

import http.client
import io
import json
import socket
import time
from dataclasses import dataclass
from typing import Any

from sweep.errors import LaunchError

_LARGEST = 64 * 1024 * 1024
_SHOWN = 200


class ApiError(LaunchError):
    """A request that should have been answered was not.

    `failure` is `hang` past the deadline, `wrong_configuration` where something else than this
    SGLang answers (another program, another api key), else `unknown`.
    """


@dataclass(frozen=True)
class Health:
    """One probe: the HTTP status, None where nobody answered, and in words what happened."""

    status: int | None
    detail: str

    @property
    def ok(self) -> bool:
        return self.status == 200


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes


class Api:
    """A server on `host`:`port`. Nothing is kept open between calls, so nothing can go stale."""

    def __init__(
        self,
        port: int,
        host: str = "127.0.0.1",
        api_key: str | None = None,
        *,
        timeout_s: float = 10.0,
    ) -> None:
        self._address = (host, port)
        self._key = api_key
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"Api({self._address[0]}:{self._address[1]})"

    def health(self, *, timeout_s: float = 5.0) -> Health:
        """Whether the server generates: GET /health_generate, a request of one token.

        Not /health: to 0.4.9 that is 200 as soon as the port is open. 503 while starting (0.4.10
        and newer) and when the generation takes more than 20 s; refused while the model loads.
        Needs no api key. Takes a second when healthy.
        """
        try:
            answer = self._ask("GET", "/health_generate", timeout_s=timeout_s)
        except ApiError as error:
            return Health(None, error.detail)
        words = {200: "healthy", 503: "starting, or not able to generate (HTTP 503)"}
        return Health(answer.status, words.get(answer.status, f"HTTP {answer.status}"))

    def server_info(self) -> dict[str, Any]:
        """Resolved arguments, version and `internal_states`: /server_info, /get_server_info before
        0.5.6. Holds secrets: `redact` it before it is stored. Raises ApiError.
        """
        return self._object("/server_info", "/get_server_info")

    def model_info(self) -> dict[str, Any]:
        """/model_info, /get_model_info before 0.5.6. Raises ApiError."""
        return self._object("/model_info", "/get_model_info")

    def models(self) -> list[dict[str, Any]]:
        """`data` of /v1/models, each with its `id`. Raises ApiError."""
        data = self._object("/v1/models").get("data")
        return [one for one in data if isinstance(one, dict)] if isinstance(data, list) else []

    def flush_cache(self) -> bool:
        """POST /flush_cache: empties the prefix cache and resets the acceptance totals.

        False when the server is not idle (HTTP 400; 0.4.3 says 200 even then). Raises ApiError.
        """
        answer = self._ask("POST", "/flush_cache")
        if answer.status not in (200, 400):
            raise self._refused("POST", "/flush_cache", answer)
        return answer.status == 200

    def abort_all(self) -> bool:
        """POST /abort_request for every request: 0.4.9 and newer. False where the release has no
        such request; 0.4.6 has it for single ones and ignores this. Raises ApiError.
        """
        body = json.dumps({"rid": "", "abort_all": True}).encode()
        return self._ask("POST", "/abort_request", body=body).status == 200

    def idle(self) -> bool | None:
        """Whether nothing runs or waits on any DP rank: /v1/loads (0.5.9 and newer), /get_load
        (0.4.9 and newer); None where the release has neither. Raises ApiError.
        """
        answer = self._ask("GET", "/v1/loads")
        loads = self._parsed("/v1/loads", answer) if answer.status == 200 else None
        if isinstance(loads, dict):
            loads = loads.get("loads")
            names = ("num_running_reqs", "num_waiting_reqs")
        else:
            answer = self._ask("GET", "/get_load")
            loads = self._parsed("/get_load", answer) if answer.status == 200 else None
            names = ("num_reqs", "num_waiting_reqs")
        if not isinstance(loads, list) or not loads:
            return None
        counts = [load.get(name) for load in loads if isinstance(load, dict) for name in names]
        if not all(isinstance(count, int) for count in counts):
            return None
        return not any(counts)

    def metrics(self) -> dict[str, dict[str, float]] | None:
        """/metrics as name -> labels, as printed between braces -> value; None without
        --enable-metrics. Names are like `sglang:spec_accept_length`. Raises ApiError.
        """
        answer = self._ask("GET", "/metrics")
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise self._refused("GET", "/metrics", answer)
        return parse_metrics(answer.body.decode("utf-8", "replace"))

    def _object(self, *paths: str) -> dict[str, Any]:
        """The JSON object at the first of `paths` the server has."""
        for path in paths:
            answer = self._ask("GET", path)
            if answer.status != 404:
                break
        if answer.status != 200:
            raise self._refused("GET", path, answer)
        value = self._parsed(path, answer)
        if not isinstance(value, dict):
            raise ApiError("wrong_configuration", f"GET {path} of {self!r}: not a JSON object")
        return value

    def _parsed(self, path: str, answer: _Answer) -> object:
        try:
            value: object = json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            detail = f"GET {path} of {self!r}: not JSON, so hardly an SGLang server: {error}"
            raise ApiError("wrong_configuration", detail) from error
        return value

    def _refused(self, method: str, path: str, answer: _Answer) -> ApiError:
        words = " ".join(answer.body[:_SHOWN].decode("utf-8", "replace").split())
        foreign = answer.status in (401, 403, 404, 405)
        why = " (another api key?)" if answer.status in (401, 403) else ""
        return ApiError(
            "wrong_configuration" if foreign else "unknown",
            f"{method} {path} of {self!r}: HTTP {answer.status}{why}: {words}",
        )

    def _ask(
        self, method: str, path: str, *, body: bytes | None = None, timeout_s: float = 0
    ) -> _Answer:
        limit = timeout_s or self._timeout_s
        deadline = time.monotonic() + limit
        what = f"{method} {path} of {self!r}"
        try:
            with socket.create_connection(self._address, timeout=limit) as sock:
                return _exchange(sock, deadline, self._request(method, path, body), method)
        except TimeoutError as error:
            raise ApiError("hang", f"{what}: no answer within {limit:g} s") from error
        except ConnectionRefusedError as error:
            raise ApiError("unknown", f"{what}: nobody listens there (refused)") from error
        except (OSError, http.client.HTTPException) as error:
            raise ApiError("unknown", f"{what}: {error or type(error).__name__}") from error

    def _request(self, method: str, path: str, body: bytes | None) -> bytes:
        headers = {"Host": f"{self._address[0]}:{self._address[1]}", "Connection": "close"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        if method == "POST":
            headers["Content-Length"] = str(len(body or b""))
        if body is not None:
            headers["Content-Type"] = "application/json"
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {v}" for name, v in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + (body or b"")


def parse_metrics(text: str) -> dict[str, dict[str, float]]:
    """Prometheus' text format as name -> labels -> value; what does not parse is left out."""
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        head, braces, tail = line.rpartition("}")
        series, _, rest = (head, braces, tail) if braces else line.partition(" ")
        name, _, labels = series.partition("{")
        try:
            value = float(rest.split()[0])
        except (ValueError, IndexError):
            continue
        found.setdefault(name.strip(), {})[labels] = value
    return found


def _exchange(sock: socket.socket, deadline: float, request: bytes, method: str) -> _Answer:
    stream = _Deadline(sock, deadline)
    sock.settimeout(stream.left())
    sock.sendall(request)
    response = http.client.HTTPResponse(_Reader(stream), method=method)  # type: ignore[arg-type]
    response.begin()
    body = response.read(_LARGEST + 1)
    if len(body) > _LARGEST:
        raise http.client.HTTPException(f"an answer of more than {_LARGEST >> 20} MB")
    if response.length:
        raise http.client.IncompleteRead(body, response.length)
    return _Answer(response.status, body)


class _Deadline(io.RawIOBase):
    """A socket to read from whose every read gets only what is left of one deadline."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self.left())
        return self._sock.recv_into(buffer)


@dataclass(frozen=True)
class _Reader:
    """What http.client wants of a socket."""

    stream: _Deadline

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self.stream)
