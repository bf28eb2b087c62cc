"""Every inventory that is wrong is refused with the file, the line, the key and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sweep.errors import InventoryError
from sweep.inventory_file import load_inventory
from tests.inventory.cases import Case, bad_cases, base_text

CASES = list(bad_cases())
LINE = re.compile(r"inventory\.yaml:[1-9][0-9]*: .+: .+; .+")


def refusal(text: str | bytes, directory: Path) -> list[str]:
    """The lines of the error, [] when the file loads."""
    path = directory / "inventory.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    try:
        load_inventory(path)
    except InventoryError as error:
        return [line.replace(str(path), "inventory.yaml") for line in str(error).split("\n")]
    return []


def test_the_base_of_the_table_loads(tmp_path: Path) -> None:
    assert refusal(base_text(), tmp_path) == []


def test_the_table_has_each_case_once() -> None:
    assert len({case.name for case in CASES}) == len(CASES) > 100


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_inventory(case: Case, tmp_path: Path) -> None:
    lines = refusal(case.text, tmp_path)
    assert lines == [f"inventory.yaml:{line}" for line in case.refusal]
    for line in lines:
        assert LINE.fullmatch(line)


def test_a_file_that_cannot_be_read_or_is_not_text(tmp_path: Path) -> None:
    with pytest.raises(InventoryError) as caught:
        load_inventory(tmp_path / "none.yaml")
    assert str(caught.value) == (
        f"there is no {tmp_path}/none.yaml; `sweep -i {tmp_path}/none.yaml init` writes one"
    )
    with pytest.raises(InventoryError, match=r"cannot be read \(Is a directory\)"):
        load_inventory(tmp_path)
    assert refusal(b"hosts:\n  \xff: {}\n", tmp_path) == [
        "inventory.yaml:2: YAML: is not UTF-8 text here; save the file as UTF-8"
    ]
    assert LINE.fullmatch(refusal("[" * 5000, tmp_path)[0])


def test_a_mistake_below_an_anchor_is_told_once(tmp_path: Path) -> None:
    text = """\
hosts:
  one: {address: a, server: &server {command: [/bin/x], args: {portt: 1}}}
  two: {address: b, server: *server}
  three: {address: c, server: {command: [/bin/x], port: x}}
  four: {address: c, server: {<<: *server, port: x}}
sweeps:
  s: {host: one, steps: 1, concurrency: 1}
"""
    told = [line.split(": ")[1] for line in refusal(text, tmp_path)]
    assert [path for path in told if "port" in path] == [
        "hosts.one.server.args.portt",
        "hosts.three.server.port",
        "hosts.four.server.port",
    ]


def test_aliases_cannot_make_it_huge(tmp_path: Path) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert refusal("\n".join(rows), tmp_path) == [
        "inventory.yaml:1: YAML: holds too many values; use fewer aliases"
    ]


def test_no_message_holds_a_secret(tmp_path: Path) -> None:
    text = base_text().replace("LANG: C", "LANG: C\n        HF_TOKEN: hf_verysecret")
    text = text.replace("args:", "secrets: {api-key: sk-verysecret}\n      args:")
    text = text.replace("speculative-eagle-topk: 1", "admin-api-key: sk-verysecret")
    lines = refusal(text, tmp_path)
    assert len(lines) == 3
    assert "verysecret" not in "\n".join(lines)


WORDS = st.sampled_from([
    "hosts", "sweeps", "demo", "gpu", "server", "args", "transport", "steps", "1..3", "no", "1e3",
    "010", "&a", "*a", "<<", "~", "- ", "{", "}", "[", "]", ": ", ", ", "\n", "\n  ", "\n    ",
    "\t", "'", '"', "!x", "|", "> ", "#", "---\n", "%", "\u2028", "\x85", "\\0", "😀", "1.5",
    "true",
])  # fmt: skip


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example('hosts: {a: {"\u2028": 1}}\nsweeps: {}')
@example('hosts: {"a\\nb": {transport: demo}}\nsweeps: {"\\0": 1}')
@example('hosts: {a: {server: {args: {"x\\ny": 1}}}}\nsweeps: {b: {params: {"": [1]}}}')
@example("? [a]\n: {b: 1}")
@example("1" * 5000 + ": " + "1" * 5000)
@given(st.text() | st.lists(WORDS, max_size=60).map("".join))
def test_any_text_loads_or_is_refused_in_form(tmp_path: Path, text: str) -> None:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    for line in refusal(data, tmp_path):
        assert LINE.fullmatch(line)
        assert line.isprintable()


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3)
)
KEYS = st.sampled_from([
    "hosts.gpu.server", "hosts.gpu.production", "hosts.gpu.server.args", "hosts.gpu.server.unit",
    "hosts.gpu.server.env", "hosts.gpu.server.secrets", "hosts.gpu.server.command",
    "hosts.gpu.address", "hosts.gpu.unit", "hosts.gpu.production_health", "hosts.gpu.host_key",
    "hosts.gpu.server.args.tp-size", "hosts.gpu.server.args.log-level",
    "hosts.gpu.server.args.speculative-eagle-topk", "hosts.gpu.server.args.speculative-algorithm",
    "hosts.gpu.server.args.speculative-num-draft-tokens", "sweeps.night.steps",
    "sweeps.night.concurrency", "sweeps.night.params", "sweeps.night.benchmark",
    "sweeps.night.host", "sweeps.night.params.speculative-eagle-topk",
    "sweeps.night.benchmark.command",
])  # fmt: skip


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=2))
def test_any_value_anywhere_loads_or_is_refused_in_form(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    document = yaml.safe_load(base_text())
    for path, value in changes.items():
        *above, last = path.split(".")
        place = document
        for key in above:
            place = place.setdefault(key, {}) if isinstance(place, dict) else {}
        if isinstance(place, dict):
            place[last] = value
    for line in refusal(yaml.safe_dump(document, allow_unicode=True), tmp_path):
        assert LINE.fullmatch(line)
        assert line.isprintable()
