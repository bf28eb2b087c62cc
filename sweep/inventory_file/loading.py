"""The file as a whole: hosts, sweeps, and SGLang's rules over both together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sweep.errors import InventoryError
from sweep.hints import with_inventory
from sweep.inventory import HostSpec, Inventory, SweepSpec
from sweep.inventory_file.hosts import read_host, written_flag
from sweep.inventory_file.report import Report, path_text
from sweep.inventory_file.shapes import mapping
from sweep.inventory_file.sweeps import read_sweep
from sweep.inventory_file.yaml_tree import Problem, Tree, Unreadable, read_tree
from sweep.matrix import expand, plan_complaints
from sweep.naming import did_you_mean
from sweep.sglang.args import Complaint
from sweep.sglang.flags import is_speculative


def load_inventory(path: Path) -> Inventory:
    """The inventory in a file, every value checked as far as that can be done offline.

    Raises:
        InventoryError: one line for each thing wrong, first line of the file first, each of the
            form `inventory.yaml:14: hosts.blackwell.become: <what is wrong>; <what to do>`.
    """
    tree = _tree(path)
    report = Report(str(path), tree)
    inventory = _read(report, tree.value)
    if inventory is None or report.problems:
        raise InventoryError("\n".join(report.lines()))
    return inventory


def line_of(path: Path, where: tuple[str | int, ...]) -> int:
    """The line of the file in which a key, or the nearest thing above it, stands."""
    return _tree(path).line(where)


def where_written(path: Path, sweep: str, host: str, flag: str) -> str:
    """`inventory.yaml:9: hosts.gpu.server.args.tp`: where a flag of a sweep stands in the file, or
    the nearest thing above it."""
    report = Report(str(path), _tree(path))
    where = _written(report, sweep, host, flag) or ("sweeps", sweep)
    return f"{path}:{report.tree.line(where)}: {path_text(where)}"


def _tree(path: Path) -> Tree:
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        write = with_inventory("init", path)
        raise InventoryError(f"there is no {path}; `{write}` writes one") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        text = f"cannot be read ({reason}); name another file with -i, or write one: sweep init"
        return Tree(Unreadable(), problems=[Problem(1, (), text)])
    try:
        return read_tree(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        text = "is not UTF-8 text here; save the file as UTF-8"
        return Tree(Unreadable(), problems=[Problem(line, (), text)])


def _read(report: Report, value: object) -> Inventory | None:
    given = mapping(report, (), value)
    if given is None:
        return None
    for key in given:
        if key not in Inventory.model_fields:
            report.add((key,), f"is no key here; {did_you_mean(key, Inventory.model_fields)}")
    for key, form in (("hosts", "hosts: {name: {...}}"), ("sweeps", "sweeps: {name: {...}}")):
        if not given.get(key, {}) and not report.touches((key,)):
            report.add((key,), f"is missing or empty; write {form} (sweep init makes both)")
    hosts = {
        name: read_host(report, name, host)
        for name, host in (mapping(report, ("hosts",), given.get("hosts", {})) or {}).items()
    }
    sweeps = {
        name: read_sweep(report, name, sweep, hosts)
        for name, sweep in (mapping(report, ("sweeps",), given.get("sweeps", {})) or {}).items()
    }
    good = {name: sweep for name, sweep in sweeps.items() if sweep is not None}
    fit = {name: host for name, host in hosts.items() if host is not None}
    for name, sweep in good.items():
        if sweep.host in fit:
            _check_together(report, name, sweep, fit[sweep.host])
    return None if report.problems else Inventory(hosts=fit, sweeps=good)


def _check_together(report: Report, name: str, sweep: SweepSpec, host: HostSpec) -> None:
    """SGLang's rules over every launch of a sweep; each is told where its flag stands."""
    for complaint in plan_complaints(expand(sweep, host.server)):
        report.add(*_located(report, name, sweep, complaint))


def _located(
    report: Report, name: str, sweep: SweepSpec, complaint: Complaint
) -> tuple[tuple[str | int, ...], str]:
    flag = complaint.flag
    if written := _written(report, name, sweep.host, flag):
        return written, complaint.text
    # A flag that is missing: where the sweep varies speculation itself, else on the host.
    path: tuple[str, ...] = ("hosts", sweep.host, "server", "args")
    if any(is_speculative(param) for param in sweep.params):
        path = ("sweeps", name, "params")
    return path, f"{flag} {complaint.text}"


def _written(report: Report, sweep: str, host: str, flag: str) -> tuple[str, ...] | None:
    for path in (("sweeps", sweep, "params"), ("hosts", host, "server", "args")):
        spelling = written_flag(_at(report.tree.value, path), flag)
        if spelling is not None:
            return (*path, spelling)
    return None


def _at(value: object, path: tuple[str, ...]) -> object:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
