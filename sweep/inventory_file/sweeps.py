"""One sweep of the file: its keys, the forms they may take, and its rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar, cast

from sweep.benchmarks import CLIENTS, Workload
from sweep.errors import InventoryError
from sweep.inventory import (
    WORKLOADS,
    Benchmark,
    BuiltinBenchmark,
    ClientBenchmark,
    CommandBenchmark,
    FileWorkload,
    FlagValue,
    HostSpec,
    SweepSpec,
    SyntheticWorkload,
)
from sweep.inventory_file.forms import (
    Concurrency,
    checked_concurrency,
    checked_steps,
    parse_concurrency,
    parse_steps,
)
from sweep.inventory_file.notify import read_notify
from sweep.inventory_file.report import Report
from sweep.inventory_file.server_rules import control_problem
from sweep.inventory_file.shapes import build, flag_values, kind_of, mapping
from sweep.inventory_file.yaml_tree import Path
from sweep.matrix import too_many
from sweep.naming import did_you_mean, name_problem
from sweep.sglang.args import ADAPTIVE, flag_complaints
from sweep.sglang.flags import canonical
from sweep.sglang.spelling import shown
from sweep.workloads import read_file

_PLACEHOLDERS = ("concurrency", "url", "port")
Sender = TypeVar("Sender", BuiltinBenchmark, ClientBenchmark)
_FOUND_IN_FILES = {"fingerprint", "turns"}


def read_sweep(
    report: Report, name: str, value: object, hosts: Mapping[str, HostSpec | None]
) -> SweepSpec | None:
    """The sweep `name`, or None with its problems in the report. A host that is None has some."""
    path: Path = ("sweeps", name)
    problem = name_problem(name)
    if problem:
        report.add(path, problem)
    given = mapping(report, path, value)
    if given is None:
        return None
    values = dict(given)
    if "steps" in values:
        values["steps"] = _steps(report, (*path, "steps"), values["steps"])
    if "concurrency" in values:
        values["concurrency"] = _concurrency(report, (*path, "concurrency"), values["concurrency"])
    if "params" in values:
        values["params"] = _params(report, (*path, "params"), values["params"])
    if "notify" in values:
        values["notify"] = read_notify(report, (*path, "notify"), values["notify"])
    if "benchmark" in values:
        values["benchmark"] = _benchmark(report, (*path, "benchmark"), values["benchmark"])
    host = values.get("host")
    if isinstance(host, str) and hosts and host not in hosts:
        report.add((*path, "host"), f"{shown(host)} is no host here; {did_you_mean(host, hosts)}")
    sweep = build(report, path, SweepSpec, {k: v for k, v in values.items() if v is not None})
    if sweep is None or report.within(path):
        return None
    for where, text in _rules(sweep, hosts.get(sweep.host)):
        report.add((*path, where), text)
    return None if report.within(path) else sweep


def _rules(sweep: SweepSpec, host: HostSpec | None) -> Iterator[tuple[str, str]]:
    if problem := too_many(sweep):
        yield "params", problem
    if host is not None and (problem := _too_long(sweep.benchmark, host)):
        yield "benchmark", problem
    moved = host is not None and host.server.args.get(ADAPTIVE) is True
    if moved and ADAPTIVE not in sweep.params and len([n for n in sweep.steps if n > 0]) > 1:
        yield (
            "steps",
            f"vary, but {ADAPTIVE} of the host moves them at run time, so that the launches would "
            "hardly differ (SGLang 0.5.11 and newer); write one steps value, or remove the flag",
        )


def _too_long(benchmark: Benchmark, host: HostSpec) -> str | None:
    limit = host.server.args.get("context-length")
    if isinstance(benchmark, CommandBenchmark) or type(limit) is not int:
        return None
    synthetic = benchmark.workload
    prompt = synthetic.input_tokens if isinstance(synthetic, SyntheticWorkload) else 1
    if prompt + benchmark.max_tokens <= limit:
        return None
    return (
        f"asks for {prompt + benchmark.max_tokens} tokens with each request, more than the host's "
        f"context-length of {limit}; write less"
    )


def _steps(report: Report, path: Path, value: object) -> tuple[int, ...] | None:
    try:
        if isinstance(value, str):
            return parse_steps(value)
        numbers = _numbers(report, path, value, "write 1..10 or [0, 1, 3]")
        return None if numbers is None else checked_steps(cast("Sequence[int]", numbers))
    except ValueError as error:
        report.add(path, str(error))
        return None


def _concurrency(report: Report, path: Path, value: object) -> tuple[Concurrency, ...] | None:
    try:
        if isinstance(value, str):
            return parse_concurrency(value)
        numbers = _numbers(report, path, value, "write [1, 4, 16, max]", word="max")
        if numbers is None:
            return None
        return checked_concurrency(cast("Sequence[Concurrency]", numbers))
    except ValueError as error:
        report.add(path, str(error))
        return None


def _numbers(
    report: Report, path: Path, value: object, do: str, word: str | None = None
) -> tuple[object, ...] | None:
    """One whole number or a list of them, `word` among them; else None and a problem."""
    for index, item in enumerate(value if isinstance(value, list) else [value]):
        if item != word and (isinstance(item, bool) or not isinstance(item, int)):
            where = (*path, index) if isinstance(value, list) else path
            report.add(where, f"is {kind_of(item)}, not a whole number; {do}")
            return None
    return tuple(value) if isinstance(value, list) else (value,)


def _params(report: Report, path: Path, value: object) -> dict[str, tuple[FlagValue, ...]]:
    found: dict[str, tuple[FlagValue, ...]] = {}
    written: dict[str, str] = {}
    for name, given in (mapping(report, path, value) or {}).items():
        where, spelling = (*path, name), canonical(name)
        if not isinstance(given, list) or not given:
            report.add(where, f"is {kind_of(given)}, not a list of values; write [one, another]")
            continue
        if spelling in written:
            report.add(where, f"is the flag '{written[spelling]}' once more; remove one")
            continue
        written[spelling] = name
        values = tuple(flag_values(report, where, dict(enumerate(given))).values())
        found[spelling] = values
        if problem := _values_problem(name, values):
            report.add(where, problem)
    return found


def _values_problem(name: str, values: tuple[FlagValue, ...]) -> str | None:
    for value in values:
        for complaint in flag_complaints({name: value}, absent=True):
            return complaint.text
    texts = [shown(value) for value in values]
    twice = next((text for i, text in enumerate(texts) if text in texts[:i]), None)
    return f"has {twice} twice; write it once" if twice else None


def _benchmark(report: Report, path: Path, value: object) -> Benchmark | None:
    given = mapping(report, path, value)
    if given is None:
        return None
    kind = given.get("kind", "builtin")
    kinds = ("builtin", *CLIENTS, "command")
    if kind not in kinds:
        if not report.touches((*path, "kind")):
            text = f"is {kind_of(kind)}, not one of {', '.join(kinds)}; write one of these"
            report.add((*path, "kind"), text)
        return None
    benchmark: Benchmark | None
    if kind == "builtin":
        benchmark = _load(report, path, BuiltinBenchmark, given)
    elif kind in CLIENTS:
        benchmark = _load(report, path, ClientBenchmark, given)
    else:
        benchmark = build(report, path, CommandBenchmark, given)
    if benchmark is not None:
        for where, text in _benchmark_problems(benchmark):
            report.add((*path, *where), text)
    return benchmark


def _load(
    report: Report, path: Path, model: type[Sender], given: Mapping[str, object]
) -> Sender | None:
    """A benchmark that sends a workload."""
    values = dict(given)
    if "workload" in values:
        workload = _workload(report, (*path, "workload"), values.pop("workload"))
        if workload is not None:
            values["workload"] = workload
    if isinstance(values.get("workload"), SyntheticWorkload) and "max_tokens" in values:
        report.add((*path, "max_tokens"), "is output_tokens of the workload already; remove it")
    return build(report, path, model, values)


def _workload(report: Report, path: Path, value: object) -> Workload | None:
    """A name, {file: ...} with what the file holds, or {input_tokens: ..., output_tokens: ...}."""
    if isinstance(value, str):
        if value in WORKLOADS:
            return value
        report.add(path, f"{shown(value)} is no workload; {did_you_mean(value, WORKLOADS)}")
        return None
    given = mapping(report, path, value)
    if given is None:
        return None
    if "input_tokens" in given or "output_tokens" in given:
        return build(report, path, SyntheticWorkload, given)
    return _file(report, path, given)


def _file(report: Report, path: Path, given: Mapping[str, object]) -> FileWorkload | None:
    for name in _FOUND_IN_FILES & given.keys():
        report.add((*path, name), "is found in the file; remove it")
    spec = build(report, path, FileWorkload, given)
    if spec is None or report.within(path):
        return None
    if problem := name_problem(spec.label):
        more = "" if spec.name else " (it is the file's, as none is written)"
        report.add((*path, "name"), f"{shown(spec.label)}{more} {problem}")
    try:
        return read_file(spec, report.folder)
    except InventoryError as error:
        report.add((*path, "file"), f"{error}; write another file, or mend it")
        return None


def _benchmark_problems(benchmark: Benchmark) -> Iterator[tuple[Path, str]]:
    if isinstance(benchmark, BuiltinBenchmark):
        return
    if isinstance(benchmark, ClientBenchmark):
        yield from _client_problems(benchmark)
        return
    workload = benchmark.workload
    if problem := name_problem(workload):
        yield ("workload",), problem
    found = set()
    for index, word in enumerate(benchmark.command):
        if control_problem(word):
            yield ("command", index), "holds a line break or NUL; write it on one line"
        names = re.findall(r"\{([A-Za-z_]+)\}", word)
        found.update(names)
        for name in names:
            if name not in _PLACEHOLDERS:
                known = did_you_mean(name, _PLACEHOLDERS)
                yield ("command", index), f"{{{name}}} is filled in by nobody; {known}"
    if "concurrency" not in found and found <= set(_PLACEHOLDERS):
        yield (
            ("command",),
            "never says {concurrency}, so that every concurrency would measure the same; write "
            '"{concurrency}" where the script takes it',
        )


def _client_problems(benchmark: ClientBenchmark) -> Iterator[tuple[Path, str]]:
    if isinstance(benchmark.workload, SyntheticWorkload):
        yield (
            ("workload",),
            f"is random token ids, which only the tool's own client sends; write texts here, or "
            f"{benchmark.kind}'s own flags for random prompts in args",
        )
    for name in ("program", "tokenizer"):
        word = getattr(benchmark, name)
        if word is not None and control_problem(word):
            yield (name,), "holds a line break or NUL; write it on one line"
    for index, word in enumerate(benchmark.args):
        if control_problem(word):
            yield ("args", index), "holds a line break or NUL; write it on one line"
