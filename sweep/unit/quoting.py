"""The three languages a value crosses on its way into a process that systemd starts.

    a word of ExecStart=            backslash, double quotes, %% for %, $$ for $
    an assignment of Environment=   the same, but $ stays as it is
    a line of an EnvironmentFile=   a shell's double quotes; % stays as it is

What systemd would cut off, ignore or drop without a word is refused: a newline, NUL, text that is
not UTF-8 in systemd's eyes, control characters in the environment (dropped before systemd 248).
Seen on systemd 252 and 257; the rules are those of 245 and later.
"""

from __future__ import annotations

import re

from sweep.errors import InventoryError

# Safe in every position of a command line without quotes; a lone `;` would end the command.
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_CONTROL = re.compile(r"[\x01-\x1f\x7f]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What systemd takes for blank; text has more characters that look so.
BLANK = " \t\r\n"
# systemd holds these and U+xxFFFE, U+xxFFFF for broken UTF-8 and ignores the whole line.
_NO_CHARACTERS = range(0xFDD0, 0xFDF0)


def exec_word(text: str, path: str) -> str:
    """One argument of ExecStart=, which the process gets exactly as `text` is.

    `path` is the key the text comes from. Raises InventoryError for what no unit file can say.
    """
    _refuse_broken(text, path)
    if _PLAIN.fullmatch(text):
        return text
    return _quoted(text.replace("%", "%%").replace("$", "$$"))


def executable(text: str, path: str) -> str:
    """The first word of ExecStart=: systemd wants it absolute and does not expand it like the rest.

    An absolute path cannot begin with one of systemd's prefixes (`-@:+!|`), so those stay out too.
    """
    _refuse_broken(text, path)
    if not text.startswith("/"):
        raise InventoryError(f"{path}: {text!r} is not an absolute path; write it from / on")
    if text.endswith("/"):
        raise InventoryError(f"{path}: {text!r} names a directory, not a program")
    odd = re.search(r"[\"'\\$]", text) or _CONTROL.search(text)
    if odd:
        raise InventoryError(
            f"{path}: systemd takes no {odd[0]!r} in a program's path; make a link and name that"
        )
    return _quoted(text.replace("%", "%%")) if not _PLAIN.fullmatch(text) else text


def environment_assignment(name: str, value: str, path: str) -> str:
    """One assignment as Environment= has it."""
    _refuse_variable(name, value, path)
    assignment = f"{name}={value}"
    if _PLAIN.fullmatch(assignment):
        return assignment
    return _quoted(assignment.replace("%", "%%"))


def environment_file_line(name: str, value: str, path: str) -> str:
    """One assignment as a line of an EnvironmentFile, without the newline."""
    _refuse_variable(name, value, path)
    escaped = re.sub(r'([\\"`$])', r"\\\1", value)
    return f'{name}="{escaped}"'


def rest_of_line(text: str, path: str) -> str:
    """A value that systemd takes to the end of the line, only with % expanded: a path, a user."""
    _refuse_control(text, path)
    if text != text.strip(BLANK):
        raise InventoryError(f"{path}: systemd cuts off the space at the ends of {text!r}")
    if text.endswith("\\"):
        raise InventoryError(f"{path}: a backslash at the end joins the next line of the unit")
    return text.replace("%", "%%")


def directive_value(text: str, path: str) -> str:
    """The user's own directive, in systemd's words: nothing is escaped, `%h` is a home."""
    rest_of_line(text, path)
    return text


def _quoted(text: str) -> str:
    """In systemd's quotes; control characters by their number, as a raw CR would end the line.

    Its single quotes know the same escapes as the double ones, and leave JSON readable.
    """
    mark = "'" if '"' in text and "'" not in text else '"'
    escaped = text.replace("\\", "\\\\").replace(mark, "\\" + mark)
    visible = _CONTROL.sub(lambda found: rf"\x{ord(found[0]):02x}", escaped)
    return f"{mark}{visible}{mark}"


def _refuse_variable(name: str, value: str, path: str) -> None:
    if not _VARIABLE.fullmatch(name):
        raise InventoryError(f"{path}: {name!r} is no name of a variable (A-Z, a-z, 0-9 and _)")
    _refuse_control(value, path)


def _refuse_control(text: str, path: str) -> None:
    _refuse_broken(text, path)
    odd = _CONTROL.search(text.replace("\t", " "))
    if odd:
        raise InventoryError(f"{path}: systemd takes no control character ({odd[0]!r}) here")


def _refuse_broken(text: str, path: str) -> None:
    if "\n" in text or "\0" in text:
        word = "a newline" if "\n" in text else "NUL"
        raise InventoryError(f"{path}: {word} cannot stand in a unit; put the text in a file")
    for character in text:
        code = ord(character)
        if 0xD800 <= code < 0xE000 or code in _NO_CHARACTERS or code & 0xFFFE == 0xFFFE:
            raise InventoryError(f"{path}: systemd takes no U+{code:04X}, which is no character")
