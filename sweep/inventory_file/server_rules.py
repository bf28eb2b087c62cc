"""What must hold of the SGLang server of a host beyond the shape of its keys. Pure.

What a unit can hold is the business of `unit`: its own checks are asked here, so that a value it
would refuse is refused with the line of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from sweep.errors import InventoryError
from sweep.inventory import Scalar, SecretRef, ServerSpec
from sweep.inventory_file.yaml_tree import Path
from sweep.sglang.flags import REMOVED, flags
from sweep.sglang.spelling import OWNED, name_problem, shown
from sweep.unit.directives import user_directives
from sweep.unit.quoting import environment_assignment, exec_word, executable, rest_of_line
from sweep.unit.secrets import is_variable

Problems = Iterator[tuple[Path, str]]

_ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?|[0-9]+")
_SECRET_NAME = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_KEY|ACCESS_KEY|PRIVATE_KEY)$"
)


def control_problem(text: str) -> bool:
    """Whether text holds a line break, NUL or another control character."""
    return any(ord(c) < 32 or ord(c) == 127 for c in text)


def server_problems(server: ServerSpec, *, scope: str) -> Problems:
    """Every rule over one server whose keys have the right shape; `scope` is the host's."""
    for rule in (_command, _paths, _unit, _environment, _secrets):
        yield from rule(server)
    if not server.args.get("model-path"):
        yield ("args",), "model-path is missing; write the model's path or name"
    for key in ("user", "group"):
        account = getattr(server, key)
        if account is not None and not _ACCOUNT.fullmatch(account):
            yield (key,), f"{shown(account)} is no account; write a name such as sglang"
        elif account is not None and scope == "user":
            yield (
                (key,),
                "cannot be with scope: user, where everything runs as the login user; remove it",
            )


def _command(server: ServerSpec) -> Problems:
    words = server.command
    start = next((i for i, w in enumerate(words) if w.split("/")[-1].startswith("sglang")), 0)
    for index, word in enumerate(words):
        refused = _refusal(exec_word if index else executable, word)
        name = word[2:].split("=")[0].replace("_", "-")
        if refused:
            yield ("command", index), refused
        elif index > start and word.startswith("--") and name and _is_ours(name):
            yield (
                ("command", index),
                f"{shown(word)} is a flag the tool must know of; write it under server.args",
            )


def _is_ours(name: str) -> bool:
    """A flag of SGLang's, or argparse would take it for one; but for those that only old ones have,
    which can be written nowhere else."""
    return name not in REMOVED and (
        name in OWNED or any(known.startswith(name) for known in flags())
    )


def _paths(server: ServerSpec) -> Problems:
    for key in ("working_directory", "env_file"):
        value = getattr(server, key)
        if value is None:
            continue
        refused = _refusal(rest_of_line, value)
        if not value.startswith("/"):
            refused = f"{shown(value)} is no absolute path; write it from / on"
        if refused:
            yield (key,), refused


def _unit(server: ServerSpec) -> Problems:
    for name, value in server.unit.items():
        refused = _refusal(_directive, name, value)
        if value in ((), ""):
            refused = "has no value; write one or remove it"
        if refused:
            yield ("unit", name), refused


def _environment(server: ServerSpec) -> Problems:
    for name, value in server.env.items():
        path: Path = ("env", name)
        refused = _refusal(environment_assignment, name, value)
        if _SECRET_NAME.search(name.upper()):
            yield (
                path,
                "would stand in the unit for all to read; write it under secrets, as "
                f"{name}: {{env: {name}}}",
            )
        elif refused:
            yield path, refused
        elif name in server.secrets:
            yield path, "stands under secrets as well; remove one of the two"


def _secrets(server: ServerSpec) -> Problems:
    for name, reference in server.secrets.items():
        path: Path = ("secrets", name)
        problem = _secret_name_problem(name, server) or _reference_problem(reference)
        if problem:
            yield path, problem
    if "config" in server.args and not all(is_variable(name) for name in server.secrets):
        yield (
            ("args", "config"),
            "cannot be with secret flags, which need SGLang's only --config; write the file's "
            "flags under args",
        )


def _secret_name_problem(name: str, server: ServerSpec) -> str | None:
    if is_variable(name):
        return None
    flag = flags().get(name)
    if name_problem(name):
        return (
            "is neither a variable (capitals, as HF_TOKEN) nor a flag (as api-key); write one of "
            "these"
        )
    if flag is not None and (flag.kind != "str" or flag.words):
        return "is a flag that takes no text; write it under args"
    if name in server.args:
        return "stands under args as well; remove it there"
    return None


def _reference_problem(reference: SecretRef) -> str | None:
    if (reference.env is None) == (reference.file is None):
        return "needs one of env and file; write {env: NAME} or {file: PATH}"
    if reference.env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", reference.env):
        return "names no environment variable; write {env: NAME} with NAME as in HF_TOKEN"
    if reference.file is not None and (
        not reference.file.startswith(("/", "~/")) or control_problem(reference.file)
    ):
        return "names no path from / or ~/ on; write {file: ~/.config/sglang.key} or so"
    return None


def _directive(name: str, value: Scalar | tuple[Scalar, ...], _path: str) -> None:
    user_directives({name: value})


def _refusal(check: Callable[..., object], *values: object) -> str | None:
    """What a check of `unit`, called with values and a path, has against them; without the path."""
    try:
        check(*values, "x")
    except InventoryError as error:
        text = str(error).split(": ", 1)[1]
        if text.startswith("not allowed: "):
            return f"is not allowed ({text.removeprefix('not allowed: ')}); remove it"
        return text if ";" in text else f"{text}; write another value"
    return None
