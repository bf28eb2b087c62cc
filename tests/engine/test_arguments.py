"""SGLang's own parser and resolution against our rules, and against the simulated server's.

What we let pass it has to take, and resolve to what we expect of /server_info. What we refuse it
refuses, ignores or overwrites; where it does none of these there is a reason, in OURS_ALONE.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sweep.demo.arguments import Refusal, parse
from sweep.inventory import FlagValue, HostSpec, ServerSpec, SweepSpec
from sweep.inventory_file import load_inventory
from sweep.matrix import Changes, build_plan, expand, plan_complaints
from sweep.plan import ServerConfig
from sweep.sglang.args import expected, flag_complaints
from sweep.sglang.verify import mismatches
from sweep.unit import Templates, render
from tests.engine.build import Engine
from tests.inventory.test_agreement import CHOICES

pytestmark = pytest.mark.timeout(1800)

REPOSITORY = Path(__file__).parents[2]
INVENTORIES = [
    REPOSITORY / "inventory.yaml",
    *sorted((REPOSITORY / "tests" / "init" / "cases").glob("*.inventory.yaml")),
]
SPECULATION = ("num_steps", "eagle_topk", "num_draft_tokens")
SAMPLES = 150
CHAIN_ARGS: dict[str, FlagValue] = {
    "speculative-algorithm": "STANDALONE",
    "speculative-draft-model-path": "/d",
    "speculative-eagle-topk": 1,
}

Answer = dict[str, Any]
Ask = Callable[[Sequence[Sequence[str]]], list[Answer]]


@pytest.fixture(scope="module")
def ask(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    with asking(engine, tmp_path_factory.mktemp("resolve")) as asked:
        yield asked


@contextmanager
def asking(engine: Engine, directory: Path) -> Iterator[Ask]:
    """Command lines, without the program, to what SGLang makes of them; our models for theirs."""
    said = directory / "stderr"
    command = ["nice", "-n", "10", str(engine.python), str(Path(__file__).parent / "resolve.py")]
    with said.open("w") as log, subprocess.Popen(
        command, env={**os.environ, **engine.environment}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        questions, answers = process.stdin, process.stdout

        def one(words: Sequence[str]) -> Answer:
            questions.write(json.dumps(with_models(words, engine)) + "\n")
            questions.flush()
            line = answers.readline()
            assert line, said.read_text()[-2000:]
            answer: Answer = json.loads(line)
            return answer

        yield lambda lines: [one(words) for words in lines]
        questions.close()


def with_models(words: Sequence[str], engine: Engine) -> list[str]:
    """SGLang reads the model's own configuration when it resolves: ours stands in for theirs.

    The file of secret flags exists on hosts only.
    """
    ours = {"--model-path": "target", "--speculative-draft-model-path": "draft"}
    found = []
    rest = iter(words)
    for word in rest:
        if word == "--config":
            next(rest)
            continue
        found.append(word)
        if word in ours:
            next(rest)
            found.append(str(engine.models / ours[word]))
    return [*found, "--device", "cuda"] if "--device" not in found else found


def argv_of(config: ServerConfig, host: HostSpec) -> list[str]:
    unit = render(host, config, run_id="r", launch_id="l-01", templates=Templates())
    return list(unit.argv[len(host.server.command) :])


def disagreements(config: ServerConfig, answer: Answer) -> tuple[str, ...]:
    """Where SGLang resolves otherwise than we expect; models are other ones here."""
    if "refused" in answer:
        return (f"refused: {answer['refused']}",)
    wanted = expected(config)
    return mismatches(wanted, {**answer["fields"], "model_path": wanted["model_path"]})


def test_the_sweeps_that_ship_are_taken_as_they_are_meant(ask: Ask) -> None:
    launches = []
    for path in INVENTORIES:
        inventory = load_inventory(path)
        for name in inventory.sweeps:
            plan = build_plan(inventory, name, Changes())
            host = inventory.hosts[plan.host]
            launches += [(f"{path.name} {name}", launch.config, host) for launch in plan.launches]
    answers = ask([argv_of(config, host) for _, config, host in launches])
    wrong = [
        f"{name} steps={config.steps}: {text}"
        for (name, config, _), answer in zip(launches, answers, strict=True)
        for text in disagreements(config, answer)
    ]
    assert wrong == []


# One value of every kind of flag that is likely to be swept.
SWEPT: dict[str, FlagValue] = {
    "attention-backend": "triton",
    "chunked-prefill-size": "4096",
    "context-length": "2Ki",
    "cuda-graph-bs-decode": (1, 2, 4),
    "decode-log-interval": "10",
    "disable-radix-cache": True,
    "enable-metrics": False,
    "kv-cache-dtype": "fp8_e5m2",
    "lora-strict-loading": False,
    "max-prefill-tokens": "16k",
    "max-running-requests": 16,
    "max-total-tokens": "0.5M",
    "mem-fraction-static": 0.5,
    "page-size": 32,
    "schedule-conservativeness": "1.3",
    "schedule-policy": "lpm",
    "speculative-accept-threshold-single": 0.9,
    "tp-size": 2,
}


def test_swept_values_come_back_as_we_expect_them(ask: Ask) -> None:
    """A launch whose server says its swept flag in other words would fail as a wrong one."""
    server = ServerSpec(command=("/opt/sglang",), args={"model-path": "/m", **CHAIN_ARGS})
    host = HostSpec(address="h", server=server)
    configs = []
    for flag, value in SWEPT.items():
        params = {flag: (value,)}
        sweep = SweepSpec(host="h", steps=(3,), concurrency=(1,), baseline=False, params=params)
        configs += expand(sweep, server)
    answers = ask([argv_of(config, host) for config in configs])
    wrong = [
        (config.swept, text)
        for config, answer in zip(configs, answers, strict=True)
        for text in disagreements(config, answer)
    ]
    assert wrong == []


def samples() -> list[tuple[dict[str, FlagValue], ServerConfig, HostSpec]]:
    """The same lines each time: flags of `CHOICES`, three to seven of them, with 0 to 7 steps."""
    dice = random.Random(3)
    found = []
    for _ in range(SAMPLES):
        names = dice.sample(sorted(CHOICES), dice.randrange(3, 8))
        names = ["speculative-algorithm", "speculative-eagle-topk", *names]
        args: dict[str, FlagValue] = {"model-path": "/models/m"}
        args |= {name: dice.choice(CHOICES[name]) for name in names}
        if "context-length" in args:
            args["context-length"] = 4096  # more is refused, as the model has no more
        steps = dice.randrange(8)
        server = ServerSpec(command=("/opt/sglang",), args=args)
        sweep = SweepSpec(host="h", steps=(steps,), concurrency=(1,), baseline=False)
        (config,) = expand(sweep, server)
        found.append((args, config, HostSpec(address="h", server=server)))
    return found


def ours(args: dict[str, FlagValue], config: ServerConfig) -> list[str]:
    found = [*flag_complaints(args), *plan_complaints((config,))]
    return [f"{complaint.flag}: {complaint.text}" for complaint in found]


# What SGLang takes although it is refused here, by the beginning of our complaint.
OURS_ALONE = (
    # It fails later, in the workers, or drafts more than the tree holds, or overwrites the value.
    "speculative-num-draft-tokens: ",
    # It fails later, in the workers.
    "speculative-draft-model-path: is missing",
    # Nothing to draft.
    "speculative-eagle-topk: must be",
    # Turned off with a log line.
    "speculative-adaptive: ",
    # Refused by older releases.
    "speculative-algorithm: 'eagle' is refused before",
)


def test_our_rules_agree_with_its(ask: Ask) -> None:
    drawn = samples()
    answers = ask([argv_of(config, host) for _, config, host in drawn])
    wrong, alone = [], []
    for (args, config, _), answer in zip(drawn, answers, strict=True):
        complaints = ours(args, config)
        differences = list(disagreements(config, answer))
        said = f"{args} steps={config.steps}: ours {complaints or 'fine'}, its {differences}"
        if not complaints and differences:
            wrong.append(said)
        if complaints and not differences and not complaints[0].startswith(OURS_ALONE):
            alone.append(said)
    print("\n".join(alone))
    assert wrong == []
    assert alone == []


# Flags of a launch to how SGLang ends, or to the resolved (algorithm, steps, topk, draft tokens).
STANDALONE = ("--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", "d")
CHAIN = (*STANDALONE, "--speculative-eagle-topk", "1")
TABLE: dict[tuple[str, ...], str | tuple[str | int | None, ...]] = {
    (): (None, None, None, None),
    ("--speculative-num-steps", "3"): (None, 3, None, None),
    ("--speculative-num-steps", "3", "--speculative-eagle-topk", "1"): (None, 3, 1, None),
    STANDALONE: ("STANDALONE", 3, 1, 4),
    (*CHAIN, "--speculative-num-steps", "3"): ("STANDALONE", 3, 1, 4),
    (*CHAIN, "--speculative-num-steps", "10"): ("STANDALONE", 10, 1, 11),
    (*CHAIN, "--speculative-num-steps", "3", "--speculative-num-draft-tokens", "8"): (
        "STANDALONE", 3, 1, 4,
    ),
    (*CHAIN, "--speculative-num-steps", "3", "--speculative-num-steps", "5"): (
        "STANDALONE", 5, 1, 6,
    ),
    (*CHAIN, "--speculative-num-steps", "0"): ("STANDALONE", 0, 1, 1),
    (*CHAIN, "--speculative-num-steps", "-1"): ("STANDALONE", -1, 1, 0),
    (*CHAIN, "--speculative-num-step", "3"): ("STANDALONE", 3, 1, 4),
    ("--speculative-algorithm", "nextn", "--speculative-num-steps", "2",
     "--speculative-eagle-topk", "1"): ("EAGLE", 2, 1, 3),
    ("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3",
     "--speculative-eagle-topk", "4"): ("EAGLE", 3, 4, None),
    ("--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "8"): (
        "NGRAM", 0, 10, 8,
    ),
    ("--enable-dp-attention", "--dp-size", "2"): "AssertionError",
    ("--speculative-algorithm", "NGRAM"): ("NGRAM", 1, 10, 12),
    (*STANDALONE, "--speculative-num-steps", "3"): "TypeError: '>' not supported",
    CHAIN: "AssertionError",
    ("--speculative-algorithm", "FOO", "--speculative-num-steps", "3",
     "--speculative-eagle-topk", "1"): "ValueError: Unknown speculative algorithm name",
    (*CHAIN, "--speculative-num-steps", "abc"): "exit 2: error: argument",
    (*CHAIN, "--speculative-num", "3"): "exit 2: error: ambiguous option",
    ("--speculative-draft", "d"): "exit 2: error: ambiguous option",
    ("--cuda-graph-max-bs", "8"): "exit 2: error: ambiguous option",
    ("--mamba-scheduler-strategy", "extra_buffer"): "exit 2: error: unrecognized arguments",
    ("--speculative-num-stepz", "3"): "exit 2: error: unrecognized arguments",
    ("--speculative-algorithm", "NEXTN", "--speculative-adaptive", "--speculative-num-steps", "4",
     "--speculative-eagle-topk", "1"): "ValueError: --speculative-num-steps=4 is not in the",
}  # fmt: skip


def test_what_was_recorded_of_it_holds(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    """And the simulated server's command line is held to the same."""
    lines = [["--model-path", "/models/m", *words] for words in TABLE]
    wrong = []
    for words, answer in zip(lines, ask(lines), strict=True):
        wanted = TABLE[tuple(words[2:])]
        found = answer.get("refused") or speculation(answer["fields"])
        simulated = of_the_simulator(words, lambda: capsys.readouterr().err)
        for name, one in (("SGLang", found), ("simulated", simulated)):
            if isinstance(wanted, str) and not str(one).startswith(wanted):
                wrong.append(f"{name} {words[2:]}: {one}, not {wanted}")
            if isinstance(wanted, tuple) and one != wanted:
                wrong.append(f"{name} {words[2:]}: {one}, not {wanted}")
    assert wrong == []


def speculation(fields: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(fields[f"speculative_{name}"] for name in ("algorithm", *SPECULATION))


def of_the_simulator(words: Sequence[str], printed: Callable[[], str]) -> tuple[Any, ...] | str:
    try:
        args = parse(list(words))
    except Refusal as refusal:
        return f"{refusal.kind}: {refusal.message}"
    except SystemExit as ended:
        return f"exit {ended.code}: {last_error(printed())}"
    return speculation(args.fields)


def last_error(printed: str) -> str:
    """Behind the usage."""
    return printed[printed.rfind("error: ") :].strip()
