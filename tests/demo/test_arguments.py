"""The simulated command line takes and refuses what SGLang 0.5.23 takes and refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweep.demo.arguments import Refusal, parse, read_config

MODEL = ["--model-path", "m"]
CHAIN = [*MODEL, "--speculative-algorithm", "NEXTN"]


def spec(steps: Any = None, topk: Any = None, drafts: Any = None) -> list[str]:
    named = {"num-steps": steps, "eagle-topk": topk, "num-draft-tokens": drafts}
    return [
        word
        for name, value in named.items()
        if value is not None
        for word in (f"--speculative-{name}", str(value))
    ]


@pytest.mark.parametrize(
    ("flags", "resolved"),
    [
        ([], (None, None, None, None)),
        (spec(3), (None, 3, None, None)),
        (["--speculative-algorithm", "nextn", *spec(3, 1)], ("EAGLE", 3, 1, 4)),
        (["--speculative-algorithm", "EAGLE", *spec(3, 1, 8)], ("EAGLE", 3, 1, 4)),
        (["--speculative-algorithm", "EAGLE"], ("EAGLE", 3, 1, 4)),
        (["--speculative-algorithm", "EAGLE", *spec(3, 4)], ("EAGLE", 3, 4, None)),
        (["--speculative-algorithm", "EAGLE", *spec(0, 1)], ("EAGLE", 0, 1, 1)),
        (["--speculative-algorithm", "NGRAM"], ("NGRAM", 1, 10, 12)),
        (["--speculative-algorithm", "NGRAM", *spec(drafts=8)], ("NGRAM", 0, 10, 8)),
        (["--speculative-algorithm", "DFLASH", *spec(5, 1)], ("DFLASH", 1, 1, 8)),
    ],
)
def test_speculation_resolves(flags: list[str], resolved: tuple[Any, ...]) -> None:
    args = parse([*MODEL, *flags])
    names = ("algorithm", "num_steps", "eagle_topk", "num_draft_tokens")
    assert tuple(args[f"speculative_{name}"] for name in names) == resolved


def test_steps_without_an_algorithm_are_silently_no_speculation() -> None:
    args = parse([*MODEL, *spec(3, 1)])
    assert args.steps == 0
    assert args.warnings == ()


@pytest.mark.parametrize(
    ("flags", "kind", "text"),
    [
        (spec(3), "TypeError", "'>' not supported between instances of 'NoneType' and 'int'"),
        (spec(None, 1), "AssertionError", ""),
        (["--speculative-adaptive", *spec(4, 1)], "ValueError", "candidate_steps"),
        (["--speculative-algorithm", "FOO"], "ValueError", "Unknown speculative algorithm name"),
        (["--enable-dp-attention", "--dp", "2", *spec(3, 1)], "AssertionError", ""),
    ],
)
def test_resolution_refuses(flags: list[str], kind: str, text: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse([*CHAIN, *flags])
    last = caught.value.traceback().splitlines()[-1]
    assert last.startswith(kind)
    assert text in last
    assert "arg_groups" in caught.value.traceback() or kind == "ValueError"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--mamba-scheduler-strategy", "extra_buffer"], "unrecognized arguments: --mamba-sch"),
        (["--speculative-draft", "x"], "ambiguous option: --speculative-draft could match"),
        (["--cuda-graph-max-bs", "16"], "ambiguous option: --cuda-graph-max-bs"),
        (["--speculative-num-steps", "many"], "argument --speculative-num-steps: invalid int"),
        (["--tokenizer-mode", "fast"], "argument --tokenizer-mode: invalid choice"),
    ],
)
def test_argparse_refuses(flags: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse([*MODEL, *flags])
    assert caught.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith("usage: sglang serve ")
    assert said in printed


def test_a_model_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse([])
    assert "the following arguments are required: --model-path" in capsys.readouterr().err


@pytest.mark.parametrize("short", ["--tp", "--tp-size", "--tensor-parallel-size"])
def test_aliases_and_unambiguous_beginnings(short: str) -> None:
    assert parse([*MODEL, short, "4"])["tp_size"] == 4


def test_the_last_of_two_wins_and_both_warnings_come() -> None:
    args = parse([*CHAIN, *spec(3, 1), *spec(5)])
    assert args.steps == 5
    assert "reset to 48" in args.warnings[0]
    assert "adjusted to speculative_num_steps + 1" in args.warnings[1]
    assert parse([*CHAIN, *spec(3, 1, 4), "--max-running-requests", "9"]).warnings == ()


def test_a_config_file_comes_before_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "secrets.yaml"
    file.write_text('# made\napi-key: "a \\"b\\" c"\nport: 5\nenable-metrics: true\n')
    args = parse([*MODEL, "--config", str(file), "--port", "6"])
    assert (args["api_key"], args["port"], args["enable_metrics"]) == ('a "b" c', 6, True)
    assert str(file) in args.launch_command
    assert "a " not in args.launch_command


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("key: plain", "plain"),
        ("key: 'it''s'", "it's"),
        ("key: plain # and why", "plain"),
        ('key: "tab\\t"', "tab\t"),
        ("key: a:b", "a:b"),
    ],
)
def test_values_of_a_config_file(line: str, value: str) -> None:
    assert read_config(line) == [("key", value)]


def test_a_config_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="Config file not found"):
        parse([*MODEL, "--config", str(tmp_path / "no.yaml")])
