"""A test host dressed as a GPU host: production under systemd, a server to sweep, an inventory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import yaml

from tests.testhost import Machine

SIMULATOR = ("/usr/bin/python3", "-m", "sweep.demo.simulator")
SIM_ENV = {"PYTHONPATH": "/opt/sweep-sim", "SWEEP_SIM_SPEED": "20", "SWEEP_SIM_START_S": "0.3"}
PRODUCTION_PORT, SERVER_PORT = 30000, 30900
DEADLINE_S = 240

# A lingering user's manager comes up some time after the boot.
WAIT_FOR_MANAGER = """
n=0
until systemctl --user is-active -q basic.target || [ $n = 100 ]; do sleep 0.1; n=$((n + 1)); done
"""


@dataclass(frozen=True)
class Login:
    """One way to reach a host and to act on it. `user` "" is root."""

    user: str = ""
    become: str = "none"
    scope: str = "system"

    @property
    def systemctl(self) -> str:
        return "systemctl --user" if self.scope == "user" else "systemctl"


ROOT, SUDO, USER = Login(), Login("ops", become="sudo"), Login("plain", scope="user")
LOGINS = {"root": ROOT, "sudo": SUDO, "user": USER}


@dataclass(frozen=True)
class Ended:
    """How a command of the tool ended."""

    status: int
    out: str
    err: str


@dataclass
class GpuHost:
    """A machine, one way to it, and a directory to call the tool from."""

    machine: Machine
    login: Login
    directory: Path
    sweeps: Mapping[str, object]
    server: Mapping[str, object] = field(default_factory=dict)
    host: Mapping[str, object] = field(default_factory=dict)

    # -- the host -----------------------------------------------------------------------------

    def sh(self, script: str, *, check: bool = True) -> str:
        """On the host, as whoever owns the units there."""
        if self.login.scope == "user":
            inner = "export XDG_RUNTIME_DIR=/run/user/$(id -u)\n" + script
            result = self.machine.run(
                "runuser", "-u", "plain", "--", "sh", "-c", inner, check=check
            )
            return result.stdout.strip()
        return self.machine.sh(script, check=check)

    def dress(self) -> None:
        """Production, and a unit that ends with it and comes back with it only if it was up."""
        if self.login.scope == "user":
            self.sh(WAIT_FOR_MANAGER)
        place = (
            "$HOME/.config/systemd/user" if self.login.scope == "user" else "/etc/systemd/system"
        )
        for name, text in (("sglang.service", production()), ("router.service", ROUTER)):
            self.sh(f"mkdir -p {place} && cat > {place}/{name} <<'UNIT'\n{text}\nUNIT\n")
        self.sh(
            f"{self.login.systemctl} daemon-reload && {self.login.systemctl} start router.service"
        )

    def active(self, unit: str) -> bool:
        return self.sh(f"{self.login.systemctl} is-active {unit}", check=False) == "active"

    def serves(self) -> bool:
        """Production answers a request."""
        url = f"http://127.0.0.1:{PRODUCTION_PORT}/health"
        ask = f"import urllib.request; urllib.request.urlopen('{url}', timeout=10).close()"
        return self.machine.run("/usr/bin/python3", "-c", ask, check=False).returncode == 0

    def leftovers(self) -> list[str]:
        """Whatever of ours is still on the host: units, timers, processes, ports, files."""
        shown = self.sh(
            f"{self.login.systemctl} list-units --all --plain --no-legend 'sweep-*' '*-sweep.*'\n"
            "pgrep -af 'client[.]pyz|sweep-restor[e]|run[.]sh'\n"
            f"ss -Hltn 'sport = :{SERVER_PORT}'\n"
            "ls -d /run/sweep /run/user/*/sweep /run/systemd/system/sglang-sweep.service "
            "/run/user/*/systemd/user/sglang-sweep.service /var/tmp/sweep-* /var/lib/sweep "
            "/home/*/.local/state/sweep /etc/systemd/system/*/sweep-* /etc/systemd/system/sweep-* "
            "/home/*/.config/systemd/user/sweep-* 2>/dev/null",
            check=False,
        )
        return shown.splitlines()

    # -- the tool -----------------------------------------------------------------------------

    def write_inventory(self) -> Path:
        user = self.login.user
        host = {
            "address": self.machine.name + (f"-{user}" if user else ""),
            "ssh_config": str(self.machine.ssh_config),
            "become": self.login.become,
            "scope": self.login.scope,
            "production": ["sglang.service"],
            "production_health": f"http://127.0.0.1:{PRODUCTION_PORT}/health",
            "reconnect_for_s": 30,
            "deadman_s": 400,
            "server": {
                "command": list(SIMULATOR),
                "port": SERVER_PORT,
                "args": {
                    "model-path": "simulated/122b",
                    "speculative-algorithm": "NEXTN",
                    "speculative-eagle-topk": 1,
                },
                "env": SIM_ENV,
                "health_timeout_s": 60,
                **self.server,
            },
            **self.host,
        }
        path = self.directory / "inventory.yaml"
        path.write_text(yaml.safe_dump({"hosts": {"gpu": host}, "sweeps": self.sweeps}))
        return path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Call the tool, without waiting for it. Reports are left to their own tests."""
        briefly = ["--no-report"] if arguments[0] in ("run", "resume") else []
        return subprocess.Popen(
            [sys.executable, "-m", "sweep", *arguments, *briefly],
            cwd=self.directory, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def sweep(self, *arguments: str) -> Ended:
        """Call the tool and wait for it."""
        return ended(self.start(*arguments))

    @property
    def run(self) -> Path:
        """The directory of the latest run."""
        return max((self.directory / "runs").iterdir())

    def frame(self) -> pd.DataFrame:
        return pd.read_csv(self.run / "results.csv")


def ended(process: subprocess.Popen[str]) -> Ended:
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"the tool did not end:\n{out}\n{err}") from None
    return Ended(process.returncode, out, err)


def production() -> str:
    """The unit of production: no Wants of it, so a restore has to know what else was up."""
    environment = " ".join(f"{name}={value}" for name, value in SIM_ENV.items())
    words = (*SIMULATOR, "--model-path", "simulated/122b", "--port", str(PRODUCTION_PORT))
    return (
        "[Unit]\nDescription=production\n"
        f"[Service]\nEnvironment={environment}\nExecStart={' '.join(words)}\nRestart=always\n"
        "RestartSec=1\nTimeoutStopSec=10\n"
    )


# It ends with production and, unlike it, is started by nobody but whoever needs it.
ROUTER = (
    "[Unit]\nDescription=in front of production\nBindsTo=sglang.service\nAfter=sglang.service\n"
    "[Service]\nExecStart=/bin/sleep infinity\n"
)


def sweep_of(steps: str | Sequence[int] = "1..10", **more: object) -> dict[str, object]:
    """A sweep short enough for a test: few tokens, the simulator twenty times as fast."""
    benchmark = {"kind": "builtin", "max_tokens": 64}
    return {
        "host": "gpu",
        "steps": steps,
        "concurrency": [1, 4, 16],
        "benchmark": benchmark,
        **more,
    }


def latest_attempts(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values("attempt").groupby(["point", "trial"], as_index=False).last()
