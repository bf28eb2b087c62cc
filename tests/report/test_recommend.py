"""What to use, under which limits, for which mix; and what is pasted."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest

from sweep.errors import UsageError
from sweep.inventory import HostSpec
from sweep.plan import Launch, ServerConfig
from sweep.report.adaptive import adaptive
from sweep.report.limits import parse_limits
from sweep.report.paste import flags_alone, pasted
from sweep.report.recommend import parse_mix, recommend
from sweep.report.summary import Group, percent
from sweep.report.text import answer_lines, reason_lines, recommendation_json
from sweep.unit import Templates
from tests.report.made import group_of, shadowed, table

ALONE = {0: 100.0, 1: 150.0, 2: 190.0, 3: 220.0, 4: 240.0}
CROWDED = {0: 100.0, 1: 140.0, 2: 150.0, 3: 130.0, 4: 110.0}


def two_loads(**more: object) -> Group:
    """Steps 4 is best alone, 2 in a crowd."""
    alone, crowded = table(ALONE, loads=(1,), **more), table(CROWDED, loads=(16,), seed=5, **more)
    return group_of(pd.concat([alone, crowded], ignore_index=True))


def test_each_load_has_its_best_and_the_mix_one_for_all() -> None:
    found = recommend(two_loads())
    assert [(pick.load, pick.steps, pick.sure) for pick in found.picks] == [
        ("1", 4, True),
        ("16", 2, True),
    ]
    assert found.compromise is not None
    assert found.compromise.mix == {"1": 0.5, "16": 0.5}
    assert found.steps in (2, 3)


@pytest.mark.parametrize(("mix", "steps"), [("1:0.99,16:0.01", 4), ("1:1,16:99", 2), ("16:3", 2)])
def test_the_mix_decides(mix: str, steps: int) -> None:
    found = recommend(two_loads(), mix=parse_mix(mix))
    assert found.compromise is not None
    assert found.compromise.steps == steps
    assert sum(found.compromise.mix.values()) == pytest.approx(1)


def test_a_limit_leaves_out_what_breaks_it() -> None:
    frame = table(ALONE, loads=(1,))
    frame["ttft_ms_p99"] = frame["steps"] * 100.0
    found = recommend(group_of(frame), limits=parse_limits("ttft_p99_ms=250"))
    (pick,) = found.picks
    assert pick.steps == 2
    assert pick.runner_up is not None
    assert pick.runner_up.steps == 1, "what is out is no runner-up"
    assert "steps=4 is out: ttft_p99_ms 400 is above 250" in pick.why
    assert found.steps == 2
    assert next(answer_lines(found)) == "use steps=2 within ttft_p99_ms=250: the best for C=1"


def test_what_a_limit_excludes_is_proposed_nowhere() -> None:
    """Ties, rivals, reasons and the command that would decide are of what keeps the limits."""
    frame = shadowed(table({0: 100, 1: 150, 2: 200, 3: 220}, trials=1), 2, 4, 0.2)
    frame["ttft_ms_p99"] = frame["steps"] * 100.0
    group = group_of(frame)
    assert group.repeat_command == "sweep run NAME --steps 3,4 --trials 3"
    found = recommend(group, limits={"ttft_ms_p99": 250.0})
    assert found.group.repeat_command is None, "2 is far ahead of 1, and there is nothing else"
    assert [pick.ties for pick in found.picks] == [(2,), (2,)]
    assert [pick.free for pick in found.picks] == [2, 2]
    assert found.compromise is not None
    assert found.compromise.loss == 0, "against the best that keeps the limit"
    text = "\n".join([*answer_lines(found), *reason_lines(found)])
    told = [line for line in text.splitlines() if "steps=4" in line or "steps=3" in line]
    assert told
    assert all("is out" in line or "no value within the limits" in line for line in told)


def test_a_load_that_keeps_no_limit_is_not_among_those_served() -> None:
    frame = table(ALONE, loads=(1, 4, 16))
    frame["tpot_ms_p99"] = frame["concurrency"].map({1: 0.2, 4: 0.31, 16: 0.44})
    lines = list(answer_lines(recommend(group_of(frame), limits={"tpot_ms_p99": 0.4})))
    assert lines[:2] == [
        "use steps=4 within tpot_p99_ms=0.4: one value for C=1, 4 alike, 0.0% behind the best of "
        "each",
        "best of each load: C=1 steps=4, C=4 steps=4, C=16 none",
    ]


def test_nothing_that_keeps_a_limit_is_said_in_few_words() -> None:
    frame = table(ALONE, loads=(1,))
    frame["ttft_ms_p99"] = 400.0
    nothing = recommend(group_of(frame), limits={"ttft_ms_p99": 250.0})
    assert nothing.steps is None
    assert list(answer_lines(nothing)) == ["nothing measured keeps ttft_p99_ms=250"]
    assert list(reason_lines(nothing))[:3] == [
        "C=1: nothing to recommend",
        "    steps=0,1,2,3,4 are out: ttft_p99_ms 400 is above 250",
        "note: " + nothing.notes[0],
    ]


@pytest.mark.parametrize(("column", "requests", "few"), [
    ("ttft_ms_p99", 4, True), ("ttft_ms_p99", 100, False), ("e2e_ms_p90", 9, True),
    ("e2e_ms_p90", 10, False), ("itl_ms_p99", 4, False), ("ttft_ms_mean", 4, False),
])  # fmt: skip
def test_a_percentile_of_few_requests_is_called_so(column: str, requests: int, few: bool) -> None:
    frame = table(ALONE, loads=(1,), requests_ok=requests)
    frame[column] = frame["steps"] * 100.0 + 1
    (pick,) = recommend(group_of(frame), limits={column: 250.0}).picks
    assert pick.steps == 2
    out, *_ = pick.why
    assert (f"301 (of {requests} requests) is above 250" in out) is few
    assert any(f"is of {requests} requests a trial" in one for one in pick.why) is few


def test_the_answer_is_three_lines() -> None:
    assert list(answer_lines(recommend(two_loads(), mix={"1": 0.2, "16": 0.8}))) == [
        "use steps=2: one value for 20% at C=1, 80% at C=16, 5.0% behind the best of each",
        "best of each load: C=1 steps=4, C=16 steps=2",
        "how sure: every best one is ahead beyond the noise",
    ]
    once = table({0: 100, 3: 200.0}, trials=1, loads=(1,))
    tied = recommend(group_of(shadowed(once, 3, 4, 0.001)))
    assert list(answer_lines(tied))[2] == (
        "how sure: not told apart are C=1 steps=3 from 4; nothing was measured twice, 3% noise is "
        "assumed; to decide: sweep run NAME --steps 3,4 --trials 3"
    )


def test_what_was_not_measured_keeps_no_limit() -> None:
    frame = table(ALONE, loads=(1,))
    frame["tpot_ms_p99"] = frame["steps"].map({0: 10.0, 1: 10.0}.get)
    (pick,) = recommend(group_of(frame), limits={"tpot_ms_p99": 20.0}).picks
    assert pick.steps == 1
    assert pick.why[0] == "steps=2,3,4 are out: tpot_p99_ms was not measured"
    with pytest.raises(UsageError, match=r"ttft_p99_ms: nothing here says it; .* tpot_p99_ms"):
        recommend(group_of(frame), limits={"ttft_ms_p99": 20.0})


def test_a_baseline_alone_is_nothing_to_paste() -> None:
    alone = table({0: 100.0}, loads=(1,))
    found = recommend(group_of(alone))
    assert (found.steps, found.to_paste) == (0, None)
    both = table({0: 100.0, 1: 50.0}, loads=(1,))
    assert recommend(group_of(both)).to_paste == 0


def test_rates_that_cannot_be_meant_are_no_bug() -> None:
    rates = [(0, 1, 1e-300), (2, 1, 1e300), (0, 16, 1e300), (2, 16, 1e-300)]
    frame = pd.DataFrame(rates, columns=["steps", "concurrency", "agg_tok_s"])
    found = recommend(group_of(frame), mix={"1": 0.5, "16": 0.5})
    assert [pick.steps for pick in found.picks] == [2, 0]
    assert percent(1e9) == "above +100000 %"


def test_a_mix_or_limit_that_cannot_be_meant_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--mix 64: nothing to use .* the loads are 1, 16"):
        recommend(two_loads(), mix={"64": 1.0})
    with pytest.raises(UsageError, match=r"--slo speed: no such limit; there are ttft_mean_ms"):
        recommend(two_loads(), limits={"speed": 1.0})


@pytest.mark.parametrize(
    ("text", "found"),
    [("1:0.7,16:0.3", {"1": 0.7, "16": 0.3}), (" 4 : 2 , max:1", {"4": 2.0, "max": 1.0})],
)
def test_mixes(text: str, found: dict[str, float]) -> None:
    assert parse_mix(text) == found


@pytest.mark.parametrize("text", ["", "1", "1:", ":1", "1:x", "1:0", "1:-1", "1:1,1:2", "1:inf"])
def test_what_is_no_mix(text: str) -> None:
    with pytest.raises(ValueError, match=r"LOAD:SHARE|stands in it twice"):
        parse_mix(text)


def test_limits_go_by_either_name() -> None:
    assert parse_limits("ttft_p99_ms=500,tpot_ms_p99=20") == {
        "ttft_ms_p99": 500.0,
        "tpot_ms_p99": 20.0,
    }
    with pytest.raises(ValueError, match="NAME=LIMIT"):
        parse_limits("ttft_p99_ms")
    with pytest.raises(ValueError, match="ttft_ms_p99 stands in it twice"):
        parse_limits("ttft_p99_ms=500,ttft_ms_p99=400")


def test_the_conditions_and_the_noise_are_said() -> None:
    frame = table(ALONE, model="/models/m", gpu="8x H100", workload="chat", temperature=0.7,
                  sglang_version="0.5.23")  # fmt: skip
    lines = list(reason_lines(recommend(group_of(frame))))
    assert lines[-1] == (
        "this holds for: model /models/m, GPU 8x H100, SGLang 0.5.23, workload chat, "
        "temperature 0.7"
    )
    assert any(line.startswith("note: noise ") for line in lines)


def test_json_holds_what_the_text_says() -> None:
    found = recommend(two_loads())
    value = json.loads(json.dumps(recommendation_json(found, adaptive(found))))
    assert [(load["load"], load["steps"]) for load in value["loads"]] == [("1", 4), ("16", 2)]
    assert value["compromise"]["steps"] == found.steps
    assert value["noise"]["measured"] is True


# -- adaptive.json ----------------------------------------------------------------------------


def test_the_schedule_changes_in_the_middle_between_two_loads() -> None:
    schedule = adaptive(recommend(two_loads()))
    assert schedule.text is not None
    assert json.loads(schedule.text) == {
        "1": {"candidate_steps": [4]},
        "4": {"candidate_steps": [2]},
    }
    assert schedule.flags("a.json")[-4:] == (
        "--speculative-num-steps", "4", "--speculative-eagle-topk", "1"
    )  # fmt: skip


def test_a_rank_of_several_runs_its_share_of_a_load() -> None:
    schedule = adaptive(recommend(two_loads(dp_size=4)))
    assert [slot.batch for slot in schedule.slots] == [1, 2]


def test_why_more_steps_lose_is_said_where_it_is_known() -> None:
    def reason(**more: object) -> str:
        (why,) = [one for one in two_loads(**more).loads[1].why if "steps=3 gives" in one]
        return why.partition(": ")[2]

    assert reason() == "compute or admission, these rows do not say which"
    assert reason(max_running_requests=48).startswith("compute, ")


def test_tied_values_are_both_candidates_with_a_dead_band() -> None:
    frame = shadowed(table({0: 100, 3: 200.0}, loads=(1,)), 3, 4, 0.001)
    schedule = adaptive(recommend(group_of(frame)))
    assert schedule.text is not None
    (slot,) = json.loads(schedule.text).values()
    assert slot["candidate_steps"] == [3, 4]
    assert not any("without" in note for note in schedule.notes)
    assert slot["up_hysteresis"] > 0.0
    assert slot["down_hysteresis"] < -0.25


def test_a_tie_that_nobody_repeated_is_told_beside_the_file() -> None:
    once = table({0: 100, 3: 200.0}, trials=1, loads=(1,))
    schedule = adaptive(recommend(group_of(shadowed(once, 3, 4, 0.001))))
    assert [slot.candidates for slot in schedule.slots] == [(3,)]
    assert schedule.notes[0] == (
        "C=1 has steps=3 without 4: nothing was measured twice, and repeats may tie them"
    )


def test_no_schedule_where_speculation_loses_or_topk_is_not_one() -> None:
    assert adaptive(recommend(group_of(table({0: 100, 1: 50})))).text is None
    tree = table(ALONE)
    tree["speculative_eagle_topk"] = 4
    schedule = adaptive(recommend(group_of(tree)))
    assert schedule.text is None
    assert schedule.notes == ("SGLang adapts with topk 1 only, and this is topk 4",)


# -- what is pasted ---------------------------------------------------------------------------

HOST = HostSpec.model_validate(
    {
        "address": "gpu1.example.net",
        "production": ["sglang.service"],
        "production_health": "http://127.0.0.1:30000/health",
        "server": {
            "command": ["/opt/ml/bin/python3", "-m", "sglang.launch_server"],
            "secrets": {"HF_TOKEN": {"env": "HF_TOKEN"}, "api-key": {"file": "~/key"}},
        },
    },
    strict=False,
)
LAUNCH = Launch(
    "l-05",
    ServerConfig(
        (("model-path", "/models/a model"), ("speculative-algorithm", "NEXTN"),
         ("speculative-eagle-topk", 1), ("speculative-num-steps", 4)),
        (("CUDA_HOME", "/usr/local/cuda"),),
    ),
    (),
)  # fmt: skip


def test_the_unit_replaces_production_and_holds_no_secret() -> None:
    found = pasted(HOST, LAUNCH, "overnight-20260301-220000", Templates())
    lines = found.service.splitlines()
    assert lines[0] == (
        "# sglang.service: SGLang with steps=4, recommended by sweep from run "
        "overnight-20260301-220000."
    )
    assert "Restart=on-failure" in lines
    assert "WantedBy=multi-user.target" in lines
    assert "    --speculative-num-steps 4 \\" in lines
    assert "--port 30000" in found.service, "production's own port, not that of the sweep"
    for word in (
        "Conflicts=",
        "/sweep/",
        "Restart=no",
        "HF_TOKEN=",
        "--config",
        "written by sweep",
    ):
        assert word not in found.service
    assert "it holds no secrets: give it HF_TOKEN, api-key as production has them" in found.notes


def test_the_unit_of_a_user_starts_with_the_users_manager() -> None:
    config = replace(LAUNCH.config, swept=(("served-model-name", "50%"),))
    found = pasted(
        HOST.model_copy(update={"scope": "user"}), replace(LAUNCH, config=config), "r", Templates()
    )
    assert "WantedBy=default.target" in found.service
    assert "Description=SGLang, steps=4 served-model-name=50%%" in found.service


def test_the_command_line_can_be_pasted() -> None:
    found = pasted(HOST, LAUNCH, "r", Templates())
    assert found.command.startswith("CUDA_HOME=/usr/local/cuda /opt/ml/bin/python3 -m sglang")
    assert "--model-path '/models/a model' \\\n" in found.command
    assert found.command.endswith("--port 30000")


def test_a_table_gives_flags_alone() -> None:
    assert flags_alone(4, None) == "--speculative-num-steps 4 --speculative-eagle-topk 1"
    assert flags_alone(0, None) == ""


def test_a_name_of_two_lines_is_told_in_one() -> None:
    found = recommend(group_of(table(ALONE, model="large\nmodel")))
    assert "this holds for: model large model" in list(reason_lines(found))


def test_a_run_that_failed_alone_says_what_failed() -> None:
    frame = table(ALONE, trials=1)
    frame["status"], frame["failure"], frame["agg_tok_s"] = "failed", "cuda_oom", None
    frame.loc[0, "failure"] = "start_timeout"
    said = list(answer_lines(recommend(group_of(frame))))
    count = len(frame)
    assert said == [
        f"nothing was measured: {count} trials failed, {count - 1} with cuda_oom, 1 with "
        "start_timeout"
    ]


def test_a_port_that_production_does_not_say_is_not_the_sweeps_own() -> None:
    silent = HOST.model_copy(update={"production_health": None})
    found = pasted(silent, LAUNCH, "r", Templates())
    assert "--port 30000" in found.command
    assert "--port 30000" in found.service
    assert "production_health names no port" in found.service
