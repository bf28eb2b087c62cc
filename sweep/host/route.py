"""The way to a host: itself, and the jump hosts before it, as OpenSSH's configuration has them.

`ssh -G` reads the configuration where there is an ssh: it knows Include, Match, HostKeyAlias and
whatever comes next, which paramiko's own reader does not.
"""

from __future__ import annotations

import getpass
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sweep.errors import HostRefused
from sweep.inventory import HostSpec

SSH_PORT = 22
DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
MOST_JUMPS = 8  # more is a ProxyJump that leads back to itself
SSH_G_TIMEOUT_S = 20

# What `ssh -G` prints: lower-case keyword -> its values, one for each line.
Config = Mapping[str, list[str]]


@dataclass(frozen=True)
class Hop:
    """One SSH server on the way. The first file of `known_hosts` is the one that takes new keys."""

    label: str
    address: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    identities_only: bool
    use_agent: bool
    known_hosts: tuple[Path, ...]
    host_key_name: str
    hash_known_hosts: bool = False
    proxy_command: str | None = None

    def __str__(self) -> str:
        where = self.address if self.port == SSH_PORT else f"{self.address} port {self.port}"
        return f"{self.user}@{where}"


@dataclass(frozen=True)
class Wanted:
    """What is asked for in words of the command line: it wins over the configuration."""

    alias: str
    user: str | None = None
    port: int | None = None
    identity_file: Path | None = None
    jumps: tuple[Wanted, ...] | None = None


def route(spec: HostSpec) -> tuple[Hop, ...]:
    """The servers on the way, the host itself last. HostRefused when the way cannot be found."""
    key = Path(spec.identity_file).expanduser() if spec.identity_file else None
    if key is not None and not key.exists():
        raise HostRefused(f"{spec.address}: the identity_file {key} does not exist")
    wanted = Wanted(spec.address, spec.user, spec.ssh_port, key)
    if shutil.which("ssh"):
        return _hops(wanted, spec.ssh_config)
    if spec.ssh_config:
        raise HostRefused(f"{spec.address}: ssh_config can only be read where `ssh` is installed")
    return (_plain(wanted),)


def known_hosts_name(address: str, port: int) -> str:
    """How known_hosts lists a server: with the port when it is not the usual one."""
    address = address.lower()
    return address if port == SSH_PORT else f"[{address}]:{port}"


def parse_jump(text: str) -> Wanted:
    """One element of ProxyJump: [ssh://][user@]host[:port], an IPv6 address in brackets."""
    found = re.fullmatch(
        r"(?:ssh://)?(?:(?P<user>.+)@)?(?:\[(?P<v6>[^]]+)\]|(?P<host>[^:@]+))(?::(?P<port>\d+))?/?",
        text.strip(),
    )
    if not found:
        raise HostRefused(f"cannot read the jump host {text!r} of the SSH configuration")
    port = int(found["port"]) if found["port"] else None
    return Wanted(found["v6"] or found["host"], found["user"], port)


def parse_config(text: str) -> Config:
    """The output of `ssh -G`."""
    config: dict[str, list[str]] = {}
    for line in text.splitlines():
        keyword, _, value = line.partition(" ")
        config.setdefault(keyword.lower(), []).append(value.strip())
    return config


def _hops(wanted: Wanted, config_file: str | None, depth: int = 0) -> tuple[Hop, ...]:
    if depth > MOST_JUMPS:
        raise HostRefused(f"{wanted.alias}: the ProxyJump of the SSH configuration does not end")
    config = parse_config(_ssh_g(wanted, config_file))
    hop = _from_config(wanted, config)
    jumps = wanted.jumps
    if jumps is None:
        asked = _first(config, "proxyjump", "none")
        jumps = tuple(map(parse_jump, asked.split(","))) if asked.lower() != "none" else ()
    if not jumps:
        return (hop,)
    # The jumps before the last are the last one's own way; alone it may have one configured.
    last = jumps[-1]
    way = Wanted(last.alias, last.user, last.port, jumps=jumps[:-1] or None)
    return (*_hops(way, config_file, depth + 1), hop)


def _ssh_g(wanted: Wanted, config_file: str | None) -> str:
    argv = ["ssh", "-G", "-T"]
    if config_file:
        argv += ["-F", str(Path(config_file).expanduser())]
    if wanted.user:
        argv += ["-l", wanted.user]
    if wanted.port:
        argv += ["-p", str(wanted.port)]
    if wanted.identity_file:
        argv += ["-i", str(wanted.identity_file)]
    argv += ["--", wanted.alias]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SSH_G_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostRefused(f"{wanted.alias}: `ssh -G` failed: {error}") from error
    if done.returncode:
        raise HostRefused(
            f"{wanted.alias}: OpenSSH refuses the configuration: {done.stderr.strip()}"
        )
    return done.stdout


def _from_config(wanted: Wanted, config: Config) -> Hop:
    address = _first(config, "hostname", wanted.alias)
    port = int(_first(config, "port", str(SSH_PORT)))
    user = _first(config, "user", "") or getpass.getuser()
    tokens = {"h": address, "p": str(port), "r": user, "n": wanted.alias, "%": "%"}
    tokens |= {"d": str(Path.home()), "u": getpass.getuser()}
    alias = _first(config, "hostkeyalias", "none")
    command = _first(config, "proxycommand", "none")
    known = [
        path
        for keyword in ("userknownhostsfile", "globalknownhostsfile")
        for path in _first(config, keyword, "none").split()
        if path.lower() != "none"
    ]
    keys = [path for path in config.get("identityfile", ()) if path.lower() != "none"]
    return Hop(
        label=wanted.alias,
        address=address,
        port=port,
        user=user,
        identity_files=tuple(_path(path, tokens) for path in keys),
        identities_only=_first(config, "identitiesonly", "no") == "yes",
        use_agent=_first(config, "identityagent", "").lower() != "none",
        known_hosts=tuple(_path(path, tokens) for path in known),
        host_key_name=(
            known_hosts_name(address, port) if alias.lower() == "none" else alias.lower()
        ),
        hash_known_hosts=_first(config, "hashknownhosts", "no") == "yes",
        proxy_command=None if command.lower() == "none" else _expand(command, tokens),
    )


def _plain(wanted: Wanted) -> Hop:
    """Without an ssh to ask: what OpenSSH would do without a configuration."""
    home = Path.home() / ".ssh"
    port = wanted.port or SSH_PORT
    keys = (wanted.identity_file,) if wanted.identity_file else ()
    return Hop(
        label=wanted.alias,
        address=wanted.alias,
        port=port,
        user=wanted.user or getpass.getuser(),
        identity_files=(*keys, *(home / name for name in DEFAULT_KEYS)),
        identities_only=False,
        use_agent=True,
        known_hosts=(home / "known_hosts", Path("/etc/ssh/ssh_known_hosts")),
        host_key_name=known_hosts_name(wanted.alias, port),
    )


def _first(config: Config, keyword: str, default: str) -> str:
    return config.get(keyword, [default])[0]


def _expand(text: str, tokens: Mapping[str, str]) -> str:
    """OpenSSH's percent tokens; one we do not know stays as it is."""
    return re.sub(r"%(.)", lambda found: tokens.get(found[1], found[0]), text)


def _path(text: str, tokens: Mapping[str, str]) -> Path:
    return Path(_expand(text.strip('"'), tokens)).expanduser()
