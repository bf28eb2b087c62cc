"""Inventory and config in, exact unit text out: one pair of files in cases/ for each rule."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweep.errors import InventoryError
from sweep.inventory import HostSpec, Scalar, SecretRef, ServerSpec
from sweep.plan import ServerConfig
from sweep.unit import RenderedUnit, Templates, render

CASES = Path(__file__).parent / "cases"


def unit_of(case: dict[str, Any]) -> RenderedUnit:
    """A case is a host as in the inventory, and the flags and environment of one launch."""
    host = HostSpec.model_validate(frozen(case["host"]), strict=False)
    args, env = dict(case.get("args") or {}), dict(case.get("env") or {})
    given: Any = frozen(args)
    config = ServerConfig(args=tuple(given.items()), env=tuple(env.items()))
    return render(host, config, run_id="r-1", launch_id="l-03", templates=Templates())


def frozen(value: object) -> object:
    if isinstance(value, dict):
        return {key: frozen(item) for key, item in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.yaml")))
def test_case(name: str) -> None:
    unit = unit_of(yaml.safe_load((CASES / f"{name}.yaml").read_text()))
    assert unit.text == (CASES / f"{name}.service").read_text()
    assert unit.sha256 == hashlib.sha256(unit.text.encode()).hexdigest()


def render_with(
    server: ServerSpec, *args: tuple[str, object], scope: str = "system"
) -> RenderedUnit:
    host = HostSpec(server=server, scope=scope)  # type: ignore[arg-type]
    config = ServerConfig(args=args, env=())  # type: ignore[arg-type]
    return render(host, config, run_id="r-1", launch_id="l-01", templates=Templates())


PROGRAM = ("/bin/server",)


def test_what_the_caller_learns() -> None:
    secrets = {"HF_TOKEN": SecretRef(env="T"), "api-key": SecretRef(env="K")}
    unit = render_with(ServerSpec(command=PROGRAM, secrets=secrets), ("tp", 4), ("x", "-y"))
    assert unit.name == "sglang-sweep.service"
    assert unit.argv == (
        "/bin/server", "--tp", "4", "--x=-y", "--host", "127.0.0.1", "--port", "30900",
        "--config", "%t/sweep/r-1/secrets.yaml",
    )  # fmt: skip
    assert unit.environment == {"PYTHONUNBUFFERED": "1"}
    assert unit.secret_env == ("HF_TOKEN",)
    assert unit.secret_flags == ("api-key",)


REFUSED_FLAGS = [
    (("host", "0.0.0.0"), "server.args.host: the tool sets it"),
    (("port", 1), "server.args.port: the tool sets it"),
    (("--tp", 4), "server.args.--tp: '--tp' is not a flag's name"),
    (("model-path", "a\nb"), "server.args.model-path: a newline"),
    (("api-key", "x"), "server.args.api-key: stands in `server.secrets` as well"),
    (("config", "/etc/x.yaml"), "server.args.config: SGLang takes one --config"),
]


@pytest.mark.parametrize(("flag", "says"), REFUSED_FLAGS)
def test_flags_refused(flag: tuple[str, object], says: str) -> None:
    server = ServerSpec(command=PROGRAM, secrets={"api-key": SecretRef(env="K")})
    with pytest.raises(InventoryError) as caught:
        render_with(server, flag)
    assert str(caught.value).startswith(says)


REFUSED_SERVERS: list[tuple[dict[str, object], str]] = [
    ({"command": ("python3",)}, "server.command: 'python3' is not an absolute path"),
    ({"user": "a\nb"}, "server.user: a newline"),
    ({"working_directory": "/x "}, "server.working_directory: systemd cuts off"),
]


@pytest.mark.parametrize(("changed", "says"), REFUSED_SERVERS)
def test_servers_refused(changed: dict[str, object], says: str) -> None:
    with pytest.raises(InventoryError) as caught:
        render_with(ServerSpec(**{"command": PROGRAM, **changed}))  # type: ignore[arg-type]
    assert str(caught.value).startswith(says)


def test_a_user_manager_has_no_other_user() -> None:
    with pytest.raises(InventoryError, match=r"^server\.user: a user's systemd"):
        render_with(ServerSpec(command=PROGRAM, user="x"), scope="user")


REFUSED_DIRECTIVES: list[tuple[str, Scalar, str]] = [
    ("Type", "simple", "follows the one process"),
    ("ExecStart", "/bin/x", "server.command"),
    ("Restart", "always", "must stay ended"),
    ("RestartSec", 5, "must stay ended"),
    ("KillMode", "process", "must be gone"),
    ("LogRateLimitIntervalSec", 30, "every line"),
    ("StandardOutput", "null", "every line"),
    ("Conflicts", "x.service", "`production`"),
    ("Description", "x", "run and launch"),
    ("WantedBy", "multi-user.target", "never enabled"),
    ("Environment", "A=1", "`server.env`"),
    ("User", "x", "`server.user`"),
    ("DynamicUser", True, "`server.user`"),
    ("PrivateNetwork", True, "127.0.0.1"),
    ("RuntimeDirectory", "sweep", "/run/sweep"),
    ("RuntimeDirectory", "a sweep/x", "/run/sweep"),
    ("limitNOFILE", 1, "not the name"),
    ("Nice=5\nUser", 1, "not the name"),
    ("Nice", "5\nUser=x", "newline"),
]


@pytest.mark.parametrize(("name", "value", "says"), REFUSED_DIRECTIVES)
def test_directives_refused(name: str, value: Scalar, says: str) -> None:
    with pytest.raises(InventoryError) as caught:
        render_with(ServerSpec(command=PROGRAM, unit={name: value}))
    assert str(caught.value).startswith(f"server.unit.{name}: ")
    assert says in str(caught.value)
