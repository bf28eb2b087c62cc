"""The problems of one inventory file, each as one line that names file, line and key."""

from __future__ import annotations

import re
from pathlib import Path as Folder

from sweep.inventory_file.yaml_tree import Path, Problem, Tree


class Report:
    """Collects what is wrong with `tree`, the contents of the file `name`."""

    def __init__(self, name: str, tree: Tree) -> None:
        self.name = name
        self.tree = tree
        self.problems = list(tree.problems)

    @property
    def folder(self) -> Folder:
        """Where paths in the file begin."""
        return Folder(self.name).parent

    def add(self, path: Path, text: str) -> None:
        """`text` is one sentence "<what is wrong>; <what to do>"."""
        self.problems.append(Problem(self.tree.line(path), path, text))

    def touches(self, path: Path) -> bool:
        """Whether a problem is at `path`, above or below it."""
        return any(
            problem.path[: len(path)] == path[: len(problem.path)] for problem in self.problems
        )

    def within(self, path: Path) -> bool:
        """Whether a problem is at `path` or below it."""
        return any(problem.path[: len(path)] == path for problem in self.problems)

    def lines(self) -> list[str]:
        """`inventory.yaml:14: hosts.blackwell.become: ...`, first line first, none twice: one
        mistake below an anchor is one, however many use it."""
        by_place = {(self.tree.place(p.path), p.text): p for p in reversed(self.problems)}
        kept = [p for p in self.problems if by_place[self.tree.place(p.path), p.text] is p]
        ordered = sorted(kept, key=lambda problem: problem.line)
        found = (f"{self.name}:{p.line}: {path_text(p.path)}: {p.text}" for p in ordered)
        return list(dict.fromkeys(on_one_line(line) for line in found))


def path_text(path: Path) -> str:
    """`sweeps.overnight.concurrency[2]`; `YAML` for the document itself."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{_key(part)}" for part in path]
    return "".join(parts).removeprefix(".") or "YAML"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_.-]+", name) else f"'{name}'"


def on_one_line(text: str) -> str:
    """`text` with what would end or garble the line as an escape."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )
