"""Hosts in the field are not new: our rules and the scraper against SGLang 0.5.9.

`older` says what of it is real. Three ways to ask it:

- command lines go through its own parser, resolution and checks, for a GPU that is not there;
- a server of it serves on the CPU, without speculation: all of it is real but the kernels' names;
- with speculation its engine begins to start and its scheduler logs, without a model behind it:
  the lines and their format are its own, the numbers in them are made up (`older_lines`).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sweep.check.release import PROGRAM
from sweep.inventory import FlagValue, HostSpec, ServerSpec, SweepSpec
from sweep.inventory_file import load_inventory
from sweep.matrix import Changes, build_plan, expand
from sweep.sglang.api import Api
from sweep.sglang.flags import REMOVED, SHORT, flags
from sweep.sglang.journal import Scrape, scrape
from sweep.sglang.verify import capacity
from tests.demo.simulated import free_port
from tests.engine.build import HERE, Engine, NoEngineError
from tests.engine.older import VERSION, Older
from tests.engine.older import older as set_up
from tests.engine.test_arguments import (
    CHAIN_ARGS,
    INVENTORIES,
    SWEPT,
    Ask,
    argv_of,
    asking,
    disagreements,
    ours,
    samples,
)  # fmt: skip

pytestmark = pytest.mark.timeout(300)

START_S = 120
PARSER = """
import argparse, json
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
print(json.dumps([word for action in parser._actions for word in action.option_strings]))
"""


@pytest.fixture(scope="module")
def older(engine: Engine) -> Older:
    try:
        return set_up(engine)
    except NoEngineError as error:
        reason = f"no older engine: {error}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def ask(older: Older, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    with asking(older, tmp_path_factory.mktemp("older")) as asked:
        yield asked


def output(older: Older, *words: str) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        ["nice", "-n", "10", older.python, *words], env={**os.environ, **older.environment},
        capture_output=True, check=False, timeout=START_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done


@pytest.fixture(scope="module")
def known(older: Older) -> frozenset[str]:
    """Every spelling of a flag in its parser, without the dashes in front."""
    words = json.loads(output(older, "-c", PARSER).stdout)
    return frozenset(word.removeprefix("--") for word in words)


def newer(args: Mapping[str, FlagValue], known: frozenset[str]) -> set[str]:
    """The flags of a launch that 0.5.9 cannot know."""
    return {name for name in args if name not in known and name not in SHORT}


def test_every_flag_it_takes_is_known_to_us(known: frozenset[str]) -> None:
    """Today's, or one we say has gone and what to write instead."""
    assert known - {"-h", "help"} - set(flags()) - set(REMOVED) == set()
    gone_next = {name for name, (last, _) in REMOVED.items() if last == VERSION}
    assert gone_next - known == set()


@pytest.mark.parametrize("release", ["0.5.9", "0.5.23"])
def test_check_finds_the_flags_a_release_lacks_in_its_source(
    release: str, older: Older, engine: Engine, known: frozenset[str]
) -> None:
    where = {"0.5.9": older.release, "0.5.23": engine.packages}[release]
    lacking = {"0.5.9": set(flags()) - known - set(SHORT), "0.5.23": set()}[release]
    asked = [f"{name}={flag.field}" for name, flag in flags().items() if name not in SHORT]
    done = subprocess.run(
        [engine.python, "-B", "-c", PROGRAM, "sglang", *asked],
        env={**os.environ, "PYTHONPATH": str(where)}, capture_output=True, text=True, check=True,
        timeout=START_S,
    )  # fmt: skip
    version, _, missing = done.stdout.strip("\n").partition("\t")
    assert version == release
    assert set(missing.split()) == lacking


def test_the_sweeps_that_ship_are_taken_as_they_are_meant(ask: Ask) -> None:
    wrong = []
    for path in INVENTORIES:
        inventory = load_inventory(path)
        for name in inventory.sweeps:
            plan = build_plan(inventory, name, Changes())
            host = inventory.hosts[plan.host]
            for config in (launch.config for launch in plan.launches):
                (answer,) = ask([argv_of(config, host)])
                wrong += [
                    f"{path.name} {name} steps={config.steps}: {text}"
                    for text in disagreements(config, answer)
                ]
    assert wrong == []


def test_steps_make_the_draft_tokens_and_48_requests(ask: Ask) -> None:
    server = ServerSpec(command=("/opt/sglang",), args={"model-path": "/m", **CHAIN_ARGS})
    host = HostSpec(address="h", server=server)
    sweep = SweepSpec(host="h", steps=(0, 1, 3, 10), concurrency=(1,), baseline=False)
    configs = expand(sweep, server)
    for config, answer in zip(configs, ask([argv_of(c, host) for c in configs]), strict=True):
        assert disagreements(config, answer) == ()
        fields = answer["fields"]
        assert fields["max_running_requests"] == (48 if config.steps else None)
        if config.steps:
            assert fields["speculative_num_draft_tokens"] == config.steps + 1


def test_swept_values_come_back_as_we_expect_them(ask: Ask, known: frozenset[str]) -> None:
    server = ServerSpec(command=("/opt/sglang",), args={"model-path": "/m", **CHAIN_ARGS})
    host = HostSpec(address="h", server=server)
    for flag, value in SWEPT.items():
        params = {flag: (value,)}
        sweep = SweepSpec(host="h", steps=(3,), concurrency=(1,), baseline=False, params=params)
        (config,) = expand(sweep, server)
        (answer,) = ask([argv_of(config, host)])
        if newer(dict(config.args), known):
            assert answer["refused"].startswith("exit 2: error: unrecognized arguments"), flag
        else:
            assert disagreements(config, answer) == (), flag


def test_what_our_rules_let_pass_it_takes(ask: Ask, known: frozenset[str]) -> None:
    """Lines drawn at random. Those with a flag newer than it end with its name, and only those."""
    taken, wrong = 0, []
    for args, config, host in samples():
        if ours(args, config):
            continue
        (answer,) = ask([argv_of(config, host)])
        differences = disagreements(config, answer)
        names = newer(dict(config.args), known)
        if names:
            said = answer.get("refused", "taken")
            agrees = "unrecognized arguments" in said and all(f"--{name}" in said for name in names)
            differences = () if agrees else (said,)
        taken += not names
        wrong += [f"{args} steps={config.steps}: {text}" for text in differences]
    assert taken > 10
    assert wrong == []


STANDALONE = ("--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", "d")
STEPS = ("--speculative-num-steps", "3")
CHAIN = (*STANDALONE, *STEPS, "--speculative-eagle-topk", "1")
# What our messages say of releases as old as it, to how it ends, or to the resolved (algorithm,
# steps, topk, draft tokens).
SAID: dict[tuple[str, ...], str | tuple[str | int | None, ...]] = {
    STEPS: (None, 3, None, None),
    (*STANDALONE, *STEPS): "TypeError: '>' not supported",
    (*CHAIN, "--speculative-num-draft-tokens", "8"): ("STANDALONE", 3, 1, 4),
    (*STEPS, "--speculative-algorithm", "eagle", "--speculative-eagle-topk", "1"): "exit 2: error",
    (*STEPS, "--speculative-algorithm", "MTP", "--speculative-eagle-topk", "1"): "exit 2: error",
    (*STEPS, "--speculative-algorithm", "NEXTN", "--speculative-eagle-topk", "1"): (
        "EAGLE", 3, 1, 4,
    ),
    (*CHAIN, "--speculative-adaptive"): "exit 2: error: unrecognized arguments",
    (*CHAIN, "--mamba-scheduler-strategy", "no_buffer"): ("STANDALONE", 3, 1, 4),
    (*CHAIN, "--cuda-graph-max-bs", "8"): ("STANDALONE", 3, 1, 4),
}  # fmt: skip


def test_what_our_messages_say_of_it_holds(ask: Ask) -> None:
    for words, wanted in SAID.items():
        (answer,) = ask([["--model-path", "/models/m", *words]])
        if isinstance(wanted, str):
            assert answer.get("refused", "taken").startswith(wanted), words
        else:
            assert "refused" not in answer, (words, answer)
            names = ("algorithm", "num_steps", "eagle_topk", "num_draft_tokens")
            assert tuple(answer["fields"][f"speculative_{name}"] for name in names) == wanted


# Two DP ranks, the second as a hybrid model's. What a model would have made of it: tokens in the
# pool and used, requests running and waiting, and for each decoding step how many drafts were
# accepted, over all running requests.
RANK: dict[str, Any] = {
    "prefix": " DP0 TP0", "context_len": 4096, "tokens": 181721, "used": 90860, "free_gb": 7.74,
    "running": 24, "waiting": 2, "accepted": [48] * 40,
}  # fmt: skip
HYBRID = {**RANK, "prefix": " DP1 TP0", "free_gb": 7.5, "mamba": {"used": 30, "size": 120}}


def test_its_lines_of_a_speculating_server_are_read(older: Older) -> None:
    models = ("--model-path", str(older.models / "target"), "--device", "cuda", "--dp-size", "2")
    chain = [str(older.models / "draft") if word == "d" else word for word in CHAIN]
    script = str(HERE / "older_lines.py")
    found = scrape(output(older, script, json.dumps([RANK, HYBRID]), *models, *chain).stderr)
    assert (found.launches, found.failure) == (1, None)
    assert found.model_path == str(older.models / "target")
    assert found.speculative_algorithm == "STANDALONE"
    assert found.speculative_num_steps == 3
    assert (found.speculative_eagle_topk, found.speculative_num_draft_tokens) == (1, 4)
    assert found.dp_size == 2
    assert [rank.prefix for rank in found.ranks] == ["DP0 TP0", "DP1 TP0"]
    assert [rank.max_running_requests for rank in found.ranks] == [48, 48]
    assert (found.max_running_requests, found.max_total_num_tokens) == (96, 2 * 181721)
    assert (found.context_len, found.available_gpu_mem_gb) == (4096, 7.5)
    assert [line.mamba_usage for line in found.decode] == [None, 0.25]
    for line, rank in zip(found.decode, found.ranks, strict=True):
        assert line.rank == rank.prefix
        assert (line.running, line.queue, line.tokens, line.token_usage) == (24, 2, 90860, 0.5)
        # 48 drafts accepted over 24 requests, and the bonus token; of 4 a step
        assert (line.accept_len, line.accept_rate) == (3.0, 0.75)
        assert line.gen_throughput is not None
        assert line.gen_throughput > 0


@dataclass(frozen=True)
class Serving:
    port: int
    log: Path

    def scrape(self) -> Scrape:
        return scrape(self.log.read_bytes())


@pytest.fixture(scope="module")
def serving(older: Older, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    found = Serving(free_port(), tmp_path_factory.mktemp("serving") / "log")
    words = (
        "--model-path", str(older.models / "target"), "--device", "cpu", "--port", str(found.port),
        "--max-total-tokens", "20000", "--decode-log-interval", "4",
    )  # fmt: skip
    with found.log.open("wb") as log:
        process = subprocess.Popen(
            ["nice", "-n", "10", older.python, "-m", "sglang.launch_server", *words],
            env={**os.environ, **older.environment}, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    end = time.monotonic() + START_S
    try:
        while not found.scrape().ready:
            assert process.poll() is None, found.log.read_text()[-2000:]
            assert time.monotonic() < end, found.log.read_text()[-2000:]
            time.sleep(0.2)
        yield found
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_server_of_it_is_read_and_asked(serving: Serving, older: Older) -> None:
    """All but the kernels' names is its own: the start, the log, HTTP, the first requests."""
    api = Api(serving.port)
    assert api.health(timeout_s=30).ok
    info = api.server_info()
    found = serving.scrape()
    assert info["version"] == VERSION
    assert (found.failure, found.launches) == (None, 1)
    assert (found.max_total_num_tokens, found.context_len) == (20000, 4096)
    assert found.speculative_algorithm is None
    assert found.model_path == str(older.models / "target")
    assert found.decode
    assert {line.accept_len for line in found.decode} == {None}
    assert capacity(found, info) == capacity(found, None)
    assert api.flush_cache()
    assert api.idle() is True
    assert api.abort_all()
