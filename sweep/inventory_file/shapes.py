"""From plain values to the inventory's frozen ones: which keys there are and what each holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from pydantic import BaseModel, ValidationError

from sweep.inventory import FlagValue
from sweep.inventory_file.report import Report
from sweep.inventory_file.yaml_tree import Path, Unreadable
from sweep.naming import did_you_mean
from sweep.sglang.spelling import shown

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Model = TypeVar("Model", bound=BaseModel)
Values = Mapping[str, object]

_MISSING = {
    "ServerSpec.command": "write the words that start SGLang, such as "
    "[/opt/venv/bin/sglang, serve]",
    "command": 'write what runs your script, such as [python3, /root/bench.py, "{concurrency}"]',
    "host": "write the name of one of the hosts",
    "steps": "write steps: 1..10",
    "concurrency": "write concurrency: [1, 4, 16]",
    "file": "write a workload's name, {file: PATH} or {input_tokens: N, output_tokens: N}",
}
_WANTED = {
    "string_type": ("text", "write text, in quotes if need be"),
    "int_type": ("a whole number", "write one"),
    "float_type": ("a number", "write one"),
    "bool_type": ("true or false", "write one of the two"),
    "tuple_type": ("a list", "write [one, another]"),
    "mapping_type": ("a mapping", "write key: value lines"),
    "dict_type": ("a mapping", "write key: value lines"),
}


def mapping(report: Report, path: Path, value: object) -> Values | None:
    """`value` if it is a mapping, without what could not be read; else None and a problem."""
    if isinstance(value, Mapping):
        return {key: v for key, v in value.items() if not has_unreadable(v)}
    if not isinstance(value, Unreadable):
        report.add(path, f"is {kind_of(value)}, not a mapping; write key: value lines")
    return None


def has_unreadable(value: object) -> bool:
    """Whether a value is one that could not be read, or a list with one in it."""
    if isinstance(value, list):
        return any(has_unreadable(item) for item in value)
    return isinstance(value, Unreadable)


def frozen(value: object) -> object:
    """Lists as tuples, all the way down."""
    return tuple(frozen(item) for item in value) if isinstance(value, list) else value


def build(report: Report, path: Path, model: type[Model], values: Values) -> Model | None:
    """`values` as a model; else None and a problem for each key that does not fit."""
    try:
        return model.model_validate({key: frozen(value) for key, value in values.items()})
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_context=True):
            where = (*path, *(part for part in detail["loc"] if part != "[key]"))
            if not report.touches(where):
                report.add(where, _wording(detail, model))
        return None


def flag_values(report: Report, path: Path, value: object) -> dict[str, FlagValue]:
    """A mapping whose values are words, numbers, truth values or lists of them."""
    found: dict[str, FlagValue] = {}
    for name, given in (mapping(report, path, value) or {}).items():
        items = given if isinstance(given, list) else [given]
        if all(isinstance(item, str | int | float) for item in items):
            found[name] = cast("FlagValue", frozen(given))
        else:
            report.add(
                (*path, name), "is neither text, number, true, false nor a list of these; write one"
            )
    return found


def kind_of(value: object) -> str:
    """A value in words: `the number 3`, `'abc'`, `a list`."""
    if isinstance(value, bool):
        return shown(value).strip("'")
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    return shown(value)


def _wording(detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind, value, limits = detail["type"], detail["input"], detail.get("ctx", {})
    key = str(detail["loc"][-1])
    text = f"is {kind_of(value)}: {detail['msg'].replace('Input', 'it')}; write another value"
    if kind == "extra_forbidden":
        text = f"is no key here; {did_you_mean(key, model.model_fields)}"
    elif kind == "missing":
        do = _MISSING.get(f"{model.__name__}.{key}") or _MISSING.get(key, "write it")
        text = f"is missing; {do}"
    elif kind == "literal_error":
        choices = limits["expected"].replace(" or ", ", ").replace("'", "")
        text = f"is {kind_of(value)}, not one of {choices}; write one of these"
    elif kind in _WANTED:
        wanted, do = _WANTED[kind]
        bare = isinstance(value, str) and wanted.endswith("number") and value.isdecimal()
        text = f"is {kind_of(value)}, not {wanted}; {'write it without quotes' if bare else do}"
    elif kind in ("too_short", "string_too_short"):
        text = "is empty; write something"
    for limit, words in (("gt", "not above"), ("ge", "below"), ("le", "above")):
        if limit in limits:
            text = f"is {value}, which is {words} {limits[limit]:g}; write another number"
    return text
