"""Who are we? Keys from files and from the agent; never a password, never a prompt."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.pkey import UnknownKeyType

from sweep.errors import HostRefused
from sweep.host.route import Hop


@dataclass(frozen=True)
class Candidate:
    """A key to offer; `where` names it for people."""

    where: str
    key: paramiko.PKey


class KeyLogin:
    """Offers the keys of one hop, in OpenSSH's order, and says of each what became of it.

    It is what paramiko calls an auth strategy: all that is asked of one is `authenticate`.
    """

    def __init__(self, hop: Hop) -> None:
        self._hop = hop
        self._notes: list[str] = []

    def authenticate(self, transport: paramiko.Transport) -> None:
        """HostRefused when no key opens the door; transport trouble is raised as it comes."""
        agent = paramiko.Agent() if self._hop.use_agent else None
        try:
            for candidate in self._candidates(agent.get_keys() if agent else ()):
                try:
                    further = transport.auth_publickey(self._hop.user, candidate.key)
                except paramiko.AuthenticationException as error:
                    self._notes.append(f"{candidate.where}: {_reason(error)}")
                    if not transport.is_active():  # MaxAuthTries
                        break
                    continue
                if further:
                    raise HostRefused(
                        f"{self._hop}: after the key the host wants {', '.join(further)}; "
                        "the tool can give nothing but a key"
                    )
                return
        finally:
            if agent:
                agent.close()
        raise HostRefused(self._failure())

    def _candidates(self, agent_keys: tuple[paramiko.AgentKey, ...]) -> Iterator[Candidate]:
        """The files of the configuration, through the agent where it has their keys; then the
        agent's others, unless the configuration says IdentitiesOnly."""
        left = {key.asbytes(): key for key in agent_keys}
        for file in self._hop.identity_files:
            held = left.pop(_public_part(file), None)
            if held is not None:
                yield Candidate(f"{file} (agent)", held)
                continue
            key = self._load(file)
            if key is not None:
                left.pop(key.asbytes(), None)
                yield Candidate(str(file), key)
        if not self._hop.identities_only:
            for key in left.values():
                yield Candidate(f"agent key {key.comment or key.get_name()}", key)

    def _load(self, file: Path) -> paramiko.PKey | None:
        if not file.exists():
            return None
        try:
            return paramiko.PKey.from_path(file)
        except (paramiko.PasswordRequiredException, TypeError):
            # cryptography says "no password given" with a TypeError
            self._notes.append(f"{file}: encrypted, and no agent holds it (run: ssh-add {file})")
        except OSError as error:
            self._notes.append(f"{file}: {error.strerror}")
        except (paramiko.SSHException, UnknownKeyType, UnsupportedAlgorithm, ValueError) as error:
            self._notes.append(f"{file}: not usable ({error})")
        return None

    def _failure(self) -> str:
        if not self._notes:
            return (
                f"{self._hop}: there is no key to log in with. Name an identity_file in the "
                "inventory, or start an agent and run ssh-add"
            )
        tried = "; ".join(self._notes)
        return (
            f"{self._hop}: no key is accepted. {tried}. Is the public key in authorized_keys of "
            f"{self._hop.user}, and {self._hop.user} the right user?"
        )


def _reason(error: paramiko.AuthenticationException) -> str:
    """paramiko has one class for a key that is refused and a door that is slammed."""
    text = str(error).strip(" .")
    if "EOF" in text:
        return "the host hung up (too many keys offered?)"
    return "refused" if text.lower().startswith("authentication failed") else text


def _public_part(file: Path) -> bytes:
    """The public key beside a private one, or of a file that is itself a public key; else b""."""
    for path in (file, file.with_name(file.name + ".pub")):
        try:
            words = path.read_bytes()[:16384].split()
            if len(words) > 1 and words[0].startswith((b"ssh-", b"ecdsa-", b"sk-")):
                return base64.b64decode(words[1], validate=True)
        except (OSError, binascii.Error):
            continue
    return b""
