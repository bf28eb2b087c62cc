"""What goes to a host with a run, and what may come back."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from sweep.detached import Place, run_files
from sweep.detached.bundle import seen_from_itself
from sweep.errors import RunDirectoryError
from sweep.inventory import BuiltinBenchmark, FileWorkload, HostSpec, SecretRef, ServerSpec
from sweep.plan import Launch, Plan, Point, ServerConfig
from sweep.plan_document import plan_from_doc, plan_to_doc
from sweep.results import RunDirectory, copies, new_run

PLACE = Place("night-1", "system", "/var/lib/d/night-1", "/run/d/night-1", "/usr/bin/python3")
SPEC = HostSpec(
    address="gpu1", user="ops", ssh_port=2222, identity_file="~/k", become="sudo",
    host_class="big", production=("sglang.service",),
    server=ServerSpec(
        command=("/opt/sglang",), env_file="/etc/x", secrets={"api-key": SecretRef(env="KEY")}
    ),
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = new_run(tmp_path / "runs", "night")
    (tmp_path / "texts.jsonl").write_text("{}\n")
    workload = FileWorkload(file=str(tmp_path / "texts.jsonl"), fingerprint="f")
    launch = Launch("l-01", ServerConfig(args=(), env=()), (Point("p-1", 1),))
    plan = Plan("night", "gpu", BuiltinBenchmark(workload=workload), 1, 3, (launch,))
    with made.lock():
        made.write_plan({"plan": plan_to_doc(plan), "host": {}, "inventory": "/home/i.yaml"})
        made.event("begin", due={"l-01": 1}, resumed=False)
        made.write_unit("l-01", "[Service]\n")
    return made


def test_a_host_seen_from_itself_needs_no_ssh_and_reads_its_secrets_from_files() -> None:
    own = seen_from_itself(SPEC, "/run/d")
    assert (own.transport, own.address, own.user, own.ssh_port) == ("local", "", None, None)
    assert (own.become, own.identity_file, own.host_key) == ("none", None, "strict")
    assert dict(own.server.secrets) == {"api-key": SecretRef(file="/run/d/api-key")}
    kept = ("scope", "host_class", "production", "deadman_s", "python", "unit")
    assert all(getattr(own, key) == getattr(SPEC, key) for key in kept)
    assert own.server.env_file == "/etc/x"


def test_the_plan_reads_nothing_that_stays_behind(run: RunDirectory, tmp_path: Path) -> None:
    templates = tmp_path / "templates"
    templates.mkdir()
    (templates / "sglang.service.j2").write_text("x")
    (run.path / copies.PLACE).write_bytes(PLACE.to_bytes())
    files = dict(run_files(run, SPEC, PLACE, templates))
    inside = f"runs/{run.id}"
    assert set(files) == {
        "workload/texts.jsonl", "templates/sglang.service.j2", f"{inside}/plan.json",
        f"{inside}/events.jsonl", f"{inside}/units/l-01.service",
    }  # fmt: skip
    there = json.loads(files[f"{inside}/plan.json"])
    assert there["inventory"] == f"{PLACE.base}/inventory.yaml"
    assert there["templates"] == f"{PLACE.base}/templates"
    assert HostSpec.model_validate_json(json.dumps(there["host"])).transport == "local"
    plan, here = plan_from_doc(there["plan"]), plan_from_doc(run.plan()["plan"])
    assert isinstance(plan.benchmark, BuiltinBenchmark)
    assert isinstance(plan.benchmark.workload, FileWorkload)
    assert plan.benchmark.workload.file == f"{PLACE.base}/workload/texts.jsonl"
    assert plan.launches == here.launches


def test_a_place_survives_being_written_down() -> None:
    assert Place.parse(PLACE.to_bytes()) == PLACE
    sent = replace(PLACE, events=7, report=False)
    assert Place.parse(sent.to_bytes()) == sent
    for wrong in (b"", b"[]", b"{}", b'{"base": 1}'):
        with pytest.raises(RunDirectoryError, match="was it edited"):
            Place.parse(wrong)


# -- coming back


def archive(*members: tuple[str, bytes, int]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, data, changed in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            member.pax_headers = {"SWEEP.mtime_ns": str(changed)}
            tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def test_what_came_is_known_and_not_asked_for_again(run: RunDirectory) -> None:
    changed = 1_700_000_000_123_456_789
    there = json.dumps({"fingerprint": {"gpus": "two"}}).encode()
    copies.receive(
        run, archive(("bench/p-1-t1-a1.json", b"{}", changed), ("plan.json", there, changed))
    )
    known = copies.known(run)
    assert known["bench/p-1-t1-a1.json"] == (2, changed)
    assert known["plan.json"] == (len(there), changed)
    assert run.plan()["inventory"] == "/home/i.yaml", "the plan of this side stays"
    assert copies.fingerprint_there(run) == {"gpus": "two"}
    copies.forget(run)
    assert "plan.json" not in copies.known(run)
    assert copies.fingerprint_there(run) == {}


@pytest.mark.parametrize(
    "name", ["../evil", "bench/../../evil", "/tmp/evil", "a/b/c/d", "..", "bench/.."]
)
def test_a_name_that_leads_elsewhere_is_refused(run: RunDirectory, name: str) -> None:
    before = sorted(run.path.parent.parent.rglob("*"))
    with pytest.raises(RunDirectoryError, match="no copy"):
        copies.receive(run, archive((name, b"x", 1)))
    assert sorted(run.path.parent.parent.rglob("*")) == before


def test_what_is_cut_short_is_refused(run: RunDirectory) -> None:
    whole = archive(("bench/a.json", b"x" * 10_000, 1), ("bench/b.json", b"y" * 10_000, 1))
    for wrong in (b"", b"no archive", whole[: len(whole) // 2]):
        with pytest.raises(RunDirectoryError, match="no copy"):
            copies.receive(run, wrong)


def test_a_lock_that_comes_late_takes_nobodys_lock_away(run: RunDirectory) -> None:
    """Somebody else brought the run home meanwhile, and goes on with it."""
    theirs = b'{"pid": 1, "host": "gpu1", "since": "2026-11-30T01:00:00Z"}\n'
    with run.lock():
        copies.receive(run, archive(("lock", theirs, 1)))
        assert run.lock_state().held
    assert not run.lock_state().held
