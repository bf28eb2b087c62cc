"""The main job on real hosts: baseline and steps 1..10 at three concurrencies, three ways in."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.testhost import Pool
from tests.whole.gpuhost import LOGINS, Ended, GpuHost, ended, sweep_of

RELEASES = {"root": "bookworm", "sudo": "trixie", "user": "bookworm"}


@pytest.fixture(scope="module")
def overnight(
    testhost: Pool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[GpuHost, Ended]]]:
    """The same sweep on three hosts at once, each with another login."""
    hosts = {}
    for name, login in LOGINS.items():
        machine = testhost.fresh(f"night-{name}", release=RELEASES[name])
        host = GpuHost(machine, login, tmp_path_factory.mktemp(name), {"overnight": sweep_of()})
        host.dress()
        host.write_inventory()
        hosts[name] = host
    running = {name: host.start("run", "overnight") for name, host in hosts.items()}
    yield {name: (hosts[name], ended(process)) for name, process in running.items()}
    for name in hosts:
        testhost.discard(f"night-{name}")


@pytest.fixture(params=LOGINS)
def night(
    overnight: dict[str, tuple[GpuHost, Ended]], request: pytest.FixtureRequest
) -> tuple[GpuHost, Ended]:
    return overnight[request.param]


def test_one_ok_row_for_each_point(night: tuple[GpuHost, Ended]) -> None:
    host, result = night
    assert result.status == 0, result.err
    frame = host.frame()
    assert len(frame) == 33
    assert set(frame["status"]) == {"ok"}
    points = {(row.speculative_num_steps, row.concurrency) for row in frame.itertuples()}
    assert points == {(steps, c) for steps in range(11) for c in (1, 4, 16)}
    assert frame["point"].is_unique
    assert set(frame["flags"].str.contains("simulated")) == {True}
    assert frame["invocation_id"].nunique() == 11


def test_capacities_fall_with_the_steps_and_are_the_servers_own(
    night: tuple[GpuHost, Ended],
) -> None:
    frame = (
        night[0]
        .frame()
        .groupby("speculative_num_steps")[["max_running_requests", "max_total_num_tokens"]]
    )
    assert (frame.nunique() == 1).all(axis=None)
    first = frame.first()
    assert first["max_running_requests"].is_monotonic_decreasing
    assert first["max_total_num_tokens"].is_monotonic_decreasing
    # The published capacities at steps 1 and 2, which the simulator has.
    assert first.loc[1].tolist() == [26, 455357]
    assert first.loc[2].tolist() == [21, 377207]


def test_acceptance_is_each_points_own(night: tuple[GpuHost, Ended]) -> None:
    frame = night[0].frame().set_index("speculative_num_steps")
    assert frame.loc[0, "accept_length"].isna().all()
    assert frame.loc[1:, "accept_length"].notna().all()
    assert (frame.loc[1:, "accept_length"] <= frame.loc[1:].index + 1).all()


def test_queueing_is_flagged(night: tuple[GpuHost, Ended]) -> None:
    frame = night[0].frame()
    beyond = frame["concurrency"] > frame["max_running_requests"]
    assert (frame["flags"].str.contains("capped") == beyond).all()


def test_production_serves_again_and_nothing_of_ours_is_left(night: tuple[GpuHost, Ended]) -> None:
    host, _ = night
    assert host.serves()
    assert host.active("sglang.service")
    assert host.active("router.service"), "what ended with production has to come back, too"
    assert host.leftovers() == []


def test_the_run_directory_holds_what_it_promises(night: tuple[GpuHost, Ended]) -> None:
    run = night[0].run
    plan = json.loads((run / "plan.json").read_text())
    assert plan["fingerprint"]["sglang_version"] == "0.5.23"
    assert len(list((run / "units").glob("l-*.service"))) == 11
    assert len(list((run / "journal").glob("l-*.log"))) == 11
    assert len(list((run / "bench").glob("p-*-t1-a1.json"))) == 33
    for path in run.rglob("*"):
        assert path.stat().st_mode & 0o007 == 0, f"{path} can be read by everybody"


def test_says_what_happened(night: tuple[GpuHost, Ended]) -> None:
    host, result = night
    assert "33 ok, 0 failed, 0 not measured" in result.err
    assert f"rows: runs/{host.run.name}/results.csv" in result.err
    assert "first launch measured: safe to leave" in result.err
    status = host.sweep("status")
    assert "done" in status.out.splitlines()[0]
    logs = host.sweep("logs", host.run.name, "l-03")
    assert "The server is fired up and ready to roll!" in logs.out


def test_a_finished_run_has_nothing_to_resume(night: tuple[GpuHost, Ended]) -> None:
    host, _ = night
    before = (host.run / "results.csv").read_bytes()
    result = host.sweep("resume")
    assert result.status == 0, result.err
    assert "nothing left to do" in result.err
    assert (host.run / "results.csv").read_bytes() == before
