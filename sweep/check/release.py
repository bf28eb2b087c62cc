"""Which SGLang the host has, and whether it knows every flag that the sweep gives it.

The command line is read from the package's own source, because importing it takes seconds and a
GPU. Until 0.5.19 it stands there as `add_argument("--flag")` (srt/server_args.py); 0.5.23 makes it
of the fields in srt/arg_groups/fields.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from sweep.check.finding import About, Finding
from sweep.sglang.args import given_flags
from sweep.sglang.choices import chosen, some_choices, unknown_values
from sweep.sglang.flags import NEWEST, field_of

# SGLang reads secret flags from a file given with --config (0.5.3.post3 has it, 0.5.1 not).
CONFIG_SINCE = (0, 5, 3)

# Prints the version, a tab, and which of the flags (given as flag=field) its source does not name,
# and which of the values (flag=field=value) nothing in the whole package does.
PROGRAM = r"""
import importlib.metadata, importlib.util, pathlib, re, sys
name, asked = sys.argv[1], sys.argv[2:]
found = importlib.util.find_spec(name)
if found is None:
    sys.exit('No module named ' + name)
try:
    version = importlib.metadata.version(name)
except importlib.metadata.PackageNotFoundError:
    version = 'unknown version'
source = ''
for place in found.submodule_search_locations or ():
    srt = pathlib.Path(place, 'srt')
    for path in (srt / 'server_args.py', *srt.glob('arg_groups/**/*.py')):
        if path.is_file():
            source += path.read_text(errors='replace')
literal = source.count('.add_argument(') > 100
missing = []
for flag, field, *value in (word.split('=') for word in asked):
    pattern = r'["\']--%s["\']' % flag if literal else r'\b%s\b' % field
    if source and not value and not re.search(pattern, source):
        missing.append(flag)
    word = re.compile(r'\b%s\b' % re.escape(''.join(value)), re.I)
    if source and value and not word.search(source) and not any(
        word.search(path.read_text(errors='replace'))
        for place in found.submodule_search_locations
        for path in pathlib.Path(place, 'srt').rglob('*.py')
    ):
        missing.append(flag + '=' + value[0])
print(version, ' '.join(missing), sep='\t')
"""


def question(about: About, module: str) -> str:
    """A shell command that prints what `findings` reads, as its last line."""
    program = shlex.join((about.spec.server.command[0], "-B", "-c", PROGRAM))
    package = module.partition(".")[0]
    asked = [*_flags_asked(about), *_values_asked(about)] if package == "sglang" else []
    return f"{program} {shlex.join((package, *asked))} | tail -n 1"


def _flags_asked(about: About) -> list[str]:
    return [f"{name}={field_of(name)}" for name in _given(about)]


def _values_asked(about: About) -> list[str]:
    """Values of flags that take only some, which differ between releases."""
    pairs = {pair for launch in about.plan.launches for pair in chosen(dict(launch.config.args))}
    return [
        f"{name}={field_of(name)}={word}"
        for name, word in sorted(pairs)
        if re.fullmatch(r"[\w.+-]+", word)
    ]


def _given(about: About) -> list[str]:
    """Every flag that a launch of the sweep gives; those of a switch that is off are not given."""
    return sorted({name for launch in about.plan.launches for name in given_flags(launch.config)})


def findings(about: About, module: str, answer: str) -> Iterator[Finding]:
    """What the answer's line means. A line without a version is Python's own complaint."""
    program = about.spec.server.command[0]
    version, _, missing = answer.partition("\t")
    if not re.match(r"\d|unknown version", version):
        yield Finding(
            "problem", "server", f"{program} does not find {module}: {version or 'no answer'}",
            f"correct hosts.{about.host}.server.command, or install it there",
            hopeless=version.startswith("No module named ") and about.sees_what_we_see
            and not about.spec.server.env_file,
        )  # fmt: skip
        return
    yield Finding("ok", "server", f"{module}: {version}")
    for name in missing.split():
        yield _missing(about, version, *name.split("="))
    if not module.startswith("sglang"):
        yield from unknown(about)
    secret = [key for key in about.spec.server.secrets if not key.isupper()]
    if module.startswith("sglang") and secret and _older(version, CONFIG_SINCE):
        yield Finding(
            "problem", "secrets",
            f"SGLang {version} has no --config, which the tool needs to hand over "
            f"{', '.join(secret)}; on the command line `ps` would show it to everybody",
            "use SGLang 0.5.3.post3 or newer for the sweep, or leave the key out",
        )  # fmt: skip


def unknown(about: About) -> Iterator[Finding]:
    """Where nobody asks the server's own source: values that no release we know takes."""
    pairs = {
        pair for launch in about.plan.launches for pair in unknown_values(dict(launch.config.args))
    }
    for name, word in sorted(pairs):
        yield Finding(
            "warning", "flags", f"--{name} {word}: no SGLang up to {NEWEST} takes this value",
            f"see whether this server does; others: {some_choices(name)}",
        )  # fmt: skip


def _missing(about: About, version: str, name: str, value: str | None = None) -> Finding:
    if value is not None:
        return Finding(
            "warning", "flags", f"SGLang {version} there does not seem to take --{name} {value}",
            f"see `--help` of that SGLang; others: {some_choices(name)}",
        )  # fmt: skip
    return Finding(
        "problem", "flags", f"SGLang {version} there has no --{name} and would end with exit 2",
        f"use a newer SGLang, or remove {name} from hosts.{about.host}.server.args or params",
        hopeless=about.is_everywhere(name),
    )  # fmt: skip


def _older(version: str, limit: tuple[int, ...]) -> bool:
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return found is not None and tuple(map(int, found.groups())) < limit
