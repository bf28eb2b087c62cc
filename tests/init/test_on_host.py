"""Units on real hosts, read over SSH by systemd's own parser, become inventories that render."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sweep.errors import HostRefused, UsageError
from sweep.host import connect
from sweep.init import InventoryDraft, from_unit, write_new
from sweep.inventory import HostSpec, ServerSpec
from sweep.inventory_file import load_inventory
from tests.init.test_draft import dry_run
from tests.testhost import Machine

pytestmark = pytest.mark.testhost

ETC = "etc/systemd/system"
LAUNCHER = "/opt/sweep-init-test/launch_server.py"

PLAIN = r"""[Unit]
Description=production
[Service]
User=plain
WorkingDirectory=/home/plain
Environment="GREETING=it's 50%% \"x\"" HF_TOKEN=hunter2
EnvironmentFile=/etc/sweep-init-test.env
LimitMEMLOCK=64M
ExecStart=/usr/bin/python3 -m sglang.launch_server --model-path ${MODEL} --tp $TP \
    # a comment inside
    --served-model-name "we ird $$x 50%%" --json-model-override-args '{"a": "b\\\\c"}' \
    --chat-template "it's" --host 0.0.0.0 --port 31000 --api-key ${API_KEY}
Restart=always
"""
DROP_IN = "[Service]\nLimitMEMLOCK=infinity\nEnvironment=CUDA_HOME=/usr/local/cuda\n"
VARIABLES = "MODEL='/models/q 3'\nTP=\"4\"\nAPI_KEY=hunter2\n"
SCRIPT = """#!/bin/sh
export NCCL_DEBUG=WARN HF_TOKEN=hunter2
exec /usr/bin/python3 -m sglang.launch_server --model-path /models/q "$@"
"""
QUADLET = """[Unit]
SourcePath=/etc/containers/systemd/sglang.container
[Service]
Type=notify
Delegate=yes
ExecStart=/usr/bin/podman run --name=systemd-%N --cidfile=%t/%N.cid --replace --rm --cgroups=split \
    --sdnotify=conmon -d -v /data/models:/models -p 8000:30000 --env HF_TOKEN=hunter2 \
    docker.io/lmsysorg/sglang:latest python3 -m sglang.launch_server --model-path /models/q --tp 4
"""
INSTANCE = f"[Service]\nExecStart=/usr/bin/env python3 {LAUNCHER} --tp %i\n"


def spec_for(machine: Machine, user: str = "root", **changes: str) -> HostSpec:
    alias = machine.name if user == "root" else f"{machine.name}-{user}"
    values = {"address": alias, "ssh_config": str(machine.ssh_config), **changes}
    return HostSpec(server=ServerSpec(command=("/bin/true",)), **values)  # type: ignore[arg-type]


@pytest.fixture
def installed(machine: Machine) -> Iterator[Machine]:
    """Units of every kind, none of them started, and what they name."""
    files = {
        f"{ETC}/sweep-init.service": PLAIN,
        f"{ETC}/sweep-init.service.d/10-limits.conf": DROP_IN,
        f"{ETC}/sweep-init-script.service": f"[Service]\nExecStart={LAUNCHER}.sh --tp 4\n",
        f"{ETC}/sweep-init-quadlet.service": QUADLET,
        f"{ETC}/sweep-init@.service": INSTANCE,
        f"{ETC}/sglang-sweep.service": "[Service]\nExecStart=/bin/true\n",
        "etc/sweep-init-test.env": VARIABLES,
        f"{LAUNCHER}.sh".lstrip("/"): SCRIPT,
        "home/plain/.config/systemd/user/sweep-init.service": PLAIN.replace("User=plain\n", ""),
    }
    for name, text in files.items():
        path = machine.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    machine.sh(f"chmod 755 {LAUNCHER}.sh; chown -R plain: /home/plain/.config")
    machine.sh("systemctl daemon-reload")
    yield machine
    for name in files:
        (machine.root / name).unlink()
    machine.sh(f"rmdir /{ETC}/sweep-init.service.d; rm -r /opt/sweep-init-test")
    machine.sh("systemctl daemon-reload")


def draft(spec: HostSpec, unit: str) -> InventoryDraft:
    with connect("gpu1", spec) as host:
        found = from_unit(host, "gpu1", spec.address, unit, connected=spec)
    assert "hunter2" not in repr(found)
    return found


def written(found: InventoryDraft, directory: Path) -> Path:
    path = directory / "inventory.yaml"
    write_new(path, found.text)
    return path


def test_a_native_unit(installed: Machine, tmp_path: Path) -> None:
    spec = spec_for(installed)
    found = draft(spec, "sweep-init")
    path = written(found, tmp_path)
    host = load_inventory(path).hosts["gpu1"]
    server = host.server
    assert host.production == ("sweep-init.service",)
    assert host.production_health == "http://127.0.0.1:31000/health"
    assert host.ssh_config == spec.ssh_config
    assert host.python == "/usr/bin/python3"
    assert server.command == ("/usr/bin/python3", "-m", "sglang.launch_server")
    assert dict(server.args) == {
        "model-path": "/models/q 3",
        "tp-size": 4,
        "served-model-name": "we ird $x 50%",
        "json-model-override-args": '{"a": "b\\\\c"}',
        "chat-template": "it's",
        "speculative-algorithm": "NEXTN",
        "speculative-eagle-topk": 1,
    }
    assert dict(server.env) == {"GREETING": 'it\'s 50% "x"', "CUDA_HOME": "/usr/local/cuda"}
    assert {name: ref.env for name, ref in server.secrets.items()} == {
        "HF_TOKEN": "HF_TOKEN",
        "api-key": "API_KEY",
    }
    assert (server.user, server.working_directory) == ("plain", "/home/plain")
    assert server.env_file == "/etc/sweep-init-test.env"
    assert dict(server.unit) == {"LimitMEMLOCK": "infinity"}
    assert f"#   /{ETC}/sweep-init.service.d/10-limits.conf" in found.text
    baseline, *rest = dry_run(path)
    assert "we ird $x 50%" in baseline.argv
    assert len(rest) == 10


def test_a_script(installed: Machine, tmp_path: Path) -> None:
    found = draft(spec_for(installed, "ops", become="sudo"), "sweep-init-script.service")
    assert any(f"the unit runs the script {LAUNCHER}.sh" in note for note in found.notes)
    host = load_inventory(written(found, tmp_path)).hosts["gpu1"]
    assert host.become == "sudo"
    assert host.server.args["tp-size"] == 4
    assert dict(host.server.env) == {"NCCL_DEBUG": "WARN"}
    assert "HF_TOKEN" in host.server.secrets


def test_a_quadlet(installed: Machine, tmp_path: Path) -> None:
    found = draft(spec_for(installed), "sweep-init-quadlet.container")
    assert "#   /etc/containers/systemd/sglang.container" in found.text
    assert "in a container (podman, image docker.io/lmsysorg/sglang:latest)" in found.text
    assert "#   native command: /usr/bin/python3 -m sglang.launch_server" in found.text
    host = load_inventory(written(found, tmp_path)).hosts["gpu1"]
    assert host.production_health == "http://127.0.0.1:8000/health"
    assert host.server.args["model-path"] == "/data/models/q"


def test_an_instance_of_a_template(installed: Machine, tmp_path: Path) -> None:
    found = draft(spec_for(installed), "sweep-init@8")
    host = load_inventory(written(found, tmp_path)).hosts["gpu1"]
    assert host.production == ("sweep-init@8.service",)
    assert host.server.command == ("/usr/bin/python3", LAUNCHER)
    assert host.server.args["tp-size"] == 8


def test_a_users_unit(installed: Machine, tmp_path: Path) -> None:
    installed.sh("runuser -u plain -- env XDG_RUNTIME_DIR=/run/user/$(id -u plain) "
                 "systemctl --user daemon-reload")  # fmt: skip
    found = draft(spec_for(installed, "plain", scope="user"), "sweep-init")
    host = load_inventory(written(found, tmp_path)).hosts["gpu1"]
    assert host.scope == "user"
    assert host.server.user is None
    assert host.server.args["tp-size"] == 4
    assert "/home/plain/.config/systemd/user/sweep-init.service" in found.text


def test_refusals(installed: Machine) -> None:
    with pytest.raises(HostRefused, match=r"gpu1: nothing-here\.service: .*not found"):
        draft(spec_for(installed), "nothing-here")
    with pytest.raises(HostRefused, match=r"basic\.target\.service: .*not found"):
        draft(spec_for(installed), "basic.target")
    with pytest.raises(UsageError, match=r"sglang-sweep\.service is sweep's own unit"):
        draft(spec_for(installed), "sglang-sweep")
