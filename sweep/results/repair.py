"""What a run has on disk, merged from results.csv and bench/, and the CSV put right again.

bench/ is the source: a row that the CSV lost is added back, a CSV that cannot be trusted is kept
aside and written anew. Nothing is ever thrown away.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sweep.errors import RunDirectoryError
from sweep.results.files import append_line, free_name, read_bytes, translated, write_atomic
from sweep.results.records import Key, read_record, record_keys, record_name
from sweep.results.table import HEADER, Content, encode, parse
from sweep.rows import Row


@dataclass(frozen=True)
class Holdings:
    """`rows`: every attempt of the run, each once. `missing`: those the CSV lacks.

    `damaged`: records that cannot be read. `twice`: how many lines repeat an attempt.
    """

    content: Content
    rows: tuple[Row, ...]
    missing: tuple[Row, ...]
    damaged: tuple[Key, ...]
    twice: int

    @property
    def untrusted(self) -> bool:
        """Whether the CSV itself has to be written anew."""
        return bool(self.content.bad or self.twice or self.content.header == "lost")


Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp | None:
    """What is another once somebody has written the file or put another one in its place."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def survey(csv_path: Path, bench: Path) -> Holdings:
    """Read the CSV and what bench/ has beyond it. Only reads; a write in progress is no harm.

    Raises:
        RunDirectoryError: the header is of another version, or a file cannot be read.
    """
    content = parse(read_bytes(csv_path) or b"")
    if content.header == "other":
        raise RunDirectoryError(
            f"{csv_path}: its header is not the one this version of sweep writes (another "
            "version, or saved by another program); move it away and it is made again from bench/"
        )
    by_key: dict[Key, Row] = {}
    for row in content.rows:
        by_key.setdefault(row.key, row)
    missing, damaged = _read_missing(bench, by_key)
    rows = (*by_key.values(), *missing)
    return Holdings(content, rows, missing, damaged, len(content.rows) - len(by_key))


def _read_missing(bench: Path, known: Iterable[Key]) -> tuple[tuple[Row, ...], tuple[Key, ...]]:
    known = set(known)
    missing, damaged = [], []
    for key in record_keys(bench):
        if key in known:
            continue
        try:
            missing.append(read_record(bench, key)[0])
        except RunDirectoryError:
            damaged.append(key)
    missing.sort(key=lambda row: (str(row["finished_at"] or ""), row.key))
    return tuple(missing), tuple(damaged)


def repair(csv_path: Path, bench: Path) -> tuple[set[Key], list[str]]:
    """Put the CSV right; the caller holds the lock.

    Returns the (point, trial, attempt) of every row that is now in it, and what was done, one
    line each. Raises OutOfRoom or RunDirectoryError.
    """
    _require_writable(csv_path)
    _remove_temporaries(csv_path.parent, bench)
    found = survey(csv_path, bench)
    notes = [_set_aside_record(bench, key) for key in found.damaged]
    if found.untrusted:
        notes.append(_write_anew(csv_path, found))
    else:
        if found.content.torn:
            notes.append(_cut_tail(csv_path, found.content.torn))
        if found.missing:
            append_line(csv_path, b"".join(map(encode, found.missing)), first=HEADER)
            notes.append(f"{csv_path.name}: {len(found.missing)} rows added back from bench/")
    return {row.key for row in found.rows}, notes


def _require_writable(path: Path) -> None:
    """A file that could not be appended to is said now, not after the first measurement."""
    with translated(path, "open for writing"):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))
        except FileNotFoundError:
            return


def _remove_temporaries(*directories: Path) -> None:
    for directory in directories:
        with translated(directory, "clean"):
            for path in directory.glob(".*.tmp"):
                path.unlink(missing_ok=True)


def _set_aside_record(bench: Path, key: Key) -> str:
    path = bench / record_name(key)
    aside = free_name(path.with_name(f"{path.name}.damaged"))
    with translated(path, "rename"):
        path.rename(aside)
    return f"bench/{path.name} cannot be read: kept as {aside.name}, its trial counts as missing"


def _cut_tail(csv_path: Path, torn: bytes) -> str:
    aside = free_name(csv_path.with_name(f"{csv_path.name}.torn"))
    write_atomic(aside, torn)
    with translated(csv_path, "cut the torn last line of"):
        os.truncate(csv_path, csv_path.stat().st_size - len(torn))
    return f"{csv_path.name}: torn last line cut off, kept as {aside.name}"


def _write_anew(csv_path: Path, found: Holdings) -> str:
    aside = free_name(csv_path.with_name(f"{csv_path.name}.torn"))
    write_atomic(aside, read_bytes(csv_path) or b"")
    write_atomic(csv_path, HEADER + b"".join(map(encode, found.rows)))
    return (
        f"{csv_path.name}: {found.content.bad} unreadable lines, {found.twice} repeated: the file "
        f"kept as {aside.name} and written anew with {len(found.rows)} rows"
    )
