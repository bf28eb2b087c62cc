"""Inventories that load, and what they load as."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sweep.inventory import (
    BuiltinBenchmark,
    CommandBenchmark,
    FileWorkload,
    HostSpec,
    Inventory,
    ProductionCommands,
    SecretRef,
)
from sweep.inventory_file import load_inventory
from tests.inventory.cases import base_text

EXAMPLE = Path(__file__).parents[2] / "inventory.yaml"


def loaded(text: str | bytes, directory: Path) -> Inventory:
    path = directory / "inventory.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_inventory(path)


def gpu(text: str, directory: Path, below: str = "production") -> HostSpec:
    """The base's host with further text before the key `below`."""
    return loaded(base_text().replace(f"    {below}", f"{text}\n    {below}", 1), directory).hosts[
        "gpu"
    ]


def test_the_example() -> None:
    inventory = load_inventory(EXAMPLE)
    host = inventory.hosts["blackwell"]
    assert host.address == "gpu1.example.net"
    assert host.server.args == {
        "model-path": "/models/Qwen3.5-122B-A10B",
        "tp-size": 4,
        "speculative-algorithm": "NEXTN",
        "speculative-eagle-topk": 1,
    }
    assert dict(host.server.unit) == {"LimitMEMLOCK": "infinity"}
    overnight = inventory.sweeps["overnight"]
    assert overnight.steps == tuple(range(1, 11))
    assert overnight.concurrency == (1, 4, 16, 32, 64)
    assert (overnight.baseline, overnight.trials) == (True, 1)
    assert inventory.sweeps["demo"].steps == (1, 2, 3, 4, 5)


def test_a_demo_host_needs_nothing_else() -> None:
    demo = load_inventory(EXAMPLE).hosts["demo"]
    assert demo.transport == "demo"
    assert demo.host_class == "demo"
    assert demo.server.command == (sys.executable, "-m", "sweep.demo.simulator")
    assert str(demo.server.args["model-path"]).startswith("simulated/")
    assert demo.server.args["speculative-algorithm"] == "NEXTN"
    assert demo.server.args["speculative-eagle-topk"] == 1
    assert demo.production == ("sglang.service",)
    assert demo.server.port not in (0, 30000)


def test_this_machine_needs_no_address(tmp_path: Path) -> None:
    text = (
        "hosts: {h: {transport: local, become: sudo,\n"
        "  server: {command: [/opt/sglang], args: {model-path: /m}}}}\n"
        "sweeps: {s: {host: h, steps: 0, concurrency: 1}}\n"
    )
    here = loaded(text, tmp_path).hosts["h"]
    assert (here.transport, here.address, here.become) == ("local", "", "sudo")


def test_a_demo_host_keeps_what_it_is_given(tmp_path: Path) -> None:
    text = (
        "hosts: {d: {transport: demo, production: [],\n"
        "  host_class: toy, server: {env: {SWEEP_SIM_FAIL: oom@steps=7}}}}\n"
        "sweeps: {s: {host: d, steps: 7, concurrency: max}}\n"
    )
    demo = loaded(text, tmp_path).hosts["d"]
    assert demo.host_class == "toy"
    assert (demo.production, demo.production_health) == ((), None)
    assert dict(demo.server.env) == {"SWEEP_SIM_FAIL": "oom@steps=7"}
    assert demo.server.args["tp-size"] == 4


def test_a_host_is_its_own_class_unless_it_says_one(tmp_path: Path) -> None:
    assert gpu("", tmp_path).host_class == "gpu"
    assert gpu("    host_class: 4x-rtx-pro-6000", tmp_path).host_class == "4x-rtx-pro-6000"


def test_flags_get_their_canonical_spelling(tmp_path: Path) -> None:
    text = base_text().replace(
        "model-path: /models/m",
        "model: /models/m\n        tp: 4\n        data-parallel-size: 2\n        ep: 2\n"
        "        lora-strict-loading: false\n        enable-metrics: false\n"
        "        cuda-graph-bs-decode: [1, 2]\n        some-flag-of-a-fork: x",
    )
    args = loaded(text, tmp_path).hosts["gpu"].server.args
    assert args["model-path"] == "/models/m"
    assert (args["tp-size"], args["dp-size"], args["ep-size"]) == (4, 2, 2)
    assert args["no-lora-strict-loading"] is True
    assert args["enable-metrics"] is False
    assert args["cuda-graph-bs-decode"] == (1, 2)
    assert args["some-flag-of-a-fork"] == "x"


def test_the_environment_is_the_text_in_the_file(tmp_path: Path) -> None:
    text = base_text().replace(
        "LANG: C", "{A: 0, B: 1.10, C: true, D: 'no', E: '', F: 1.0e-5, G: a b}"
    )
    text = text.replace("env:\n        {", "env: {")
    env = loaded(text, tmp_path).hosts["gpu"].server.env
    assert dict(env) == {
        "A": "0", "B": "1.10", "C": "true", "D": "no", "E": "", "F": "1.0e-5", "G": "a b",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("form", "steps"),
    [
        ("1..4", (1, 2, 3, 4)),
        ("1-4", (1, 2, 3, 4)),
        ("0,1,3", (0, 1, 3)),
        ("1..10:3", (1, 4, 7, 10)),
        ("5", (5,)),
        ("[5, 0, 3]", (5, 0, 3)),
        ("'3, 1 .. 2'", (3, 1, 2)),
    ],
)
def test_forms_of_steps(form: str, steps: tuple[int, ...], tmp_path: Path) -> None:
    text = base_text().replace("steps: 1..3", f"steps: {form}")
    assert loaded(text, tmp_path).sweeps["night"].steps == steps


@pytest.mark.parametrize(
    ("form", "concurrency"),
    [("4", (4,)), ("max", ("max",)), ("'1,4,max'", (1, 4, "max")), ("[max, 1]", ("max", 1))],
)
def test_forms_of_concurrency(form: str, concurrency: tuple[object, ...], tmp_path: Path) -> None:
    text = base_text().replace("concurrency: [1, 4]", f"concurrency: {form}")
    assert loaded(text, tmp_path).sweeps["night"].concurrency == concurrency


def test_anchors_and_merge_keys(tmp_path: Path) -> None:
    inventory = loaded(
        """
hosts:
  one: &one
    address: gpu1
    server: &server
      command: [/opt/sglang]
      args: &args {model-path: /m, speculative-algorithm: NEXTN, speculative-eagle-topk: 1}
  two:
    <<: *one
    address: gpu2
    server: {<<: *server, args: {<<: [*args], tp: 2}}
sweeps:
  s: &s {host: one, steps: 1..2, concurrency: 1}
  t: {<<: *s, host: two}
""",
        tmp_path,
    )
    assert inventory.hosts["two"].address == "gpu2"
    assert inventory.hosts["two"].server.command == ("/opt/sglang",)
    assert inventory.hosts["two"].server.args["tp-size"] == 2
    assert inventory.sweeps["t"].steps == (1, 2)


def test_windows_line_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + base_text().replace("\n", "\r\n").encode()
    assert loaded(data, tmp_path) == loaded(base_text(), tmp_path)


def test_production_by_commands_and_secrets_by_reference(tmp_path: Path) -> None:
    text = base_text().replace(
        "production: [sglang.service]",
        "production:\n      stop: |\n        docker stop sglang\n        sleep 1\n"
        "      start: docker start sglang\n      check: docker inspect sglang",
    )
    text = text.replace(
        "      env:", "      secrets: {api-key: {file: ~/k}, T: {env: T}}\n      env:"
    )
    host = loaded(text, tmp_path).hosts["gpu"]
    assert isinstance(host.production, ProductionCommands)
    assert host.production.stop == "docker stop sglang\nsleep 1\n"
    assert host.server.secrets["api-key"].file == "~/k"
    assert host.server.secrets["T"].env == "T"


def test_a_benchmark_of_ones_own(tmp_path: Path) -> None:
    text = base_text().replace(
        "steps:",
        'benchmark: {kind: command, command: [/b, "-c={concurrency}", "{url}"]}\n    steps:',
    )
    benchmark = loaded(text, tmp_path).sweeps["night"].benchmark
    assert isinstance(benchmark, CommandBenchmark)
    assert benchmark.command == ("/b", "-c={concurrency}", "{url}")


def test_a_workload_brings_its_own_settings(tmp_path: Path) -> None:
    def benchmark(written: str) -> BuiltinBenchmark:
        text = base_text().replace("steps:", f"benchmark: {written}\n    steps:")
        found = loaded(text, tmp_path).sweeps["night"].benchmark
        assert isinstance(found, BuiltinBenchmark)
        return found

    chat = benchmark("{workload: chat}")
    assert (chat.temperature, chat.top_p, chat.max_tokens) == (0.7, 0.95, 512)
    assert (chat.ignore_eos, chat.unique_prompts) == (False, True)
    mine = benchmark("{workload: chat, max_tokens: 9, ignore_eos: true}")
    assert (mine.temperature, mine.max_tokens, mine.ignore_eos) == (0.7, 9, True)
    random = benchmark("{workload: {input_tokens: 1024, output_tokens: 256}}")
    assert (random.label, random.max_tokens) == ("synthetic-1024-256", 256)
    assert (random.temperature, random.ignore_eos) == (0.0, True)


def test_a_file_of_texts_lies_beside_the_inventory(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    text = base_text().replace(
        "steps:", "benchmark: {workload: {file: mine.jsonl, name: tickets}}\n    steps:"
    )
    benchmark = loaded(text, tmp_path).sweeps["night"].benchmark
    assert benchmark.label == "tickets"
    assert isinstance(benchmark, BuiltinBenchmark)
    assert isinstance(benchmark.workload, FileWorkload)
    assert Path(benchmark.workload.file) == tmp_path / "mine.jsonl"
    assert len(benchmark.workload.fingerprint) == 12


def test_steps_0_alone_needs_no_speculation(tmp_path: Path) -> None:
    text = base_text().replace("        speculative-algorithm: NEXTN\n", "")
    text = text.replace("        speculative-eagle-topk: 1\n", "").replace("1..3", "0")
    assert loaded(text, tmp_path).sweeps["night"].steps == (0,)


def test_a_flag_only_old_servers_have_can_stand_in_the_command(tmp_path: Path) -> None:
    text = base_text().replace(
        "sglang.launch_server]", "sglang.launch_server, --mamba-scheduler-strategy, extra_buffer]"
    )
    assert loaded(text, tmp_path).hosts["gpu"].server.command[-1] == "extra_buffer"


def test_params_may_compare_with_and_without_a_flag(tmp_path: Path) -> None:
    text = base_text().replace(
        "steps:", "params: {kv-cache-dtype: [false, fp8_e4m3], tp: [2, 4]}\n    steps:"
    )
    assert dict(loaded(text, tmp_path).sweeps["night"].params) == {
        "kv-cache-dtype": (False, "fp8_e4m3"),
        "tp-size": (2, 4),
    }


def test_an_inventory_cannot_be_changed() -> None:
    inventory = load_inventory(EXAMPLE)
    host = inventory.hosts["blackwell"]
    with pytest.raises(ValueError, match="frozen"):
        host.address = "gpu2"
    for frozen in (inventory.hosts, host.server.args, host.server.env, host.server.secrets):
        with pytest.raises(TypeError):
            frozen["x"] = 1  # type: ignore[index]
    assert Inventory.model_validate(inventory.model_dump()) == inventory
    assert Inventory.model_validate_json(inventory.model_dump_json()) == inventory


def test_one_endpoint_or_several_are_notified(tmp_path: Path) -> None:
    one = "steps: 1..3\n    notify: {command: [notify-send, '{event}', '{text}'], events: [failed]}"
    several = (
        "steps: 1..3\n    notify:\n"
        "      - webhook: https://hooks.example.net/abc\n"
        "      - {webhook: {env: HOOK}, timeout_s: 3, stalled_after_s: 60}"
    )
    (spec,) = loaded(base_text().replace("steps: 1..3", one), tmp_path).sweeps["night"].notify
    assert (spec.command[1], spec.events) == ("{event}", ("failed",))
    night = loaded(base_text().replace("steps: 1..3", several), tmp_path).sweeps["night"]
    first, second = night.notify
    assert first.events == ("finished", "failed", "stalled", "restored")
    assert second.webhook == SecretRef(env="HOOK")
    assert (second.timeout_s, second.stalled_after_s) == (3, 60)
