"""How a unit starts SGLang: every shape of ExecStart, its command and flags, and what is said."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sweep.init.start import Start, understand
from sweep.init.words import plain

SCRIPT = """#!/usr/bin/env bash
set -euo pipefail
ulimit -l unlimited
nvidia-smi -pm 1
export CUDA_HOME=/usr/local/cuda
if [ -f /etc/extra ]; then . /etc/extra; fi
cd /srv/sglang
exec /opt/v/bin/python -m sglang.launch_server --model-path ${MODEL:-/models/q} "$@" >>/x 2>&1
"""
FILES = {
    "/opt/start.sh": SCRIPT,
    "/opt/outer.sh": "#!/bin/sh\nMODEL=/models/inner exec /opt/start.sh --tp 2 # sglang\n",
    "/opt/docker.sh": "#!/bin/sh\ndocker pull x\ndocker run --rm -p 8000:30000 x python3 -m "
    "sglang.launch_server --tp 4\n",
    "/opt/opaque.sh": "#!/bin/sh\nmake -C /srv serve\n",
    "/opt/launcher": "#!/usr/bin/python3\nimport os\n",
    "/opt/round.sh": "#!/bin/sh\n/opt/round.sh # sglang\n",
}


def start(*argv: str, environment: Mapping[str, str] | None = None) -> Start:
    return understand(plain(argv), environment or {}, FILES.get)


def texts(found: Start) -> tuple[str, str]:
    command = " ".join(word.text for word in found.command or ())
    return command, " ".join(word.text for word in found.flags)


NATIVE = [
    ("/v/python -m sglang.launch_server --tp 4", "/v/python -m sglang.launch_server", "--tp 4"),
    ("/v/python -u -m sglang.launch_server", "/v/python -u -m sglang.launch_server", ""),
    ("/v/bin/sglang serve /models/q --tp 4", "/v/bin/sglang serve", "/models/q --tp 4"),
    ("/v/python /src/launch_server.py --tp 4", "/v/python /src/launch_server.py", "--tp 4"),
    ("/bin/numactl -N 0 /v/bin/sglang serve -x", "/bin/numactl -N 0 /v/bin/sglang serve", "-x"),
    ("/usr/bin/uv run sglang serve --tp 4", "/usr/bin/uv run sglang serve", "--tp 4"),
    ("/usr/bin/env A=1 -u B /v/bin/sglang serve --tp 4", "/v/bin/sglang serve", "--tp 4"),
]  # fmt: skip


@pytest.mark.parametrize(("argv", "command", "flags"), NATIVE)
def test_native(argv: str, command: str, flags: str) -> None:
    found = start(*argv.split())
    assert texts(found) == (command, flags)
    assert found.obstacles == ()
    assert found.ports is None


def test_env_gives_variables() -> None:
    found = start("/usr/bin/env", "A=1", "HF_TOKEN=hunter2", "/v/bin/sglang", "serve")
    assert {name: word.text for name, word in found.environment.items()}["A"] == "1"
    assert "hunter2" not in repr(found.environment)


SCRIPTED = [
    (["/opt/start.sh", "--tp", "4"], "script /opt/start.sh", "--model-path /models/q --tp 4"),
    (["/bin/bash", "/opt/start.sh"], "script /opt/start.sh", "--model-path /models/q"),
    (["/bin/bash", "-x", "/opt/start.sh"], "script /opt/start.sh", "--model-path /models/q"),
    (["/opt/outer.sh"], "script /opt/outer.sh", "--model-path /models/inner --tp 2"),
    (
        ["/bin/bash", "-lc", "A=1 exec /opt/v/bin/python -m sglang.launch_server --tp $0", "8"],
        "a line of /bin/bash",
        "--tp 8",
    ),
]


@pytest.mark.parametrize(("argv", "says", "flags"), SCRIPTED)
def test_scripts(argv: list[str], says: str, flags: str) -> None:
    found = start(*argv)
    assert texts(found) == ("/opt/v/bin/python -m sglang.launch_server", flags)
    assert says in found.obstacles[0]


def test_a_script_is_read_with_its_surroundings() -> None:
    found = start("/opt/start.sh", environment={"MODEL": "/models/unit"})
    assert texts(found)[1] == "--model-path /models/unit"
    assert found.environment["CUDA_HOME"].text == "/usr/local/cuda"
    assert found.directory == "/srv/sglang"
    assert "runs ulimit, nvidia-smi, .: not done by sweep" in found.obstacles[1]


def test_docker() -> None:
    argv = (
        "/usr/bin/docker run --rm --name sglang --gpus '\"device=0,1\"' --shm-size 32g --ipc=host "
        "-p 127.0.0.1:8000:30000 -v /data/models:/models:ro -e A=/models/x -eHF_TOKEN=hunter2 "
        "--env-file /etc/sglang.env --entrypoint python3 lmsysorg/sglang:v0.5.9 -m "
        "sglang.launch_server --model-path /models/q --tp 2"
    )
    found = start(*argv.replace("'", "").split())
    assert texts(found) == (
        "/usr/bin/python3 -m sglang.launch_server",
        "--model-path /data/models/q --tp 2",
    )
    assert "container (docker, image lmsysorg/sglang:v0.5.9)" in found.obstacles[0]
    assert found.ports == {"30000": "8000"}
    assert found.env_files == ("/etc/sglang.env",)
    assert found.environment["CUDA_VISIBLE_DEVICES"].text == "0,1"
    assert found.environment["A"].text == "/data/models/x"
    assert found.environment["HF_TOKEN"].secret == "HF_TOKEN"
    assert "hunter2" not in repr(found)


CONTAINERS = [
    ("/usr/bin/podman run -it image sglang serve --tp 2", "podman, image image"),
    ("/usr/bin/docker run -dit --init image --model-path /m --tp 2", "docker, image image"),
    ("/usr/bin/docker run image bash -c", "docker, image image"),
    ("/opt/docker.sh", "script /opt/docker.sh"),
]


@pytest.mark.parametrize(("argv", "says"), CONTAINERS)
def test_containers(argv: str, says: str) -> None:
    assert says in start(*argv.split()).obstacles[0]


OPAQUE = [
    ("/usr/bin/docker start -a sglang", "`/usr/bin/docker start -a` names a container"),
    ("/usr/bin/docker compose -f /srv/c.yaml up", "names a container"),
    ("/usr/bin/docker-compose up", "names a container"),
    ("/opt/opaque.sh", "script /opt/opaque.sh"),
    ("/bin/sh /nowhere.sh", "the script /nowhere.sh cannot be read"),
    ("/opt/round.sh", "script /opt/round.sh"),
]


@pytest.mark.parametrize(("argv", "says"), OPAQUE)
def test_what_cannot_be_seen_through(argv: str, says: str) -> None:
    found = start(*argv.split())
    assert found.command is None
    assert says in found.obstacles[0]


def test_a_program_of_the_users_own_is_kept() -> None:
    found = start("/opt/launcher", "serve", "--tp", "4")
    assert texts(found) == ("/opt/launcher serve", "--tp 4")
    assert "is no way to start SGLang that sweep knows" in found.obstacles[0]
