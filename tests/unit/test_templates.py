"""Where templates are looked up, and what their authors' mistakes look like."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sweep.errors import InventoryError
from sweep.inventory import HostSpec, ServerSpec
from sweep.plan import ServerConfig
from sweep.unit import RenderedUnit, Templates, render
from sweep.unit.templates import TEMPLATE, packaged_templates

SERVER = ServerSpec(command=("/opt/venv/bin/python", "-m", "sglang.launch_server"))
HOST = HostSpec(production=("sglang.service",), server=SERVER)
PACKAGED = (packaged_templates() / TEMPLATE).read_text()


def rendered(templates: Templates) -> RenderedUnit:
    config = ServerConfig(args=(("tp", 4),), env=())
    return render(HOST, config, run_id="r-1", launch_id="l-01", templates=templates)


def written(directory: Path, text: str) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / TEMPLATE).write_text(text)
    return directory


def test_lookup_order(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    assert rendered(Templates(cwd=here)).text.startswith("# sglang-sweep.service")
    written(here / "templates", "# from ./templates\n" + PACKAGED)
    assert rendered(Templates(cwd=here)).text.startswith("# from ./templates")
    given = written(tmp_path / "given", "# from --templates\n" + PACKAGED)
    assert rendered(Templates(given, cwd=here)).text.startswith("# from --templates")


def test_a_directory_that_was_asked_for_must_hold_a_template(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match=r"--templates .*: there is no sglang\.service\.j2"):
        Templates(tmp_path)


def test_a_template_may_extend_the_packaged_one(tmp_path: Path) -> None:
    text = PACKAGED.replace("[Service]\n", "[Service]\nNice=-5\n")
    assert "\nNice=-5\n" in rendered(Templates(written(tmp_path, text))).text


BROKEN = [
    ("one\n{{ nothing_here }}\n", 2, "'nothing_here' is undefined"),
    ("one\ntwo\n{% if %}\n", 3, "Expected an expression"),
    ("{% for x in y %}\n", 1, "end of template"),
    ("one\n{{ 1 / 0 }}\n", 2, "division by zero"),
    ("{{ unit | no_such_filter }}\n", 1, "No filter named"),
]


@pytest.mark.parametrize(("text", "line", "says"), BROKEN)
def test_a_mistake_is_shown_with_file_and_line(
    tmp_path: Path, text: str, line: int, says: str
) -> None:
    directory = written(tmp_path, text)
    with pytest.raises(InventoryError) as caught:
        rendered(Templates(directory))
    assert str(caught.value).startswith(f"{directory / TEMPLATE}:{line}: ")
    assert says in str(caught.value)


def test_a_mistake_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    directory = written(tmp_path, "one\n{% include 'more.j2' %}\n")
    (directory / "more.j2").write_text("\n\n{{ gone }}\n")
    with pytest.raises(InventoryError, match=r"more\.j2:3: 'gone' is undefined"):
        rendered(Templates(directory))


def test_a_file_that_is_not_there_to_include(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match=r"no template more\.j2 to include"):
        rendered(Templates(written(tmp_path, "{% include 'more.j2' %}\n")))


def test_bytes_are_no_template(tmp_path: Path) -> None:
    (tmp_path / TEMPLATE).write_bytes(b"\xff\xfe")
    with pytest.raises(InventoryError, match="is not UTF-8"):
        rendered(Templates(tmp_path))


LOST = [
    (r"ExecStart=.*", "", "its unit lacks `ExecStart=/opt/venv/bin/python"),
    (r"ExecStart=.*", "ExecStart=/bin/true", "its unit lacks `ExecStart="),
    (r"(ExecStart=.*)", r"\1\nExecStart=/bin/true", "has ExecStart= more than once"),
    (r"Conflicts=.*", "", "lacks `Conflicts=sglang.service` in [Unit]"),
    (r"After=.*", "", "lacks `After=sglang.service` in [Unit]"),
    (r"Environment=.*", "", "lacks `Environment=PYTHONUNBUFFERED=1`"),
    (r"(ExecStart=.*)", r"\1\nRestart=always", "has Restart= more than once"),
    (r"(ExecStart=.*)", r"\1\nStandardOutput=null", "`StandardOutput=null` is not allowed: the"),
    (r"(ExecStart=.*)", r"\1\n[Install]\nWantedBy=x.target", "`WantedBy=x.target` is not"),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "instead", "says"), LOST)
def test_what_the_tool_relies_on_must_stay(
    tmp_path: Path, pattern: str, instead: str, says: str
) -> None:
    text, count = re.subn(pattern, instead, PACKAGED)
    assert count
    with pytest.raises(InventoryError) as caught:
        rendered(Templates(written(tmp_path, text)))
    assert says in str(caught.value)


def test_production_units_may_share_a_line(tmp_path: Path) -> None:
    text = PACKAGED.replace("After={{ name }}", "After=network.target {{ name }}")
    assert "network.target sglang.service" in rendered(Templates(written(tmp_path, text))).text
