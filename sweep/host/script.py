"""Scripts for a host: wrapped into one command, and their answers told apart."""

from __future__ import annotations

import re
import shlex

SECTION = re.compile(rb"^@@([^\n]*)(?:\n|\Z)", re.MULTILINE)
KILL_AFTER_S = 5  # between SIGTERM and SIGKILL for a script that is out of time
# A single argument is limited to 128 KiB by the kernel; data goes through standard input.
LONGEST_SCRIPT = 100_000

# With POSIXLY_CORRECT systemctl would take options that follow its verb for names of units.
PRELUDE = """\
PATH="${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LC_ALL=C.UTF-8
export PATH LC_ALL
unset POSIXLY_CORRECT
"""

# Before it a login shell may have spoken (bash reads ~/.bashrc for every command over SSH).
MARK = "<sweep: what the script prints begins here>"
# $1 is the script. This shell outlives it, so that a signal that kills it becomes a status; the
# time limit is kept on the host, because closing the connection would not end what runs there.
SUPERVISE = """\
echo "{mark}"
if command -v timeout >/dev/null
then {feed}timeout -k {kill_after} {seconds} sh -c "$1"
else sh -c "$1"
fi
exit $?"""
# What a script is to read comes through this. Of a connection that is cut the host may never hear:
# then the script finds the end of its input here, as it does if the connection is closed.
FEED = """\
left={size}
while [ $left -gt 0 ]
do timeout {silence} head -c {block} 2>/dev/null || exit
left=$((left - {block}))
done | """
INPUT_SILENCE_S, INPUT_BLOCK = 30, 65536  # a block takes so long at most: 17 kbit/s


def printed(stdout: bytes) -> bytes | None:
    """What the script of a `command` printed itself; None: it was not even begun."""
    _, begun, rest = stdout.partition(MARK.encode() + b"\n")
    return rest if begun else None


def sections(stdout: bytes) -> dict[str, bytes]:
    """The answers of a script that prints a line `@@name` before each: name -> the bytes after it.

    What stands before the first such line is dropped. An answer keeps its final newline, and must
    not hold a line that begins with `@@` itself: foreign text goes through a command of its own.
    """
    parts = SECTION.split(stdout)[1:]
    names = (name.strip().decode(errors="replace") for name in parts[::2])
    return dict(zip(names, parts[1::2], strict=True))


def command(
    script: str, *, timeout_s: float, sudo: bool, user_runtime: str | None, input_size: int = 0
) -> str:
    """The command line that runs a script: under a time limit, as root when `sudo`.

    `user_runtime` is where user managers keep their runtime directories (/run/user): given, the
    script can talk to its own. `input_size`: bytes of standard input that will come; what does not
    in INPUT_SILENCE_S is not waited for. The login shell sees only quoted words.
    """
    if "\0" in script:
        raise ValueError("a script cannot hold a NUL character")
    prelude = PRELUDE
    if user_runtime is not None:
        prelude += (
            f'XDG_RUNTIME_DIR={shlex.quote(user_runtime)}/"$(id -u)"\n'
            'DBUS_SESSION_BUS_ADDRESS="unix:path=$XDG_RUNTIME_DIR/bus"\n'
            "export XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS\n"
        )
    whole = prelude + script
    if len(whole.encode()) > LONGEST_SCRIPT:
        raise ValueError("a script this long has to get its data through standard input")
    feed = FEED.format(size=input_size, silence=f"{INPUT_SILENCE_S:g}", block=INPUT_BLOCK)
    supervise = SUPERVISE.format(
        mark=MARK,
        feed=feed if input_size else "",
        kill_after=KILL_AFTER_S,
        seconds=f"{timeout_s:g}",
    )
    words = [*(("sudo", "-n", "--") if sudo else ()), "sh", "-c", supervise, "sweep", whole]
    return shlex.join(words)
