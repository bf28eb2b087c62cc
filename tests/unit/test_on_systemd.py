"""What a real systemd hands to the process is what was meant, for arbitrary text.

Each example is a batch of launches. Their program writes the argv and environment it was given to
files named after its unit; the units themselves are the ones `render` makes.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweep.inventory import FlagValue, HostSpec, SecretRef, ServerSpec
from sweep.plan import ServerConfig
from sweep.unit import RenderedUnit, Templates, render, secret_files
from tests.testhost import Machine

pytestmark = pytest.mark.testhost

PLACE = "/run/sweep-unit-test"
# The kernel adds the interpreter and the script's path to what a script is started with.
DUMP = f"""#!/bin/sh
while read -r line; do unit=${{line##*/}}; done </proc/self/cgroup
/bin/cat /proc/$$/cmdline >"{PLACE}/$unit.argv"
/bin/cat /proc/$$/environ >"{PLACE}/$unit.environ"
"""
PROGRAMS = ("dump", "-dump", "@+!:|dump", "50% dump", "dump é☃", "{dump}")
START = """
systemctl daemon-reload
systemctl start "$@"
while systemctl is-active --quiet "$@"; do sleep 0.01; done
"""

AWKWARD = st.sampled_from("\\\"'%$`;#~{}()*&|<>!?=-:@+ \tAB0nHé☃😀\u00a0\u2028\ufeff")
ANY = st.characters(exclude_categories=("Cs",), exclude_characters="\0\n").filter(
    lambda character: ord(character) & 0xFFFE != 0xFFFE and not 0xFDD0 <= ord(character) < 0xFDF0
)
PRINTABLE = ANY.filter(
    lambda character: character == "\t" or not (character < " " or character == "\x7f")
)
WORDS = st.text(AWKWARD, max_size=12) | st.text(ANY, max_size=12)
VALUES = st.text(AWKWARD, max_size=12) | st.text(PRINTABLE, max_size=12)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


@dataclass(frozen=True)
class Meant:
    """A launch as the user means it."""

    program: str
    command: tuple[str, ...]
    flags: tuple[FlagValue, ...]
    env: tuple[str, ...]
    secret_env: tuple[str, ...]

    def unit(self, name: str) -> RenderedUnit:
        templates = Templates(cwd=Path("/nonexistent"))
        config = ServerConfig(
            args=tuple((f"flag-{number}", value) for number, value in enumerate(self.flags)),
            env=tuple((f"E{number}", value) for number, value in enumerate(self.env)),
        )
        host = HostSpec(unit=name, server=self.server())
        return render(host, config, run_id=name, launch_id="l-01", templates=templates)

    def server(self) -> ServerSpec:
        secrets = {
            f"S{number}": SecretRef(env=f"S{number}") for number in range(len(self.secret_env))
        }
        return ServerSpec(command=(f"{PLACE}/{self.program}", *self.command), secrets=secrets)

    def secrets(self) -> bytes | None:
        here = {f"S{number}": value for number, value in enumerate(self.secret_env)}
        return secret_files(self.server(), here).env

    def argv(self) -> list[str]:
        words = [*self.command]
        for number, value in enumerate(self.flags):
            words += _flag(f"--flag-{number}", value)
        return [*words, "--host", "127.0.0.1", "--port", "30900"]

    def environment(self) -> dict[str, str]:
        meant = {f"E{number}": value for number, value in enumerate(self.env)}
        meant |= {f"S{number}": value for number, value in enumerate(self.secret_env)}
        return {"PYTHONUNBUFFERED": "1", **meant}


def _flag(flag: str, value: FlagValue) -> list[str]:
    if isinstance(value, bool):
        return [flag] if value else []
    if isinstance(value, tuple):
        return [flag, *map(str, value)]
    return [f"{flag}={value}"] if str(value).startswith("-") else [flag, str(value)]


LAUNCHES = st.builds(
    Meant,
    program=st.sampled_from(PROGRAMS),
    command=st.lists(WORDS, max_size=3).map(tuple),
    flags=st.lists(
        WORDS | NUMBERS | st.booleans() | st.lists(WORDS | NUMBERS, max_size=3).map(tuple),
        max_size=4,
    ).map(tuple),
    env=st.lists(VALUES, max_size=4).map(tuple),
    secret_env=st.lists(VALUES.filter(bool), max_size=2).map(tuple),
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(launches=st.lists(LAUNCHES, min_size=1, max_size=40))
def test_the_process_gets_what_was_meant(machine: Machine, launches: list[Meant]) -> None:
    run = machine.live_root / "run"
    place = machine.live_root / PLACE.lstrip("/")
    names = [f"meant{number}.service" for number in range(len(launches))]
    place.mkdir()
    try:
        for program in PROGRAMS:
            (place / program).write_text(DUMP)
            (place / program).chmod(0o755)
        for name, launch in zip(names, launches, strict=True):
            install(run, name, launch)
        machine.run("sh", "-c", START, "sh", *names)
        for name, launch in zip(names, launches, strict=True):
            check(place, name, launch)
    finally:
        shutil.rmtree(place)
        for name in names:
            (run / "systemd/system" / name).unlink(missing_ok=True)
            shutil.rmtree(run / "sweep" / name, ignore_errors=True)


def install(run: Path, name: str, launch: Meant) -> None:
    (run / "systemd/system" / name).write_text(launch.unit(name).text)
    secrets = launch.secrets()
    if secrets is not None:
        (run / "sweep" / name).mkdir(parents=True)
        (run / "sweep" / name / "secrets.env").write_bytes(secrets)


def check(place: Path, name: str, launch: Meant) -> None:
    """Compared as bytes: systemd and the kernel know no characters."""
    seen = (place / f"{name}.argv").read_bytes().split(b"\0")[1:-1]
    assert seen == [
        f"{PLACE}/{launch.program}".encode(),
        *(word.encode() for word in launch.argv()),
    ]
    assert [word.encode() for word in launch.unit(name).argv] == seen
    pairs = (place / f"{name}.environ").read_bytes().split(b"\0")[:-1]
    environ = dict(pair.split(b"=", 1) for pair in pairs)
    for variable, value in launch.environment().items():
        assert environ[variable.encode()] == value.encode(), variable


def test_systemd_agrees_with_the_whole_unit(machine: Machine) -> None:
    """Every directive of a full unit is known and effective on the oldest systemd at hand."""
    server = ServerSpec(
        command=("/bin/sleep", "30"),
        user="ops",
        working_directory="/home/ops",
        unit={"LimitNOFILE": 4321, "StartLimitBurst": 7},
    )
    host = HostSpec(unit="meant.service", production=("other.service",), server=server)
    config = ServerConfig(args=(), env=())
    templates = Templates(cwd=Path("/nonexistent"))
    unit = render(host, config, run_id="r-1", launch_id="l-01", templates=templates)
    path = machine.live_root / "run/systemd/system/meant.service"
    path.write_text(unit.text)
    try:
        machine.sh("systemctl daemon-reload")
        verify = machine.run("systemd-analyze", "verify", "--man=no", "meant.service", check=False)
        assert "Unknown" not in verify.stderr
        assert "meant.service:" not in verify.stderr
        names = (
            "Type,Restart,KillMode,LogRateLimitIntervalUSec,TimeoutStopUSec,User,WorkingDirectory,"
            "LimitNOFILE,StartLimitBurst,Conflicts,Description"
        )
        shown = machine.sh(f"systemctl show -p {names} meant.service").splitlines()
        properties = dict(line.split("=", 1) for line in shown)
        assert "other.service" in properties.pop("Conflicts").split()
        assert properties == {
            "Type": "exec", "Restart": "no", "KillMode": "control-group",
            "LogRateLimitIntervalUSec": "0", "TimeoutStopUSec": "1min 30s", "User": "ops",
            "WorkingDirectory": "/home/ops", "LimitNOFILE": "4321", "StartLimitBurst": "7",
            "Description": "sweep r-1 l-01: speculative-num-steps=0",
        }  # fmt: skip
    finally:
        path.unlink()
        machine.sh("systemctl daemon-reload")


def test_a_user_manager_finds_its_own_runtime_directory(machine: Machine) -> None:
    """The same text in a user manager: `%t` is /run/user/UID there."""
    launch = Meant("dump", (), ("x",), ("y",), ("secret",))
    uid = machine.sh("id -u plain")
    run, place = machine.live_root / f"run/user/{uid}", machine.live_root / PLACE.lstrip("/")
    units = run / "systemd/user"
    place.mkdir()
    try:
        place.chmod(0o777)
        (place / "dump").write_text(DUMP)
        (place / "dump").chmod(0o755)
        units.mkdir(parents=True, exist_ok=True)
        (units / "meant.service").write_text(launch.unit("meant.service").text)
        (run / "sweep/meant.service").mkdir(parents=True)
        (run / "sweep/meant.service/secrets.env").write_bytes(launch.secrets() or b"")
        bus = f"XDG_RUNTIME_DIR=/run/user/{uid}"
        script = START.replace("systemctl", "systemctl --user")
        machine.run("setpriv", "--reuid=plain", "--regid=plain", "--init-groups",
                    "env", bus, "sh", "-c", script, "sh", "meant.service")  # fmt: skip
        check(place, "meant.service", launch)
    finally:
        shutil.rmtree(place)
        (units / "meant.service").unlink(missing_ok=True)
        shutil.rmtree(run / "sweep", ignore_errors=True)
