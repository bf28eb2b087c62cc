"""The GPUs: which ones a server uses, and waiting until it has given them back."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import pytest

from sweep.errors import LaunchError
from sweep.systemd import Gpu
from sweep.systemd.gpus import parse, used_by
from tests.systemd.targets import NO_SECRETS, Target, rendered, taken

CARDS = tuple(Gpu(number, "RTX", f"GPU-{number}abc", "570.1", 10) for number in range(8))


def test_what_nvidia_smi_prints() -> None:
    output = (
        b"0, GPU-1f, NVIDIA RTX PRO 6000 Blackwell, 580.65.06, 412\n"
        b"1, GPU-2f, NVIDIA GB10, 580.65.06, [N/A]\n"
        b"Unable to determine the device handle for GPU2: Unknown Error\n"
    )
    assert parse(output) == (
        Gpu(0, "NVIDIA RTX PRO 6000 Blackwell", "GPU-1f", "580.65.06", 412),
        Gpu(1, "NVIDIA GB10", "GPU-2f", "580.65.06", None),
    )
    assert parse(b"NVIDIA-SMI has failed because it couldn't communicate with the driver.\n") == ()


@pytest.mark.parametrize(
    ("argv", "visible", "indices"),
    [
        ("", None, [0]),
        ("--tp 4", None, [0, 1, 2, 3]),
        ("--tp-size=4", None, [0, 1, 2, 3]),
        ("--tensor-parallel-size 2 --base-gpu-id 4", None, [4, 5]),
        ("--tp 2 --gpu-id-step 2 --base-gpu-id 1", None, [1, 3]),
        ("--tp 2 --pp-size 2", None, [0, 1, 2, 3]),
        ("--tp 2 --dp-size 3", None, [0, 1, 2, 3, 4, 5]),
        ("--tp 4 --dp-size 4 --enable-dp-attention", None, [0, 1, 2, 3]),
        ("--tp 1 --tp 2", None, [0, 1]),
        ("--tp 2", "6,7", [6, 7]),
        ("--tp 2 --base-gpu-id 1", "7, 2, 5", [2, 5]),
        ("--tp 2", "GPU-3abc,GPU-5", [3, 5]),
        ("--tp 2", "1,-1,2", [1]),
        ("--tp 2", "", []),
        ("--tp 16", None, [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_which_cards_a_server_uses(argv: str, visible: str | None, indices: list[int]) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    used = used_by(["python3", "-m", "sglang.launch_server", *argv.split()], environment, CARDS)
    assert [card.index for card in used] == indices


# Prints what lies in a file: a card's memory changes when a test, or a server, writes there.
SMI = """#!/bin/sh
case $* in
*--query-gpu*) while read -r index used; do
  echo "$index, GPU-$index, Test card, 1.0, $used"; done < /tmp/cards-of-test ;;
*--query-compute-apps*) echo "GPU-0, $(cat /tmp/holder-of-test), 5000" ;;
esac
"""


@pytest.fixture
def gpu_host(root: Target) -> Iterator[Target]:
    """A host with two cards, the second in constant use by somebody else."""
    root.host.put("/usr/local/bin/nvidia-smi", SMI.encode(), mode=0o755)
    root.sh("echo 1 > /tmp/holder-of-test; printf '0 40\\n1 9000\\n' > /tmp/cards-of-test")
    yield root
    root.sh("rm -f /usr/local/bin/nvidia-smi /tmp/*-of-test")


def test_a_stop_waits_for_the_servers_own_cards(gpu_host: Target) -> None:
    with taken(gpu_host) as systemd:
        assert [gpu.memory_used_mib for gpu in systemd.facts.gpus] == [40, 9000]
        systemd.install(rendered(gpu_host, "/bin/sleep 600"), NO_SECRETS)
        systemd.start()
        before = json.loads(gpu_host.host.read(systemd.site.paths.gpus) or b"")
        assert before == {"GPU-0": 40, "GPU-1": 9000}

        gpu_host.sh("printf '0 5000\\n1 9500\\n' > /tmp/cards-of-test")
        freed = "sleep 2; printf '0 90\\n1 20000\\n' > /tmp/cards-of-test"
        gpu_host.sh(f"systemd-run --quiet --collect sh -c {shlex.quote(freed)}")
        systemd.stop()
        assert gpu_host.sh("head -n 1 /tmp/cards-of-test") == "0 90\n"


def test_a_card_that_stays_held_is_told_with_its_holder(gpu_host: Target) -> None:
    with taken(gpu_host, hurried=True) as systemd:
        systemd.install(rendered(gpu_host, "/bin/sleep 600"), NO_SECRETS)
        systemd.start()
        gpu_host.sh("printf '0 5000\\n1 9000\\n' > /tmp/cards-of-test")
        with pytest.raises(LaunchError) as caught:
            systemd.stop()
        assert caught.value.failure == "gpu_busy"
        for part in ("GPU 0 holds 5000 MiB", "40 MiB", "pid 1 of root", "/systemd (5000 MiB)"):
            assert part in caught.value.detail
        assert "GPU 1" not in caught.value.detail


def test_a_card_that_is_not_shown_is_not_free(gpu_host: Target) -> None:
    with taken(gpu_host, hurried=True) as systemd:
        systemd.install(rendered(gpu_host, "/bin/sleep 600"), NO_SECRETS)
        systemd.start()
        gpu_host.sh("printf '1 9000\n' > /tmp/cards-of-test")
        with pytest.raises(LaunchError, match=r"gpu_busy: .*does not show GPU-0;"):
            systemd.stop()
        gpu_host.sh("printf '0 40\n1 9000\n' > /tmp/cards-of-test")


def test_nothing_starts_before_our_cards_were_read(gpu_host: Target) -> None:
    """A reading that failed would leave the whole run without a limit."""
    unit = rendered(gpu_host, "/bin/sleep 600")
    with taken(gpu_host, hurried=True) as systemd:
        systemd.install(unit, NO_SECRETS)
        gpu_host.sh("printf '1 9000\n' > /tmp/cards-of-test")
        with pytest.raises(LaunchError, match=r"gpu_busy: .*does not show GPU-0;"):
            systemd.start()
        assert systemd.poll().main_pid == 0
    gpu_host.sh("printf '0 40\n1 9000\n' > /tmp/cards-of-test")
    with taken(gpu_host) as systemd:
        systemd.install(unit, NO_SECRETS)
        gpu_host.sh("printf '1 9000\n' > /tmp/cards-of-test")
        back = "sleep 2; printf '0 40\n1 9000\n' > /tmp/cards-of-test"
        gpu_host.sh(f"systemd-run --quiet --collect sh -c {shlex.quote(back)}")
        systemd.start()
        before = json.loads(gpu_host.host.read(systemd.site.paths.gpus) or b"")
        assert before == {"GPU-0": 40, "GPU-1": 9000}


def test_a_card_that_stays_held_fails_the_next_start_too(gpu_host: Target) -> None:
    unit = rendered(gpu_host, "/bin/sleep 600")
    with taken(gpu_host, hurried=True) as systemd:
        systemd.install(unit, NO_SECRETS)
        systemd.start()
        gpu_host.sh("printf '0 5000\\n1 9000\\n' > /tmp/cards-of-test")
        with pytest.raises(LaunchError, match="gpu_busy"):
            systemd.stop()
        systemd.install(unit, NO_SECRETS)
        with pytest.raises(LaunchError, match=r"gpu_busy: .*pid 1 of root"):
            systemd.start()
        assert systemd.poll().main_pid == 0
        gpu_host.sh("printf '0 60\\n1 9000\\n' > /tmp/cards-of-test")
        systemd.start()
        systemd.stop()


def test_whoever_has_our_cards_before_us_is_named_once(gpu_host: Target) -> None:
    gpu_host.sh("printf '0 7000\\n1 9000\\n' > /tmp/cards-of-test")
    with taken(gpu_host) as systemd:
        systemd.install(rendered(gpu_host, "/bin/sleep 600"), NO_SECRETS)
        systemd.start()
        (told,) = systemd.findings()
        assert told.startswith("GPU 0 holds 7000 MiB before our first start; held by pid 1 of root")
        assert systemd.findings() == ()
