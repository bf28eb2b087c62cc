"""The main job on SGLang itself, over SSH, under systemd; and what the tool says about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from sweep.bench.metrics import averages
from sweep.sglang.journal import scrape
from tests.engine.build import Engine
from tests.engine.host import EngineHost, engine_host, form, with_engine
from tests.testhost import Pool
from tests.whole.gpuhost import Ended

pytestmark = pytest.mark.timeout(7200)

MAX_TOKENS = 96


@pytest.fixture(scope="module")
def swept(
    testhost: Pool, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[EngineHost, Ended]]:
    wanted = form()
    sweeps = {
        "engine": {
            "host": "gpu",
            "steps": list(wanted.steps),
            "concurrency": list(wanted.concurrency),
            "benchmark": {"kind": "builtin", "max_tokens": MAX_TOKENS},
        }
    }
    machine = with_engine(testhost, engine, "engine")
    host = engine_host(machine, tmp_path_factory.mktemp("engine"), sweeps)
    host.dress()
    host.write_inventory()
    result = host.sweep("run", "engine", deadline_s=wanted.deadline_s)
    print(result.err)
    yield host, result
    testhost.discard("engine")


@pytest.fixture
def frame(swept: tuple[EngineHost, Ended]) -> pd.DataFrame:
    return swept[0].frame()


def bench_of(host: EngineHost, point: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((host.run / "bench" / f"{point}-t1-a1.json").read_text())
    return record["bench"]


def test_every_point_is_measured(swept: tuple[EngineHost, Ended], frame: pd.DataFrame) -> None:
    _, result = swept
    print(frame[COLUMNS].to_string())
    assert result.status == 0, result.err
    assert set(frame["status"]) == {"ok"}
    points = {(row.speculative_num_steps, row.concurrency) for row in frame.itertuples()}
    assert points == {(steps, c) for steps in form().steps for c in form().concurrency}
    assert set(frame["sglang_version"]) == {"0.5.23"}
    # How steady a CPU is that does other things beside is not judged.
    assert not set(frame["flags"].dropna()) - {"unstable"}


COLUMNS = [
    "speculative_num_steps", "concurrency", "agg_tok_s", "accept_length", "accept_rate",
    "max_running_requests", "max_total_num_tokens", "startup_s", "ttft_ms_mean", "client_cpu",
    "flags",
]  # fmt: skip


def test_capacities_are_the_servers_own(frame: pd.DataFrame) -> None:
    assert set(frame["max_total_num_tokens"]) == {20000}
    speculative = frame[frame["speculative_num_steps"] > 0]
    assert set(speculative["max_running_requests"]) == {48}
    plain = frame[frame["speculative_num_steps"] == 0]
    assert (plain["max_running_requests"] > 48).all()


def test_acceptance_is_the_points_own(swept: tuple[EngineHost, Ended], frame: pd.DataFrame) -> None:
    """Tokens over verify steps of this point's requests, nothing of any other point's."""
    host, _ = swept
    assert frame.loc[frame["speculative_num_steps"] == 0, "accept_length"].isna().all()
    for row in frame[frame["speculative_num_steps"] > 0].itertuples():
        requests = bench_of(host, row.point)["requests"]
        assert len(requests) == row.requests == row.requests_ok
        tokens = sum(request["tokens_out"] for request in requests)
        assert tokens == row.output_tokens == MAX_TOKENS * row.requests
        steps = sum(request["verify"] for request in requests)
        assert row.accept_length == pytest.approx(tokens / steps, abs=1e-9)
        assert 1 < row.accept_length <= row.speculative_num_steps + 1
        assert row.accept_source == "requests"


def test_more_steps_accept_more(frame: pd.DataFrame) -> None:
    """As far as the draft model's luck goes: beyond, a tie in the target decides the text."""
    few = frame[frame["speculative_num_steps"].between(1, 5)]
    assert few.groupby("speculative_num_steps")["accept_length"].mean().is_monotonic_increasing


def test_the_servers_own_totals_begin_anew_with_each_point(
    swept: tuple[EngineHost, Ended], frame: pd.DataFrame
) -> None:
    """What a release without counts per request has to do with: a flush resets them.

    They are added up only when SGLang logs a decode line, each 40 steps, so they are near, no more.
    """
    host, _ = swept
    for row in frame[frame["speculative_num_steps"] > 0].itertuples():
        evidence = bench_of(host, row.point)["evidence"]
        before, after = evidence["server_before"], evidence["server_after"]
        assert averages(before) == []
        assert averages(after) == [pytest.approx(row.accept_length, rel=0.15)]


# In this order; what is said of the target and of the draft model counts where it is said first.
START_UP = (
    "Max running requests is reset to 48 for speculative decoding",
    "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1",
    "server_args={'model_path': ",
    "Load weight begin. avail mem=",
    "Multi-thread loading shards: ",
    "Load weight end. elapsed=",
    "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 20000, K size: ",
    "Memory pool end. avail mem=",
    "max_total_num_tokens=20000, chunked_prefill_size=4096, max_prefill_tokens=16384, "
    "max_running_requests=48, context_len=4096, available_cpu_mem=",
    "Tree cache initialized: ",
    "Engine startup timings (s): load_weight=",
    "INFO:     Started server process [",
    "INFO:     Uvicorn running on http://127.0.0.1:30900",
    "The server is fired up and ready to roll!",
)


def test_the_journal_says_how_it_started(
    swept: tuple[EngineHost, Ended], frame: pd.DataFrame
) -> None:
    host, _ = swept
    for launch in sorted(set(frame.loc[frame["speculative_num_steps"] > 0, "launch"])):
        journal = (host.run / "journal" / f"{launch}.log").read_bytes()
        text = journal.decode()
        places = [text.find(line) for line in START_UP]
        missing = [line for line, at in zip(START_UP, places, strict=True) if at < 0]
        assert missing == []
        assert places == sorted(places)
        found = scrape(journal)
        assert found.ready
        assert found.failure is None
        assert (found.max_running_requests, found.max_total_num_tokens) == (48, 20000)
        assert found.launches == 1
        assert found.decode


def test_production_serves_again_and_nothing_is_left(swept: tuple[EngineHost, Ended]) -> None:
    host, _ = swept
    assert host.active("sglang.service")
    assert host.serves()
    assert host.leftovers() == []
