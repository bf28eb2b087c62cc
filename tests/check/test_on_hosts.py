"""The check on real hosts, with real trouble on them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sweep.check import Finding, check, script
from sweep.clock import SystemClock
from sweep.host import connect
from sweep.inventory import HostSpec
from sweep.inventory_file import load_inventory
from sweep.systemd.lock import Lock
from sweep.systemd.owner import Owner
from tests.check.made import make_about, make_plan, make_spec, said
from tests.testhost import RELEASES, Machine, Pool

MODEL = {"model-path": "/srv/model"}
SERVER: dict[str, Any] = {"command": ("/usr/bin/python3", "-m", "http.server"), "args": MODEL}
PRODUCTION = """[Service]
User=sglang
ExecStart=/usr/bin/python3 -m http.server --bind 127.0.0.1 30000
[Install]
WantedBy=multi-user.target
"""
URL = "http://127.0.0.1:30000/"


# Where the two systemds might answer differently; the rest is asked of the newer one alone.
on_both = pytest.mark.parametrize("gpu", RELEASES, indirect=True)


@pytest.fixture
def gpu(testhost: Pool, request: pytest.FixtureRequest) -> Iterator[Machine]:
    """The run's common host of a release, with a model; nothing is left of it afterwards."""
    machine = testhost.shared(getattr(request, "param", RELEASES[-1]))
    machine.sh("mkdir -p /srv/model")
    try:
        yield machine
    finally:
        machine.sh("rm -rf /srv/model")


@pytest.fixture
def serving(gpu: Machine) -> Iterator[Machine]:
    """The same with production that serves."""
    gpu.install_service("prod.service", PRODUCTION)
    gpu.sh("for i in $(seq 100); do ss -Hltn sport = :30000 | grep -q . && exit; sleep 0.1; done")
    try:
        yield gpu
    finally:
        gpu.remove_service("prod.service")


def spec_of(host: Machine, user: str = "root", **more: Any) -> HostSpec:
    """The host as the inventory has it, for one of its users."""
    alias = host.name if user == "root" else f"{host.name}-{user}"
    server = {**SERVER, **more.pop("server", {})}
    return make_spec(server, address=alias, user=user, ssh_config=str(host.ssh_config), **more)


def checked(spec: HostSpec) -> tuple[Finding, ...]:
    with connect("gpu", spec) as host:
        return check(host, spec, make_plan(spec), SystemClock())


def worse(spec: HostSpec) -> list[str]:
    """What is not ok, without what every test host of ours says: no GPU, no time service."""
    lines = said(one for one in checked(spec) if one.level != "ok")
    usual = ("warning gpu: not readable here", "warning clock: the host's clock is not synch")
    return [line for line in lines if not line.startswith(usual)]


@on_both
@pytest.mark.parametrize(
    ("user", "become", "scope"),
    [("root", "none", "system"), ("ops", "sudo", "system"), ("plain", "none", "user")],
)
def test_a_good_host_has_no_problem(gpu: Machine, user: str, become: str, scope: str) -> None:
    production = ("ssh.service",) if scope == "system" else ()
    found = checked(spec_of(gpu, user, become=become, scope=scope, production=production))
    assert not [one for one in found if one.level == "problem"], said(found)
    release = {"bookworm": "252", "trixie": "257"}[gpu.release]
    lines = said(found)
    assert f"ok systemd: version {release}" in lines
    assert "ok port: 30900 is free" in lines
    assert "ok model-path: /srv/model is there" in lines
    assert any(line.startswith("ok journal: readable, persistent, takes ") for line in lines)
    assert any(line.startswith("ok timers") for line in lines)


def test_production_that_serves(serving: Machine) -> None:
    spec = spec_of(
        serving, production=("prod.service",), production_health=URL, server={"user": "sglang"}
    )
    lines = said(checked(spec))
    assert "ok production: prod.service is active" in lines
    assert f"ok health: {URL} answers" in lines
    assert worse(spec) == []


@on_both
def test_production_that_would_not_come_back(serving: Machine) -> None:
    serving.sh("systemctl disable --quiet prod.service")
    serving.sh("echo '# changed' >>/etc/systemd/system/prod.service")
    serving.install_service("gate.service", "[Unit]\nBindsTo=prod.service\n[Service]\n"
                            "ExecStart=/bin/sleep infinity\n")  # fmt: skip
    serving.install_service("prod.timer", "[Timer]\nOnCalendar=*:0/5\n[Install]\n"
                            "WantedBy=timers.target\n")  # fmt: skip
    try:
        serving.sh("touch -d '10 seconds' /etc/systemd/system/prod.service")
        lines = said(
            checked(spec_of(serving, production=("prod.service",), production_health=URL + "no"))
        )
    finally:
        serving.remove_service("prod.timer")
        serving.remove_service("gate.service")
    for wanted in (
        "warning production: prod.service is disabled: after a reboot",
        "warning production: the file of prod.service has changed",
        "warning production: prod.timer can start it in the night",
        "problem timers: prod.timer at ",
        f"problem health: production runs, but does not answer: {URL}no",
        "warning user: the sweep's server runs as root, prod.service as sglang",
        "ok production: stops and starts with it: gate.service",
    ):
        assert any(line.startswith(wanted) for line in lines), (wanted, lines)


def test_a_service_user_who_cannot_reach_things(gpu: Machine) -> None:
    gpu.sh("mkdir -p /root/env && ln -sf /usr/bin/python3 /root/env/python3")
    gpu.sh("chmod 700 /root; chmod 700 /srv/model")
    server = {
        "user": "sglang",
        "command": ("/root/env/python3", "-m", "http.server"),
        "args": {**MODEL, "speculative-draft-model-path": "/srv/none"},
        "working_directory": "/srv/model",
        "env_file": "/etc/none.env",
        "env": {"HF_HOME": "/root/hf"},
    }
    lines = worse(spec_of(gpu, python="/root/env/python3", server=server))
    for wanted in (
        "problem python: /root/env/python3 does not run as sglang: sh: ",
        "problem server: /root/env/python3 cannot be run by sglang",
        "problem model-path: /srv/model cannot be read by sglang",
        "problem working_directory: /srv/model cannot be read by sglang",
        "problem speculative-draft-model-path: /srv/none does not exist",
        "problem env_file: /etc/none.env cannot be read",
        "warning caches: sglang cannot write HF_HOME=/root/hf",
    ):
        assert any(line.startswith(wanted) for line in lines), (wanted, lines)


def test_names_that_do_not_exist(gpu: Machine) -> None:
    lines = worse(spec_of(gpu, production=("nope.service",), server={"user": "nobody9"}))
    assert "problem production: nope.service: systemd says not-found" in lines
    assert "problem user: there is no user nobody9 on the host" in lines


def test_a_model_of_the_hub(gpu: Machine) -> None:
    server = {"args": {"model-path": "Org/Model"}, "env": {"HF_HOME": "/srv/model/it's here"}}
    spec = spec_of(gpu, server=server)
    assert any("Org/Model is not in the Hub cache of root" in line for line in worse(spec))
    gpu.sh('mkdir -p "/srv/model/it\'s here/hub/models--Org--Model/snapshots"')
    assert "ok model-path: Org/Model is there" in said(checked(spec))


def test_the_port_and_who_has_it(serving: Machine) -> None:
    spec = spec_of(serving, production=("prod.service",), server={"port": 30000})
    found = next(one for one in checked(spec) if one.subject == "port")
    assert found.level == "problem"
    assert "prod.service: sglang" in found.text
    assert "http.server" in found.text
    assert "that is production's port" in found.fix


def test_a_unit_of_somebody_else_and_a_drop_in(gpu: Machine) -> None:
    gpu.install_service("sglang-sweep.service", "[Service]\nExecStart=/bin/true\n", start=False)
    gpu.sh("mkdir -p /etc/systemd/system/sglang-sweep.service.d; "
           "echo '[Service]' >/etc/systemd/system/sglang-sweep.service.d/a.conf; "
           "systemctl daemon-reload")  # fmt: skip
    try:
        lines = worse(spec_of(gpu))
    finally:
        gpu.sh("rm -r /etc/systemd/system/sglang-sweep.service.d")
        gpu.remove_service("sglang-sweep.service")
    assert any(
        line.startswith("problem unit: sglang-sweep.service exists already") for line in lines
    )
    assert any(line.startswith("warning unit: drop-ins") and "a.conf" in line for line in lines)


@on_both
def test_another_sweep_s_lock_and_record(gpu: Machine) -> None:
    owner = Owner("ann", "laptop", "m", "b", 1, "s", "2026-03-01T20:00:00Z")
    boot = gpu.sh("cat /proc/sys/kernel/random/boot_id")
    line = Lock("overnight-1", "sglang-sweep.service", boot, owner).line.decode()
    gpu.sh("mkdir -p /run/sweep/older-2; echo {} >/run/sweep/older-2/record.json")
    # What a run before a reboot left.
    gpu.sh("mkdir -p /var/lib/sweep/older-3; echo {} >/var/lib/sweep/older-3/record.json")
    gpu.run("tee", "/run/sweep/lock", stdin=line + "\n")
    try:
        lines = worse(spec_of(gpu))
    finally:
        gpu.sh("rm -r /run/sweep /var/lib/sweep")
    assert any("problem lock: taken by run overnight-1 of ann@laptop" in line for line in lines)
    for run in ("older-2", "older-3"):
        assert any(f"warning restore: run {run} has not given" in line for line in lines)


@on_both
def test_what_is_due_in_the_night(gpu: Machine) -> None:
    at = int(datetime.now(UTC).timestamp() * 1e6) + 3_600_000_000
    gpu.sh("mkdir -p /run/systemd/shutdown /etc/cron.d; touch /run/reboot-required")
    gpu.run("tee", "/run/systemd/shutdown/scheduled", stdin=f"USEC={at}\nMODE=reboot\n")
    gpu.run("tee", "/etc/cron.d/night", stdin="0 3 * * * root /sbin/reboot\n")
    for unit in ("train", "dnf-automatic-install"):
        gpu.install_service(f"{unit}.service", "[Service]\nExecStart=/bin/true\n", start=False)
        gpu.install_service(f"{unit}.timer", "[Timer]\nOnActiveSec=5h\n[Install]\n"
                            "WantedBy=timers.target\n")  # fmt: skip
    try:
        lines = worse(spec_of(gpu))
    finally:
        for unit in ("train", "dnf-automatic-install"):
            gpu.remove_service(f"{unit}.timer")
            gpu.remove_service(f"{unit}.service")
        gpu.sh("rm -r /run/systemd/shutdown /run/reboot-required /etc/cron.d/night")
    for wanted in (
        "problem reboot: a reboot of the host is scheduled for ",
        "warning reboot: the host waits for a reboot",
        "warning cron: jobs that may touch the server: 0 3 * * * root /sbin/reboot",
        "warning timers: dnf-automatic-install.timer at ",
        "warning timers: due in the night: train.timer at ",
    ):
        assert any(line.startswith(wanted) for line in lines), (wanted, lines)


SMI = r"""#!/bin/sh
case "$*" in
  -L) echo 'GPU 0: RTX (UUID: GPU-0)' ;;
  *query-compute-apps*) echo "GPU-0, $(cat /run/holder), 30000" ;;
  *query-gpu*) echo '0, GPU-0, RTX, 580.10, 30000'; echo '1, GPU-1, RTX, 580.10, 0' ;;
esac
"""


@contextmanager
def nvidia_smi(host: Machine, holder: str) -> Iterator[None]:
    """A host where nvidia-smi says that a process of some unit holds GPU 0."""
    smi = host.root / "usr/local/bin/nvidia-smi"
    smi.write_text(SMI)
    smi.chmod(0o755)
    host.sh(f"systemctl show -p MainPID --value {holder} >/run/holder")
    try:
        yield
    finally:
        smi.unlink()


def test_who_holds_the_gpu(serving: Machine) -> None:
    spec = spec_of(serving, production=("prod.service",), server={"args": {**MODEL, "tp": 2}})
    with nvidia_smi(serving, "prod.service"):
        assert "ok gpu: 2 of 2 used: RTX, driver 580.10" in said(checked(spec))
        assert not [line for line in worse(spec) if " gpu: " in line]
    with nvidia_smi(serving, "ssh.service"):
        line = next(line for line in worse(spec) if " gpu: " in line)
        assert line.startswith("problem gpu: GPU 0: 30000 MiB are held by pid ")
        assert "root" in line
        spec = spec_of(serving, server={"env": {"CUDA_VISIBLE_DEVICES": "1"}})
        assert not [line for line in worse(spec) if " gpu: " in line]


def test_nothing_is_changed(serving: Machine) -> None:
    spec = spec_of(serving, production=("prod.service",), production_health=URL)
    checked(spec)  # the first login makes files of its own
    serving.sh("sleep 0.05; touch /run/before; sleep 0.05")
    checked(spec)
    changed = serving.sh(
        "find / -xdev -newer /run/before ! -type d -print; find /run -newer /run/before -type f"
    )
    serving.sh("rm /run/before")
    # What any login writes.
    written_by_logins = ("/var/log/", "/run/user/", "/run/systemd/", "/run/utmp", "/run/motd")
    assert [path for path in changed.split() if not path.startswith(written_by_logins)] == []


def test_a_user_whose_units_end_with_the_login(testhost: Pool) -> None:
    spec = spec_of(testhost.shared(), "ops", scope="user")
    line = next(line for line in worse(spec) if " linger: " in line)
    assert line == "problem linger: ops does not linger: its units end with its last login"


def test_a_full_disk(testhost: Pool) -> None:
    host: Machine = testhost.fresh("checkfull", disk="200m")
    try:
        host.fill_disk()
        lines = worse(spec_of(host))
    finally:
        testhost.discard("checkfull")
    assert any(
        line.startswith("problem disk: /var/tmp (results of the client) has ") for line in lines
    )


def test_the_script_is_plain_posix_sh() -> None:
    """Parsed by the strictest shell there is here."""
    about = make_about({"env": {"A": "it's $x"}, "user": "x y"}, production=("a.service",))
    shell = "/bin/dash" if Path("/bin/dash").exists() else "/bin/sh"
    subprocess.run([shell, "-n"], input=script(about, ""), text=True, check=True)


def test_the_demo_host_is_fit_for_its_sweep(tmp_path: Path) -> None:
    file = tmp_path / "inventory.yaml"
    file.write_text(
        "hosts: {demo: {transport: demo}}\nsweeps: {s: {host: demo, steps: 1, concurrency: 1}}\n"
    )
    inventory = load_inventory(file)
    spec = inventory.hosts["demo"]
    with connect("demo", spec) as host:
        found = check(host, host.spec, make_plan(host.spec), SystemClock())
    lines = said(found)
    assert [line for line in lines if not line.startswith("ok")] == []
    for subject in ("rights", "systemd", "python", "server", "port", "gpu", "production", "health"):
        assert any(one.subject == subject for one in found), (subject, lines)
