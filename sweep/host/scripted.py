"""What every kind of host has in common: files are written and read by scripts."""

from __future__ import annotations

import posixpath
import shlex
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from sweep.errors import HostError
from sweep.host.script import command, printed
from sweep.host.verbs import Result
from sweep.inventory import HostSpec

NO_FILE = 66  # EX_NOINPUT
FILE_TIMEOUT_S = 300.0
NO_STATUS = 255  # as ssh: the command ended, but not with a status


class ScriptedHost(ABC):
    """The verbs that need nothing but `run`.

    `spec` is the inventory's host as it was reached: a demo host has ports and keys of its own.
    `root` is the demo host's private prefix, "" on a real host.
    """

    def __init__(self, name: str, spec: HostSpec, root: str = "") -> None:
        self.name = name
        self.spec = spec
        self.root = root
        # A user's units are the user's own: sudo would only hide them.
        self._sudo = spec.become == "sudo" and spec.scope == "system"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    @abstractmethod
    def host_key(self) -> str: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def tunnel(self, port: int, *, direct: bool = False) -> AbstractContextManager[int]: ...

    @abstractmethod
    def run(self, script: str, *, timeout_s: float = 30, stdin: bytes = b"") -> Result: ...

    def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        script = writing(path, len(data), mode)
        result = self.run(script, timeout_s=FILE_TIMEOUT_S, stdin=data)
        if not result.ok:
            raise HostError(f"{self.name}: cannot write {path}: {words(result)}")

    def read(self, path: str) -> bytes | None:
        file = shlex.quote(path)
        script = f"[ -e {file} ] || [ -L {file} ] || exit {NO_FILE}\nexec cat -- {file}\n"
        result = self.run(script, timeout_s=FILE_TIMEOUT_S)
        if result.exit_status == NO_FILE:
            return None
        if not result.ok:
            raise HostError(f"{self.name}: cannot read {path}: {words(result)}")
        return result.stdout

    def _command(self, script: str, timeout_s: float, input_size: int = 0) -> str:
        return command(
            script,
            timeout_s=timeout_s,
            sudo=self._sudo,
            user_runtime=f"{self.root}/run/user" if self.spec.scope == "user" else None,
            input_size=input_size,
        )


def writing(path: str, size: int, mode: int) -> str:
    """A script that makes a whole file of its standard input, or nothing; missing directories too.

    Part of a longer script it stands in parentheses of its own.
    """
    parent, name = posixpath.split(path)
    target, directory = shlex.quote(path), shlex.quote(parent)
    hidden = shlex.quote(f"{parent}/.{name}.XXXXXX")
    # A connection that is cut looks like the end of the data, so the size is compared; and
    # nobody reads what the script says then, which must not end it before it cleans up.
    return f"""\
umask 077
if [ -d {target} ]; then echo "is a directory" >&2; exit 1; fi
mkdir -p -- {directory} || exit
temporary=$(mktemp -- {hidden}) || exit
trap 'rm -f -- "$temporary"' EXIT
trap 'exit 1' HUP INT TERM
trap '' PIPE
cat >"$temporary" || exit
size=$(wc -c <"$temporary") || exit
if [ "$size" -ne {size} ]; then echo "only $size of {size} bytes arrived" >&2; exit 1; fi
chmod {mode:04o} "$temporary" && mv -f -- "$temporary" {target} || exit
if command -v restorecon >/dev/null; then restorecon -- {target} || :; fi
"""


def words(result: Result) -> str:
    """The host's own, on one line."""
    return " ".join(result.tail(3).split()) or f"status {result.exit_status}"


def sudo_refusal(name: str, user: str, result: Result) -> str:
    """What to do where sudo wants a password or does not know the user."""
    return (
        f"{name}: sudo refuses {user}: {words(result)}. The tool never enters a "
        "password; on the host, run `visudo -f /etc/sudoers.d/sweep` and put in this line: "
        f"{user} ALL=(root) NOPASSWD: ALL"
    )


def own(result: Result) -> Result:
    """Without what the login shell printed; a script that was not begun has failed."""
    printed_by_script = printed(result.stdout)
    if printed_by_script is None:
        said = result.stderr.strip() or result.stdout
        return Result(result.exit_status or NO_STATUS, b"", said)
    return Result(result.exit_status, printed_by_script, result.stderr)
