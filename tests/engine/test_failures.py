"""How SGLang itself fails to start, and whether the tool says why."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from sweep.sglang.failures import Failure, classify
from tests.engine.build import Engine
from tests.engine.host import ARGUMENTS, SPECULATION

pytestmark = pytest.mark.timeout(900)

LIMIT_S = 240
MISSING = "/models/there/is/none"


@dataclass(frozen=True)
class End:
    """What a start left: its log, and its exit status as Popen has it (-9: killed)."""

    log: bytes
    status: int | None

    def failure(self) -> Failure:
        """As the tool sees it, with systemd's word."""
        if self.status is None:
            return classify(self.log)
        code = "killed" if self.status < 0 else "exited"
        result = "signal" if self.status < 0 else "exit-code"
        return classify(self.log, result=result, exit_code=code, exit_status=abs(self.status))


def start(
    engine: Engine, directory: Path, flags: Mapping[str, object], *, until: bytes = b""
) -> End:
    """Starts it with these flags, and ends it once it says `until` (status None then)."""
    models = {"model-path": engine.models / "target"}
    if flags.get("speculative-draft-model-path", MISSING) != MISSING:
        models["speculative-draft-model-path"] = engine.models / "draft"
    words = [
        word
        for flag, value in {**ARGUMENTS, **flags, **models}.items()
        if value is not None
        for word in (f"--{flag}", str(value))
    ]
    path = directory / "log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            ["nice", "-n", "10", engine.python, "-m", "sglang.launch_server", *words],
            env={**os.environ, **engine.environment}, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    end = time.monotonic() + LIMIT_S
    try:
        while process.poll() is None and time.monotonic() < end:
            if until and until in path.read_bytes():
                return End(path.read_bytes(), None)
            time.sleep(0.2)
        return End(path.read_bytes(), process.poll())
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_flag_there_is_not(engine: Engine, tmp_path: Path) -> None:
    end = start(engine, tmp_path, {"speculative-num-stepz": 3})
    assert end.status == 2
    assert end.failure().kind == "bad_argument"


def test_steps_without_topk(engine: Engine, tmp_path: Path) -> None:
    flags = {**SPECULATION, "speculative-eagle-topk": None, "speculative-num-steps": 3}
    end = start(engine, tmp_path, flags)
    assert end.status == 1
    assert end.failure().kind == "invalid_configuration"
    assert "TypeError: '>' not supported" in end.failure().detail


def test_a_draft_model_there_is_not(engine: Engine, tmp_path: Path) -> None:
    flags = {**SPECULATION, "speculative-num-steps": 3, "speculative-draft-model-path": MISSING}
    end = start(engine, tmp_path, flags)
    assert end.status == 1
    assert end.failure().kind == "model_not_found"


def test_no_room_for_the_cache(engine: Engine, tmp_path: Path) -> None:
    """It kills itself: the exit status is that of a process the kernel killed for memory."""
    end = start(engine, tmp_path, {"max-total-tokens": 1})
    assert end.status == -9
    assert end.failure().kind == "kv_cache_too_small"


def test_a_port_somebody_has(engine: Engine, tmp_path: Path) -> None:
    """It finds out after loading, and then does not end: its log alone tells."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        flags = {"port": holder.getsockname()[1]}
        end = start(engine, tmp_path, flags, until=b"INFO:     Waiting for application shutdown.")
    assert end.status is None
    assert b"max_total_num_tokens=20000" in end.log
    assert end.failure().kind == "port_in_use"
