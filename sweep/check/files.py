"""Is there on the host what the server reads, and can it write where it caches."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from sweep.check.finding import About, Answer, Finding, Identity, said
from sweep.check.server import module
from sweep.inventory import CommandBenchmark

# Flags whose value is something to read on the host: a path there, or a model of the Hub.
MODELS = ("model-path", "speculative-draft-model-path", "tokenizer-path")
FILES = ("speculative-token-map", "speculative-adaptive-config", "config", "chat-template")
# Where servers of this kind keep caches, if the environment says so.
_CACHE = re.compile(
    r"(HF_HOME|XDG_CACHE_HOME|FLASHINFER_WORKSPACE_BASE|\w*_CACHE(_DIR|_PATH|_ROOT)?)"
)


def questions(about: About) -> str:
    """Needs the shell function `as_user` of `server.questions`."""
    return f"""
echo @@files; as_user {shlex.quote(_files_question(about))}
echo @@env-file; {_env_file_question(about)}
echo @@caches; as_user {shlex.quote(_caches_question(about))}
"""


def flag_values(about: About, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """(flag, value) of these flags in any launch of the plan, each once, in order."""
    found = [
        (name, value)
        for launch in about.plan.launches
        for name, value in launch.config.args
        if name in names and isinstance(value, str)
    ]
    return list(dict.fromkeys(found))


def _files_question(about: About) -> str:
    lines = []
    directory = about.spec.server.working_directory
    if directory and directory not in ("~", "-~"):
        lines.append(_readable("working_directory", directory.removeprefix("-"), "-x"))
    for flag, value in flag_values(about, MODELS):
        lines.append(_model_question(flag, value))
    for flag, value in flag_values(about, FILES):
        if value.startswith("/"):
            lines.append(_readable(flag, value, "-r"))
    if isinstance(about.plan.benchmark, CommandBenchmark):
        words = about.plan.benchmark.command[1:]
        lines += [
            _readable("benchmark", w, "-r") for w in words if w.startswith("/") and "{" not in w
        ]
    return "\n".join([*lines, ":"])


def _readable(label: str, path: str, test: str) -> str:
    there = shlex.quote(path)
    verdict = f"if [ {test} {there} ]; then echo ok; elif [ -e {there} ]; then echo denied"
    return f"printf '%s\\t%s\\t' {label} {there}; {verdict}; else echo missing; fi"


def _model_question(flag: str, value: str) -> str:
    if value.startswith(("/", "./", "../", "~")):
        return _readable(flag, value, "-r")
    cache = "${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/hub"
    cache = f"${{HF_HUB_CACHE:-${{HUGGINGFACE_HUB_CACHE:-{cache}}}}}"
    folder = shlex.quote(f"/models--{value.replace('/', '--')}/snapshots")
    return (
        f"printf '%s\\t%s\\t' {flag} {shlex.quote(value)}; "
        f'if [ -d "{cache}"{folder} ]; then echo cached; else echo "absent"; fi'
    )


def _env_file_question(about: About) -> str:
    file = about.spec.server.env_file
    if not file or file.startswith("-"):
        return ":"
    return f"[ -r {shlex.quote(file)} ] && echo ok || echo missing"


def _caches_question(about: About) -> str:
    named = [name for name in about.spec.server.env if _CACHE.fullmatch(name)]
    places = ["home:$HOME", "cache:${XDG_CACHE_HOME:-$HOME/.cache}"]
    places += [f"{name}:${name}" for name in named]
    words = " ".join(f'"{place}"' for place in places)
    return f"""for place in {words}; do
  path=${{place#*:}}; seen=$path
  while [ -n "$seen" ] && [ ! -e "$seen" ]; do seen=${{seen%/*}}; done
  [ -w "${{seen:-/}}" ] && word=ok || word=denied
  printf '%s\\t%s\\t%s\\t%s\\n' "${{place%%:*}}" "$path" "$word" \\
    "$(stat -c %U "${{seen:-/}}" 2>/dev/null)"
done"""


def findings(about: About, who: Identity, answer: Answer) -> Iterator[Finding]:
    user = who.service_user(about)
    for line in said(answer, "files").splitlines():
        yield from _file(about, user, line)
    if said(answer, "env-file") == "missing":
        yield Finding(
            "problem", "env_file", f"{about.spec.server.env_file} cannot be read",
            f"create it, or correct hosts.{about.host}.server.env_file",
        )  # fmt: skip
    yield from _caches(user, said(answer, "caches"))


def _file(about: About, user: str, line: str) -> Iterator[Finding]:
    parts = line.split("\t")
    if len(parts) != 3:
        return
    label, path, state = parts
    if about.demo and label in MODELS:
        return  # the simulated server reads no model
    if state == "absent":
        yield Finding(
            "warning", label, f"{path} is not in the Hub cache of {user}: the first launch has to "
            "download it within health_timeout_s",
            f"download it before the night as {user}: hf download {path}",
        )  # fmt: skip
    elif state in ("missing", "denied"):
        why = "does not exist" if state == "missing" else f"cannot be read by {user}"
        yield Finding(
            "problem", label, f"{path} {why}",
            f"correct it in the inventory, or the rights of the file on {about.host}",
            hopeless=state == "missing" and _is_needed(about, label),
        )  # fmt: skip
    else:
        yield Finding("ok", label, f"{path} is there")


def _is_needed(about: About, label: str) -> bool:
    """Whether SGLang itself opens it, here and not in a container."""
    name = module(about) or ""
    itself = name.startswith("sglang") and about.sees_what_we_see
    return itself and label in MODELS and about.is_everywhere(label)


def _caches(user: str, text: str) -> Iterator[Finding]:
    denied = []
    for line in text.splitlines():
        label, path, state, *_ = (*line.split("\t"), "", "", "")
        if state == "denied":
            denied.append(path if label in ("home", "cache") else f"{label}={path}")
    if denied:
        yield Finding(
            "warning", "caches",
            f"{user} cannot write {', '.join(denied)}: what is compiled or downloaded is not kept, "
            "every launch pays for them again",
            f"make them {user}'s, or point XDG_CACHE_HOME and the like elsewhere in server.env",
        )  # fmt: skip
