"""What a resumed run may change, what it may not, and how that is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweep.cli.differences import plan_differences, settings_apart
from sweep.inventory import HostSpec
from sweep.inventory_file import load_inventory
from sweep.matrix import Changes, build_plan
from sweep.plan import Plan, numbered_like

TEXT = """\
hosts:
  gpu:
    address: gpu.example.net
    host_class: big
    server:
      command: [/opt/ml/bin/python3, -m, sglang.launch_server]
      args: {model-path: /m, speculative-algorithm: NEXTN, speculative-eagle-topk: 1, tp-size: 4}
      env: {FOO: a}
sweeps:
  s: {host: gpu, steps: "1,2", concurrency: [1, 4], benchmark: {kind: builtin, max_tokens: 60}}
"""


def plan_of(place: Path, old: str = "", new: str = "") -> tuple[Plan, HostSpec]:
    assert old in TEXT
    path = place / "inventory.yaml"
    path.write_text(TEXT.replace(old, new, 1) if old else TEXT)
    inventory = load_inventory(path)
    plan = build_plan(inventory, "s", Changes())
    return plan, inventory.hosts[plan.host]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("host_class: big", "host_class: big\n    reconnect_for_s: 30"),
        ("address: gpu.example.net", "address: other.example.net"),
        ("max_tokens: 60", "max_tokens: 60, trial_timeout_s: 77"),
        ('"1,2"', '"2,1"'),
        ("{host: gpu,", "{host: gpu, trials: 3, max_consecutive_failures: 9,"),
    ],
)
def test_what_makes_no_number_may_change(tmp_path: Path, old: str, new: str) -> None:
    assert plan_differences(plan_of(tmp_path), plan_of(tmp_path, old, new)) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("tp-size: 4", "tp-size: 8", ["tp-size 4 -> 8"]),
        (", tp-size: 4", "", ["tp-size 4 -> unset"]),
        ("FOO: a", "FOO: b", ["FOO a -> b"]),
        ('"1,2"', "1..3", ["speculative-num-steps unset,1,2 -> unset,1,2,3"]),
        ("[1, 4]", "[1, max]", ["concurrency 1,4 -> 1,max"]),
        ("max_tokens: 60", "max_tokens: 70", ["benchmark.max_tokens 60 -> 70"]),
        ("host_class: big", "host_class: small", ["host_class big -> small"]),
    ],
)
def test_what_makes_the_number_is_named(
    tmp_path: Path, old: str, new: str, said: list[str]
) -> None:
    assert plan_differences(plan_of(tmp_path), plan_of(tmp_path, old, new)) == said


def test_a_launch_id_means_one_config_for_ever(tmp_path: Path) -> None:
    def ids(plan: Plan) -> dict[int, str]:
        return {launch.config.steps: launch.id for launch in plan.launches}

    before, _ = plan_of(tmp_path)
    assert ids(before) == {0: "l-01", 1: "l-02", 2: "l-03"}
    turned, _ = plan_of(tmp_path, '"1,2"', '"5,2,1"')
    after = numbered_like(turned, before)
    assert ids(after) == {0: "l-01", 5: "l-04", 2: "l-03", 1: "l-02"}
    fewer = numbered_like(before, after)
    again, _ = plan_of(tmp_path, '"1,2"', '"1,2,6"')
    assert ids(numbered_like(again, fewer, ["l-01", "l-04"]))[6] == "l-05"


def test_two_runs_say_what_they_were_made_with(tmp_path: Path) -> None:
    def run(old: str, new: str, version: str) -> tuple[dict[str, Any], Plan]:
        plan, host = plan_of(tmp_path, old, new)
        saved = host.model_dump(mode="json", exclude_defaults=True)
        return {"host": saved, "fingerprint": {"sglang_version": version}}, plan

    before, after = run("", "", "0.5.22"), run("tp-size: 4", "tp-size: 8", "0.5.23")
    assert settings_apart(before, after) == [
        ("tp-size", "4", "8"),
        ("sglang_version", "0.5.22", "0.5.23"),
    ]
    assert settings_apart(before, before) == []
    assert settings_apart(({}, None), ({}, None)) == []
