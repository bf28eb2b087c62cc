"""`docker run` and `podman run`: what they start, and what of it holds outside a container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from sweep.init.words import Word
from sweep.sglang.secrecy import is_secret

ENGINES = ("docker", "podman", "nerdctl")
# Options of `run` without a value; every other one takes the next word unless it holds `=`.
_SWITCHES = frozenset({
    "detach", "env-host", "init", "interactive", "no-healthcheck", "no-hosts", "oom-kill-disable",
    "privileged", "publish-all", "quiet", "read-only", "replace", "rm", "rmi", "sig-proxy",
    "tls-verify", "tty", "disable-content-trust", "http-proxy",
})  # fmt: skip
_LETTERS = {
    "d": "detach", "i": "interactive", "t": "tty", "P": "publish-all", "q": "quiet",
    "e": "env", "p": "publish", "v": "volume", "w": "workdir", "u": "user",
}  # fmt: skip
_HUGGING_FACE_CACHE = "/root/.cache/huggingface"


@dataclass(frozen=True)
class Container:
    """One `run`. `ports` maps a port inside to the one outside, `mounts` a path inside to the one
    outside, `words` are the command inside the container (empty: the image's own)."""

    engine: str
    image: str
    words: tuple[Word, ...]
    environment: Mapping[str, Word]
    env_files: tuple[str, ...]
    ports: Mapping[str, str]
    mounts: Mapping[str, str]
    devices: str | None

    def outside(self, word: Word) -> Word:
        """A path inside the container as the host has it; every other word as it is."""
        for inside, path in sorted(self.mounts.items(), key=lambda pair: -len(pair[0])):
            if word.text == inside or word.text.startswith(f"{inside.rstrip('/')}/"):
                rest = word.text[len(inside.rstrip("/")) :]
                return Word(path.rstrip("/") + rest, word.secret, word.known)
        return word


def container(words: Sequence[Word], environment: Mapping[str, str]) -> Container | None:
    """`words` of `docker run ...` as a container; None for another verb (`start`, `compose up`).

    `environment` is the client's: `-e NAME` alone takes its value from there.
    """
    texts = [word.text for word in words]
    if "run" not in texts or any("compose" in text for text in texts[: texts.index("run")]):
        return None
    rest = list(words[texts.index("run") + 1 :])
    options = list(_options(rest))
    named: dict[str, list[Word]] = {}
    for name, value in options:
        named.setdefault(name, []).append(value)
    image = rest.pop(0).text if rest else ""
    inside = (*named.get("entrypoint", []), *rest)
    mounts = dict(filter(None, map(_mount, [*named.get("volume", []), *named.get("mount", [])])))
    passed = dict(_variable(word, environment) for word in named.get("env", []))
    if _HUGGING_FACE_CACHE in mounts and "HF_HOME" not in passed:
        passed["HF_HOME"] = Word(mounts[_HUGGING_FACE_CACHE])
    return Container(
        engine=PurePosixPath(texts[0]).name,
        image=image,
        words=inside,
        environment=passed,
        env_files=tuple(word.text for word in named.get("env-file", [])),
        ports=dict(filter(None, map(_port, named.get("publish", [])))),
        mounts=mounts,
        devices=_devices(named.get("gpus", [])),
    )


def _options(rest: list[Word]) -> Iterator[tuple[str, Word]]:
    """Takes the options from the front of `rest`, up to the image."""
    while rest and rest[0].text.startswith("-") and rest[0].text != "--":
        word = rest.pop(0)
        if word.text.startswith("--"):
            name, equals, value = word.text[2:].partition("=")
            glued = Word(value, word.secret, word.known) if equals else None
        else:
            name, glued = _letters(word)
        if glued is None and name not in _SWITCHES and rest:
            glued = rest.pop(0)
        yield name, glued or Word("")
    if rest and rest[0].text == "--":
        rest.pop(0)


def _letters(word: Word) -> tuple[str, Word | None]:
    """`-d`, `-it`, `-p 1:2`, `-p1:2`, `-eA=b`."""
    letter, more = word.text[1:2], word.text[2:]
    name = _LETTERS.get(letter, letter)
    if name in _SWITCHES or not more:
        return name, None
    return name, Word(more.removeprefix("="), word.secret, word.known)


def _variable(word: Word, environment: Mapping[str, str]) -> tuple[str, Word]:
    name, equals, value = word.text.partition("=")
    text = value if equals else environment.get(name, "")
    secret = word.secret or (name if is_secret(name, text) else None)
    return name, Word(text, secret, word.known)


def _port(word: Word) -> tuple[str, str] | None:
    """[address:]outside:inside[/tcp]"""
    parts = word.text.split("/")[0].split(":")
    return (parts[-1], parts[-2]) if len(parts) > 1 else None


def _mount(word: Word) -> tuple[str, str] | None:
    """outside:inside[:ro], or type=bind,source=outside,target=inside; named volumes are no path."""
    if "=" in word.text:
        pairs = dict(part.partition("=")[::2] for part in word.text.split(","))
        outside = pairs.get("source") or pairs.get("src", "")
        inside = pairs.get("target") or pairs.get("destination") or pairs.get("dst", "")
    else:
        outside, _, rest = word.text.partition(":")
        inside = rest.split(":")[0]
    return (inside, outside) if outside.startswith("/") and inside.startswith("/") else None


def _devices(words: Sequence[Word]) -> str | None:
    """`--gpus '"device=0,1"'` -> 0,1; `all` restricts nothing."""
    text = words[-1].text.strip("\"'") if words else ""
    return text.removeprefix("device=") if text.startswith("device=") else None
