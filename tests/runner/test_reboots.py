"""A reboot is seen for what it is, whatever it looks like; who comes too late leaves the host."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from sweep.errors import (
    HostError,
    HostRebooted,
    HostRefused,
    HostTaken,
    HostUnreachable,
    Interrupted,
    LaunchError,
    SweepError,
)
from sweep.host import Host, connect
from sweep.runner.reboots import noticing_reboots, wait_until_restored
from sweep.runner.session import Session, open_session
from sweep.signals import InterruptibleClock
from tests.results.made import make_plan
from tests.runner.made import sweep_of
from tests.systemd.targets import host_spec, me


class LateClock(InterruptibleClock):
    """A clock that can be set on."""

    late_s = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.late_s)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWEEP_DEMO_DIR", str(tmp_path_factory.mktemp("demo")))
        with connect("demo", host_spec(transport="demo")) as host:
            yield host


@pytest.fixture
def clock() -> LateClock:
    return LateClock(lambda _name, _count: None)


@pytest.fixture
def session(demo: Host, clock: LateClock, tmp_path: Path) -> Iterator[Session]:
    with (
        sweep_of(make_plan(), tmp_path, spec=demo.spec, clock=clock) as sweep,  # type: ignore[attr-defined]
        open_session(sweep, demo) as session,
    ):
        session.systemd.take(me())
        session.systemd.poll()
        yield session
        with clock.shielded(9):
            session.systemd.restore()


ERRORS = (
    LaunchError("hang", "no answer"),
    HostTaken("somebody stopped it"),
    HostError("could not look"),
)


def boot_anew(host: Host) -> None:
    boot_id = Path(f"{host.root}/proc/sys/kernel/random/boot_id")
    number = boot_id.read_text().strip()
    boot_id.write_text(f"{(int(number[0], 16) + 1) % 16:x}{number[1:]}\n")


@pytest.mark.parametrize("error", ERRORS)
def test_without_a_reboot_trouble_stays_what_it_is(session: Session, error: SweepError) -> None:
    with pytest.raises(type(error)) as caught, noticing_reboots(session):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("error", ERRORS)
def test_after_a_reboot_it_is_a_reboot(session: Session, error: SweepError) -> None:
    boot_anew(session.host)
    with pytest.raises(HostRebooted) as caught, noticing_reboots(session):
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", ERRORS)
def test_a_host_that_cannot_say_was_not_rebooted(session: Session, error: SweepError) -> None:
    """Its scripts fail or run out of time: rights that were taken away, a disk that hangs."""
    boot_id = Path(f"{session.host.root}/proc/sys/kernel/random/boot_id")
    aside = boot_id.rename(boot_id.with_name("aside"))
    try:
        with pytest.raises(type(error)) as caught, noticing_reboots(session):
            raise error
    finally:
        aside.rename(boot_id)
    assert caught.value is error


@pytest.mark.parametrize("error", [HostUnreachable("gone"), HostRefused("locked")])
def test_who_cannot_ask_does_not(session: Session, error: SweepError) -> None:
    boot_anew(session.host)
    with pytest.raises(type(error)) as caught, noticing_reboots(session):
        raise error
    assert caught.value is error


def test_who_was_away_for_longer_than_the_timer_leaves_the_host(
    session: Session, clock: LateClock
) -> None:
    boot_anew(session.host)
    clock.late_s = session.sweep.spec.deadman_s + 1
    with pytest.raises(HostTaken, match="nothing was heard"), noticing_reboots(session):
        raise LaunchError("hang", "no answer")


def test_who_ends_the_wait_is_told_what_becomes_of_production(session: Session) -> None:
    boot_anew(session.host)
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(Interrupted):
        wait_until_restored(session)
    notes = [event.fields["text"] for event in session.sweep.run.events() if event.kind == "note"]
    assert notes[-1] == (
        "demo was rebooted and starts production by itself when it boots; nothing waits for that"
    )
