"""The text of an inventory for a unit that runs today."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sweep.errors import UsageError
from sweep.host import Host
from sweep.init.look import HostLook
from sweep.init.read import UnitFacts, read_unit
from sweep.init.server import ServerDraft, draft_server
from sweep.init.speculation import MOST_STEPS
from sweep.init.yaml_text import comment, flow, scalar
from sweep.inventory import HostSpec, ServerSpec

# A command that is the sweep's own choice and not the unit's is marked so in the file.
_CHECK = "CHECK this command:"


@dataclass(frozen=True)
class InventoryDraft:
    """An inventory's text, and what was changed or left out: a sentence each, without secrets."""

    text: str
    notes: tuple[str, ...]


def from_unit(
    host: Host, host_name: str, address: str, unit: str, *, connected: HostSpec | None = None
) -> InventoryDraft:
    """The inventory for `unit`, which runs on `host` today. Only reads.

    `host_name` is the key it gets in the file, `address` what stands there, `connected` how the
    host was reached (user, become, scope, ssh_port, ...). Raises HostRefused when the host has no
    such service, UsageError when it is the tool's own.
    """
    spec = connected or HostSpec(server=ServerSpec(command=("/bin/true",)))
    facts = read_unit(host, unit, user_scope=spec.scope == "user")
    if facts.name == spec.unit:
        raise UsageError(f"{host.name}: {facts.name} is sweep's own unit; name production's")
    server = draft_server(facts, HostLook(host), user_scope=spec.scope == "user")
    return compose(facts, server, host_name, address, spec)


def compose(
    facts: UnitFacts, server: ServerDraft, host_name: str, address: str, spec: HostSpec
) -> InventoryDraft:
    """The text for what was found out. Pure."""
    notes = (*server.obstacles, *server.notes)
    lines = [*_header(facts, host_name, server.notes), "hosts:", f"  {scalar(host_name)}:"]
    lines += [f"    {line}" for line in _host(facts, server, address, spec)]
    lines += ["", "sweeps:", "  overnight:", f"    host: {scalar(host_name)}"]
    lines.append(f"    steps: {server.first_step}..{MOST_STEPS}")
    lines.append("    concurrency: [1, 4, 16, 32, 64]")
    return InventoryDraft("".join(f"{line}\n" for line in lines), notes)


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet. Raises UsageError when it is, or cannot be written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(
            f"{path} exists already and is left as it is; move it away, or name another with -i"
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _header(facts: UnitFacts, host_name: str, notes: tuple[str, ...]) -> Iterator[str]:
    yield f"# Made by `sweep init --from {comment(host_name)} {comment(facts.name)}` out of"
    yield from (f"#   {comment(path)}" for path in facts.files)
    if notes:
        yield "# What is not as in the unit:"
        yield from (f"#   - {comment(note)}" for note in notes)
    yield "# Next: sweep run --dry-run, sweep check, sweep run"


def _host(facts: UnitFacts, server: ServerDraft, address: str, spec: HostSpec) -> Iterator[str]:
    if spec.transport == "local":
        yield "transport: local"
    else:
        yield f"address: {scalar(address)}"
    for key in ("user", "ssh_port", "identity_file", "ssh_config"):
        value = getattr(spec, key)
        if value is not None:
            yield f"{key}: {scalar(value)}"
    yield f"become: {spec.become}"
    yield f"scope: {spec.scope}"
    if spec.host_key != "strict":
        yield f"host_key: {scalar(spec.host_key)}"
    yield f"production: {flow((facts.name,))}"
    if server.production_health:
        yield f"production_health: {scalar(server.production_health)}"
    yield f"python: {scalar(server.python)}"
    yield "server:"
    yield from (f"  {line}" for line in _server(server))


def _server(server: ServerDraft) -> Iterator[str]:
    if server.obstacles:
        yield f"# {_CHECK}"
        yield from (f"#   {comment(obstacle)}" for obstacle in server.obstacles)
        yield f"#   native command: {comment(server.native)}"
    yield f"command: {flow(server.command)}"
    yield f"port: {server.port}"
    for key in ("user", "group", "working_directory", "env_file"):
        value = getattr(server, key)
        if value is not None:
            yield f"{key}: {scalar(value)}"
    references = {name: f"{{env: {variable}}}" for name, variable in server.secrets.items()}
    for key, values in (("unit", server.unit), ("args", server.args), ("env", server.env)):
        if values:
            yield f"{key}:"
            for name, value in values.items():
                text = flow(value) if isinstance(value, tuple) else scalar(value)
                yield f"  {scalar(name)}: {text}"
    if references:
        yield "secrets:"
        yield from (f"  {scalar(name)}: {text}" for name, text in references.items())
