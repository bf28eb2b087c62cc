"""What SSH and the network raise, each as one of our errors, with what to do about it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from paramiko import ssh_exception
from paramiko.pkey import UnknownKeyType

from sweep.errors import HostError, HostRefused, HostUnreachable


@dataclass(frozen=True)
class Meaning:
    """HostUnreachable is worth another try later, HostRefused is not."""

    error: type[HostError]
    advice: str


# Looked through from the top, so a class stands before those it is derived from.
MEANINGS: dict[type[Exception], Meaning] = {
    ssh_exception.PasswordRequiredException: Meaning(
        HostRefused, "The private key is encrypted and no agent holds it: run ssh-add first."
    ),
    ssh_exception.BadAuthenticationType: Meaning(
        HostRefused, "The host takes no keys from this user; the tool never enters a password."
    ),
    ssh_exception.PartialAuthentication: Meaning(
        HostRefused, "The host wants more than a key; the tool can give nothing else."
    ),
    ssh_exception.UnableToAuthenticate: Meaning(
        HostRefused, "No key could be tried: name an identity_file, or start an agent."
    ),
    ssh_exception.AuthenticationException: Meaning(
        HostRefused, "None of the keys is accepted: see authorized_keys of this user on the host."
    ),
    ssh_exception.BadHostKeyException: Meaning(
        HostRefused, "The host key is not the known one: find out why before connecting again."
    ),
    ssh_exception.IncompatiblePeer: Meaning(
        HostRefused, "The host's SSH server and this one have no algorithm in common."
    ),
    ssh_exception.ConfigParseError: Meaning(HostRefused, "Correct the SSH configuration."),
    ssh_exception.CouldNotCanonicalize: Meaning(
        HostUnreachable, "The host's name does not resolve: is it spelled right?"
    ),
    ssh_exception.ChannelException: Meaning(
        HostUnreachable, "The host refused another session: see MaxSessions in its sshd_config."
    ),
    ssh_exception.ProxyCommandFailure: Meaning(
        HostUnreachable, "Try the ProxyCommand of the SSH configuration by hand."
    ),
    ssh_exception.MessageOrderError: Meaning(
        HostUnreachable, "The conversation was disturbed; nothing was sent to the host."
    ),
    ssh_exception.NoValidConnectionsError: Meaning(
        HostUnreachable, "No address of the host answers: is sshd running there?"
    ),
    ssh_exception.SSHException: Meaning(
        HostUnreachable, "Try `ssh` to the same host by hand; sshd's log has its side."
    ),
    socket.gaierror: Meaning(HostUnreachable, "The name does not resolve: is it spelled right?"),
    ConnectionRefusedError: Meaning(HostUnreachable, "No SSH server listens on this port."),
    TimeoutError: Meaning(HostUnreachable, "The host does not answer: is it up and routed to?"),
    EOFError: Meaning(HostUnreachable, "The other side closed the connection."),
    OSError: Meaning(HostUnreachable, "The network failed."),
    UnknownKeyType: Meaning(HostRefused, "The host has a kind of key that is not supported."),
    UnsupportedAlgorithm: Meaning(HostRefused, "The host wants an algorithm we do not have."),
    ValueError: Meaning(HostUnreachable, "The other side does not speak SSH as it should."),
}
FOREIGN = tuple(MEANINGS)


def translate(error: Exception, what: str) -> HostError:
    """Our error for a foreign one. `what` says what failed and where."""
    meaning = next(m for kind, m in MEANINGS.items() if isinstance(error, kind))
    said = " ".join(str(error).split()) or type(error).__name__
    return meaning.error(f"{what}: {said}. {meaning.advice}")


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Foreign errors leave the block as ours; ours leave it as they are."""
    try:
        yield
    except FOREIGN as error:
        raise translate(error, what) from error
