"""What is sent to the host: the tool, the libraries a run needs there, and the run itself.

A run with `transport: local` needs neither SSH nor pandas. What it does need is pure Python but for
pydantic's core, which has to fit the host's Python: it is ours where both are alike, the host's own
where it has one, else a wheel that pip fetches here.
"""

from __future__ import annotations

import importlib.util
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path, PurePosixPath

from sweep.detached.interpreter import Interpreter
from sweep.detached.place import Place
from sweep.errors import HostRefused, InventoryError
from sweep.inventory import FileWorkload, HostSpec, SecretRef
from sweep.plan_document import plan_from_doc, plan_to_doc
from sweep.results import RunDirectory
from sweep.unit import packaged_templates

PIP_TIMEOUT_S = 120
OLDEST_PYDANTIC = (2, 9)
_PURE = ("sweep", "click", "jinja2", "markupsafe", "rich", "yaml", "typing_extensions")
_PYDANTIC = ("pydantic", "annotated_types", "typing_inspection")
_CORE = "pydantic_core"
_LEFT_OUT = ("__pycache__", "demo")  # the demo host is not taken along
_NOT_SENT = ("lock", "detached.json", "plan.json")

Files = Iterator[tuple[str, bytes]]


@dataclass(frozen=True)
class Bundle:
    """Files by their path below the place on the host."""

    files: Mapping[str, bytes]

    def to_tar(self) -> bytes:
        """A compressed archive; nothing in it is for anybody else to read."""
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w:gz", compresslevel=6) as archive:
            for name, data in self.files.items():
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(data), 0o600
                archive.addfile(member, io.BytesIO(data))
        return made.getvalue()


def tool_files(python: Interpreter) -> Files:
    """lib/: what the interpreter needs to run the tool. HostRefused: it cannot be had."""
    for name in _PURE:
        yield from _module(name)
    for path in sorted(packaged_templates().glob("*.j2")):
        yield f"lib/sweep/templates/{path.name}", path.read_bytes()
    if not python.like_ours and _has_pydantic(python):
        return
    for name in _PYDANTIC:
        yield from _module(name)
    yield from _module(_CORE) if python.like_ours else _fetched_core(python)


def run_files(run: RunDirectory, spec: HostSpec, place: Place, templates: Path | None) -> Files:
    """runs/RUN/ as it is, but for its plan, which speaks of the host from within; and what that
    plan reads: the user's own unit templates, the texts of a workload."""
    document = run.plan()
    plan = plan_from_doc(document.get("plan", {}))
    workload = getattr(plan.benchmark, "workload", None)
    if isinstance(workload, FileWorkload):
        file = f"workload/{PurePosixPath(workload.file).name}"
        yield file, _content(workload)
        moved = workload.model_copy(update={"file": f"{place.base}/{file}"})
        plan = replace(plan, benchmark=plan.benchmark.model_copy(update={"workload": moved}))
    if templates is not None:
        for path in sorted(templates.rglob("*")):
            if path.is_file():
                yield f"templates/{path.relative_to(templates).as_posix()}", path.read_bytes()
    host = seen_from_itself(spec, place.secrets).model_dump(mode="json", exclude_defaults=True)
    there = {
        **document,
        "plan": plan_to_doc(plan),
        "host": host,
        "inventory": f"{place.base}/inventory.yaml",
        "sent": True,
        "templates": f"{place.base}/templates" if templates else None,
    }
    yield f"runs/{run.id}/plan.json", json.dumps(there).encode()
    for path in sorted(run.path.rglob("*")):
        name = path.relative_to(run.path).as_posix()
        if path.is_file() and name not in _NOT_SENT and not path.name.startswith("."):
            yield f"runs/{run.id}/{name}", path.read_bytes()


def _content(workload: FileWorkload) -> bytes:
    try:
        return Path(workload.file).read_bytes()
    except OSError as error:
        raise InventoryError(f"{workload.file}: cannot be read: {error.strerror}") from error


def seen_from_itself(spec: HostSpec, secrets: str) -> HostSpec:
    """The host as it is to a tool that runs on it; its secrets lie in the directory `secrets`."""
    changes: dict[str, object] = dict.fromkeys(
        ("user", "ssh_port", "identity_file", "ssh_config"), None
    )
    references = {name: SecretRef(file=f"{secrets}/{name}") for name in spec.server.secrets}
    server = spec.server.model_copy(update={"secrets": references})
    changes |= {"transport": "local", "address": "", "host_key": "strict", "become": "none"}
    return spec.model_copy(update={**changes, "server": server})


def _module(name: str) -> Files:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise HostRefused(
            f"--detach=host: {name} is not installed here as files that can be copied"
        )
    origin = Path(spec.origin)
    if spec.submodule_search_locations is None:
        yield f"lib/{origin.name}", origin.read_bytes()
        return
    folder = origin.parent
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not set(inside.parts) & set(_LEFT_OUT):
            yield f"lib/{name}/{inside.as_posix()}", path.read_bytes()


def _has_pydantic(python: Interpreter) -> bool:
    numbers = (python.pydantic or "0.0").split(".")[:2]
    return all(n.isdigit() for n in numbers) and tuple(map(int, numbers)) >= OLDEST_PYDANTIC


def _fetched_core(python: Interpreter) -> Files:
    """The core's wheel for the host's Python, by pip, from whatever index pip is set to."""
    wanted = f"{_CORE.replace('_', '-')}=={metadata.version(_CORE)}"
    with tempfile.TemporaryDirectory(prefix="sweep-wheel-") as folder:
        why = _download(wanted, python, folder)
        wheels = list(Path(folder).glob("*.whl"))
        if not wheels:
            raise HostRefused(
                f"--detach=host: {python.text} has no pydantic "
                f"{'.'.join(map(str, OLDEST_PYDANTIC))} of its own, and {wanted} for it cannot be "
                f"fetched here: {why}. Install pydantic for that Python, or use --detach, which "
                "sweeps from here"
            )
        with zipfile.ZipFile(wheels[0]) as wheel:
            for name in wheel.namelist():
                if PurePosixPath(name).parts[0] == _CORE and not name.endswith("/"):
                    yield f"lib/{name}", wheel.read(name)


def _download(wanted: str, python: Interpreter, folder: str) -> str:
    """Fetch a wheel into the folder; pip's last words."""
    words = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--only-binary=:all:", "--dest", folder, "--implementation=cp",
        f"--python-version={python.version[0]}.{python.version[1]}",
        f"--platform=manylinux2014_{python.machine}",
        f"--platform=manylinux_2_17_{python.machine}", wanted,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=PIP_TIMEOUT_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return " ".join(done.stderr.strip().splitlines()[-1:])
