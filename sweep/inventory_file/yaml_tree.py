"""YAML text as plain values with a line for each, read the careful way.

What YAML 1.1 (PyYAML), YAML 1.2 and people read differently is a problem, not a guess: `no`, `1e3`,
`010`, `12:30`, a bare date, an empty value, a key that stands twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import yaml

Path = tuple[str | int, ...]

# Enough for any inventory; a few nested aliases can stand for billions of values.
MOST_VALUES = 20_000

_INT = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][-+][0-9]+)?")
_EXPONENT = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+(\.[0-9]*)?|[-+]?0o[0-7]+")
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Problem:
    """Something wrong in the file: where, and one sentence "<what is wrong>; <what to do>"."""

    line: int
    path: Path
    text: str


class Unreadable:
    """Stands for a value that has a problem already."""


@dataclass
class Tree:
    """A document. What it knows is by path from the top: `lines`, `offsets` (where a key or an item
    begins, the same for all that use an anchor) and `written` (plain scalars as they stand)."""

    value: object = None
    lines: dict[Path, int] = field(default_factory=dict)
    offsets: dict[Path, int] = field(default_factory=dict)
    written: dict[Path, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line(self, path: Path) -> int:
        """The line of a path, or of the nearest thing above it that has one."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def place(self, path: Path) -> tuple[int, Path]:
        """What a path names, whoever uses it: where the nearest known thing above begins, and the
        rest of the path."""
        known = path
        while known and known not in self.offsets:
            known = known[:-1]
        return self.offsets.get(known, 0), path[len(known) :]


def read_tree(text: str) -> Tree:
    """The one document in `text`. Never raises: what cannot be read is among the problems."""
    tree = Tree(Unreadable())
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except RecursionError:
        tree.problems.append(Problem(1, (), "is nested too deeply to be read; make it flatter"))
    except yaml.YAMLError as error:
        tree.problems.append(_syntax(error, text))
    else:
        _Reader(tree).read_document(node)
    return tree


def _syntax(error: yaml.YAMLError, text: str) -> Problem:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return Problem(line, (), "has a character that YAML does not allow; remove it")
    if not isinstance(error, yaml.MarkedYAMLError):
        return Problem(1, (), f"cannot be parsed ({error}); correct it")
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    rows = text.splitlines()
    if line <= len(rows) and re.match(r"[ ]*\t", rows[line - 1]):
        return Problem(line, (), "has a tab in the indentation; write spaces")
    if "expected a single document" in str(error.context):
        return Problem(line, (), "has a second document (---); keep one in a file")
    what = ", ".join(filter(None, (error.context, error.problem)))
    return Problem(line, (), f"cannot be parsed ({what}); correct this line or the one before")


class _Reader:
    """Turns nodes into values, noting lines and problems in a tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.resolver = yaml.SafeLoader("")
        self.count = 0
        self.open: set[int] = set()

    def read_document(self, node: yaml.Node | None) -> None:
        if node is None:
            self._problem((), 1, "holds nothing; write hosts: and sweeps: (sweep init makes one)")
            return
        self.tree.lines[()] = 1
        try:
            self.tree.value = self._read(node, ())
        except _TooMuchError:
            self.tree.problems = [Problem(1, (), "holds too many values; use fewer aliases")]

    def _problem(self, path: Path, line: int, text: str) -> Unreadable:
        self.tree.problems.append(Problem(line, path, text))
        return Unreadable()

    def _count(self) -> None:
        self.count += 1
        if self.count > MOST_VALUES:
            raise _TooMuchError

    def _read(self, node: yaml.Node, path: Path) -> object:
        self._count()
        if id(node) in self.open:
            return self._problem(path, self.tree.line(path), "contains itself; remove the alias")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            return self._sequence(node, path)
        finally:
            self.open.discard(id(node))

    def _sequence(self, node: yaml.Node, path: Path) -> object:
        if node.tag != f"{_TAG}seq":
            return self._tagged(node, path)
        for index, item in enumerate(node.value):
            self._stands((*path, index), item)
        return [self._read(item, (*path, index)) for index, item in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: Path) -> object:
        if node.tag != f"{_TAG}map":
            return self._tagged(node, path)
        pairs = self._pairs(node, path)
        for name, (key, _) in pairs.items():
            self._stands((*path, name), key)
        return {name: self._read(value, (*path, name)) for name, (_, value) in pairs.items()}

    def _stands(self, path: Path, node: yaml.Node) -> None:
        self.tree.lines[path] = node.start_mark.line + 1
        self.tree.offsets[path] = node.start_mark.index

    def _pairs(self, node: yaml.MappingNode, path: Path) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Keys by their text. `<<` adds what is not given here; of several the first one wins."""
        found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        merged: list[yaml.Node] = []
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag == f"{_TAG}merge":
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
            elif not isinstance(key, yaml.ScalarNode):
                self._problem(path, line, "has a list or mapping as a key; write a name")
            elif key.value in found:
                first = found[key.value][0].start_mark.line + 1
                text = f"stands twice (first on line {first}); remove one"
                self._problem((*path, key.value), line, text)
            else:
                found[key.value] = (key, value)
        for base in merged:
            self._count()
            if not isinstance(base, yaml.MappingNode):
                line = base.start_mark.line + 1
                self._problem((*path, "<<"), line, "merges no mapping; write the alias of one")
            elif id(base) in self.open:
                self._problem(path, base.start_mark.line + 1, "contains itself; remove the alias")
            else:
                self.open.add(id(base))
                found = {**self._pairs(base, path), **found}
                self.open.discard(id(base))
        return found

    def _tagged(self, node: yaml.Node, path: Path) -> Unreadable:
        tag = node.tag.replace(_TAG, "!!")
        text = f"has the tag {tag}; write the value without a tag"
        return self._problem(path, node.start_mark.line + 1, text)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        text: str = node.value
        implied: str = self.resolver.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
        if node.style is not None or (node.tag == f"{_TAG}str" and implied != node.tag):
            return text if node.tag == f"{_TAG}str" else self._tagged(node, path)
        if node.tag != implied:
            return self._tagged(node, path)
        self.tree.written[path] = text
        trap = _trap(text, implied.removeprefix(_TAG))
        if trap:
            return self._problem(path, self.tree.line(path), trap)
        return _plain(text, implied.removeprefix(_TAG))


class _TooMuchError(Exception):
    pass


def _trap(text: str, kind: str) -> str | None:
    """What is unsafe about a plain scalar that PyYAML takes for `kind`."""
    quoted = f"'{text}' in quotes for text"
    traps = (
        (kind == "null", "has no value; write one or remove the line"),
        (
            kind == "bool" and text.lower() not in ("true", "false"),
            f"'{text}' is a truth value to some and text to others; write true, false, or {quoted}",
        ),
        (kind == "timestamp", f"'{text}' is a date to YAML; write {quoted}"),
        (
            _LEADING_ZERO.fullmatch(text),
            f"'{text}' begins with a zero, which is octal to some; write the number without it, "
            f"or {quoted}",
        ),
        (
            _EXPONENT.fullmatch(text) and not _FLOAT.fullmatch(text),
            f"'{text}' is a number to some and text to others; write {_expanded(text)}, "
            f"or {quoted}",
        ),
        (
            kind in ("int", "float") and ":" in text,
            f"'{text}' is a number to the base 60 to YAML; write {quoted}",
        ),
        (
            (kind == "int" and not _INT.fullmatch(text))
            or (kind == "float" and not _FLOAT.fullmatch(text)),
            f"'{text}' is no plain decimal number; write one, or {quoted}",
        ),
    )
    return next((problem for trapped, problem in traps if trapped), None)


def _expanded(text: str) -> str:
    """1e3 -> 1000; what is no short number stays in words."""
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        return "it out"
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.12f}".rstrip("0") if 1e-9 < abs(number) < 1e15 else "it out"


def _plain(text: str, kind: str) -> str | int | float | bool:
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int":
        return int(text)
    return float(text) if kind == "float" else text
