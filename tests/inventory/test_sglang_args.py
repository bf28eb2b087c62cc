"""SGLang's flags: spellings, kinds, and what a launch resolves to."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sweep.inventory import FlagValue
from sweep.plan import ServerConfig
from sweep.sglang.args import (
    algorithm_family,
    expected,
    flag_complaints,
    merged,
    same_algorithm,
    spelt,
)
from sweep.sglang.flags import REMOVED, canonical, field_of, flags, is_speculative
from sweep.sglang.rules import complaints


def config(
    args: Mapping[str, FlagValue], swept: Mapping[str, FlagValue] | None = None
) -> ServerConfig:
    return ServerConfig(tuple(args.items()), (), tuple((swept or {}).items()))


def test_the_table_of_flags_is_consistent() -> None:
    assert len({flag.name for flag in flags().values()}) > 500
    assert not set(REMOVED) & set(flags())
    for _, instead in REMOVED.values():
        assert not instead or instead.split(":")[0] in flags()
    for spelling, flag in flags().items():
        assert flags()[flag.name] == flag
        assert canonical(canonical(spelling)) == canonical(spelling)


@pytest.mark.parametrize(
    ("written", "name", "field"),
    [
        ("tp", "tp-size", "tp_size"),
        ("tensor-parallel-size", "tp-size", "tp_size"),
        ("dp", "dp-size", "dp_size"),
        ("ep", "ep-size", "ep_size"),
        ("model", "model-path", "model_path"),
        ("speculative-draft-model", "speculative-draft-model-path", "speculative_draft_model_path"),
        ("enable-hicache", "enable-hierarchical-cache", "enable_hierarchical_cache"),
        ("flag-of-a-fork", "flag-of-a-fork", "flag_of_a_fork"),
        ("no-lora-strict-loading", "no-lora-strict-loading", "lora_strict_loading"),
    ],
)
def test_spellings(written: str, name: str, field: str) -> None:
    assert canonical(written) == name
    assert field_of(written) == field


def test_what_is_speculative() -> None:
    for name in ("speculative-adaptive", "enable-multi-layer-eagle", "uno-lora-path",
                 "no-speculative-enable-w4a4-mxfp4-megamoe", "decoupled-spec-role"):  # fmt: skip
        assert is_speculative(name)
    assert not is_speculative("tp-size")


def test_merging_keeps_one_side_of_yes_and_no() -> None:
    denied = spelt({"lora-strict-loading": False})
    assert denied == {"no-lora-strict-loading": True}
    assert merged(denied, {"lora-strict-loading": True}) == {"lora-strict-loading": True}
    assert merged({"lora-strict-loading": True}, {"no-lora-strict-loading": True}) == {
        "no-lora-strict-loading": True
    }


GOOD: list[dict[str, FlagValue]] = [
    {"speculative-algorithm": "NEXTN", "speculative-eagle-topk": 1},
    {"speculative-algorithm": "EAGLE3", "speculative-eagle-topk": 4,
     "speculative-num-draft-tokens": 8, "speculative-draft-model-path": "/d"},
    {"speculative-algorithm": "EAGLE3", "speculative-eagle-topk": 1,
     "enable-multi-layer-eagle": True},
    {"speculative-algorithm": "STANDALONE", "speculative-eagle-topk": 1},
    {"speculative-algorithm": "STANDALONE", "speculative-eagle-topk": 1,
     "enable-dp-attention": True, "dp-size": 1},
    {"speculative-algorithm": "A_PLUGIN", "speculative-eagle-topk": 1},
    {"speculative-algorithm": "EAGLE", "speculative-eagle-topk": 1, "speculative-adaptive": True},
    {"speculative-algorithm": "NEXTN", "speculative-eagle-topk": 4,
     "speculative-num-draft-tokens": 13, "attention-backend": "fa3", "page-size": 64},
]  # fmt: skip


@pytest.mark.parametrize("args", GOOD)
def test_configs_without_a_complaint(args: dict[str, FlagValue]) -> None:
    whole: dict[str, FlagValue] = {"model-path": "/m", **args, "speculative-num-steps": 3}
    assert list(complaints(whole)) == []
    assert list(flag_complaints(args)) == []


@pytest.mark.parametrize(
    ("steps", "topk", "most"),
    [(1, 4, 5), (2, 4, 21), (3, 4, 37), (5, 8, 265), (10, 2, 39)],
)
def test_how_many_draft_tokens_a_tree_holds(steps: int, topk: int, most: int) -> None:
    args: dict[str, FlagValue] = {
        "model-path": "/m", "speculative-algorithm": "EAGLE", "speculative-eagle-topk": topk,
        "speculative-num-steps": steps,
    }  # fmt: skip
    assert list(complaints({**args, "speculative-num-draft-tokens": most})) == []
    (complaint,) = complaints({**args, "speculative-num-draft-tokens": most + 1})
    assert f"topk^2 = {most} tokens" in complaint.text


@pytest.mark.parametrize(("steps", "topk", "draft"), [(3, 4, 16), (5, 8, 64)])
def test_the_trees_of_sglangs_own_examples_are_taken(steps: int, topk: int, draft: int) -> None:
    args: dict[str, FlagValue] = {
        "model-path": "/m", "speculative-algorithm": "EAGLE", "speculative-eagle-topk": topk,
        "speculative-num-steps": steps, "speculative-num-draft-tokens": draft,
    }  # fmt: skip
    assert list(complaints(args)) == []


@pytest.mark.parametrize(("dp", "steps"), [(2, 0), (2, 3), (3, 3)])
def test_attention_groups_divide_the_gpus(dp: int, steps: int) -> None:
    args: dict[str, FlagValue] = {
        "model-path": "/m", "speculative-algorithm": "NEXTN", "speculative-eagle-topk": 1,
        "speculative-num-steps": steps, "dp-size": dp, "enable-dp-attention": True,
    }  # fmt: skip
    assert [complaint.flag for complaint in complaints(args)] == ["dp-size"]
    assert list(complaints({**args, "tp-size": dp * 2})) == []
    assert list(complaints({**args, "enable-dp-attention": False})) == []


def test_what_a_launch_with_topk_1_resolves_to() -> None:
    args: dict[str, FlagValue] = {
        "model-path": "/m", "tp-size": 4, "dp-size": 2, "speculative-algorithm": "NEXTN",
        "speculative-eagle-topk": 1, "speculative-num-steps": 3,
    }  # fmt: skip
    assert expected(config(args)) == {
        "speculative_algorithm": "EAGLE",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
        "model_path": "/m",
        "tp_size": 4,
        "dp_size": 2,
    }


def test_what_a_tree_and_a_baseline_resolve_to() -> None:
    tree: dict[str, FlagValue] = {
        "model-path": "/m", "speculative-algorithm": "EAGLE3", "speculative-eagle-topk": 4,
        "speculative-num-draft-tokens": 8, "speculative-num-steps": 3,
    }  # fmt: skip
    found = expected(config(tree))
    assert (found["speculative_algorithm"], found["speculative_num_draft_tokens"]) == ("EAGLE3", 8)
    plain = expected(config({"model-path": "/m"}))
    assert plain["tp_size"] == 1
    assert "dp_size" not in plain
    for field in ("algorithm", "num_steps", "eagle_topk", "num_draft_tokens"):
        assert plain[f"speculative_{field}"] is None


def test_swept_flags_are_expected_as_the_server_says_them() -> None:
    swept: dict[str, FlagValue] = {
        "page-size": "64", "mem-fraction-static": 1, "enable-metrics": False, "dtype": False,
        "cuda-graph-bs-decode": (1, 2), "log-requests-target": "stdout", "flag-of-a-fork": "x",
        "lora-strict-loading": False, "no-dllm-fdfo": True, "tp-size": 8,
    }  # fmt: skip
    found = expected(config({"model-path": "/m", "tp-size": 8}, swept))
    assert found["page_size"] == 64
    assert found["mem_fraction_static"] == 1.0
    assert found["enable_metrics"] is False
    assert "dtype" not in found
    assert found["cuda_graph_bs_decode"] == [1, 2]
    assert found["log_requests_target"] == ["stdout"]
    assert found["flag_of_a_fork"] == "x"
    assert found["lora_strict_loading"] is False
    assert found["dllm_fdfo"] is False
    assert found["tp_size"] == 8


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("4096", 4096), ("128k", 128000), ("128Ki", 131072), ("0.5M", 500000), ("25.6k", 25600),
        (2048, 2048), ("1.5Ki", None), ("1.5", None), ("4K", None), ("4 k", None),
    ],
)  # fmt: skip
def test_sizes_are_numbers_to_the_server(written: FlagValue, size: int | None) -> None:
    """A swept size comes back from it as the number, in 0.5.23."""
    args: dict[str, FlagValue] = {"max-total-tokens": written}
    if size is None:
        assert [complaint.flag for complaint in flag_complaints(args)] == ["max-total-tokens"]
    else:
        assert list(flag_complaints(args)) == []
        assert expected(config({"model-path": "/m"}, args))["max_total_tokens"] == size


def test_names_of_one_algorithm() -> None:
    assert same_algorithm("NEXTN", "EAGLE")
    assert same_algorithm("eagle", "FROZEN_KV_MTP")
    assert not same_algorithm("EAGLE", "EAGLE3")
    assert not same_algorithm("NEXTN", None)
    assert algorithm_family("") is algorithm_family(None) is algorithm_family("NONE") is None
