"""SGLang's failures as the rows of a sweep, and a sweep of a release that is not new."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.build import Engine
from tests.engine.host import ARGUMENTS, PLACE, SITUATION, SPECULATION, EngineHost, with_engine
from tests.engine.host import engine_host as host_of
from tests.engine.older import STANDIN, VERSION, older
from tests.testhost import Machine, Pool

pytestmark = pytest.mark.timeout(1800)

OLDER_PATH = ":".join(f"{PLACE}/{part}" for part in ("standin-older", "older", "packages"))


@pytest.fixture(scope="module")
def machine(testhost: Pool, engine: Engine) -> Iterator[Machine]:
    parts = {"older": older(engine).release, "standin-older": STANDIN}
    found = with_engine(testhost, engine, "engine-rows", parts)
    found.install_service("sglang.service", "[Service]\nExecStart=/bin/true\n", start=False)
    yield found
    testhost.discard("engine-rows")


def host(
    machine: Machine, directory: Path, sweep: dict[str, object], **server: object
) -> EngineHost:
    """Production is down there, and stays so."""
    found = host_of(machine, directory, {"it": {"host": "gpu", **sweep}})
    found.server = {**found.server, **server}
    found.write_inventory()
    return found


def test_each_failure_is_a_row_of_its_own_kind(machine: Machine, tmp_path: Path) -> None:
    """Without steps there is no room for one token; with steps the draft model is missing first."""
    args = {
        **ARGUMENTS, **SPECULATION,
        "max-total-tokens": 1,
        "speculative-draft-model-path": "/models/there/is/none",
    }  # fmt: skip
    gpu = host(machine, tmp_path, {"steps": [0, 2], "concurrency": [1, 4]}, args=args)
    ended = gpu.sweep("run", "it", deadline_s=600)
    assert ended.status == 1, ended.err
    rows = gpu.frame()
    print(rows[["speculative_num_steps", "concurrency", "failure", "failure_detail"]].to_string())
    assert set(rows["status"]) == {"failed"}
    kinds = rows.groupby("speculative_num_steps")["failure"].unique().map(list).to_dict()
    assert kinds == {0: ["kv_cache_too_small"], 2: ["model_not_found"]}
    assert gpu.leftovers() == []


def test_an_older_release_is_swept(machine: Machine, tmp_path: Path) -> None:
    env = {**SITUATION, "PYTHONPATH": OLDER_PATH}
    gpu = host(machine, tmp_path, {"steps": [0], "concurrency": [1, 4]}, env=env)
    checked = gpu.sweep("check", "it", deadline_s=120)
    assert f"sglang.launch_server: {VERSION}" in checked.out
    ended = gpu.sweep("run", "it", deadline_s=600)
    assert ended.status == 0, ended.err
    rows = gpu.frame()
    assert set(rows["sglang_version"]) == {VERSION}
    assert set(rows["max_total_num_tokens"]) == {20000}
    assert (rows["agg_tok_s"] > 0).all()


def test_a_flag_newer_than_the_release_is_named_before_anything_is_touched(
    machine: Machine, tmp_path: Path
) -> None:
    env = {**SITUATION, "PYTHONPATH": OLDER_PATH}
    args = {**ARGUMENTS, "speculative-adaptive": True, "enable-prefill-cp": True}
    gpu = host(machine, tmp_path, {"steps": [0], "concurrency": [1]}, env=env, args=args)
    checked = gpu.sweep("check", "it", deadline_s=120)
    assert checked.status == 5
    assert f"SGLang {VERSION} there has no --enable-prefill-cp" in checked.out
    assert "--speculative-adaptive" not in checked.out  # steps 0 gives no speculative flag
