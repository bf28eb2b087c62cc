"""The tool on the GPU host itself: transport local, as root and through sudo."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml

from sweep.detached import choose, tool_files
from sweep.host import connect
from sweep.inventory import HostSpec, ServerSpec
from tests.testhost import Machine
from tests.whole.conftest import MakeHost
from tests.whole.gpuhost import GpuHost
from tests.whole.test_interrupts import SHORT

TOOL, NIGHT = "opt/sweep-tool", "var/tmp/night"
OVER_SSH = ("address", "ssh_config", "user")
CALL = f"cd /{NIGHT} && PYTHONPATH=/{TOOL} python3 -m sweep "


class Here:
    """A host with the tool installed on it, called there."""

    def __init__(self, host: GpuHost, user: str) -> None:
        self.host = host
        self.user = user
        inventory = yaml.safe_load(host.write_inventory().read_text())
        spec = inventory["hosts"]["gpu"]
        for key in OVER_SSH:
            spec.pop(key, None)
        spec |= {"transport": "local", "become": "none" if user == "root" else "sudo"}
        host.sh(f"rm -rf /{NIGHT}; mkdir -m 777 /{NIGHT}")
        (host.machine.root / NIGHT / "inventory.yaml").write_text(yaml.safe_dump(inventory))

    def sweep(self, arguments: str) -> subprocess.CompletedProcess[str]:
        words = ("runuser", "-u", self.user, "--", "sh", "-c", CALL + arguments)
        return self.host.machine.run(*words, check=False)

    def rows(self) -> pd.DataFrame:
        (path,) = (self.host.machine.root / NIGHT / "runs").glob("*/results.csv")
        return pd.read_csv(path)

    def start(self) -> None:
        """Start a run there, and wait until it measures."""
        self.host.sh(
            f"({CALL} run short >/dev/null 2>&1 &)\n"
            f'n=0; until grep -qs \'"stage":"measure"\' /{NIGHT}/runs/*/events.jsonl || '
            "[ $n = 300 ]; do sleep 0.1; n=$((n + 1)); done\n"
        )


@pytest.fixture(scope="module")
def tool(dressed: GpuHost) -> Machine:
    """The host with the tool on it: what --detach=host would bring along."""
    machine = dressed.machine
    spec = HostSpec(
        address=machine.name, ssh_config=str(machine.ssh_config),
        server=ServerSpec(command=("/bin/true",)),
    )  # fmt: skip
    with connect("gpu", spec) as host:
        python = choose(host, spec)[0]
    for name, data in tool_files(python):
        path = machine.root / TOOL / Path(name).relative_to("lib")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    machine.sh(f"chmod -R a+rX /{TOOL}")
    return machine


@pytest.fixture
def here(gpu_host: MakeHost, tool: Machine) -> Callable[[str], Here]:
    return lambda user: Here(gpu_host(**SHORT), user)


@pytest.mark.parametrize("user", ["root", "ops"])
def test_check_and_run(here: Callable[[str], Here], user: str) -> None:
    place = here(user)
    checked = place.sweep("check short")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    shown = place.sweep("run short")
    assert shown.returncode == 0, shown.stderr
    assert set(place.rows()["status"]) == {"ok"}
    assert len(place.rows()) == 4
    assert place.host.serves()
    assert place.host.active("router.service")
    assert place.host.leftovers() == []


def test_an_inventory_for_what_runs_here(here: Callable[[str], Here]) -> None:
    place = here("root")
    made = place.sweep("-i new.yaml init --from local sglang.service")
    assert made.returncode == 0, made.stderr
    dry = place.sweep("-i new.yaml run --dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "### on this machine" in dry.stdout
    assert "-m sweep.demo.simulator" in dry.stdout


def test_resume_and_restore_after_a_kill(here: Callable[[str], Here]) -> None:
    place = here("root")
    place.start()
    place.host.sh("pkill -KILL -f '[-]m sweep run short'")
    assert not place.host.serves()
    restored = place.sweep("restore gpu")
    assert restored.returncode == 0, restored.stderr
    assert place.host.serves()
    resumed = place.sweep("resume")
    assert resumed.returncode == 0, resumed.stderr
    frame = place.rows()
    assert set(frame["status"]) == {"ok"}
    assert not frame.duplicated(["point", "trial"]).any()
    assert place.host.serves()
    assert place.host.leftovers() == []


def test_another_sweep_is_refused_by_name(here: Callable[[str], Here]) -> None:
    place = here("root")
    place.start()
    refused = place.sweep("run short")
    assert refused.returncode == 5, refused.stderr
    assert "taken by run short-" in refused.stderr
    stopped = place.sweep("stop")
    assert stopped.returncode == 0, stopped.stderr
    until = time.monotonic() + 60
    while place.host.leftovers() and time.monotonic() < until:
        time.sleep(0.2)
    assert place.host.leftovers() == []
    assert place.host.serves()
