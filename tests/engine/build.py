"""Sets the engine up: its packages and its models, once, in a cache folder.

    python -m tests.engine.build

prints where it is and what it took. The folder is $SWEEP_ENGINE_CACHE, else sweep-tests/engine
under $XDG_CACHE_HOME or ~/.cache. What lies there is used again as long as its name, which holds a
hash of all that went into it, is the one wanted; older states are removed.

Nothing but pip is needed, a Python 3.11 (the test hosts', which run the packages, is one), 7 GB
while it works and half of that afterwards. torch comes from wherever pip is configured to look;
$SWEEP_ENGINE_TORCH_INDEX names another index. Only a CPU build of it is taken.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PathDistribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
PINS = HERE / "pins.txt"
TRAINER = HERE / "models.py"
STANDIN = HERE / "standin"
PYTHON = "3.11"
INSTALL_S, TRAIN_S = 1200, 400
ROOM_GB, MOST_GB = 7, 5
# What SGLang requires for GPUs only, and what would bring a CUDA build of torch with it.
CUDA_ONLY = frozenset({
    "cuda-python", "flash-attn-4", "flashinfer-python", "humming-kernels", "nvidia-cutlass-dsl",
    "nvidia-mathdx", "nvshmem4py-cu13", "quack-kernels", "sgl-deep-ep", "sgl-deep-gemm",
    "sgl-flash-mla", "sglang-kernel", "tilelang", "timm", "torch-memory-saver", "torchaudio",
    "torchcodec",
})  # fmt: skip
# SGLang on a CPU, one thread. Compiling would take longer than it saves.
ENVIRONMENT = {
    "SGLANG_USE_CPU_ENGINE": "1",
    "SGLANG_CPU_OMP_THREADS_BIND": "0",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
}


class NoEngineError(Exception):
    """Why there can be no engine on this machine."""


@dataclass(frozen=True)
class Engine:
    """Where the parts are, on this machine. Any Python 3.11 runs it with `path` as PYTHONPATH."""

    python: Path
    packages: Path
    models: Path

    @property
    def path(self) -> str:
        return f"{STANDIN}:{self.packages}"

    @property
    def environment(self) -> dict[str, str]:
        return {**ENVIRONMENT, "PYTHONPATH": self.path, "PYTHONDONTWRITEBYTECODE": "1"}


def engine() -> Engine:
    """The engine, set up if it is not. Raises NoEngineError."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "lock"):
        tree = cache / f"packages-{stamp(PYTHON, PINS.read_text(), *sorted(CUDA_ONLY))}"
        python = tree / "bin" / "python"
        if not ready(tree):
            make_room(cache, "packages-*")
            install(tree)
        models = cache / f"models-{stamp(tree.name, TRAINER.read_text())}"
        if not ready(models):
            make_room(cache, "models-*")
            train(python, site(tree), models)
        return Engine(python, site(tree), models)


def cache_folder() -> Path:
    own = os.environ.get("SWEEP_ENGINE_CACHE")
    shared = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(own) if own else Path(shared) / "sweep-tests" / "engine"


def stamp(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def site(tree: Path) -> Path:
    return tree / "lib" / f"python{PYTHON}" / "site-packages"


def ready(directory: Path) -> bool:
    return (directory / "ready").exists()


def make_room(cache: Path, pattern: str) -> None:
    """Removes older states, and what a build that was ended left behind."""
    for old in cache.glob(pattern):
        shutil.rmtree(old)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def install(tree: Path) -> None:
    free = shutil.disk_usage(tree.parent).free / 1e9
    if free < ROOM_GB:
        raise NoEngineError(f"setting SGLang up takes {ROOM_GB} GB, {tree.parent} has {free:.1f}")
    until = time.monotonic() + INSTALL_S
    run([interpreter(), "-m", "venv", "--without-pip", str(tree)], until)
    pins = {Requirement(line).name: line for line in PINS.read_text().splitlines() if "==" in line}
    index = os.environ.get("SWEEP_ENGINE_TORCH_INDEX")
    torch = [pins["torch"], *(["--index-url", index] if index else [])]
    refuse_cuda(torch, tree, until)
    pip(tree, until, *torch)
    pip(tree, until, "--no-deps", pins["torchvision"], pins["sglang"])
    pip(tree, until, pins["triton"], *requirements(site(tree)))
    size = sum(file.lstat().st_size for file in tree.rglob("*")) / 1e9
    if size > MOST_GB:
        raise NoEngineError(f"SGLang's packages take {size:.1f} GB: is there CUDA among them?")
    (tree / "ready").touch()


def interpreter() -> str:
    if sys.version_info[:2] == (3, 11):
        return sys.executable
    found = shutil.which(f"python{PYTHON}")
    if not found:
        raise NoEngineError(f"SGLang's packages are set up by a Python {PYTHON}: there is none")
    return found


def refuse_cuda(torch: list[str], tree: Path, until: float) -> None:
    """Asks which torch it would be: a CUDA build brings gigabytes of libraries with it."""
    report = pip(tree, until, "--dry-run", "--no-deps", "--report", "-", *torch)
    metadata = json.loads(report)["install"][0]["metadata"]
    needed = [Requirement(line).name for line in metadata.get("requires_dist", ())]
    if any(name.startswith(("nvidia-", "cuda-")) for name in needed):
        raise NoEngineError(
            f"{torch[0]} is a CUDA build here; set SWEEP_ENGINE_TORCH_INDEX to an index with CPU "
            "builds of it"
        )


def requirements(packages: Path) -> list[str]:
    """What sglang requires, without what is pinned or for GPUs only."""
    (metadata,) = packages.glob("sglang-*.dist-info")
    kept = []
    for line in PathDistribution(metadata).requires or ():
        wanted = Requirement(line)
        if wanted.marker and not wanted.marker.evaluate({"extra": ""}):
            continue
        pinned = {"torch", "torchvision", "triton"}
        if canonicalize_name(wanted.name) not in CUDA_ONLY | pinned:
            wanted.marker = None
            kept.append(str(wanted))
    return kept


def pip(tree: Path, until: float, *arguments: str) -> str:
    common = ["--quiet", "--disable-pip-version-check", "--no-input", "--root-user-action=ignore"]
    python = ["--python", str(tree / "bin" / "python")]
    return run([sys.executable, "-m", "pip", *python, "install", *common, *arguments], until)


def train(python: Path, packages: Path, directory: Path) -> None:
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": f"{STANDIN}:{packages}"}
    command = ["nice", "-n", "10", str(python), str(TRAINER), str(directory)]
    run(command, time.monotonic() + TRAIN_S, environment)
    (directory / "ready").touch()


def run(command: list[str], until: float, environment: dict[str, str] | None = None) -> str:
    """Its standard output; NoEngineError with its last words when it fails or takes too long."""
    shown = " ".join(command)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False,
            timeout=max(1.0, until - time.monotonic()),
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise NoEngineError(f"{shown}: not done in time") from error
    except OSError as error:
        raise NoEngineError(f"{shown}: {error}") from error
    if done.returncode:
        words = "\n".join(done.stderr.splitlines()[-8:])
        raise NoEngineError(f"{shown}: status {done.returncode}\n{words}")
    return done.stdout


def main() -> int:
    began = time.monotonic()
    try:
        made = engine()
    except NoEngineError as error:
        print(f"no engine: {error}", file=sys.stderr)
        return 1
    print(f"packages {made.packages}\nmodels   {made.models}")
    print(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
