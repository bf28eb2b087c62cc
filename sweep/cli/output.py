"""Files that a command line asks for with -o: one exit code for each reason, for all commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweep.errors import RunDirectoryError, UsageError


@contextmanager
def written_to(place: Path | None) -> Iterator[None]:
    """Around whatever writes to `place`, that of -o; None: there was no -o, and errors stay.

    A place that cannot be written is a UsageError (exit 2), a full disk stays OutOfRoom (exit 6).
    """
    from sweep.results.files import translated

    if place is None:
        yield
        return
    try:
        with translated(place, "write"):
            yield
    except RunDirectoryError as error:
        raise UsageError(f"-o: {error}; name another place") from error
