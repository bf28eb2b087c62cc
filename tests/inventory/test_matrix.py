"""From a sweep to its launches, and from those to a plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.errors import InventoryError, UsageError
from sweep.inventory import (
    BuiltinBenchmark,
    CommandBenchmark,
    FileWorkload,
    FlagValue,
    HostSpec,
    Inventory,
    SecretRef,
    ServerSpec,
    SweepSpec,
    SyntheticWorkload,
)
from sweep.inventory_file import load_inventory
from sweep.matrix import Changes, build_plan, expand
from sweep.plan import ServerConfig

EXAMPLE = Path(__file__).parents[2] / "inventory.yaml"
SERVER = ServerSpec(
    command=("/opt/sglang", "serve"),
    args={
        "model-path": "/m",
        "speculative-algorithm": "NEXTN",
        "speculative-eagle-topk": 1,
        "tp-size": 4,
        "enable-multi-layer-eagle": True,
        "enable-metrics": False,
    },
    env={"A": "1"},
)
SWEEP = SweepSpec(host="gpu", steps=(1, 2, 3), concurrency=(1, 4))


def inventory(
    server: ServerSpec = SERVER, sweep: SweepSpec = SWEEP, host: dict[str, object] | None = None
) -> Inventory:
    spec = HostSpec.model_validate(
        {"address": "gpu1", "host_class": "x", **(host or {}), "server": server}
    )
    return Inventory(hosts={"gpu": spec, "other": spec}, sweeps={"night": sweep})


def steps_of(configs: tuple[ServerConfig, ...]) -> list[int]:
    return [config.steps for config in configs]


def test_the_baseline_comes_first_and_has_no_speculative_flag() -> None:
    configs = expand(SWEEP, SERVER)
    assert steps_of(configs) == [0, 1, 2, 3]
    assert configs[0].args == (("model-path", "/m"), ("tp-size", 4))
    assert configs[2].args == (
        ("model-path", "/m"),
        ("speculative-algorithm", "NEXTN"),
        ("speculative-eagle-topk", 1),
        ("tp-size", 4),
        ("enable-multi-layer-eagle", True),
        ("speculative-num-steps", 2),
    )
    assert configs[0].env == (("A", "1"),)


@pytest.mark.parametrize(
    ("steps", "baseline", "launched"),
    [
        ((1, 2), True, [0, 1, 2]),
        ((1, 2), False, [1, 2]),
        ((3, 0, 1), True, [0, 3, 1]),
        ((3, 0, 1), False, [3, 0, 1]),
        ((0,), True, [0]),
    ],
)
def test_the_order_of_steps(steps: tuple[int, ...], baseline: bool, launched: list[int]) -> None:
    sweep = SWEEP.model_copy(update={"steps": steps, "baseline": baseline})
    assert steps_of(expand(sweep, SERVER)) == launched


def test_params_vary_inside_each_steps_value() -> None:
    sweep = SWEEP.model_copy(
        update={"steps": (1, 2), "params": {"tp-size": (2, 4), "dtype": ("auto", False)}}
    )
    configs = expand(sweep, SERVER)
    assert steps_of(configs) == [0] * 4 + [1] * 4 + [2] * 4
    assert [dict(config.swept) for config in configs[:4]] == [
        {"tp-size": 2, "dtype": "auto"},
        {"tp-size": 2, "dtype": False},
        {"tp-size": 4, "dtype": "auto"},
        {"tp-size": 4, "dtype": False},
    ]
    assert configs[0].flag("dtype") == "auto"
    assert configs[1].flag("dtype") is None
    assert [config.flag("tp-size") for config in configs[:4]] == [2, 2, 4, 4]


def test_speculative_params_do_not_multiply_the_baseline() -> None:
    params = {"speculative-attention-mode": ("prefill", "decode"), "page-size": (1, 64)}
    configs = expand(SWEEP.model_copy(update={"steps": (1,), "params": params}), SERVER)
    assert steps_of(configs) == [0, 0, 1, 1, 1, 1]
    assert [dict(config.swept) for config in configs[:2]] == [{"page-size": 1}, {"page-size": 64}]


def test_overrides_beat_the_host_and_take_a_flag_out_of_params() -> None:
    sweep = SWEEP.model_copy(update={"steps": (1,), "params": {"page-size": (1, 64)}})
    overrides: dict[str, FlagValue] = {
        "tp": 8, "page-size": 16, "speculative-eagle-topk": 1, "dtype": "half",
    }  # fmt: skip
    configs = expand(sweep, SERVER, overrides=overrides)
    assert len(configs) == 2
    for config in configs:
        assert (config.flag("tp-size"), config.flag("page-size")) == (8, 16)
        assert config.flag("dtype") == "half"
        assert config.swept == (("page-size", 16),)
    assert configs[0].flag("speculative-eagle-topk") is None
    left_out = expand(sweep, SERVER, overrides={"tp-size": False})
    assert all(config.flag("tp-size") is None for config in left_out)


def test_a_flag_that_can_be_denied_is() -> None:
    sweep = SWEEP.model_copy(
        update={"steps": (1,), "params": {"enable-fused-qk-norm-rope": (True, False)}}
    )
    yes, no = expand(sweep, SERVER, overrides={})[:2]
    assert yes.flag("enable-fused-qk-norm-rope") is True
    assert no.flag("no-enable-fused-qk-norm-rope") is True
    assert no.flag("enable-fused-qk-norm-rope") is None
    assert no.swept == (("enable-fused-qk-norm-rope", False),)


VALUES = st.lists(st.sampled_from([1, 2, True, False, "1", 1.0, 0.5, "x"]), min_size=1, max_size=3)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True),
    st.booleans(),
    st.dictionaries(st.sampled_from(["page-size", "speculative-token-map", "dtype"]), VALUES),
)
def test_no_config_is_launched_twice_and_none_is_lost(
    steps: list[int], baseline: bool, params: dict[str, list[FlagValue]]
) -> None:
    sweep = SWEEP.model_copy(
        update={
            "steps": tuple(steps),
            "baseline": baseline,
            "params": {name: tuple(values) for name, values in params.items()},
        }
    )
    configs = expand(sweep, SERVER)
    assert len({(repr(c.args), repr(c.swept)) for c in configs}) == len(configs)
    assert set(steps_of(configs)) == set(steps) | ({0} if baseline else set())
    for config in configs:
        assert config.steps > 0 or not any("speculative" in name for name, _ in config.args)
        assert all(value is not False for _, value in config.args)


def test_a_plan_of_the_example() -> None:
    plan = build_plan(load_inventory(EXAMPLE), "overnight", Changes())
    assert [launch.id for launch in plan.launches] == [f"l-{n:02d}" for n in range(1, 12)]
    assert [launch.config.steps for launch in plan.launches] == list(range(11))
    assert [point.concurrency for point in plan.launches[3].points] == [1, 4, 16, 32, 64]
    points = [point.id for _, point in plan.points()]
    assert len(set(points)) == len(points) == 55
    assert (plan.sweep, plan.host, plan.trials) == ("overnight", "blackwell", 1)


def test_what_a_command_line_changes() -> None:
    changes = Changes(
        host="other", steps=(2,), concurrency=("max",), trials=5, baseline=False, flags={"tp": 2}
    )
    plan = build_plan(inventory(), None, changes)
    assert (plan.sweep, plan.host, plan.trials) == ("night", "other", 5)
    (launch,) = plan.launches
    assert launch.config.steps == 2
    assert launch.config.flag("tp-size") == 2
    assert [point.concurrency for point in launch.points] == ["max"]


def test_names_that_are_not_there() -> None:
    two = load_inventory(EXAMPLE)
    with pytest.raises(UsageError, match="has 2 sweeps; name one of overnight, demo"):
        build_plan(two, None, Changes())
    with pytest.raises(UsageError, match=r"no sweep overnite .* did you mean 'overnight'"):
        build_plan(two, "overnite", Changes())
    with pytest.raises(UsageError, match=r"--host blackwel: .* did you mean 'blackwell'"):
        build_plan(two, "overnight", Changes(host="blackwel"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"tp_size": 4}, "--set tp_size: is no spelling of a flag .*did you mean 'tp-size'"),
        ({"speculative-num-steps": 3}, "--set speculative-num-steps: is set by the tool"),
        ({"tp": 4, "tp-size": 2}, "--set tp-size: is said by 'tp' already"),
        ({"tp": "four"}, "--set tp: takes a whole number"),
        ({"speculative-eagle-topk": 4}, "sweep night on host gpu: speculative-num-draft-tokens is"),
        (
            {"speculative-algorithm": False},
            "speculative-algorithm is missing while the steps are 1",
        ),
        ({"model-path": False}, "model-path is missing"),
    ],
)
def test_a_changed_plan_is_held_against_the_rules(
    flags: dict[str, FlagValue], message: str
) -> None:
    with pytest.raises(InventoryError, match=message):
        build_plan(inventory(), "night", Changes(flags=flags))


def test_too_many_launches() -> None:
    sweep = SWEEP.model_copy(update={"params": {"page-size": tuple(range(1, 300))}})
    with pytest.raises(InventoryError, match="makes 1196 launches, more than 999; vary less"):
        build_plan(inventory(sweep=sweep), "night", Changes())


def points(found: Inventory, **changes: object) -> set[str]:
    plan = build_plan(found, "night", replace(Changes(), **changes))  # type: ignore[arg-type]
    return {point.id for _, point in plan.points()}


def test_a_point_is_what_makes_its_number_and_nothing_else() -> None:
    mine = points(inventory())
    changed: dict[str, object] = {
        "command": ("/opt/other",),
        "args": {**SERVER.args, "page-size": 64},
        "env": {"A": "2"},
        "env_file": "/etc/sglang.env",
        "working_directory": "/srv",
        "unit": {"LimitMEMLOCK": "infinity"},
    }
    for key, value in changed.items():
        assert mine.isdisjoint(points(inventory(SERVER.model_copy(update={key: value})))), key
    same: dict[str, object] = {
        "port": 31000,
        "user": "sglang",
        "group": "sglang",
        "health_timeout_s": 60.0,
        "secrets": {"api-key": SecretRef(env="KEY")},
    }
    for key, value in same.items():
        assert points(inventory(SERVER.model_copy(update={key: value}))) == mine, key


def test_a_point_is_of_a_class_of_machines_and_of_a_workload() -> None:
    mine = points(inventory())
    assert mine.isdisjoint(points(inventory(host={"host_class": "y"})))
    for host in ({"address": "gpu2"}, {"python": "/py"}, {"production": ("a.service",)},
                 {"deadman_s": 9000.0}, {"unit": "mine.service"}, {"user": "root"}):  # fmt: skip
        assert points(inventory(host=dict(host))) == mine, host

    def with_benchmark(benchmark: BuiltinBenchmark | CommandBenchmark) -> set[str]:
        return points(inventory(sweep=SWEEP.model_copy(update={"benchmark": benchmark})))

    assert mine.isdisjoint(with_benchmark(BuiltinBenchmark(temperature=1.0)))
    assert mine.isdisjoint(with_benchmark(BuiltinBenchmark(run_on="controller")))
    assert mine.isdisjoint(with_benchmark(CommandBenchmark(kind="command", command=("b",))))
    assert with_benchmark(BuiltinBenchmark(trial_timeout_s=60)) == mine
    assert points(inventory(), trials=9) == mine
    assert points(inventory(), steps=(1,)) < mine


BUILTIN: dict[str, st.SearchStrategy[object]] = {
    "workload": st.one_of(
        st.sampled_from(["greedy", "chat", "code"]),
        st.builds(
            SyntheticWorkload, input_tokens=st.integers(1, 9), output_tokens=st.integers(1, 9)
        ),
        st.builds(
            FileWorkload,
            file=st.just("/a.jsonl"),
            fingerprint=st.sampled_from(["a1", "b2"]),
            max_turns=st.integers(1, 3),
        ),
    ),
    "temperature": st.sampled_from([0.0, 0.7]),
    "top_p": st.sampled_from([0.9, 1.0]),
    "max_tokens": st.integers(1, 3),
    "ignore_eos": st.booleans(),
    "unique_prompts": st.booleans(),
    "requests": st.sampled_from([None, 4, 8]),
    "seed": st.integers(0, 2),
    "run_on": st.sampled_from(["host", "controller"]),
    "rate": st.sampled_from([None, 2.0, 4.0]),
    "endpoint": st.sampled_from(["openai", "native"]),
}
# All else of the benchmark: what it is called, where it lies, how long it may take.
LABELS: dict[str, st.SearchStrategy[object]] = {
    "trial_timeout_s": st.sampled_from([None, 60.0]),
    "stall_timeout_s": st.sampled_from([None, 300.0]),
}


def test_every_setting_of_a_benchmark_is_one_that_makes_the_number_or_is_not() -> None:
    assert BUILTIN.keys() | LABELS.keys() | {"kind"} == BuiltinBenchmark.model_fields.keys()


@given(st.fixed_dictionaries(BUILTIN), st.fixed_dictionaries(BUILTIN))
def test_what_can_change_the_number_changes_the_point(
    one: dict[str, object], other: dict[str, object]
) -> None:
    before, after = (
        points(inventory(sweep=SWEEP.model_copy(update={"benchmark": BuiltinBenchmark(**values)})))
        for values in (one, other)
    )
    assert (before == after) == (one == other)
    assert before == after or before.isdisjoint(after)


@given(
    st.fixed_dictionaries(BUILTIN),
    st.fixed_dictionaries(LABELS),
    st.sampled_from(["", "support", "other"]),
    st.sampled_from(["/a.jsonl", "/b/c.jsonl"]),
)
def test_a_label_does_not(
    values: dict[str, object], labels: dict[str, object], name: str, file: str
) -> None:
    benchmark = BuiltinBenchmark(**values)
    renamed = benchmark.model_copy(update=labels)
    if isinstance(benchmark.workload, FileWorkload):
        moved = benchmark.workload.model_copy(update={"name": name, "file": file})
        renamed = renamed.model_copy(update={"workload": moved})
    assert renamed.identity() == benchmark.identity()
