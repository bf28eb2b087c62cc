"""What only a real host can show."""

from __future__ import annotations

import threading

import pytest

from sweep.errors import LaunchError
from tests.systemd.targets import (
    NO_SECRETS,
    Target,
    http_server,
    me,
    rendered,
    service,
    taken,
    wait_for,
)
from tests.testhost import Pool

# Not through sudo, which waits for journald itself.
HOSTS = ("bookworm-root", "trixie-user")


def test_a_listener_of_another_user_is_seen_but_only_root_can_name_it(target: Target) -> None:
    ssh = target.with_(server_port=22)
    with taken(ssh) as systemd:
        systemd.install(rendered(ssh, http_server(22)), NO_SECRETS)
        with pytest.raises(LaunchError) as caught:
            systemd.start()
        assert caught.value.failure == "port_in_use"
        named = "of root: sshd" if target.spec.scope == "system" else "a process of another user"
        assert named in caught.value.detail


def test_systemd_is_executed_anew_again_and_again(target: Target, testhost: Pool) -> None:
    """As an upgrade of its package does: for a moment it answers nobody."""
    machine = testhost.shared(target.release)
    target = target.with_(production=("llm.service",))
    target.add_units({"llm.service": service("/bin/sleep 600")}, start=["llm.service"])
    over = threading.Event()
    user = "--user --machine=plain@" if target.spec.scope == "user" else ""

    def execute_anew() -> None:
        while not over.is_set():
            machine.sh(f"systemctl {user} daemon-reexec; sleep 3", check=False)

    restless = threading.Thread(target=execute_anew)
    restless.start()
    try:
        with taken(target) as systemd:
            assert systemd.take(me()).record.units == ("llm.service",)
            for _ in range(10):
                assert systemd.poll().deadman == "armed"
        asked = f"{target.systemctl} is-active llm.service"
        wait_for(lambda: target.run(asked).text.strip() == "active", "production, and an answer")
    finally:
        over.set()
        restless.join()
        target.remove_units(["llm.service"])


def test_the_last_words_of_a_server_that_journald_has_not_heard_yet(
    target: Target, testhost: Pool
) -> None:
    """journald loses the invocation id of lines that it reads after the unit's end."""
    machine = testhost.shared(target.release)
    journald = machine.sh("systemctl show --value -p MainPID systemd-journald")
    with taken(target) as systemd:
        for number in (1, 2):
            machine.sh(f"kill -STOP {journald}")
            try:
                words = f"/bin/sh -c 'echo last words {number}; exit 2'"
                systemd.install(rendered(target, words), NO_SECRETS)
                started = systemd.start()
                wait_for(lambda: not systemd.poll().running, "its end")
            finally:
                # A user's login cannot wait for journald itself, and a busy one takes its time.
                machine.sh(f"kill -CONT {journald}; journalctl --sync")
            journal = systemd.journal(started.invocation_id, ended=True).decode()
            said = [line for line in journal.splitlines() if line.startswith("last words")]
            assert said == [f"last words {number}"]
