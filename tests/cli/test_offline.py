"""What works without any host: dry runs, rendering, exit codes, imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.calling import GPU, sweep

HEAVY = ("pandas", "fabric", "paramiko", "uvicorn", "matplotlib", "starlette", "jinja2", "pydantic")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "inventory.yaml").write_text(GPU)
    return tmp_path


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "sweep", "--help"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = {line.rpartition("|")[2].strip() for line in shown.stderr.splitlines()}
    assert "click" in imported
    assert not imported & set(HEAVY)


def test_a_dry_run_shows_units_points_commands_and_time(place: Path) -> None:
    shown = sweep("run", "overnight", "--dry-run", cwd=place)
    assert shown.returncode == 0, shown.stderr
    for text in (
        "### launch 1/4: l-01  steps=0",
        "### launch 4/4: l-04  steps=3",
        "### points: C=1, C=16",
        "--speculative-num-steps 3",
        "systemctl stop sglang.service",
        "4 launches, 8 points, 8 trials",
        "production (sglang.service) is away for that long",
    ):
        assert text in shown.stdout
    assert shown.stdout.count("ExecStart=") == 4
    assert not (place / "runs").exists(), "a dry run leaves nothing"


def test_render_writes_one_file_per_launch(place: Path) -> None:
    shown = sweep("render", "overnight", "-o", "units", cwd=place)
    assert shown.returncode == 0, shown.stderr
    files = sorted(path.name for path in (place / "units").iterdir())
    assert files == [f"l-{n:02d}-steps{n - 1}.service" for n in (1, 2, 3, 4)]
    assert "--speculative" not in (place / "units" / files[0]).read_text()


def test_options_change_the_plan(place: Path) -> None:
    given = ("--steps", "2,5", "--concurrency", "8,max", "--no-baseline", "--trials", "3",
             "--set", "mem-fraction-static=0.7")  # fmt: skip
    shown = sweep("run", "--dry-run", *given, cwd=place)
    assert shown.returncode == 0, shown.stderr
    assert "2 launches, 4 points, 12 trials" in shown.stdout
    assert "--mem-fraction-static 0.7" in shown.stdout
    assert "C=8, C=max, 3 trials each" in shown.stdout


def test_an_empty_directory_uses_the_example(tmp_path: Path) -> None:
    shown = sweep("run", "overnight", "--dry-run", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "using the example" in shown.stderr
    assert "launch 11/11" in shown.stdout


def test_init_writes_the_example_once(tmp_path: Path) -> None:
    assert sweep("init", cwd=tmp_path).returncode == 0
    assert sweep("run", "overnight", "--dry-run", cwd=tmp_path).returncode == 0
    again = sweep("init", cwd=tmp_path)
    assert again.returncode == 2
    assert "inventory.yaml" in again.stderr
    other = sweep("-i", "my.yaml", "init", cwd=tmp_path)
    assert "`sweep -i my.yaml run demo`" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("run", "--steps", "1..x", "--dry-run"), 2, "--steps 1..x"),
        (("run", "nightly", "--dry-run"), 2, "did you mean 'overnight'?"),
        (("run", "--host", "cpu", "--dry-run"), 2, "no such host"),
        (("run", "--set", "speculative-eagle-topk", "--dry-run"), 2, "--set"),
        (("run", "--no-such-option"), 2, "--no-such-option"),
        (("frobnicate",), 2, "frobnicate"),
        (("run", "--set", "speculative-algorithm=NGRAM", "--dry-run"), 3, "steps mean nothing"),
        (("-i", "other.yaml", "render"), 3, "other.yaml"),
        (("resume",), 4, "no run in runs/ yet"),
        (("status", "no-such-run"), 4, "no run runs/no-such-run"),
        (("logs",), 4, "no run in runs/ yet"),
        (("stop",), 4, "no run in runs/ yet"),
        (("run", "--dry-run", "--trials", "999999999999"), 2, "--trials"),
        (("bench", "ftp://x", "1"), 2, "ftp://x"),
        (("bench", "http://[::1", "1"), 2, "http://[::1"),
        (("bench", "http://127.0.0.1:9", "999999999999"), 2, "C..."),
        (("render", "-o", "inventory.yaml/units"), 2, "-o: cannot write"),
        (("scrape", "."), 2, "directory"),
        (("bench", "http://127.0.0.1:9", "1"), 5, "is the server up"),
        (("bench", "http://127.0.0.1:9", "1", "--rate", "nan"), 2, "--rate: nan is no number"),
        (("bench", "http://127.0.0.1:9", "1", "--workload", ""), 2, "is empty; choose from greedy"),
        (("check",), 5, "gpu.does-not-resolve.invalid"),
        (("run", "--yes"), 5, "gpu.does-not-resolve.invalid"),
    ],
)
def test_exit_codes(place: Path, arguments: tuple[str, ...], status: int, said: str) -> None:
    shown = sweep(*arguments, cwd=place)
    assert (shown.returncode, said in shown.stderr) == (status, True), shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize("key", ["hunter2\nx", "hunter2 ", "hunter2é"])
def test_a_key_that_no_header_takes_is_refused_and_not_told(place: Path, key: str) -> None:
    shown = sweep("bench", "http://127.0.0.1:9", "1", "--api-key-env", "KEY", cwd=place, KEY=key)
    assert (shown.returncode, "no HTTP header takes it" in shown.stderr) == (2, True)
    assert "hunter2" not in shown.stderr


def test_an_error_names_file_line_and_what_to_do(place: Path) -> None:
    path = place / "inventory.yaml"
    path.write_text(GPU.replace("NEXTN", "NEXTM"))
    shown = sweep("run", "--dry-run", cwd=place)
    assert shown.returncode == 3
    assert shown.stderr.startswith("sweep: inventory.yaml:8: ")
    assert "did you mean NEXTN?" in shown.stderr


def test_a_template_of_ones_own(place: Path) -> None:
    (place / "templates").mkdir()
    ours = Path(__file__).parents[2] / "templates" / "sglang.service.j2"
    template = ours.read_text()
    (place / "templates" / ours.name).write_text(template + "\n# from here\n")
    assert "# from here" in sweep("render", cwd=place).stdout
    (place / "templates" / ours.name).write_text(template + "\n{{ not_there }}\n")
    shown = sweep("render", cwd=place)
    assert shown.returncode == 3
    assert "sglang.service.j2:" in shown.stderr


def test_scrape_reads_a_pipe(tmp_path: Path) -> None:
    line = (
        "max_total_num_tokens=181721, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=2048, context_len=196608, available_gpu_mem=7.74 GB\n"
    )
    shown = sweep("scrape", "-", cwd=tmp_path, stdin=line)
    found = json.loads(shown.stdout)
    assert (found["max_running_requests"], found["max_total_num_tokens"]) == (2048, 181721)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("run --dry-run <&- >&- 2>&-", 0),
        ("run nightly <&- >&- 2>&-", 2),
        ("run --yes <&- >&- 2>&-", 5),
        ("scrape - <&-", 0),
        ("run --dry-run >/dev/full", 6),
        ("--help >/dev/full", 6),
    ],
)
def test_streams_that_are_closed_or_full(place: Path, command: str, status: int) -> None:
    shown = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m sweep {command}"],
        cwd=place, capture_output=True, text=True, check=False, env=os.environ,
    )  # fmt: skip
    assert (shown.returncode, "Traceback" in shown.stderr) == (status, False), shown.stderr


def test_text_that_the_terminal_cannot_show_is_escaped(place: Path) -> None:
    given = ("render", "--set", "model-path=/models/→")
    shown = sweep(*given, cwd=place, PYTHONIOENCODING="latin-1")
    assert (shown.returncode, "/models/\\u2192" in shown.stdout) == (0, True), shown.stderr


@pytest.mark.parametrize("plan", ["", "{", "[]", '{"schema": 2}', '{"schema": 1, "plan": []}'])
def test_a_damaged_run_is_named_and_keeps_nobody_from_a_new_one(place: Path, plan: str) -> None:
    run = place / "runs" / "overnight-20260101-000000"
    run.mkdir(parents=True)
    (run / "plan.json").write_text(plan)
    for command in ("status", "resume"):
        shown = sweep(command, cwd=place)
        assert (shown.returncode, "plan.json" in shown.stderr) == (4, True), shown.stderr
        assert "Traceback" not in shown.stderr
    assert sweep("run", "--dry-run", cwd=place).returncode == 0


def test_a_reader_that_leaves_is_no_error(place: Path) -> None:
    command = f"{sys.executable} -m sweep run --dry-run --steps 1..300 | head -n 1"
    shown = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=place, capture_output=True, text=True, check=False, env=os.environ,
    )  # fmt: skip
    assert shown.stdout.startswith("### launch 1/301")
    assert shown.returncode == 0
    assert shown.stderr == ""
