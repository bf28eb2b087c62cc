"""One launch of SGLang 0.5.23 as lines, and the forms in which such lines are saved."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

ARGS = (
    "[2026-11-03 02:00:01] server_args={'model_path': '/models/Aurora-30B', 'tp_size': 2, "
    "'dp_size': 2, 'max_running_requests': 48, 'api_key': None, 'enable_dp_attention': False, "
    "'speculative_algorithm': 'EAGLE', 'speculative_num_steps': 3, 'speculative_eagle_topk': 1, "
    "'speculative_num_draft_tokens': 4, 'skip_server_warmup': False}"
)
CAPACITY = (
    "[2026-11-03 02:00:28 DP{dp} TP0] max_total_num_tokens={tokens}, chunked_prefill_size=8192, "
    "max_prefill_tokens=16384, max_running_requests={requests}, context_len=262144, "
    "available_gpu_mem=7.02 GB"
)
READY = "[2026-11-03 02:00:37] The server is fired up and ready to roll!"
DECODE = (
    "[2026-11-03 02:01:10 DP0 TP0] Decode batch, #running-req: 4, #full token: 5120, full token "
    "usage: 0.01, mamba num: 9, mamba usage: 0.08, accept len: 2.61, accept rate: 0.54, "
    "cuda graph: True, gen throughput (token/s): 402.17, #queue-req: 0"
)
LINES = (
    ARGS,
    "[2026-11-03 02:00:05 DP0 TP0] Load weight begin. avail mem=94.10 GB",
    CAPACITY.format(dp=1, tokens=655360, requests=40),
    CAPACITY.format(dp=0, tokens=655104, requests=40),
    "[2026-11-03 02:00:29] INFO:     Started server process [4711]",
    READY,
    DECODE,
)
BAR = "Capturing batches (bs=8 avail_mem=7.90 GB):  50%|████▌    | 2/4 [00:02<00:02,  1.80it/s]"

Form = Callable[[Sequence[str]], str]


def _each(template: str) -> Form:
    return lambda lines: "".join(template.replace("@", line) + "\n" for line in lines)


def _records(lines: Sequence[str], *, as_bytes: bool) -> str:
    return "".join(
        json.dumps(
            {
                "_BOOT_ID": "5e2a" * 8,
                "_SYSTEMD_INVOCATION_ID": "c0ffee00" * 4,
                "MESSAGE": list(line.encode()) if as_bytes else line,
            }
        )
        + "\n"
        for line in lines
    )


FORMS: dict[str, Form] = {
    "cat": _each("@"),
    "crlf": _each("@\r"),
    "short": _each("Nov  3 02:00:28 gpu1 python3[811]: @"),
    "short-precise": _each("Nov 03 02:00:28.123456 gpu1.example.net python3[811]: @"),
    "short-iso": _each("2026-11-03T02:00:28+0000 gpu1 python3[811]: @"),
    "short-iso-257": _each("2026-11-03T02:00:28+01:00 gpu1 python3[811]: @"),
    "short-full": _each("Tue 2026-11-03 02:00:28 UTC gpu1 python3[811]: @"),
    "json": lambda lines: _records(lines, as_bytes=False),
    "json-bytes": lambda lines: _records(lines, as_bytes=True),
    "docker-timestamps": _each("2026-11-03T02:00:28.123456789Z @"),
    "docker-json-file": lambda lines: "".join(
        json.dumps({"log": f"{line}\n", "stream": "stderr"}) + "\n" for line in lines
    ),
    "compose": _each("sglang-1  | @"),
    "compose-colours": _each("\x1b[36msglang-1  | \x1b[0m@"),
    "compose-timestamps": _each("sglang-1  | 2026-11-03T02:00:28.123456789Z @"),
    "kubernetes-cri": _each("2026-11-03T02:00:28.123456789Z stdout F @"),
    "kubectl-prefix": _each("[pod/sglang-0/sglang] @"),
    "coloured": _each("\x1b[1;32m@\x1b[0m"),
    "rsyslog-escapes": _each("Nov  3 02:00:28 gpu1 sglang[811]: #033[32m@#033[0m"),
    "behind-bars": _each(f"{BAR}\r{BAR}@"),
    "milliseconds": lambda lines: "".join(
        line.replace(" DP", ".123 DP", 1).replace("] server_args", ".123] server_args") + "\n"
        for line in lines
    ),
}
