"""What to paste: the command line and the unit of a recommended server, from the run's own plan.

A launch of the sweep lives beside production for minutes; what is pasted replaces production. So
it restarts on failure, conflicts with nothing, and names the secrets that it does not hold.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sweep.inventory import HostSpec
from sweep.plan import Launch
from sweep.report.data import Source
from sweep.report.summary import Group
from sweep.unit import RenderedUnit, Templates, render

# Where SGLang listens unless it is told: the sweep's own port is the one that production must not
# have, or the next sweep cannot start beside it.
_USUAL_PORT = 30000
_SPECULATION = ("--speculative-num-steps", "--speculative-eagle-topk")


@dataclass(frozen=True)
class Pasted:
    """`command` for a shell, `service` a whole unit file, `notes` what is left to do by hand."""

    command: str
    service: str
    notes: tuple[str, ...]


def paste_for(
    source: Source, group: Group, steps: int | None, templates: Path | None = None
) -> Pasted | None:
    """What to paste for these steps of a run, from its own plan and unit template.

    `templates`: a directory of templates instead of the run's own. None for a table, which has no
    plan, and for steps that the run has no launch of.

    Raises:
        InventoryError: the unit template is gone or broken.
    """
    launch_id = group.launches.get(steps) if steps is not None else None
    launches = source.plan.launches if source.plan else ()
    launch = next((one for one in launches if one.id == launch_id), None)
    if launch is None or "host" not in source.document:
        return None
    saved = source.document.get("templates")
    host = HostSpec.model_validate_json(json.dumps(source.document["host"]))
    found = Templates(templates or (Path(str(saved)) if saved else None))
    return pasted(host, launch, source.id, found)


def pasted(host: HostSpec, launch: Launch, run_id: str, templates: Templates) -> Pasted:
    """The server of a launch as production.

    Raises:
        InventoryError: the unit template is broken.
    """
    rendered = render(
        _as_production(host), launch.config, run_id=run_id, launch_id=launch.id,
        templates=templates,
    )  # fmt: skip
    environment = " ".join(
        f"{name}={shlex.quote(value)}"
        for name, value in rendered.environment.items()
        if name != "PYTHONUNBUFFERED"
    )
    command = f"{environment} {_folded(rendered.argv)}".strip()
    notes = tuple(_notes(host))
    # A user's own manager has no multi-user.target.
    target = "default.target" if host.scope == "user" else "multi-user.target"
    return Pasted(command, _service(rendered, launch, (run_id, target), notes), notes)


def flags_alone(steps: int, topk: int | None) -> str:
    """What is known without a plan: the flags that decide; none for steps 0."""
    if not steps:
        return ""
    return shlex.join((_SPECULATION[0], str(steps), _SPECULATION[1], str(topk or 1)))


def _as_production(host: HostSpec) -> HostSpec:
    server = host.server.model_copy(update={"port": _port(host), "secrets": {}})
    name = host.production[0] if isinstance(host.production, tuple) and host.production else None
    update = {"server": server, "production": (), "unit": name or "sglang.service"}
    return host.model_copy(update=update)


def _port(host: HostSpec) -> int:
    """Production's own port, where its health address names one."""
    return urlsplit(host.production_health or "").port or _USUAL_PORT


def _notes(host: HostSpec) -> list[str]:
    said = [f"it listens on 127.0.0.1:{_port(host)}; change --host and --port to what you serve on"]
    if not urlsplit(host.production_health or "").port:
        said[0] += ": production_health names no port, and this is SGLang's usual one"
    if host.server.secrets:
        names = ", ".join(host.server.secrets)
        said.append(f"it holds no secrets: give it {names} as production has them")
    return said


def _folded(argv: tuple[str, ...]) -> str:
    """A command line, a flag a line."""
    lines: list[str] = []
    for word in argv:
        if word.startswith("--") or not lines:
            lines.append(shlex.quote(word))
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return " \\\n  ".join(lines)


def _service(
    rendered: RenderedUnit, launch: Launch, place: tuple[str, str], notes: tuple[str, ...]
) -> str:
    """`place`: the run it is from, and the target that starts it."""
    run_id, target = place
    body = re.sub(r"\A(?:[ \t]*(?:#[^\n]*)?\n)+", "", rendered.text)
    body = re.sub(r"(?m)^Restart=no$", "Restart=on-failure\nRestartSec=10", body)
    what = f"SGLang with {launch.label}, recommended by sweep from run {run_id}"
    label = launch.label.replace("%", "%%")
    body = re.sub(r"(?m)^Description=.*$", lambda _: f"Description=SGLang, {label}", body)
    head = [f"# {rendered.name}: {what}.", *(f"# {note[0].upper()}{note[1:]}." for note in notes)]
    if "[Install]" not in body:
        body = body.rstrip("\n") + f"\n\n[Install]\nWantedBy={target}\n"
    return "\n".join(head) + "\n" + body
