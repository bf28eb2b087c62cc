"""Signals end a wait, not a write; cleaning up is shielded from the first one, not the second."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from sweep.errors import Interrupted
from sweep.signals import SIGNALS, InterruptibleClock


def send_later(*numbers: int, after_s: float = 0.05) -> threading.Thread:
    def send() -> None:
        for number in numbers:
            time.sleep(after_s)
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


@pytest.mark.parametrize("number", SIGNALS)
def test_a_sleep_ends_with_the_signal_that_came(number: signal.Signals) -> None:
    said: list[tuple[str, int]] = []
    with InterruptibleClock(lambda name, count: said.append((name, count))) as clock:
        thread = send_later(number)
        with pytest.raises(Interrupted) as caught:
            clock.sleep(60)
        thread.join()
    assert caught.value.exit_code == 128 + number
    assert said == [(number.name, 1)]


def test_work_between_waits_goes_on_and_the_next_wait_ends() -> None:
    with InterruptibleClock(lambda *_: None) as clock:
        os.kill(os.getpid(), signal.SIGTERM)
        written = sum(range(1000))
        with pytest.raises(Interrupted):
            clock.sleep(60)
    assert written == 499500


def test_cleaning_up_is_not_disturbed_by_the_first_signal_but_by_the_second() -> None:
    with InterruptibleClock(lambda *_: None) as clock:
        os.kill(os.getpid(), signal.SIGINT)
        with clock.shielded(1):
            clock.sleep(0.01)
            thread = send_later(signal.SIGTERM)
            with pytest.raises(Interrupted) as caught:
                clock.sleep(60)
            thread.join()
            with clock.shielded(1000):
                clock.sleep(0.01)
    assert caught.value.exit_code == 130  # the first signal gives the exit status


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with InterruptibleClock(lambda *_: None) as clock:
            os.kill(os.getpid(), signal.SIGHUP)
            clock.check()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with InterruptibleClock(lambda *_: None):
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_finished_sleep_does_not_forget_a_signal_that_was_tolerated() -> None:
    with InterruptibleClock(lambda *_: None) as clock:
        with clock.shielded(1):
            thread = send_later(signal.SIGINT)
            clock.sleep(0.2)
            thread.join()
        with pytest.raises(Interrupted):
            clock.check()
