"""Every exception of paramiko's has a meaning here."""

from __future__ import annotations

import inspect
import socket

import fabric.exceptions
import paramiko
import pytest
from paramiko import ssh_exception

from sweep.errors import HostError, HostRefused, HostUnreachable
from sweep.host.trouble import MEANINGS, translate, translated

KEY = paramiko.RSAKey.generate(1024)
SAMPLES = {
    ssh_exception.BadAuthenticationType: lambda kind: kind("no keys", ["password"]),
    ssh_exception.PartialAuthentication: lambda kind: kind(["password"]),
    ssh_exception.ChannelException: lambda kind: kind(1, "prohibited"),
    ssh_exception.BadHostKeyException: lambda kind: kind("host", KEY, KEY),
    ssh_exception.ProxyCommandFailure: lambda kind: kind("nc", "gone"),
    ssh_exception.NoValidConnectionsError: lambda kind: kind({("::1", 22): OSError("no")}),
}
PARAMIKO = [
    kind
    for _, kind in inspect.getmembers(ssh_exception, inspect.isclass)
    if issubclass(kind, Exception) and kind.__module__ == ssh_exception.__name__
]


@pytest.mark.parametrize("kind", PARAMIKO)
def test_all_of_paramikos_are_mapped_by_name(kind: type[Exception]) -> None:
    assert kind in MEANINGS
    error = SAMPLES.get(kind, lambda kind: kind("words\nof paramiko"))(kind)
    ours = translate(error, "gpu1: cannot connect")
    assert type(ours) is MEANINGS[kind].error
    assert str(ours).startswith("gpu1: cannot connect: ")
    assert "\n" not in str(ours)


def test_fabric_has_none_that_opening_a_connection_raises() -> None:
    """Its own are about groups, tasks and version 1; a new one has to be looked at."""
    names = {name for name, _ in inspect.getmembers(fabric.exceptions, inspect.isclass)}
    assert names == {"GroupException", "InvalidV1Env", "NothingToDo"}


def test_a_class_stands_before_what_it_is_derived_from() -> None:
    kinds = list(MEANINGS)
    for place, kind in enumerate(kinds):
        hidden = [later for later in kinds[place + 1 :] if issubclass(later, kind)]
        assert not hidden, f"{kind} hides {hidden}"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (socket.gaierror(-2, "Name or service not known"), HostUnreachable),
        (ConnectionRefusedError(111, "Connection refused"), HostUnreachable),
        (ConnectionResetError(104, "reset"), HostUnreachable),
        (TimeoutError("timed out"), HostUnreachable),
        (EOFError(), HostUnreachable),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad banner"), HostUnreachable),
        (paramiko.pkey.UnknownKeyType("ssh-dss", b""), HostRefused),
    ],
)
def test_the_networks_are_mapped(error: Exception, kind: type[HostError]) -> None:
    with pytest.raises(kind) as caught, translated("gpu1: cannot connect"):
        raise error
    assert caught.value.__cause__ is error


def test_ours_stay_as_they_are() -> None:
    ours = HostRefused("not this one")
    with pytest.raises(HostRefused) as caught, translated("gpu1: cannot connect"):
        raise ours
    assert caught.value is ours


def test_bugs_stay_bugs() -> None:
    with pytest.raises(AttributeError), translated("gpu1: cannot connect"):
        raise AttributeError("a bug")
