"""What a dying SGLang prints: one row per text, with the kind of failure it stands for.

Read in the releases 0.4.3.post4 to 0.5.23; texts of libraries (torch, transformers, uvicorn,
systemd, the kernel) as users report them. No sign is tied to the beginning of a line: records are
glued behind progress bars and behind each other.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from sweep.sglang.launches import BIND_FAILED
from sweep.sglang.lines import find_all, is_logged, strip

_AROUND = 400


@dataclass(frozen=True)
class Sign:
    """`needle` is searched for; where `pattern` is given, the text around it must fit too."""

    kind: str
    needle: bytes
    pattern: re.Pattern[bytes] | None = None


@dataclass(frozen=True)
class Hit:
    """A sign found at a position in a text."""

    position: int
    sign: Sign


def _sign(kind: str, needle: bytes, pattern: bytes = b"") -> Sign:
    return Sign(kind, needle, re.compile(pattern) if pattern else None)


# Why a server dies. In one traceback the first kind of this list wins: a graph that could not be
# captured for want of memory is `graph_capture`, the memory only the reason it gives.
CAUSES: tuple[Sign, ...] = (
    _sign("graph_capture", b"raph failed", rb"(?i)Capture [\w ]{0,40}graph failed"),
    _sign("kv_cache_too_small", b"Not enough memory. Please try to increase"),
    _sign("kv_cache_too_small", b"leave no GPU memory for the KV cache"),
    _sign("kv_cache_too_small", b"Not enough GPU memory for hybrid"),
    _sign("kv_cache_too_small", b"state cache is too small to serve"),
    _sign("kv_cache_too_small", b"max_running_request is zero"),
    _sign("kv_cache_too_small", b"Memory pool size is too small"),
    _sign("kv_cache_too_small", b"leaves no allocatable page"),
    _sign("cuda_oom", b"OutOfMemoryError"),
    _sign("cuda_oom", b" out of memory", rb"(?:CUDA|HIP|XPU|NPU|MUSA)[^\n]{0,40} out of memory"),
    _sign("cuda_oom", b"'out of memory'", rb"(?i)cuda failure (?:\d+ )?'out of memory'"),
    _sign("cuda_oom", b"CUDA_ERROR_OUT_OF_MEMORY"),
    _sign("gpu_busy", b"busy or unavailable", rb"CUDA-capable device"),
    _sign("gpu_busy", b"The memory capacity is unbalanced", rb"Error: The memory capacity"),
    # huggingface_hub says it of caches, too, and goes on: only where it is raised
    _sign("host_disk_full", b"No space left on device", rb"[A-Za-z]Error: [^\n]{0,200}No space"),
    _sign("host_disk_full", b"Disk quota exceeded", rb"[A-Za-z]Error: [^\n]{0,200}Disk quota"),
    _sign("host_oom_kill", b"Cannot allocate memory"),
    _sign("host_oom_kill", b"DefaultCPUAllocator: "),
    _sign("model_not_found", b"is not a local folder and is not a valid model identifier"),
    _sign("model_not_found", b"Incorrect path_or_model_id"),
    _sign("model_not_found", b"HFValidationError: "),
    # a path that does not exist is taken for a repository's name (0.5.23, transformers 5)
    _sign("model_not_found", b"Repo id must ", rb"Error: Repo id must (?:be|use) "),
    _sign("model_not_found", b"RepositoryNotFoundError: "),
    _sign("model_not_found", b"GatedRepoError: "),
    _sign("model_not_found", b"LocalEntryNotFoundError: "),
    _sign("model_not_found", b"does not appear to have a file named"),
    _sign("model_not_found", b"Can't load the configuration of"),
    _sign("model_not_found", b"Cannot find any model weights with"),
    _sign("model_not_found", b"couldn't find them in the cached files"),
    _sign("port_in_use", BIND_FAILED),
    _sign("port_in_use", b"Port is already in use."),
    _sign("port_in_use", b"ddress already in use", rb"ZMQError|Errno 98|EADDRINUSE"),
    _sign("port_in_use", b"EADDRINUSE"),
    _sign("port_in_use", b"is already in use. ", rb"Error: \w+ \d+ is already in use\."),
    _sign("invalid_configuration", b"Unknown speculative algorithm"),
    _sign("invalid_configuration", b"only supports topk = 1 for speculative decoding"),
    _sign(
        "invalid_configuration", b"is only supported on", rb"speculative_eagle_topk > 1 with page"
    ),
    _sign("invalid_configuration", b"is not compatible with radix cache"),
    _sign("invalid_configuration", b"is not in the adaptive config candidate_steps"),
    _sign("invalid_configuration", b"greater than the derived context_length"),
    _sign("exec_failed", b"No module named", rb"No module named '?sglang\b"),
    _sign("exec_failed", b"can't open file", rb"python\S*: can't open file"),
    _sign("exec_failed", b": cannot open shared object file"),
    _sign("exec_failed", b"No CUDA GPUs are available"),
    _sign("exec_failed", b"Found no NVIDIA driver on your system"),
    _sign("exec_failed", b"driver on your system is too old"),
    _sign(
        "bad_argument",
        b": error: ",
        rb": error: (?:unrecognized arguments|ambiguous option|argument \S|one of the arguments"
        rb"|the following arguments are required)",
    ),
    _sign("nccl", b"NCCL error"),
    _sign("nccl", b"nccl", rb"(?<!INFO )\bnccl(?:Unhandled|System|Internal|Remote|Invalid)\w*"),
    # An illegal access is what the watchdog of NCCL reports last, not its own failure.
    _sign("nccl", b"ProcessGroupNCCL", rb"collective operation timeout"),
)

# A server that printed one of these is dead or dying, and this is what the record itself proves.
DEATHS: tuple[Sign, ...] = (
    _sign("watchdog", b"atchdog timeout (self.w", rb"_timeout=[\d.]+(?:\)|, self\.soft=False)"),
    _sign("host_oom_kill", b"killed by the OOM killer"),
    _sign("host_oom_kill", b"systemd-oomd killed"),
    _sign("host_oom_kill", b"ut of memory: Killed process"),
    _sign("port_in_use", BIND_FAILED),
    _sign("exec_failed", b"Failed to execute ", rb"\.(?:service|scope): Failed to execute "),
    _sign("exec_failed", b"Unable to locate executable"),
    _sign("exec_failed", b"Failed to locate executable"),
    _sign("exec_failed", b"Failed to load environment files"),
    _sign("exec_failed", b"Failed at step ", rb"Failed at step [A-Z_]+ spawning"),
)

# Deaths with a traceback that says why.
RAISED: tuple[Sign, ...] = (
    _sign("scheduler_crash", b" hit an exception: "),
    _sign("warmup_failed", b"Initialization failed. warmup error"),
)

# A child that died without a word of its own; its exit code follows, in 0.4.3 to 0.5.9 in the
# next record.
CHILDREN: tuple[Sign, ...] = (
    _sign("scheduler_crash", b"crashed with exit code", rb"Subprocess \S+ \(pid=\d+\) crashed"),
    _sign("scheduler_crash", b"died during initialization", rb"Rank \d+ scheduler died"),
    _sign("scheduler_crash", b"scheduler is dead", rb"Rank \d+ scheduler is dead"),
    _sign("scheduler_crash", b"Fatal Python error: "),
)

# What others print because of a death: it proves one, and explains nothing.
ECHOES: tuple[Sign, ...] = (
    _sign("scheduler_crash", b"Received sigquit from a child process"),
    _sign("scheduler_crash", b"SIGQUIT received. signum"),
    _sign("scheduler_crash", b"Initialization failed. Please see the error messages above"),
    _sign("unknown", b"Main process exited, code="),
    _sign("unknown", b"Failed with result '"),
)


def hits(
    text: bytes, signs: tuple[Sign, ...], start: int = 0, end: int | None = None, *, most: int = 1
) -> list[Hit]:
    """Where `signs` stand in `text[start:end]`, in the order of `signs`; `most` places for each.

    A cause counts only where no SGLang record says it: those are warnings (`[2026-…] Failed to
    load generation config: …`), what kills is raised or printed bare.
    """
    found: list[Hit] = []
    for sign in signs:
        places = (
            Hit(position, sign)
            for position in find_all(text, sign.needle, start, end)
            if _fits(sign, text, position) and not (signs is CAUSES and is_logged(text, position))
        )
        found += itertools.islice(places, most)
    return found


def first(text: bytes, signs: tuple[Sign, ...], start: int, end: int) -> Hit | None:
    """The sign that stands first in `text[start:end]`."""
    return min(hits(text, signs, start, end), key=lambda hit: hit.position, default=None)


def _fits(sign: Sign, text: bytes, position: int) -> bool:
    """Whether the pattern fits on the line, near the needle (a line can be very long).

    Never in the source lines of a traceback: they quote the texts of every error they could raise.
    """
    low = max(0, position - _AROUND)
    begin = text.rfind(b"\n", low, position) + 1
    if begin and strip(text[begin:position]).startswith(b"    "):
        return False
    if sign.pattern is None:
        return True
    stop = text.find(b"\n", position, position + _AROUND)
    high = position + _AROUND if stop < 0 else stop
    return sign.pattern.search(text, begin or low, high) is not None
