"""Our rules against the simulated server's command line, which was written from SGLang's alone.

What we let pass it must take, and resolve to what we expect of /server_info.
"""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sweep.demo.arguments import Refusal, parse
from sweep.inventory import FlagValue, HostSpec, ServerSpec, SweepSpec
from sweep.matrix import expand, plan_complaints
from sweep.sglang.args import algorithm_family, expected, flag_complaints
from sweep.unit import Templates, render

CHOICES: dict[str, list[FlagValue]] = {
    "speculative-algorithm": ["NEXTN", "EAGLE", "EAGLE3", "STANDALONE", "NGRAM", "DFLASH", "eagle"],
    "speculative-eagle-topk": [1, 1, 1, 2, 4, 0],
    "speculative-num-draft-tokens": [2, 3, 4, 8],
    "speculative-adaptive": [True, False],
    "speculative-draft-model-path": ["/models/draft"],
    "enable-dp-attention": [True, False],
    "tp": [1, 4],
    "dp-size": [1, 2],
    "page-size": [1, 64],
    "context-length": [4096, "128k"],
    "mem-fraction-static": [0.85, 1],
    "max-running-requests": [16, "64"],
    "enable-metrics": [True, False],
    "lora-strict-loading": [True, False],
    "cuda-graph-bs-decode": [(1, 2, 4), 8],
    "log-level": ["info", "debug"],
    "served-model-name": ["a b", "x", 5],
}
ARGS = st.fixed_dictionaries(
    {"model-path": st.just("/models/m")},
    optional={name: st.sampled_from(values) for name, values in CHOICES.items()},
)


def argv_of(host: HostSpec, steps: int) -> list[str]:
    """What the rendered unit starts SGLang with, without the program."""
    sweep = SweepSpec(host="h", steps=(steps,), concurrency=(1,), baseline=False)
    (config,) = expand(sweep, host.server)
    unit = render(host, config, run_id="r", launch_id="l-01", templates=Templates())
    return list(unit.argv[len(host.server.command) :])


@settings(max_examples=60, deadline=None)
@given(ARGS, st.integers(0, 7))
def test_what_passes_here_is_taken_there(args: dict[str, FlagValue], steps: int) -> None:
    server = ServerSpec(command=("/opt/sglang",), args=args)
    sweep = SweepSpec(host="h", steps=(steps,), concurrency=(1,), baseline=False)
    (config,) = expand(sweep, server)
    assume(not list(flag_complaints(args)) and not list(plan_complaints((config,))))
    fields = parse(argv_of(HostSpec(address="h", server=server), steps)).fields
    wanted = expected(config)
    assert algorithm_family(fields["speculative_algorithm"]) == wanted["speculative_algorithm"]
    names = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
    for name in names if steps else ():
        assert fields[name] == wanted[name]
    assert fields["model_path"] == wanted["model_path"]
    assert fields["tp_size"] == wanted["tp_size"]
    assert fields.get("dp_size", 1) == wanted.get("dp_size", 1)


@pytest.mark.parametrize(
    "args",
    [
        {"speculative-algorithm": "NEXTN"},
        {"speculative-algorithm": "FOO", "speculative-eagle-topk": 1},
        {"mamba-scheduler-strategy": "extra_buffer"},
        {"cuda-graph-max-bs": 64},
        {"speculative-draft": "/d"},
        {"tp": "four"},
        {"mem-fraction-static": True},
    ],
)
def test_what_the_server_refuses_we_refuse_or_cannot_know(
    args: dict[str, FlagValue], capsys: pytest.CaptureFixture[str]
) -> None:
    server = ServerSpec(command=("/opt/sglang",), args={"model-path": "/m", **args})
    with pytest.raises((Refusal, SystemExit)):
        parse(argv_of(HostSpec(address="h", server=server), 3))
    sweep = SweepSpec(host="h", steps=(3,), concurrency=(1,), baseline=False)
    found = [*flag_complaints(args), *plan_complaints(expand(sweep, server))]
    # A plugin may have registered another algorithm: only the server knows.
    assert found or args.get("speculative-algorithm") == "FOO"
