"""Secrets: read on this machine when a launch is installed, carried to the host in two files.

Names in capitals become lines of a 0600 EnvironmentFile, the others keys of a 0600 YAML file for
SGLang's `--config`. Neither is ever part of a unit, a command line or a record.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from sweep.errors import InventoryError
from sweep.inventory import SecretRef, ServerSpec
from sweep.unit.quoting import environment_file_line

_CAPITALS = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True)
class SecretFiles:
    """The bytes of `secrets.env` and of `secrets.yaml`; None where no file is needed."""

    env: bytes | None = field(repr=False)
    config: bytes | None = field(repr=False)


def is_variable(name: str) -> bool:
    """Does this secret go to the environment? Else it is a flag."""
    return bool(_CAPITALS.fullmatch(name))


def secret_values(server: ServerSpec, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Every secret of the server by its name, read now.

    `environ` is this process's environment unless given. Raises InventoryError naming the key of
    a secret that is not there, empty, of more than one line, or an API key that no header takes.
    """
    here = os.environ if environ is None else environ
    values = {
        name: _read(ref, f"server.secrets.{name}", here) for name, ref in server.secrets.items()
    }
    if problem := header_problem(values.get("api-key", "")):
        raise InventoryError(f"server.secrets.api-key: the value {problem}")
    return values


def header_problem(value: str) -> str | None:
    """Why a key cannot be sent in an HTTP header; the key itself is not told."""
    if value.isascii() and value.isprintable() and value == value.strip():
        return None
    return "holds spaces at an end, a line break, or what is not ASCII: no HTTP header takes it"


def secret_value(ref: SecretRef, path: str) -> str:
    """One secret, read now. Raises InventoryError, which names `path`, when it cannot be."""
    return _read(ref, path, os.environ)


def secret_files(server: ServerSpec, environ: Mapping[str, str] | None = None) -> SecretFiles:
    """Both files' bytes. Raises InventoryError like `secret_values`.

    SGLang's `--config` (0.5.3.post3 has it, 0.5.1 not; srt/server_args_config_parser.py, in 0.5.23
    under srt/utils/): a YAML mapping, each key becomes `--key` and its value the next word,
    before the words of the command line. `ps` shows the command line, which stays as it was.
    """
    values = secret_values(server, environ)
    lines = [
        environment_file_line(name, value, f"server.secrets.{name}")
        for name, value in values.items()
        if is_variable(name)
    ]
    flags = {name: value for name, value in values.items() if not is_variable(name)}
    for name, value in flags.items():
        if value.startswith("-"):
            raise InventoryError(
                f"server.secrets.{name}: SGLang takes a value beginning with - for another flag"
            )
    return SecretFiles(
        env=("\n".join(lines) + "\n").encode() if lines else None,
        config=_yaml(flags) if flags else None,
    )


def _yaml(flags: Mapping[str, str]) -> bytes:
    """Quoted, so that a key of digits stays text; pure ASCII, so that no locale misreads it."""
    text: str = yaml.safe_dump(
        dict(flags), default_style='"', allow_unicode=False, width=float("inf"), sort_keys=False
    )
    return text.encode("ascii")


def _read(ref: SecretRef, path: str, environ: Mapping[str, str]) -> str:
    if ref.env is not None:
        if ref.env not in environ:
            raise InventoryError(f"{path}: the variable {ref.env} is not set here; export it")
        value, source = environ[ref.env], f"the variable {ref.env}"
    else:
        value, source = _read_file(ref.file or "", path), f"the file {ref.file}"
    if not value:
        raise InventoryError(f"{path}: {source} is empty")
    if "\n" in value or "\r" in value or "\0" in value:
        raise InventoryError(f"{path}: {source} holds more than one line; a secret is one line")
    return value


def _read_file(name: str, path: str) -> str:
    """The file's text without the newline that ends it."""
    try:
        text = Path(name).expanduser().read_bytes().decode()
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InventoryError(f"{path}: cannot read {name} on this machine: {reason}") from error
    except UnicodeDecodeError as error:
        raise InventoryError(f"{path}: {name} is not UTF-8 text") from error
    return text.removesuffix("\n").removesuffix("\r")
