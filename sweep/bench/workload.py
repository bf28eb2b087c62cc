"""What is sent: request bodies in their order, made of the benchmark's settings. Pure.

The same settings give the same requests in the same order, trial after trial: nothing here knows
the trial. Texts are asked in the order of a seeded shuffle (`greedy`: in turn, as published). When
all were asked they are asked again, behind a line of their own (`greedy`: as they are), since a
prompt that the server has seen would be answered from its prefix cache.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from sweep.inventory import BuiltinBenchmark, FileWorkload, SyntheticWorkload
from sweep.workloads import Conversation, read_workload, shipped

CHAT, COMPLETIONS, NATIVE = "/v1/chat/completions", "/v1/completions", "/generate"
WARMUP_TOKENS = 100
# Ids that are text in every vocabulary in use: control tokens stand below or far above.
FIRST_ID, LAST_ID = 1000, 30000

Body = dict[str, object]


@dataclass(frozen=True)
class Workload:
    """What a benchmark sends. `conversations` are its texts; a synthetic one has none."""

    spec: BuiltinBenchmark
    conversations: tuple[Conversation, ...] = ()

    @property
    def path(self) -> str:
        """The endpoint that all of it is posted to."""
        if self.spec.endpoint == "native":
            return NATIVE
        return COMPLETIONS if isinstance(self.spec.workload, SyntheticWorkload) else CHAT

    def bodies(self, model: str, concurrency: int, asked_before: int = 0) -> list[Body]:
        """The measured requests of a trial, in the order in which they are sent.

        `asked_before`: how often the server may have seen all of the texts, in a cache that is not
        emptied.
        """
        count = self.spec.request_count(concurrency)
        if isinstance(self.spec.workload, SyntheticWorkload):
            asked = self._tokens(f"measured:{concurrency}", count)
        else:
            asked = self._messages(concurrency, count, asked_before)
        return [_body(self.spec, model, one) for one in asked]

    def prompts(self, concurrency: int) -> tuple[str, ...]:
        """The measured requests as plain text, for clients that take nothing else."""
        count = self.spec.request_count(concurrency)
        return tuple(map(plain_text, self._messages(concurrency, count, 0)))

    def warmups(self, model: str, concurrency: int) -> list[Body]:
        """One request per place in flight: every batch size up to C is run before measuring.

        Sampled as the measured ones are. Their prompts are of no trial, and no two share a
        beginning that could be cached.
        """
        if isinstance(self.spec.workload, SyntheticWorkload):
            asked = self._tokens("warm-up", concurrency)
        else:
            asked = [
                {"messages": [{"role": "user", "content": _warmup(index)}]}
                for index in range(concurrency)
            ]
        warm = self.spec.model_copy(update={"max_tokens": WARMUP_TOKENS, "ignore_eos": True})
        return [_body(warm, model, one) for one in asked]

    def _tokens(self, stream: str, count: int) -> list[Body]:
        """Prompts of random token ids: as long as asked for, whatever the model's vocabulary."""
        synthetic = self.spec.workload
        assert isinstance(synthetic, SyntheticWorkload)  # noqa: S101 - the callers looked
        drawn = random.Random(f"{stream}:{self.spec.seed}")  # noqa: S311 - not a secret
        return [
            {"prompt": drawn.choices(range(FIRST_ID, LAST_ID), k=synthetic.input_tokens)}
            for _ in range(count)
        ]

    def rounds(self, concurrency: int) -> int:
        """How often a trial asks all of the texts, at most."""
        count = self.spec.request_count(concurrency) + 2 * concurrency
        return -(-count // max(1, len(self.conversations)))

    def _messages(self, concurrency: int, count: int, asked_before: int) -> list[Body]:
        """Conversations side by side, each with one question at a time.

        So many at once that a question is asked when, as a rule, the one before it was answered.
        """
        waiting = self._in_order(asked_before)
        active = [next(waiting) for _ in range(concurrency + concurrency // 4 + 1)]
        asked: list[Body] = []
        while len(asked) < count:
            conversation, lead_in, turn = active.pop(0)
            asked.append({"messages": conversation.messages(turn, lead_in)})
            more = turn + 1 < len(conversation.turns)
            active.append((conversation, lead_in, turn + 1) if more else next(waiting))
        return asked

    def _in_order(self, rounds: int) -> Iterator[tuple[Conversation, str, int]]:
        """Every conversation at its first turn, again and again, with the line before it."""
        order = list(self.conversations)
        if self.spec.workload != "greedy":
            random.Random(self.spec.seed).shuffle(order)  # noqa: S311 - not a secret
        while True:
            rounds += 1
            lead_in = f"({rounds})\n" if rounds > 1 and self.spec.unique_prompts else ""
            for conversation in order:
                yield conversation, lead_in, 0


def workload_of(spec: BuiltinBenchmark) -> Workload:
    """The workload of a benchmark. Raises InventoryError: its file has changed or is gone."""
    if isinstance(spec.workload, SyntheticWorkload):
        return Workload(spec)
    if isinstance(spec.workload, FileWorkload):
        return Workload(spec, read_workload(spec.workload))
    return Workload(spec, shipped(spec.workload))


def _warmup(index: int) -> str:
    return f"{index + 1}. Warm-up: count upwards from {index + 7}."


def _body(spec: BuiltinBenchmark, model: str, asked: Body) -> Body:
    if spec.endpoint == "native":
        return _native(spec, asked)
    # Usage in every chunk (SGLang 0.5.5.post3 and later) tells how many tokens each one brought;
    # return_spec_tokens_details (0.5.20 and later) the verify steps of each request. Older
    # versions ignore both.
    body: Body = {
        "model": model,
        **asked,
        "max_tokens": spec.max_tokens,
        "temperature": spec.temperature,
        "ignore_eos": spec.ignore_eos,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_spec_tokens_details": True,
    }
    return body if spec.top_p == 1 else body | {"top_p": spec.top_p}


def _native(spec: BuiltinBenchmark, asked: Body) -> Body:
    """The same for /generate: token ids as they are, messages as plain text one after the other."""
    sampling = {
        "max_new_tokens": spec.max_tokens,
        "temperature": spec.temperature,
        "top_p": spec.top_p,
        "ignore_eos": spec.ignore_eos,
    }
    if "messages" in asked:
        prompt: Body = {"text": plain_text(asked)}
    else:
        prompt = {"input_ids": asked["prompt"]}
    return {**prompt, "sampling_params": sampling, "stream": True}


def plain_text(asked: Body) -> str:
    messages = asked["messages"]
    assert isinstance(messages, list)  # noqa: S101 - Conversation made them
    return "\n\n".join(str(message["content"]) for message in messages)
