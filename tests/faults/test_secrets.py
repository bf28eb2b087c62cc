"""Keys and tokens: canaries are planted, a whole sweep goes wrong in several ways, and everything
that anybody could read is searched for them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from tests.faults.fault import BEFORE, Fault, nothing
from tests.faults.field import ENV, Field
from tests.faults.ground import Ground
from tests.faults.servers import fails, repaired

KEY, TOKEN = "canary-key-5d1f07c2a9", "hf_canaryTOKEN4b8e6d2f9a1c"
CANARIES = f"-e {KEY} -e {TOKEN}"
# Whatever a process's owner may see of it is fair: its environment is not searched.
LOOK = f"""
echo "== arguments"; ps axww -o args | grep -F {CANARIES} | grep -v 'grep -F'
echo "== units"; systemctl show '*sweep*' | grep -F {CANARIES}
echo "== files"
grep -rlsF {CANARIES} /run /var/tmp /var/lib /tmp /etc /root /home --exclude-dir=journal |
  xargs -r stat -c '%a %n'
:"""
FAULTY = Fault("secrets", BEFORE, nothing)


@pytest.fixture
def planted(field: Field, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    """A sweep with an API key from a file and a token from the environment, some of it failing."""
    key = tmp_path / "key"
    key.write_text(KEY + "\n")
    key.chmod(0o600)
    monkeypatch.setenv("SWEEP_CANARY", TOKEN)
    directory = tmp_path / "work"
    directory.mkdir()
    ground = field.ground(FAULTY, Random(1), directory)
    secrets = {"HF_TOKEN": {"env": "SWEEP_CANARY"}, "api-key": {"file": str(key)}}
    benchmark = {"kind": "builtin", "max_tokens": 200, "trial_timeout_s": 6}
    ground.host.server = {"env": ENV, "secrets": secrets}
    ground.host.sweeps = {
        "short": {
            "host": "gpu", "steps": "1..3", "concurrency": [1, 4], "baseline": False,
            "benchmark": benchmark,
        }
    }  # fmt: skip
    ground.host.write_inventory()
    yield ground
    repaired(ground)
    field.take_back(FAULTY, ground)


@contextmanager
def watched(ground: Ground) -> Iterator[list[str]]:
    """Looks at the host and at this machine's processes again and again; what was found."""
    found: list[str] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            found.extend(ground.machine.sh(LOOK, check=False).splitlines())
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    words = path.read_bytes()
                    if KEY.encode() in words or TOKEN.encode() in words:
                        found.append(f"here: {words!r}")

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


def holders(directory: Path) -> list[Path]:
    """Files of the tool here that hold a canary."""
    return [
        path
        for path in directory.rglob("*")
        if path.is_file() and any(word.encode() in path.read_bytes() for word in (KEY, TOKEN))
    ]


def test_canaries_stand_nowhere_but_in_private_files_while_it_runs(planted: Ground) -> None:
    fails("oom@steps=2;hang@steps=3,concurrency=4")(planted)
    with watched(planted) as found:
        planted.start("-v", "run", "short")
        assert planted.wait() == 1, planted.said()
        for words in (
            ("run", "short", "--dry-run"), ("render", "short"), ("check", "short"), ("status",),
            ("logs",),
        ):  # fmt: skip
            planted.start(*words)
            planted.wait()
    private = {line for line in found if line.startswith("600 ")}
    assert private, "the watch never saw the files that hold them"
    assert {line for line in found if not line.startswith("== ")} - private == set()
    assert all("/run/sweep/" in line or "/var/tmp/sweep-" in line for line in private), private
    assert holders(planted.directory) == []
    after = planted.machine.sh(LOOK, check=False).splitlines()
    assert [line for line in after if not line.startswith("== ")] == []
    said = planted.machine.sh(f"journalctl --all -q -o cat | grep -aF {CANARIES}", check=False)
    # SGLang prints its own arguments, the key among them (0.5.23, srt/entrypoints/engine.py).
    assert [line for line in said.splitlines() if "server_args=" not in line] == []
    assert TOKEN not in said


def test_what_can_hold_prompts_is_for_the_group_at_most(planted: Ground) -> None:
    """Whatever the umask of who starts it."""
    before = os.umask(0)
    try:
        planted.start("run", "short", "--steps", "1")
        assert planted.wait() == 0, planted.said()
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in planted.run.rglob("*")}
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o027} == {}


def test_names_cannot_steer_where_anything_is_written(planted: Ground) -> None:
    model = "simulated/../../../../tmp/steered -rf; touch /tmp/steered"
    planted.host.server = {
        "env": ENV,
        "args": {
            "model-path": model, "served-model-name": "--help ../../tmp/steered",
            "speculative-algorithm": "NEXTN", "speculative-eagle-topk": 1,
        },
    }  # fmt: skip
    planted.host.write_inventory()
    planted.start("run", "short", "--steps", "1", "--concurrency", "1")
    assert planted.wait() == 0, planted.said()
    assert planted.machine.sh("find / -xdev -name '*steered*' 2>/dev/null", check=False) == ""
    assert not list(planted.directory.rglob("*steered*"))


@pytest.mark.parametrize("name", ["../out", "-rf", "two\nlines", "a/b", "x;y"])
def test_a_sweep_with_a_name_that_is_a_path_is_refused(planted: Ground, name: str) -> None:
    planted.host.sweeps = {name: planted.host.sweeps["short"]}
    planted.host.write_inventory()
    done = subprocess.run(
        [sys.executable, "-m", "sweep", "run", "--", name],
        cwd=planted.directory, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert not planted.runs.exists()
