"""The judge sees what it is there for: an undisturbed run is doctored in each way that matters."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pandas as pd
import pytest

from tests.faults.field import Field
from tests.faults.ground import Death, Ground
from tests.faults.judge import Before, judge, look_before, records

Doctor = Callable[[pd.DataFrame], pd.DataFrame]


def altered(column: str, value: object) -> Doctor:
    def doctor(frame: pd.DataFrame) -> pd.DataFrame:
        frame[column] = frame[column].astype(object)
        frame.loc[1, column] = value
        return frame

    return doctor


def again(frame: pd.DataFrame) -> pd.DataFrame:
    """One row twice, as it stands."""
    return pd.concat([frame, frame.iloc[[0]]])


def measured_again(frame: pd.DataFrame) -> pd.DataFrame:
    """A second attempt at what was ok."""
    return pd.concat([frame, frame.iloc[[0]].assign(attempt=2)])


CASES: dict[str, tuple[Doctor, str]] = {
    "as it was": (lambda frame: frame, ""),
    "a row is gone": (lambda frame: frame.drop(index=2), "lost: "),
    "a row failed": (altered("status", "failed"), "has no ok row"),
    "a row twice": (again, "has 2 rows"),
    "measured again": (measured_again, "measured again"),
    "another capacity": (altered("max_running_requests", 34), "max_running_requests is 34"),
    "of another steps value": (altered("speculative_num_steps", 5), "max_total_num_tokens"),
    "too fast": (altered("agg_tok_s", 1e6), "tok/s, where the server gives"),
    "not all requests": (altered("requests_ok", 3), "requests are ok"),
    "another acceptance": (altered("accept_length", 1.0), "acceptance"),
    "another run's row": (altered("run_id", "other-20260101-000000"), "is of run other"),
    "no invocation": (altered("invocation_id", "i-"), "invocation "),
}


@pytest.fixture
def copy(field: Field, tmp_path: Path) -> Ground:
    """The undisturbed run, in a directory of its own."""
    host = field.undisturbed.host
    shutil.copytree(field.undisturbed.runs, tmp_path / "runs")
    return Ground(replace(host, directory=tmp_path), Random(0))


def verdict(field: Field, ground: Ground, before: Before | None = None) -> tuple[str, ...]:
    before = before or look_before(ground)
    return judge(ground, before, field.trials, records(ground)).troubles


@pytest.mark.parametrize("name", CASES)
def test_a_doctored_table_is_found_out(field: Field, copy: Ground, name: str) -> None:
    doctor, said = CASES[name]
    doctor(pd.read_csv(copy.csv)).to_csv(copy.csv, index=False)
    troubles = verdict(field, copy)
    assert bool(troubles) == bool(said), troubles
    assert said in "\n".join(troubles)


def test_a_server_with_other_steps_is_found_out_by_the_hosts_journal(
    field: Field, copy: Ground
) -> None:
    frame = pd.read_csv(copy.csv)
    swapped = frame["invocation_id"].iloc[::-1].to_list()
    frame.assign(invocation_id=swapped).to_csv(copy.csv, index=False)
    assert "ran with" in "\n".join(verdict(field, copy))


def test_a_finished_measurement_that_is_made_again_is_lost(field: Field, copy: Ground) -> None:
    frame = pd.read_csv(copy.csv)
    name = f"{frame['point'][0]}-t1-a1"
    copy.deaths.append(Death(frozenset({"another"}), frozenset({name})))
    assert f"{name} had finished" in "\n".join(verdict(field, copy))
    copy.deaths[0] = Death(
        frozenset({frame["invocation_id"][0].removeprefix("i-")}), frozenset({name})
    )
    assert verdict(field, copy) == ()


def test_what_is_left_on_the_host_is_found(field: Field, copy: Ground) -> None:
    before = look_before(copy)
    copy.sh("touch /etc/left /run/left; systemd-run -q --unit=sweep-left sleep 60")
    copy.sh("systemctl stop router.service")
    troubles = "\n".join(verdict(field, copy, before))
    copy.sh("rm /etc/left /run/left; systemctl stop sweep-left; systemctl start router.service")
    for said in ("/etc/left", "/run/left", "sweep-left", "production does not serve"):
        assert said in troubles
    assert verdict(field, copy, before) == ()
