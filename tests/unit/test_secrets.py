"""Secrets are read here, now, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sweep.errors import InventoryError
from sweep.inventory import SecretRef, ServerSpec
from sweep.unit import secret_files, secret_values


def server(**secrets: SecretRef) -> ServerSpec:
    named = {
        name.replace("_", "-") if name.islower() else name: ref for name, ref in secrets.items()
    }
    return ServerSpec(command=("/bin/true",), secrets=named)


def test_capitals_go_to_the_environment_the_rest_to_sglangs_config(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-1\n")
    spec = server(HF_TOKEN=SecretRef(env="HF"), api_key=SecretRef(file=str(tmp_path / "key")))
    files = secret_files(spec, {"HF": 'a"$b'})
    assert files.env == b'HF_TOKEN="a\\"\\$b"\n'
    assert files.config == b'"api-key": "sk-1"\n'
    assert "sk-1" not in repr(files)


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key").write_text("x")
    assert secret_values(server(api_key=SecretRef(file="~/key"))) == {"api-key": "x"}


def test_no_secrets_no_files() -> None:
    files = secret_files(server(), {})
    assert files.env is None
    assert files.config is None


@pytest.mark.parametrize(
    "value", ["0123", "1e3", "no", "{a: b}", "é☃😀", "a'b\"c", "#x", "x: y", "~", "*a"]
)
def test_sglang_reads_the_text_that_was_meant(value: str) -> None:
    files = secret_files(server(admin_api_key=SecretRef(env="K")), {"K": value})
    assert files.config is not None
    assert files.config.isascii()
    assert yaml.safe_load(files.config) == {"admin-api-key": value}


@pytest.mark.parametrize(
    ("ref", "environ", "says"),
    [
        (SecretRef(env="K"), {}, "the variable K is not set here; export it"),
        (SecretRef(env="K"), {"K": ""}, "the variable K is empty"),
        (SecretRef(env="K"), {"K": "hunter2\nx"}, "holds more than one line"),
        (SecretRef(env="K"), {"K": "-hunter2"}, "beginning with -"),
        (SecretRef(env="K"), {"K": "hunter2 "}, "no HTTP header takes it"),
        (SecretRef(env="K"), {"K": "hunter2é"}, "no HTTP header takes it"),
        (SecretRef(file="/nowhere/key"), {}, "cannot read /nowhere/key on this machine: No such"),
    ],
)
def test_errors_name_the_key_and_not_the_value(
    ref: SecretRef, environ: dict[str, str], says: str
) -> None:
    with pytest.raises(InventoryError, match=r"^server\.secrets\.api-key: ") as caught:
        secret_files(server(api_key=ref), environ)
    assert says in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_file_of_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    with pytest.raises(InventoryError, match="is not UTF-8"):
        secret_files(server(api_key=SecretRef(file=str(tmp_path / "key"))), {})
