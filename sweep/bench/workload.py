"""What is sent: prompts, output length, sampling, number of requests. Pure and reproducible.

A workload is a list of prompts; everything else comes from the benchmark's settings. The same
settings give the same requests in the same order, trial after trial.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches

from sweep.errors import InventoryError
from sweep.inventory import BuiltinBenchmark

PATH = "/v1/chat/completions"
WARMUP_TOKENS = 100

Body = dict[str, object]


@dataclass(frozen=True)
class Workload:
    """Prompts, used in turn, and whether the model may end before `max_tokens`."""

    name: str
    prompts: tuple[str, ...]
    ignore_eos: bool

    def fingerprint(self) -> str:
        """12 hex digits over what is sent; changes whenever the numbers may change."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:12]


# The convention of the published sweep: a fixed set of prompts, greedy, ended by length alone.
# Long greedy answers become repetitive, and repetition is easy to draft: this flatters speculation.
GREEDY = Workload(
    name="greedy",
    ignore_eos=True,
    prompts=(
        "Explain step by step how a compiler turns a loop into machine code, with an example.",
        "Write a Python class for a least-recently-used cache, with tests, and comment it.",
        "A train leaves at 9:40 and averages 84 km/h, a second leaves the same station at 10:15 at "
        "112 km/h. Derive when and where it catches up, then generalise the formula.",
        "Describe a day in a small harbour town as a short story with three characters.",
        "Compare TCP and QUIC: handshakes, loss recovery, multiplexing and deployment trouble.",
        "Make a table of the planets with mass, radius, day length, moons, and a remark for each.",
        "Translate this into French, then into German, and discuss every idiom you had to change: "
        "'We were about to call it a day when the penny finally dropped.'",
        "Design a relational schema for a public library: SQL for the tables, and five queries.",
        "Write a detailed recipe for sourdough bread, with a schedule and a reason for each step.",
        "Argue for and against remote work from the view of a firm, a city and an employee.",
        "Give JSON objects for twenty invented sensor readings with id, place, unit and value.",
        "Summarise how vaccines train the immune system, first for a child, then for a student.",
        "Write a bash script that rotates log files by size and age, and explain every line.",
        "Prove that there are infinitely many primes in three different ways.",
        "Draft a polite letter to a neighbour about noise, then a firmer one, then a legal notice.",
        "Outline a twelve-week plan to learn to swim a kilometre, week by week, with drills.",
    ),
)  # fmt: skip

WORKLOADS: Mapping[str, Workload] = {GREEDY.name: GREEDY}


def named(name: str) -> Workload:
    """The workload of that name. Raises InventoryError that lists the names there are."""
    if name in WORKLOADS:
        return WORKLOADS[name]
    near = get_close_matches(name, WORKLOADS, 1)
    hint = f"did you mean {near[0]!r}?" if near else "there is: " + ", ".join(WORKLOADS)
    raise InventoryError(f"benchmark.workload: no workload {name!r}; {hint}")


def request_count(spec: BuiltinBenchmark, concurrency: int) -> int:
    """How many requests a trial sends: as set, else max(4, 2*C), the published convention."""
    return spec.requests or max(4, 2 * concurrency)


def bodies(spec: BuiltinBenchmark, model: str, concurrency: int) -> list[Body]:
    """The measured requests of a trial, in the order in which they are sent."""
    workload = named(spec.workload)
    prompts = workload.prompts
    return [
        _body(model, prompts[index % len(prompts)], spec.max_tokens)
        | {"temperature": spec.temperature, "ignore_eos": workload.ignore_eos}
        for index in range(request_count(spec, concurrency))
    ]


def warmups(model: str, concurrency: int) -> list[Body]:
    """One request per place in flight, so that every batch size up to C is run before measuring.

    Their prompts are of no trial, and no two share a beginning that could be cached.
    """
    return [
        _body(model, f"{index + 1}. Warm-up: count upwards from {index + 7}.", WARMUP_TOKENS)
        | {"temperature": 0.0, "ignore_eos": True}
        for index in range(concurrency)
    ]


def _body(model: str, prompt: str, max_tokens: int) -> Body:
    # Usage in every chunk (SGLang 0.5.5.post3 and later) tells how many tokens each one brought;
    # return_spec_tokens_details (0.5.20 and later) the verify steps of each request. Older
    # versions ignore both.
    return {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_spec_tokens_details": True,
    }
