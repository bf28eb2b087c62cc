"""Can the server start and the client run: users, programs, the port."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from sweep.bench.backends import client_of
from sweep.check import release
from sweep.check.finding import About, Answer, Finding, Identity, said, unreadable
from sweep.inventory import ClientBenchmark, CommandBenchmark
from sweep.sglang.secrecy import without_secrets

OLDEST_PYTHON = (3, 8)
# Some clients import half of their world before they tell their version.
VERSION_S = 60
OUT_OF_TIME = "124"  # the status of timeout(1)
# Flags whose value is something to read on the host: a path there, or a model of the Hub.
MODELS = ("model-path", "speculative-draft-model-path", "tokenizer-path")
FILES = ("speculative-token-map", "speculative-adaptive-config", "config", "chat-template")
# Where servers of this kind keep caches, if the environment says so.
_CACHE = re.compile(
    r"(HF_HOME|XDG_CACHE_HOME|FLASHINFER_WORKSPACE_BASE|.*_CACHE(_DIR|_PATH|_ROOT)?)"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What a stripped-down Python may lack of what the client needs.
_CLIENT = """
import http.client, json, resource, select, sys, zlib
print('%d.%d' % sys.version_info[:2])
"""


def module(about: About) -> str | None:
    """The module that `python -m MODULE` starts, when the server is started so."""
    command = about.spec.server.command
    return command[2] if len(command) > 2 and command[1] == "-m" else None


def questions(about: About) -> str:
    server = about.spec.server
    return f"""
user={shlex.quote(server.user or "")}; group={shlex.quote(server.group or "")}
[ -n "$user" ] || user=$(id -un)
home=$(getent passwd "$user" 2>/dev/null | cut -d: -f6)
[ -n "$home" ] || home=$HOME
# The service's user with the service's environment; nothing is written.
as_user() {{
  (
    cd / ; HOME=$home; USER=$user; export HOME USER
    {_exports(about)}
    if [ "$user" = "$(id -un)" ]; then sh -c "$1"
    elif command -v setpriv >/dev/null; then
      setpriv --reuid="$user" --init-groups \\
        --regid="${{group:-$(id -g "$user")}}" sh -c "$1"
    elif command -v runuser >/dev/null; then runuser -u "$user" -- sh -c "$1"
    else su -s /bin/sh -c "$1" -- "$user"
    fi
  ) </dev/null 2>&1
}}
echo @@account; getent passwd "$user"
echo @@group; {f"getent group {shlex.quote(server.group)}" if server.group else ":"}
echo @@client; as_user {shlex.quote(_client_question(about))}
echo @@server; as_user {shlex.quote(_server_question(about))}
echo @@port; {_port_question(server.port)}
echo @@port-range; cat /proc/sys/net/ipv4/ip_local_port_range 2>/dev/null
"""


def _exports(about: About) -> str:
    # Not PATH: what the questions themselves call has to be found.
    words = [
        f"{name}={shlex.quote(value)}"
        for name, value in about.spec.server.env.items()
        if _VARIABLE.fullmatch(name) and name != "PATH"
    ]
    return f"export {' '.join(words)}" if words else ":"


def _client_question(about: About) -> str:
    benchmark = about.plan.benchmark
    if isinstance(benchmark, CommandBenchmark):
        return f"command -v {shlex.quote(benchmark.command[0])} || echo missing"
    ours = f"{shlex.quote(about.spec.python)} -I -B -c {shlex.quote(_CLIENT)}"
    if not isinstance(benchmark, ClientBenchmark):
        return ours
    words = client_of(benchmark).version(benchmark, about.spec.python)
    limit = f"$(command -v timeout >/dev/null && echo timeout {VERSION_S})"
    return f'{ours}; answer=$({limit} {shlex.join(words)} 2>&1); echo "$? $answer"'


def _server_question(about: About) -> str:
    command = about.spec.server.command
    program = shlex.quote(command[0])
    enter = shlex.quote(about.spec.server.working_directory or "/")
    look = f"[ -x {program} ] || {{ echo missing; exit; }}; echo there; cd {enter} 2>/dev/null"
    name = module(about)
    if name is None:
        return look
    return f"{look}; {release.question(about, name)}"


def _port_question(port: int) -> str:
    return f"""ss -Hltnp "sport = :{port}" 2>/dev/null | while read -r line; do
  pid=$(printf '%s' "$line" | sed -n 's/.*pid=\\([0-9]*\\).*/\\1/p')
  printf '%s\\t%s\\t%s\\n' "${{pid:-?}}" "$(unit_of "$pid")" "$(owner_of "$pid")"
done"""


def findings(about: About, who: Identity, answer: Answer) -> Iterator[Finding]:
    user = who.service_user(about)
    if "port-range" not in answer:
        yield unreadable("server", "the host did not get that far")
        return
    if not said(answer, "account") and not about.demo:
        yield Finding(
            "problem", "user", f"there is no user {user} on the host",
            f"create it, or correct hosts.{about.host}.server.user",
            hopeless=about.sees_what_we_see,
        )  # fmt: skip
        return
    group = about.spec.server.group
    if group and not said(answer, "group"):
        yield Finding(
            "problem", "user", f"there is no group {group} on the host",
            f"create it, or correct hosts.{about.host}.server.group",
            hopeless=about.sees_what_we_see,
        )  # fmt: skip
    yield from _client(about, user, said(answer, "client"))
    yield from _server(about, user, said(answer, "server").splitlines())
    yield _port(about, said(answer, "port"), said(answer, "port-range"))


def _client(about: About, user: str, answer: str) -> Iterator[Finding]:
    benchmark = about.plan.benchmark
    last = answer.splitlines()[-1] if answer else "no answer"
    if isinstance(benchmark, CommandBenchmark):
        yield _command(benchmark.command[0], user, last)
    elif isinstance(benchmark, ClientBenchmark):
        first, _, rest = answer.partition("\n")
        yield _python(about, user, first or "no answer")
        yield _installed(benchmark, user, rest)
    elif benchmark.run_on == "host":
        yield _python(about, user, last)


def _command(program: str, user: str, answer: str) -> Finding:
    if answer == "missing":
        return Finding(
            "problem", "benchmark", f"{program} is not there for {user}",
            "install it there, or correct the sweep's benchmark.command",
        )  # fmt: skip
    return Finding("ok", "benchmark", f"{answer} is there")


def _installed(benchmark: ClientBenchmark, user: str, answer: str) -> Finding:
    """Of a benchmark client, by its version; `answer` begins with the status of asking for it."""
    status, _, told = answer.partition(" ")
    last = told.strip().splitlines()[-1] if told.strip() else "it says nothing"
    if status == OUT_OF_TIME:
        return Finding(
            "warning", "benchmark",
            f"{benchmark.kind} as {user} did not tell its version within {VERSION_S} s",
            "try on the host whether it starts",
        )  # fmt: skip
    if status != "0":
        return Finding(
            "problem", "benchmark", f"{benchmark.kind} cannot run as {user}: {last}",
            client_of(benchmark).install,
        )  # fmt: skip
    return Finding("ok", "benchmark", f"{benchmark.kind}: {last}, runs as {user}")


def _python(about: About, user: str, version: str) -> Finding:
    found = re.fullmatch(r"(\d+)\.(\d+)", version)
    python = about.spec.python
    fix = f"set hosts.{about.host}.python to a Python 3.8 or newer that {user} may run"
    if not found:
        return Finding("problem", "python", f"{python} does not run as {user}: {version}", fix)
    if (int(found[1]), int(found[2])) < OLDEST_PYTHON:
        return Finding("problem", "python", f"{python} is {version}; the client needs 3.8", fix)
    return Finding("ok", "python", f"{python} is {version}, runs as {user}")


def _server(about: About, user: str, lines: list[str]) -> Iterator[Finding]:
    program, name = about.spec.server.command[0], module(about)
    if not lines or lines[0] != "there":
        why = lines[-1] if lines and lines[0] != "missing" else "not there, or not executable"
        yield Finding(
            "problem", "server", f"{program} cannot be run by {user}: {why}",
            f"correct hosts.{about.host}.server.command, or the rights of its directories",
            hopeless=lines == ["missing"] and about.sees_what_we_see,
        )  # fmt: skip
        return
    if name is None:
        yield Finding("ok", "server", f"{program} is there, {user} may run it")
        yield from release.unknown(about)
        return
    yield from release.findings(about, name, lines[1] if len(lines) > 1 else "")


def _port(about: About, listeners: str, port_range: str) -> Finding:
    port = about.spec.server.port
    for line in listeners.splitlines():
        pid, unit, owner = (*line.split("\t"), "", "")[:3]
        who = (
            f"pid {pid}"
            + (f" of {unit}" if unit else "")
            + (f": {without_secrets(owner)}" if owner else "")
        )
        if unit == about.spec.unit:
            fix = f"a sweep runs, or one was left there: {about.restore}"
        elif unit in about.production_units:
            fix = (
                f"that is production's port: give the sweep another, hosts.{about.host}.server.port"
            )
        else:
            fix = f"set hosts.{about.host}.server.port to a free one"
        return Finding("problem", "port", f"{port} is taken by {who}", fix)
    low, high = (*map(int, re.findall(r"\d+", port_range)), 0, 0)[:2]
    if low <= port <= high:
        return Finding(
            "warning", "port",
            f"{port} is free now, but any outgoing connection may take it "
            f"(net.ipv4.ip_local_port_range is {low} to {high})",
            f"set hosts.{about.host}.server.port below {low}",
        )  # fmt: skip
    return Finding("ok", "port", f"{port} is free")
