"""Is it the right host? The keys known_hosts lists, and the three ways to answer.

Our own reader, because paramiko's knows no patterns, no markers, and one key per kind only.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paramiko

from sweep.errors import HostRefused, InventoryError
from sweep.host.route import Hop

STRICT, ACCEPT_NEW = "strict", "accept-new"
FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


@dataclass(frozen=True)
class KnownKey:
    """A line of a known_hosts file about the host. `marker`: "", "revoked" or "cert-authority"."""

    marker: str
    kind: str
    blob: bytes
    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.kind} {fingerprint(self.blob)} ({self.file}:{self.line})"


def fingerprint(blob: bytes) -> str:
    """As ssh and ssh-keygen print it: SHA256, base64, no padding."""
    digest = hashlib.sha256(blob).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def check_mode(mode: str) -> str:
    """`host_key` of the inventory as it is used; InventoryError when it is none of the three."""
    mode = mode.rstrip("=") if mode.startswith("SHA256:") else mode
    if mode in {STRICT, ACCEPT_NEW} or FINGERPRINT.fullmatch(mode):
        return mode
    raise InventoryError(
        f"host_key: {mode!r} is none of strict, accept-new and a fingerprint (SHA256:... as "
        "`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` prints it on the host)"
    )


def known_keys(name: str, files: Iterable[Path]) -> list[KnownKey]:
    """Every line about this name. A file that cannot be read knows nobody."""
    return [key for file in files for key in _read(file, name)]


def _read(file: Path, name: str) -> Iterator[KnownKey]:
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        marker = words.pop(0)[1:] if words and words[0].startswith("@") else ""
        if len(words) < 3 or words[0].startswith("#") or not _matches(words[0], name):
            continue
        try:
            blob = base64.b64decode(words[2], validate=True)
        except binascii.Error:
            continue
        yield KnownKey(marker, words[1], blob, file, number)


def _matches(field: str, name: str) -> bool:
    """The first field of a line: a hash, or patterns of which a negated one has the last word."""
    if field.startswith("|1|"):
        _, _, salt, digest = (*field.split("|"), "", "")[:4]
        try:
            made = hmac.new(base64.b64decode(salt), name.encode(), hashlib.sha1).digest()
            return hmac.compare_digest(made, base64.b64decode(digest))
        except binascii.Error:
            return False
    found = False
    for pattern in field.lower().split(","):
        # Only * and ? are special to OpenSSH; brackets enclose an address with a port.
        glob = pattern.removeprefix("!").replace("[", "[[]")
        if fnmatch.fnmatchcase(name, glob):
            if pattern.startswith("!"):
                return False
            found = True
    return found


class HostKeyCheck(paramiko.MissingHostKeyPolicy):
    """Decides about the key a server presents. paramiko is told of no key, so it always asks."""

    def __init__(self, hop: Hop, mode: str) -> None:
        self._hop = hop
        self._mode = mode
        self._lines = known_keys(hop.host_key_name, hop.known_hosts)
        self._known = [line for line in self._lines if not line.marker]
        self.presented = ""

    def transport(self, sock: Any, **options: Any) -> paramiko.Transport:
        """paramiko's transport, asking first for the kinds of key that are known, as ssh does."""
        transport = paramiko.Transport(sock, **options)
        security = transport.get_security_options()
        kinds = {line.kind for line in self._known}
        kinds |= {"rsa-sha2-512", "rsa-sha2-256"} if "ssh-rsa" in kinds else set()
        security.key_types = sorted(security.key_types, key=lambda kind: kind not in kinds)
        return transport

    def missing_host_key(
        self,
        client: paramiko.SSHClient,  # noqa: ARG002
        hostname: str,  # noqa: ARG002
        key: paramiko.PKey,
    ) -> None:
        """Returns when the key is the host's; HostRefused else, before anything is sent."""
        blob = key.asbytes()
        self.presented = fingerprint(blob)
        shown = f"{key.get_name()} {self.presented}"
        if any(line.marker == "revoked" and line.blob == blob for line in self._lines):
            raise HostRefused(f"{self._hop}: the host key {shown} is marked as revoked")
        if self._mode not in {STRICT, ACCEPT_NEW}:
            self._compare_pinned(shown)
        elif not any(line.blob == blob for line in self._known):
            if self._known:
                raise HostRefused(self._changed(shown))
            if self._mode == STRICT:
                raise HostRefused(self._unknown(shown))
            self._remember(key)

    def _compare_pinned(self, shown: str) -> None:
        if self.presented != self._mode:
            raise HostRefused(
                f"{self._hop}: the host presents the key {shown}, the inventory pins {self._mode}. "
                "Either it was installed anew, or somebody stands in between, or another of its "
                "keys was pinned: compare with `ssh-keygen -lf` on the host, then correct host_key"
            )

    def _changed(self, shown: str) -> str:
        known = ", ".join(map(str, self._known))
        forget = f"ssh-keygen -f '{self._known[0].file}' -R '{self._hop.host_key_name}'"
        return (
            f"{self._hop}: the host key has CHANGED. Known: {known}; presented: {shown}. Either "
            "the host was installed anew or somebody stands in between; nothing was sent. If the "
            f"new key is right: {forget}, then connect once with ssh and compare the fingerprint"
        )

    def _unknown(self, shown: str) -> str:
        hop = self._hop
        files = ", ".join(map(str, hop.known_hosts)) or "any known_hosts file"
        text = (
            f"{hop}: the host key {shown} is not known (no {hop.host_key_name} in {files}). "
            f"Connect once with `ssh {hop.label}` and compare the fingerprint, or set host_key in "
            f"the inventory: accept-new, or this fingerprint"
        )
        if any(line.marker == "cert-authority" for line in self._lines):
            text += ". (Its certificate authority is known, but host certificates are not checked)"
        return text

    def _remember(self, key: paramiko.PKey) -> None:
        """One appended line, so that others who write the file at the same time lose nothing."""
        hop = self._hop
        if not hop.known_hosts:
            raise HostRefused(f"{hop}: accept-new needs a UserKnownHostsFile to write the key to")
        file = hop.known_hosts[0]
        name = hop.host_key_name
        if hop.hash_known_hosts:
            name = paramiko.HostKeys.hash_host(name)
        line = f"{name} {key.get_name()} {key.get_base64()}\n"
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            before = file.read_bytes() if file.exists() else b""
            if before and not before.endswith(b"\n"):
                line = "\n" + line
            descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with open(descriptor, "wb", buffering=0) as out:  # noqa: PTH123 - a descriptor
                out.write(line.encode())
        except OSError as error:
            raise HostRefused(f"{hop}: the new host key cannot be kept: {error}") from error
