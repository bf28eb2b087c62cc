"""The demo host as a whole: boots, survives its process's death, keeps its identity, ends clean."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest

from sweep.demo.host import DemoHost
from sweep.demo.places import Ports, claim
from sweep.errors import HostRefused
from sweep.inventory import HostSpec, ProductionCommands, ServerSpec
from tests.demo.place import OnDemo, Units, login


@pytest.fixture
def host(tmp_path: Path) -> Iterator[DemoHost]:
    with DemoHost(tmp_path / "root") as running:
        yield running


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as response:
        return int(response.status) == 200
    return False


def started_here(root: Path) -> list[int]:
    """Processes that were started on the host with this root."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"SWEEP_DEMO_ROOT={root}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def test_production_serves_after_a_boot_and_everything_ends_with_the_host(host: DemoHost) -> None:
    there = host.endpoint
    until(lambda: answers(f"http://127.0.0.1:{there.production_port}/health"))
    place = OnDemo(there, sys.executable)
    place.client.get_transport().open_session().exec_command("sleep 100")  # type: ignore[union-attr]
    place.sh("systemd-run --quiet --unit=long -p KillMode=process sh -c 'setsid sleep 100'")
    place.client.close()
    host.close()
    until(lambda: not started_here(there.root))
    assert not answers(f"http://127.0.0.1:{there.production_port}/health")


def test_a_reboot_keeps_the_host_and_forgets_its_memory(host: DemoHost) -> None:
    before = host.endpoint
    place = OnDemo(before, sys.executable)
    boot = "cat $SWEEP_DEMO_ROOT/proc/sys/kernel/random/boot_id"
    first = place.sh(boot).out
    place.sh("mkdir -p $SWEEP_DEMO_ROOT/var/tmp/kept; touch $SWEEP_DEMO_ROOT/run/gone")
    after = host.reboot()
    again = OnDemo(after, sys.executable)
    assert again.sh(boot).out != first
    assert (after.root / "var/tmp/kept").exists()
    assert not (after.root / "run/gone").exists()
    same = ("port", "fingerprint", "root", "server_port", "production_port")
    assert [getattr(before, name) for name in same] == [getattr(after, name) for name in same]
    assert len(again.sh("journalctl --list-boots").out.splitlines()) == 2
    assert again.sh("systemctl is-active sglang").out == "active\n"


def test_two_hosts_at_once_do_not_meet(tmp_path: Path) -> None:
    with DemoHost(tmp_path / "one") as one, DemoHost(tmp_path / "two") as two:
        ports = [
            port
            for host in (one, two)
            for port in (host.endpoint.port, host.endpoint.server_port,
                         host.endpoint.production_port)
        ]  # fmt: skip
        assert len(set(ports)) == 6
        places = [OnDemo(host.endpoint, sys.executable) for host in (one, two)]
        places[0].sh("systemctl stop sglang")
        states = [place.sh("systemctl is-active sglang").out for place in places]
        assert states[0] != "active\n" == states[1]
        assert one.endpoint.fingerprint != two.endpoint.fingerprint


def test_a_root_in_use_is_refused(host: DemoHost) -> None:
    with pytest.raises(HostRefused, match="in use"):
        DemoHost(host.endpoint.root).start()


def test_the_usual_root_belongs_to_the_directory_and_a_second_demo_gets_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEP_DEMO_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with DemoHost() as one, DemoHost() as two:
        roots = [one.endpoint.root, two.endpoint.root]
        assert roots[0] != roots[1]
        assert all(root.parent == tmp_path / "cache" for root in roots)
        key = one.endpoint.fingerprint
    with DemoHost() as again:
        assert (again.endpoint.root, again.endpoint.fingerprint) == (roots[0], key)


def test_what_a_killed_demo_leaves_is_gone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    code = (
        "import sys, time, pathlib; from sweep.demo.host import DemoHost; "
        "print(DemoHost(pathlib.Path(sys.argv[1])).start().production_port, flush=True); "
        "time.sleep(1000)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(root)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()
    assert started_here(root)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: not started_here(root))
    lock = claim(root)
    assert lock is not None
    lock.close()


def test_the_spec_of_the_inventory_gets_this_hosts_ports(host: DemoHost) -> None:
    there = host.endpoint
    server = ServerSpec(command=("/usr/bin/true",), args={"tp-size": 4})
    spec = host.spec(HostSpec(transport="demo", server=server, production=("sglang.service",)))
    assert (spec.address, spec.ssh_port, spec.host_key) == (
        "127.0.0.1", there.port, there.fingerprint,
    )  # fmt: skip
    assert spec.server.port == there.server_port
    assert dict(spec.server.args) == {"tp-size": 4}
    assert spec.production_health == f"http://127.0.0.1:{there.production_port}/health"
    commands = ProductionCommands(stop="a", start="b", check="c")
    spec = host.spec(HostSpec(transport="demo", server=server, production=commands))
    assert spec.production_health is None


def test_kept_ports_are_free_or_replaced(tmp_path: Path) -> None:
    first = Ports(tmp_path, ("a", "b"))
    kept = (first["a"], first["b"])
    second = Ports(tmp_path, ("a",))
    assert second["a"] not in kept
    second.release()
    first.release()


@pytest.mark.parametrize(
    ("command", "status", "out", "error"),
    [
        ("echo out; echo err >&2; exit 3", 3, "out\n", "err\n"),
        ("cat", 0, "given", ""),
        ("head -c 3", 0, "giv", ""),
        ("printf '\\377'", 0, "�", ""),
        ("kill -KILL $$", -1, "", ""),
        ("pwd", 0, "{root}/home\n", ""),
        ("exit 0", 0, "", ""),
    ],
)
def test_a_command_over_ssh(
    host: DemoHost, command: str, status: int, out: str, error: str
) -> None:
    said = OnDemo(host.endpoint, sys.executable).sh(command, "given")
    assert said.out == out.format(root=host.endpoint.root)
    assert (said.status, said.error) == (status, error)


def test_a_command_ended_by_a_signal_says_which(host: DemoHost) -> None:
    """What OpenSSH's client makes of it: a message, and status 255."""
    there = host.endpoint
    options = ["-o", f"UserKnownHostsFile={there.known_hosts}", "-o", "IdentitiesOnly=yes",
               "-o", "BatchMode=yes", "-i", str(there.key_file), "-p", str(there.port)]  # fmt: skip
    ssh = ["ssh", "-F", "none", *options, f"{there.user}@127.0.0.1"]
    done = subprocess.run([*ssh, "echo $0; exit 7"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (7, b"/bin/sh\n")
    assert subprocess.run([*ssh, "kill -9 $$"], capture_output=True, check=False).returncode == 255


def test_much_data_both_ways(host: DemoHost) -> None:
    data = "0123456789abcdef" * 60000
    said = OnDemo(host.endpoint, sys.executable).sh("cat; cat /dev/null >&2", data)
    assert said.out == data


def test_many_commands_on_one_connection(host: DemoHost) -> None:
    client = login(host.endpoint)
    channels = [client.get_transport().open_session() for _ in range(12)]  # type: ignore[union-attr]
    for number, channel in enumerate(channels):
        channel.exec_command(f"sleep 0.1; echo {number}")
    assert [channel.makefile().read() for channel in channels] == [
        f"{number}\n".encode() for number in range(12)
    ]
    client.close()


def test_a_forwarded_port_reaches_the_host_and_nothing_else(host: DemoHost) -> None:
    there = host.endpoint
    until(lambda: answers(f"http://127.0.0.1:{there.production_port}/health"))
    client = login(there)
    transport = client.get_transport()
    assert transport is not None
    origin = ("127.0.0.1", 0)
    channel = transport.open_channel("direct-tcpip", ("localhost", there.production_port), origin)
    channel.sendall(b"GET /v1/models HTTP/1.0\r\n\r\n")
    answer = b""
    while data := channel.recv(4096):
        answer += data
    assert answer.startswith(b"HTTP/1.1 200 OK")
    for destination in (("localhost", there.server_port), ("192.0.2.1", 80)):
        with pytest.raises(paramiko.ChannelException):
            transport.open_channel("direct-tcpip", destination, origin)
    client.close()


def test_only_the_key_of_this_run_opens_the_door(host: DemoHost, tmp_path: Path) -> None:
    there = host.endpoint
    other = paramiko.RSAKey.generate(2048)
    client = paramiko.SSHClient()
    client.load_host_keys(str(there.known_hosts))
    login_with = {"allow_agent": False, "look_for_keys": False}
    with pytest.raises(paramiko.AuthenticationException):
        client.connect(there.address, there.port, there.user, pkey=other, **login_with)  # type: ignore[arg-type]
    with pytest.raises(paramiko.AuthenticationException):
        client.connect(there.address, there.port, "somebody-else", **login_with,  # type: ignore[arg-type]
                       key_filename=str(there.key_file))  # fmt: skip
    with pytest.raises(paramiko.BadAuthenticationType):
        client.connect(there.address, there.port, there.user, "guess", **login_with)  # type: ignore[arg-type]
    client.close()
    assert there.key_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("what", ["shell", "pty", "sftp"])
def test_there_is_neither_shell_nor_terminal_nor_files(host: DemoHost, what: str) -> None:
    client = login(host.endpoint)
    channel = client.get_transport().open_session()  # type: ignore[union-attr]
    ask = {"shell": channel.invoke_shell, "pty": channel.get_pty,
           "sftp": lambda: channel.invoke_subsystem("sftp")}  # fmt: skip
    with pytest.raises(paramiko.SSHException):
        ask[what]()
    client.close()


def test_a_cut_connection_leaves_the_command_running(host: DemoHost) -> None:
    mark = host.endpoint.root / "var/tmp/went-on"
    client = login(host.endpoint)
    channel = client.get_transport().open_session()  # type: ignore[union-attr]
    channel.exec_command(f"sleep 0.3; touch {mark}")
    host.disconnect()
    assert channel.recv_exit_status() == -1
    until(mark.exists)
    assert OnDemo(host.endpoint, sys.executable).sh("echo back").out == "back\n"


def test_cards_are_held_while_a_server_runs(host: DemoHost) -> None:
    units = Units(OnDemo(host.endpoint, sys.executable))
    query = "nvidia-smi --format=csv,noheader,nounits --query-gpu=index,name,memory.used"
    assert units.ok(query).splitlines()[3] == "3, Simulated RTX PRO 6000, 89220"
    apps = "nvidia-smi --format=csv,noheader,nounits --query-compute-apps=gpu_uuid,pid"
    pid = units.show("sglang.service", "MainPID")["MainPID"]
    assert units.ok(apps).splitlines()[0].endswith(f", {pid}")
    units.ok("systemctl stop sglang")
    assert units.ok(query).splitlines()[0] == "0, Simulated RTX PRO 6000, 4"
    assert units.ok(apps) == ""


def test_the_users_manager_is_another_one(host: DemoHost) -> None:
    units = Units(OnDemo(host.endpoint, sys.executable))
    directory = f"{units.place.root}/run/user/{os.getuid()}/systemd/user"
    units.ok(f"mkdir -p {directory}; cat > {directory}/mine.service",
             "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo hello %t'\n")  # fmt: skip
    units.ok("systemctl --user daemon-reload; systemctl --user start mine")
    assert units.run("systemctl start mine").status == 5
    out = units.ok("journalctl -q --user -u mine -o cat")
    assert f"hello {units.place.root}/run/user/{os.getuid()}" in out.splitlines()
    line = units.ok("journalctl -q --user -u mine -o json -n 1")
    assert '"USER_INVOCATION_ID"' in line
