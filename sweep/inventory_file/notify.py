"""`notify:` of a sweep: whom to tell how a run goes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from sweep.inventory import NOTIFY_WORDS, NotifySpec, SecretRef
from sweep.inventory_file.report import Report
from sweep.inventory_file.server_rules import control_problem
from sweep.inventory_file.shapes import build, kind_of, mapping
from sweep.inventory_file.yaml_tree import Path
from sweep.naming import did_you_mean

_WEBHOOK_FORM = "write an http or https URL, {env: NAME} or {file: PATH}"


def read_notify(report: Report, path: Path, value: object) -> tuple[NotifySpec, ...]:
    """One mapping or a list of them; what does not fit is in the report."""
    items = value if isinstance(value, list) else [value]
    found = []
    for index, item in enumerate(items):
        where = (*path, index) if isinstance(value, list) else path
        spec = _read_one(report, where, item)
        if spec is not None:
            found.append(spec)
    return tuple(found)


def _read_one(report: Report, path: Path, value: object) -> NotifySpec | None:
    given = mapping(report, path, value)
    if given is None:
        return None
    values = dict(given)
    if isinstance(values.get("webhook"), Mapping):
        values["webhook"] = build(
            report, (*path, "webhook"), SecretRef, mapping(report, path, values["webhook"]) or {}
        )
    elif "webhook" in values and not isinstance(values["webhook"], str):
        kind = kind_of(values["webhook"])
        report.add((*path, "webhook"), f"is {kind}, not a URL; {_WEBHOOK_FORM}")
    if report.within(path):
        return None
    spec = build(report, path, NotifySpec, values)
    for where, text in _problems(spec) if spec else ():
        report.add((*path, *where), text)
    return None if report.within(path) else spec


def _problems(spec: NotifySpec) -> Iterator[tuple[Path, str]]:
    if bool(spec.command) == (spec.webhook is not None):
        yield (), "names not exactly one of command and webhook; write one of the two"
    for index, word in enumerate(spec.command):
        if control_problem(word):
            yield ("command", index), "holds a line break or NUL; write it on one line"
        for name in re.findall(r"\{([A-Za-z_]+)\}", word):
            if name not in NOTIFY_WORDS:
                known = did_you_mean(name, NOTIFY_WORDS)
                yield ("command", index), f"{{{name}}} is filled in by nobody; {known}"
    if isinstance(spec.webhook, str) and not is_url(spec.webhook):
        # Never repeated: such a URL is often a password.
        yield ("webhook",), f"is no URL that can be posted to; {_WEBHOOK_FORM}"
    if isinstance(spec.webhook, SecretRef) and (spec.webhook.env is None) == (
        spec.webhook.file is None
    ):
        yield ("webhook",), "names not exactly one of env and file; write one of the two"


def is_url(text: str) -> bool:
    """Whether it is an http or https URL with a host, of characters that a URL may have."""
    if not re.fullmatch(r"[!-~]+", text.strip()):
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False
