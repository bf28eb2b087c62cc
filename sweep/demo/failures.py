"""Failures on demand: what SGLang 0.5.23 prints and how its process ends, chosen by environment.

SWEEP_SIM_FAIL is `kind@steps=7;kind@steps=3,concurrency=16;kind`. Without a condition a kind
always applies; with `concurrency=N` it strikes while serving, once N requests are there. A value
`@/a/file` means what that file holds when the server starts (no file: nothing fails).
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from sweep.demo.log import Log

KINDS = (
    "oom", "kv", "weights", "graph_capture", "nccl", "host_oom", "model_missing", "exit0",
    "never_healthy", "warmup", "crash", "hang", "watchdog", "wrong_configuration", "no_line",
)  # fmt: skip
# These strike while serving even when no concurrency is named.
SERVING = ("crash", "hang", "watchdog")

CHILD_FAILED = "SIGQUIT received. signum=None, frame=None. It usually means one child failed."
_ROOT = "/opt/sglang/lib/python3.12/site-packages/sglang/srt"


@dataclass(frozen=True)
class Fault:
    """One kind of failure; `concurrency` is the number of requests it waits for, 0 at start-up."""

    kind: str
    concurrency: int = 0


class Faults:
    """The faults that apply to one server."""

    def __init__(self, faults: tuple[Fault, ...] = ()) -> None:
        self._faults = faults

    def at_start(self, kind: str) -> bool:
        return Fault(kind) in self._faults

    def serving(self, in_flight: int) -> Fault | None:
        """The fault that strikes with that many requests waiting or running."""
        for fault in self._faults:
            if fault.concurrency and in_flight >= fault.concurrency:
                return fault
        return None


def read_faults(text: str, steps: int) -> Faults:
    """The faults of SWEEP_SIM_FAIL for a server with that many draft steps. Raises ValueError."""
    if text.startswith("@"):
        file = Path(text[1:])
        text = file.read_text("utf-8") if file.exists() else ""
    found = []
    for part in filter(None, (part.strip() for part in text.replace("\n", ";").split(";"))):
        kind, _, conditions = part.partition("@")
        wanted = {
            name: value for name, _, value in (c.partition("=") for c in conditions.split(","))
        }
        wanted.pop("", None)
        numbers = all(value.isdigit() for value in wanted.values())
        if kind not in KINDS or set(wanted) - {"steps", "concurrency"} or not numbers:
            raise ValueError(f"SWEEP_SIM_FAIL: {part!r}; the kinds are {', '.join(KINDS)}")
        if int(wanted.get("steps", steps)) == steps:
            least = 1 if kind in SERVING else 0
            found.append(Fault(kind, int(wanted.get("concurrency", least))))
    return Faults(tuple(found))


def reason(kind: str) -> str:
    """The traceback a scheduler logs for that kind."""
    frames, last = _REASONS[kind]
    return (
        "Traceback (most recent call last):\n"
        + "".join(
            f'  File "{_ROOT}/{file}", line {line}, in {function}\n'
            for file, line, function in frames
        )
        + f"{last}\n"
    )


def watchdog_barks(log: Log, limit_s: float, rank: str) -> NoReturn:
    """What the watchdog of a hung scheduler prints: its stacks by py-spy, then that it is over."""
    pid = os.getpid() + 1
    log.complain(
        f"Pyspy dump for PID {pid} (py-spy dump --native --pid {pid}):\n"
        f"Process {pid}: sglang::scheduler\nPython v3.12.3 (/opt/sglang/bin/python3.12)\n\n"
        f'Thread {pid} (active): "MainThread"\n'
        f"    verify ({_ROOT}/speculative/eagle_worker_v2.py:791)\n"
        f"    event_loop_overlap ({_ROOT}/managers/scheduler.py:1731)\n"
        f"    run_scheduler_process ({_ROOT}/managers/scheduler.py:6362)\n",
        rank,
    )
    log.complain(
        f"Scheduler watchdog timeout (self.watchdog_timeout={limit_s}, self.soft=False)", rank
    )
    notice_and_die(log, serving=True)


def scheduler_dies(log: Log, kind: str, rank: str, *, serving: bool) -> NoReturn:
    """The scheduler's exception, the parent's notice, then SIGKILL of the whole tree."""
    log.complain(f"Scheduler hit an exception: {reason(kind)}", rank)
    notice_and_die(log, serving=serving)


def notice_and_die(log: Log, *, serving: bool) -> NoReturn:
    """What the main process says and does when a child has failed."""
    if serving:
        log.complain(CHILD_FAILED)
    else:
        log.complain("Received sigquit from a child process. It usually means the child failed.")
    die()


def died_initializing(log: Log) -> NoReturn:
    """A child the kernel killed while loading: a RuntimeError of the parent, exit 1."""
    log.raw(
        "Traceback (most recent call last):\n"
        f'  File "{_ROOT}/entrypoints/engine.py", line 1440, in _launch_subprocesses\n'
        "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9). If exit code "
        "is -9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to "
        "check.\n"
    )
    sys.exit(1)


def model_missing(log: Log, path: str) -> NoReturn:
    """A model path that is nothing: an OSError of transformers, exit 1."""
    log.raw(
        "Traceback (most recent call last):\n"
        f'  File "{_ROOT}/utils/hf_transformers_utils.py", line 241, in get_config\n'
        f"OSError: {path} is not a local folder and is not a valid model identifier listed on "
        "'https://huggingface.co/models'\n"
    )
    sys.exit(1)


def die() -> NoReturn:
    """SGLang's kill_process_tree of itself: status 9/KILL."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit(0)  # what follows the kill in SGLang, reached only as PID 1 of a container


_SCHEDULER = ("managers/scheduler.py", 6362, "run_scheduler_process")
_LOOP = ("managers/scheduler.py", 1731, "event_loop_overlap")
_CAPTURE_HINT = (
    "Possible solutions:\n"
    "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
    "2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)\n"
    "3. disable decode CUDA graph by --cuda-graph-backend-decode=disabled. "
    "(Not recommended. Huge performance loss)"
)
_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.44 GiB. GPU 0 has a total "
    "capacity of 94.97 GiB of which 1.12 GiB is free. Including non-PyTorch memory, this process "
    "has 93.84 GiB memory in use."
)
_REASONS: dict[str, tuple[tuple[tuple[str, int, str], ...], str]] = {
    "oom": ((_SCHEDULER, ("mem_cache/memory_pool.py", 941, "__init__")), _OOM),
    "kv": (
        (_SCHEDULER, ("model_executor/pool_configurator.py", 99, "__post_init__")),
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
        "Current value: mem_fraction_static=0.85",
    ),
    "weights": (
        (_SCHEDULER, ("mem_cache/kv_cache_configurator.py", 3050, "profile_max_num_token")),
        "RuntimeError: Loaded weights leave no GPU memory for the KV cache under "
        "--mem-fraction-static=0.62. Use at least 0.71.",
    ),
    "graph_capture": (
        (_SCHEDULER, ("model_executor/runner/decode_cuda_graph_runner.py", 602, "__init__")),
        f"Exception: Capture cuda graph failed: CUDA error: out of memory\n{_CAPTURE_HINT}",
    ),
    "nccl": (
        (_SCHEDULER, ("distributed/device_communicators/pynccl_wrapper.py", 281, "NCCL_CHECK")),
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
    ),
    "crash": (
        (_SCHEDULER, _LOOP, ("speculative/eagle_worker_v2.py", 791, "verify")),
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    ),
    "draft_tokens": (
        (_SCHEDULER, ("speculative/eagle_worker_v2.py", 168, "__init__")),
        "TypeError: unsupported operand type(s) for -: 'NoneType' and 'int'",
    ),
}
