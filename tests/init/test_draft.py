"""A unit's facts in, an exact inventory out (pairs of files in cases/) that loads and renders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweep.errors import UsageError
from sweep.init import InventoryDraft, write_new
from sweep.init.draft import compose
from sweep.init.look import Python
from sweep.init.read import UnitFacts, unit_name
from sweep.init.server import draft_server
from sweep.inventory import HostSpec, ServerSpec
from sweep.inventory_file import load_inventory
from sweep.matrix import Changes, build_plan
from sweep.unit import RenderedUnit, Templates, render, secret_files
from sweep.unit.text import entries

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.name.removesuffix(".unit.yaml") for path in CASES.glob("*.unit.yaml"))


@dataclass(frozen=True)
class Surroundings:
    """A host's files, programs and interpreters, as a case lists them."""

    files: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    pythons: Mapping[str, str | None] = field(default_factory=dict)

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def which(self, program: str, path: str | None) -> str | None:
        found = (f"{place}/{program}" for place in (path or "/usr/bin").split(":"))
        return next((name for name in found if name in self.programs), None)

    def python(self, candidates: Sequence[str]) -> Python | None:
        known = (path for path in candidates if path in self.pythons)
        return next((Python(path, self.pythons[path]) for path in known), None)


def facts(case: Mapping[str, Any]) -> UnitFacts:
    files = case.get("environment_files", {})
    return UnitFacts(
        name="sglang.service",
        files=("/etc/systemd/system/sglang.service", *case.get("drop_ins", ())),
        source="",
        argv=tuple(case["argv"]),
        expands=True,
        environment=case.get("environment", {}),
        environment_files=tuple(files.items()),
        passed=(),
        user=case.get("user", ""),
        group=case.get("group", ""),
        working_directory=case.get("working_directory", ""),
        dynamic_user=case.get("dynamic_user", False),
        directives=tuple(entries(case.get("directives", ""))),
        stale=case.get("stale", False),
    )


def draft_of(name: str) -> InventoryDraft:
    case = yaml.safe_load((CASES / f"{name}.unit.yaml").read_text())
    look = Surroundings(
        case.get("files", {}),
        dict.fromkeys(case.get("programs", ()), ""),
        case.get("pythons", {"/opt/venv/bin/python3": "0.5.23"}),
    )
    spec = HostSpec(server=ServerSpec(command=("/bin/true",)), **case.get("connected", {}))
    read = facts(case)
    server = draft_server(read, look, user_scope=spec.scope == "user")
    return compose(read, server, "gpu1", "gpu1.example.net", spec)


@pytest.mark.parametrize("name", NAMES)
def test_case(name: str) -> None:
    draft = draft_of(name)
    assert draft.text == (CASES / f"{name}.inventory.yaml").read_text()
    assert "hunter2" not in repr(draft)


@pytest.mark.parametrize("name", NAMES)
def test_a_first_dry_run_needs_nothing_more(name: str, tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    write_new(path, draft_of(name).text)
    units = dry_run(path)
    assert len(units) >= 8
    assert not any("hunter2" in unit.text for unit in units)


def dry_run(path: Path) -> list[RenderedUnit]:
    """Every unit of the file's only sweep, and its secrets resolvable once they are exported."""
    inventory = load_inventory(path)
    plan = build_plan(inventory, None, Changes())
    host = inventory.hosts[plan.host]
    environ = {ref.env or "": "x" for ref in host.server.secrets.values()}
    secret_files(host.server, environ)
    templates = Templates(cwd=path.parent)
    return [
        render(host, launch.config, run_id="r-1", launch_id=launch.id, templates=templates)
        for launch in plan.launches
    ]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    write_new(path, "one\n")
    with pytest.raises(UsageError, match=r"inventory\.yaml exists already"):
        write_new(path, "two\n")
    assert path.read_text() == "one\n"
    with pytest.raises(UsageError, match="cannot be written"):
        write_new(tmp_path / "no" / "where", "x")


@pytest.mark.parametrize("given", ["sglang", "sglang.service", "sglang.container"])
def test_names_of_units(given: str) -> None:
    assert unit_name(given) == "sglang.service"
