"""What a sweep measures with: the benchmark of the inventory and its workload, as frozen values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from sweep.limits import MOST_RATE, MOST_REQUESTS, MOST_TOKENS
from sweep.spec import Count, Seconds, Spec

# What the OpenAI interface allows; SGLang's own takes more, which no answer survives.
Temperature = Annotated[float, Field(ge=0, le=2)]
# So many texts come with the tool for each workload: all are asked at every concurrency, so that
# concurrencies are compared on the same texts.
LEAST_TEXTS = 40


@dataclass(frozen=True)
class Defaults:
    """The settings of a workload where the inventory has none.

    `fingerprint` stands for its texts, so that points measured with other texts are other points;
    `sweep.workloads` has the texts, and a test compares. `ignore_eos`: every answer is `max_tokens`
    long. `unique_prompts`: no two requests of a trial begin alike, even when all texts were asked.
    """

    fingerprint: str
    temperature: float
    top_p: float
    max_tokens: int
    ignore_eos: bool = False
    unique_prompts: bool = True


# The texts that come with the tool, sampled as is common for such work. `greedy` is the published
# convention.
WORKLOADS: Mapping[str, Defaults] = MappingProxyType(
    {
        "greedy": Defaults("9cbad6094e24", 0.0, 1.0, 1000, ignore_eos=True, unique_prompts=False),
        "chat": Defaults("228e559b9f5b", 0.7, 0.95, 512),
        "code": Defaults("7a9f6f94b676", 0.2, 0.95, 1024),
        "reasoning": Defaults("24b2fa36ae97", 0.6, 0.95, 2048),
        "extraction": Defaults("6193b7a8db58", 0.0, 1.0, 256),
        "translation": Defaults("ff32a24ac7dc", 0.3, 0.95, 384),
        "summarization": Defaults("f12069cc27ef", 0.3, 0.95, 256),
    }
)
_OF_FILES = Defaults("", 0.7, 0.95, 512)


class FileWorkload(Spec):
    """Texts of the user's own. `fingerprint` and `turns` are what was found in the file.

    `name` is what rows call it; `turns` is the longest conversation's number of questions, at most
    `max_turns`.
    """

    file: Annotated[str, Field(min_length=1)]
    format: Literal["auto", "prompts", "sharegpt", "openai", "questions"] = "auto"
    name: str = ""
    max_turns: Count = 8
    fingerprint: str = ""
    turns: Count = 1

    def __str__(self) -> str:
        return f"{self.label} (texts {self.fingerprint})"

    @property
    def label(self) -> str:
        return self.name or self.file.replace("\\", "/").rpartition("/")[2]


class SyntheticWorkload(Spec):
    """Random tokens of exact number, for capacity: they say nothing of acceptance."""

    input_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)]
    output_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        return f"synthetic-{self.input_tokens}-{self.output_tokens}"


Workload = str | FileWorkload | SyntheticWorkload
_REMARKS = {
    "greedy": (
        "greedy: long answers at temperature 0 become repetitive, and repetition is easy to draft: "
        "speculation looks better than with sampled answers of natural length"
    ),
    "synthetic": (
        "synthetic: random tokens are drafted worse than text, so what speculation gains is "
        "understated: use it for capacity, not to choose steps"
    ),
}


def remark(label: str) -> str | None:
    """What to know before the numbers of a workload, named as rows do, are used; None: nothing."""
    name = re.sub(rf"-([\d.e+-]+rps|{'|'.join(CLIENTS)})$", "", label)
    return _REMARKS.get("synthetic" if name.startswith("synthetic-") else name)


def defaults_of(workload: object) -> Defaults:
    """The settings that go with a workload; those of `greedy` for a name that is none."""
    if isinstance(workload, SyntheticWorkload):
        return Defaults("", 0.0, 1.0, workload.output_tokens, ignore_eos=True)
    if isinstance(workload, FileWorkload):
        return _OF_FILES
    return WORKLOADS.get(str(workload), WORKLOADS["greedy"])


class Load(Spec):
    """What is sent, whoever sends it. Settings that are not given are those of the workload.

    `requests` None: see `request_count`. The time-out is derived where it is None:
    `bench.deadlines`.
    """

    workload: Workload = "greedy"
    temperature: Temperature = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = 1000
    ignore_eos: bool = True
    unique_prompts: bool = False
    requests: Annotated[int, Field(ge=1, le=MOST_REQUESTS)] | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    trial_timeout_s: Seconds | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_workload(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        workload = given.get("workload", "greedy")
        if isinstance(workload, Mapping):  # as plan.json holds it, with every setting beside it
            return given
        known = defaults_of(workload)
        names = ("temperature", "top_p", "max_tokens", "ignore_eos", "unique_prompts")
        return {name: getattr(known, name) for name in names} | dict(given)

    @field_validator("workload")
    @classmethod
    def _known(cls, workload: Workload) -> Workload:
        if isinstance(workload, str) and workload not in WORKLOADS:
            raise ValueError(f"no workload {workload!r}; there is: {', '.join(WORKLOADS)}")
        return workload

    @property
    def texts(self) -> str:
        """What the workload is called."""
        return self.workload if isinstance(self.workload, str) else self.workload.label

    def request_count(self, concurrency: int) -> int:
        """How many requests a trial sends: as set, else two rounds of C.

        At least 4 for `greedy` (the published convention) and synthetic ones, at least
        `LEAST_TEXTS` for the others; conversations count with every turn.
        """
        if self.requests is not None:
            return self.requests
        if self.workload == "greedy" or isinstance(self.workload, SyntheticWorkload):
            return max(4, 2 * concurrency)
        turns = self.workload.turns if isinstance(self.workload, FileWorkload) else 1
        return max(LEAST_TEXTS, 2 * concurrency) * turns

    def _settings(self, *but: str) -> dict[str, object]:
        """All of it that can change a number: not time-outs, not what the workload is called."""
        settings = self.model_dump(exclude={"trial_timeout_s", "workload", *but})
        return settings | {"workload": self._sent()}

    def _sent(self) -> object:
        if isinstance(self.workload, FileWorkload):
            return {"texts": self.workload.fingerprint, "max_turns": self.workload.max_turns}
        if isinstance(self.workload, SyntheticWorkload):
            return self.workload.model_dump()
        return {"texts": defaults_of(self.workload).fingerprint}


class BuiltinBenchmark(Load):
    """The tool's own client.

    `rate` None: a closed loop; else so many requests per second (a Poisson process that `seed`
    draws), of which at most C are in flight. `endpoint` native: /generate, which knows no chat
    template.
    """

    kind: Literal["builtin"] = "builtin"
    rate: Annotated[float, Field(gt=0, le=MOST_RATE)] | None = None
    endpoint: Literal["openai", "native"] = "openai"
    run_on: Literal["host", "controller"] = "host"
    stall_timeout_s: Seconds | None = None

    @property
    def label(self) -> str:
        """The workload as rows name it."""
        return self.texts if self.rate is None else f"{self.texts}-{self.rate:g}rps"

    @property
    def load(self) -> BuiltinBenchmark:
        return self

    def identity(self) -> dict[str, object]:
        """All of it that can change a number."""
        return self._settings("stall_timeout_s")


class ClientBenchmark(Load):
    """A benchmark client of somebody else's, installed on the host, which is given our texts.

    `program` is what has it there: for SGLang's the Python (None: the host's), for the others the
    command (None: as it is called in PATH). `tokenizer` None: the server's model. `args` follow
    the words that the tool writes.
    """

    kind: Literal["sglang", "sglang-rust", "guidellm", "vllm", "aiperf"]
    program: Annotated[str, Field(min_length=1)] | None = None
    tokenizer: Annotated[str, Field(min_length=1)] | None = None
    args: tuple[str, ...] = ()

    @field_validator("args", mode="before")
    @classmethod
    def _as_in_plans(cls, given: Any) -> Any:
        return tuple(given) if isinstance(given, list) else given

    @property
    def label(self) -> str:
        """The workload and the client, as rows name it: clients do not measure alike."""
        return f"{self.texts}-{self.kind}"

    @property
    def load(self) -> BuiltinBenchmark:
        """The same requests, as the tool's own client would send them."""
        return BuiltinBenchmark(**{name: getattr(self, name) for name in Load.model_fields})

    def identity(self) -> dict[str, object]:
        """All of it that can change a number: the client and its words too."""
        return self._settings()


CLIENTS: tuple[str, ...] = get_args(ClientBenchmark.model_fields["kind"].annotation)


class CommandBenchmark(Spec):
    """The user's own script, run on the host; `{concurrency}`, `{url}` and `{port}` are filled in.

    Its output is read as the published table or as one JSON object of measured columns.
    """

    kind: Literal["command"]
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    workload: str = "command"
    temperature: Annotated[float, Field(ge=0)] | None = None
    trial_timeout_s: Seconds | None = None

    @property
    def label(self) -> str:
        """The workload as rows name it."""
        return self.workload

    def identity(self) -> dict[str, object]:
        """All of it that can change a number. What the script sends is known by its name only."""
        return self.model_dump(exclude={"trial_timeout_s"})


Benchmark = BuiltinBenchmark | ClientBenchmark | CommandBenchmark
