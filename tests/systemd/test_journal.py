"""The journal lies sometimes: what is missing is missing, never an error and never a guess."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sweep.sglang.journal import scrape
from sweep.sglang.verify import capacity
from sweep.systemd import Systemd
from tests.systemd.conftest import connection_as
from tests.systemd.targets import NO_SECRETS, Target, me, rendered, taken, wait_for
from tests.testhost import Machine, Pool

CAPACITY = (
    "[2026-11-29 22:00:00] max_total_num_tokens=181721, chunked_prefill_size=8192, "
    "max_prefill_tokens=16384, max_running_requests=48, context_len=196608"
)
# systemd says `Started ...` first, as it does before any server has loaded.
COUNTING = f"""sleep 0.5; echo '{CAPACITY}'
n=0; while :; do n=$((n + 1)); echo "line $n"; sleep 0.02; done"""
TALKATIVE = f"sleep 0.5; echo '{CAPACITY}'; seq 500; sleep 3; echo after; sleep 600"
# What /server_info says of the same server.
INFO = {
    "dp_size": 1,
    "max_total_num_tokens": 181721,
    "internal_states": [{"effective_max_running_requests_per_dp": 48}],
}

pytestmark = pytest.mark.testhost


def start(target: Target, systemd: Systemd, script: str, service: str = "") -> str:
    target.host.put("/var/tmp/journal-test.sh", script.encode(), mode=0o755)
    unit = rendered(target, "/bin/sh /var/tmp/journal-test.sh", service=service)
    systemd.install(unit, NO_SECRETS)
    return systemd.start().invocation_id


@pytest.fixture
def host(root: Target) -> Iterator[Target]:
    yield root
    root.sh("rm -f /var/tmp/journal-test.sh")


@contextmanager
def journald(machine: Machine, settings: str) -> Iterator[None]:
    """The host's journald with other settings.

    One that has kept its journal in memory goes on to until it is told to flush.
    """
    drop_in = "/etc/systemd/journald.conf.d/zz-changed.conf"
    machine.sh(
        f"mkdir -p $(dirname {drop_in}); printf '[Journal]\\n{settings}\\n' > {drop_in}; "
        "systemctl restart systemd-journald"
    )
    try:
        yield
    finally:
        machine.sh(
            f"rm -f {drop_in}; systemctl restart systemd-journald; journalctl --flush; "
            "systemctl reset-failed systemd-journald"
        )


def numbers(journal: bytes) -> list[int]:
    return [int(number) for number in re.findall(rb"^line (\d+)$", journal, re.MULTILINE)]


def test_rotation_and_a_restart_of_journald_lose_no_line(host: Target) -> None:
    with taken(host) as systemd:
        invocation = start(host, systemd, COUNTING)
        for trouble in ("journalctl --rotate", "systemctl restart systemd-journald", ":"):
            seen = len(numbers(systemd.journal(invocation)))
            wait_for(lambda s=seen: len(numbers(systemd.journal(invocation))) > s + 20, "lines")
            host.sh(trouble)
        found = numbers(systemd.journal(invocation))
        assert found == list(range(1, len(found) + 1))


def test_what_was_vacuumed_is_taken_from_the_server_and_flagged(host: Target) -> None:
    with taken(host) as systemd:
        invocation = start(host, systemd, COUNTING)
        wait_for(lambda: len(numbers(systemd.journal(invocation))) > 20, "lines")
        host.sh("journalctl --rotate; journalctl --vacuum-time=1us --vacuum-size=1K")
        wait_for(lambda: numbers(systemd.journal(invocation)), "lines after it")
        found = scrape(systemd.journal(invocation))
    assert found.max_running_requests is None
    known = capacity(found, INFO)
    assert (known.max_running_requests, known.max_total_num_tokens) == (48, 181721)
    assert known.flags == {"journal_incomplete"}
    nobody = capacity(found, {"dp_size": 1})
    assert (nobody.max_running_requests, nobody.max_total_num_tokens) == (None, None)
    assert nobody.flags == {"journal_incomplete"}


def test_messages_that_were_suppressed_are_counted(host: Target) -> None:
    limit = "LogRateLimitIntervalSec=2s\nLogRateLimitBurst=100"
    with taken(host) as systemd:
        invocation = start(host, systemd, TALKATIVE, limit)
        wait_for(lambda: b"after\n" in systemd.journal(invocation), "the lines after it")
        found = scrape(systemd.journal(invocation))
        assert found.suppressed >= 200
        known = capacity(found, INFO)
        assert known.max_running_requests == 48
        assert known.flags == {"journal_incomplete"}
        assert f"suppressed {found.suppressed} messages" in known.gaps
        systemd.stop()
        # Of another start nothing of this is told.
        other = start(host, systemd, COUNTING)
        wait_for(lambda: numbers(systemd.journal(other)), "its lines")
        assert scrape(systemd.journal(other)).suppressed == 0


@pytest.fixture(params=["stranger", "member"])
def user(testhost: Pool, request: pytest.FixtureRequest) -> Iterator[Target]:
    """A user's own units, of one who may read the system's journal or not."""
    machine = testhost.shared("trixie")
    if request.param == "member":
        machine.sh("gpasswd --add plain systemd-journal")
    with connection_as(machine, "plain", scope="user") as target:
        yield target
        target.sh("rm -f /var/tmp/journal-test.sh")
        left = target.left_over()
    if request.param == "member":
        machine.sh("gpasswd --delete plain systemd-journal")
    assert left == []


def may_read(target: Target) -> bool:
    return "systemd-journal" in target.sh("id -nG").split()


def test_a_users_unit_is_limited_by_journald_itself(user: Target, testhost: Pool) -> None:
    """LogRateLimitIntervalSec= of a user's unit does not reach journald."""
    settings = "RateLimitIntervalSec=2s\\nRateLimitBurst=100"
    told = []
    with journald(testhost.shared("trixie"), settings), taken(user) as systemd:
        # A user's processes have one limit: journald's words name whichever of them speaks next,
        # once in a while the user's systemd.
        for _ in range(3):
            invocation = start(user, systemd, TALKATIVE)
            wait_for(lambda i=invocation: b"after\n" in systemd.journal(i), "the lines after it")
            found = scrape(systemd.journal(invocation))
            assert found.max_running_requests == 48
            told.append(found.suppressed >= 200)
            systemd.stop()
    # They stand in the system's journal.
    assert any(told) is may_read(user)


@pytest.mark.parametrize("storage", ["none", "volatile"])
def test_a_journal_that_keeps_nothing_or_little(
    host: Target, bookworm: Machine, storage: str
) -> None:
    with journald(bookworm, f"Storage={storage}"), taken(host) as systemd:
        invocation = start(host, systemd, COUNTING)
        if storage == "volatile":
            wait_for(lambda: numbers(systemd.journal(invocation)), "its lines")
        found = scrape(systemd.journal(invocation))
        systemd.stop()
        ended = systemd.journal(invocation, ended=True)
    kept = storage == "volatile"
    assert (found.max_running_requests == 48) is kept
    assert bool(numbers(ended)) is kept
    assert capacity(found, INFO).flags == (frozenset() if kept else {"journal_incomplete"})


def test_a_journal_in_memory_is_read_by_members_only(user: Target, testhost: Pool) -> None:
    """There is none of each user."""
    with journald(testhost.shared("trixie"), "Storage=volatile"), taken(user) as systemd:
        readable = may_read(user)
        invocation = start(user, systemd, COUNTING)
        if readable:
            wait_for(lambda: numbers(systemd.journal(invocation)), "its lines")
        found = scrape(systemd.journal(invocation))
        systemd.stop()
        systemd.journal(invocation, ended=True)
    assert (found.max_running_requests == 48) is readable
    assert capacity(found, INFO).max_running_requests == 48


def test_a_time_is_read_to_the_millisecond(host: Target) -> None:
    with taken(host) as systemd:
        invocation = start(host, systemd, COUNTING)
        wait_for(lambda: len(numbers(systemd.journal(invocation))) > 100, "lines")
        now = float(host.sh("date +%s.%N"))
        half = numbers(systemd.journal_between(invocation, now - 1.0, now - 0.5))
        whole = numbers(systemd.journal(invocation))
    assert half
    assert half == list(range(half[0], half[-1] + 1))
    assert whole[0] < half[0] < half[-1] < whole[-1]
    assert len(half) < 0.5 * len(whole)


def test_the_lines_of_another_boot_are_still_those_of_their_start(testhost: Pool) -> None:
    machine = testhost.fresh("journal")
    with connection_as(machine, "root") as target:
        systemd = target.systemd()
        systemd.take(me())
        before = start(target, systemd, COUNTING)
        wait_for(lambda: len(numbers(systemd.journal(before))) > 20, "its lines")
        machine.reboot()
        assert len(numbers(systemd.journal(before))) > 20
        assert scrape(systemd.journal(before)).max_running_requests == 48
        again = target.systemd()
        again.take(me())
        after = start(target, again, "sleep 0.5; echo another; sleep 600")
        wait_for(lambda: b"another" in again.journal(after), "its line")
        assert numbers(again.journal(after)) == []
        again.restore(within_s=30)
    testhost.discard("journal")
