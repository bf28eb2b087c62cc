"""The demo host's commands do what systemd does: every test runs on real Debian hosts as well."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweep.demo.host import DemoHost
from sweep.unit.quoting import environment_assignment, environment_file_line, exec_word
from tests.demo.place import OnDemo, OnMachine, Place, Units, argv_printer, printed
from tests.testhost import RELEASES

ODD = (
    "plain", "two words", 'quo"te', "apo'strophe", "back\\slash", "100%", "%t", "$HOME", "${HOME}",
    "$$", "", "-dash", "--flag=a b", "ünïcode ☃", "a;b", ";", "#no", "tab\there", "*", "~", "\\x41",
)  # fmt: skip


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with DemoHost(tmp_path_factory.mktemp("demo") / "root") as host:
        place = OnDemo(host.endpoint, sys.executable)
        yield place
        place.client.close()


@pytest.fixture(params=["demo", *RELEASES])
def units(request: pytest.FixtureRequest) -> Iterator[Units]:
    if request.param == "demo":
        place: Place = request.getfixturevalue("demo")
    else:
        place = OnMachine(request.getfixturevalue("testhost").shared(request.param))
    found = Units(place)
    yield found
    found.clean()


def test_a_command_line_and_environment_arrive_as_they_were_meant(units: Units) -> None:
    words = " ".join(exec_word(word, "test") for word in ODD)
    values = {f"V{number}": word for number, word in enumerate(ODD) if "\t" not in word}
    lines = [f"Environment={environment_assignment(n, v, 'test')}" for n, v in values.items()]
    units.service("t-words.service", "Type=oneshot", *lines,
                  f"ExecStart={argv_printer(units.place)} {words}")  # fmt: skip
    units.ok("systemctl start t-words.service")
    units.ok("journalctl --sync")
    got, environment = printed(units.ok("journalctl -q -u t-words -o cat --all -n 20"))
    assert got == list(ODD)
    assert {name: environment[name] for name in values} == values


def test_an_environment_file_is_read_when_the_unit_starts(units: Units) -> None:
    values = {f"F{number}": word for number, word in enumerate(ODD)}
    text = "# comment\n" + "\n".join(environment_file_line(n, v, "t") for n, v in values.items())
    directory = f"{units.place.root}/run/t-env"
    units.ok(f"mkdir -p {directory}; cat > {directory}/file", text)
    files = ("EnvironmentFile=%t/t-env/file", "EnvironmentFile=-%t/t-env/none")
    units.service("t-env.service", "Type=oneshot", *files, f"ExecStart={argv_printer(units.place)}")
    units.ok("systemctl start t-env.service")
    units.ok(f"journalctl --sync; rm -r {units.place.root}/run/t-env")
    _, environment = printed(units.ok("journalctl -q -u t-env -o cat --all -n 20"))
    assert {name: environment[name] for name in values} == values
    assert units.run("systemctl start t-env.service").status == 1
    assert units.show("t-env.service", "ActiveState", "Result") == {
        "ActiveState": "failed", "Result": "resources",
    }  # fmt: skip


def test_what_cannot_be_executed_fails_the_start(units: Units) -> None:
    units.service("t-exec.service", "Type=exec", "ExecStart=/nowhere/to/be/found")
    said = units.run("systemctl start t-exec.service")
    assert said.status == 1
    assert "Job for t-exec.service failed because the control process exited with" in said.error
    shown = units.show("t-exec.service", "ActiveState", "Result", "ExecMainCode", "ExecMainStatus")
    assert shown == {
        "ActiveState": "failed", "Result": "exit-code",
        "ExecMainCode": "1", "ExecMainStatus": "203",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("command", "result", "code", "status"),
    [
        ("exit 0", "success", "1", "0"),
        ("exit 7", "exit-code", "1", "7"),
        ("kill -KILL $$$$", "signal", "2", "9"),
        ("kill -TERM $$$$", "success", "2", "15"),
    ],
)
def test_how_a_service_ends(
    units: Units, command: str, result: str, code: str, status: str
) -> None:
    # The timer names the service and so keeps what is known of it.
    units.service("t-ends.service", f"ExecStart=/bin/sh -c '{command}'")
    keeper = "--quiet --unit=t-keeper --on-active=1h --timer-property=After=t-ends.service true"
    units.ok(f"systemd-run {keeper}; systemctl start t-ends.service")
    units.until(lambda: units.state("t-ends.service") in ("inactive", "failed"))
    shown = units.show(
        "t-ends.service", "Result", "ExecMainCode", "ExecMainStatus", "InvocationID", "MainPID"
    )
    units.ok("systemctl stop t-keeper.timer")
    assert len(shown.pop("InvocationID")) == 32
    assert shown == {
        "Result": result, "ExecMainCode": code, "ExecMainStatus": status, "MainPID": "0",
    }  # fmt: skip


def test_an_ended_unit_that_nothing_names_is_forgotten(units: Units) -> None:
    units.service("t-gone.service", "ExecStart=/bin/true")
    units.ok("systemctl start t-gone.service")
    units.until(lambda: units.state("t-gone.service") == "inactive")
    units.until(lambda: units.show("t-gone.service", "InvocationID")["InvocationID"] == "")
    units.service("t-kept.service", "ExecStart=/bin/false")
    units.run("systemctl start t-kept.service")
    units.until(lambda: units.state("t-kept.service") == "failed")
    assert len(units.show("t-kept.service", "InvocationID")["InvocationID"]) == 32
    units.ok("systemctl reset-failed t-kept.service")
    assert units.state("t-kept.service") == "inactive"


def test_a_unit_that_is_nowhere(units: Units) -> None:
    assert units.show("t-none.service", "LoadState", "ActiveState", "SubState", "FragmentPath") == {
        "LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead", "FragmentPath": "",
    }  # fmt: skip
    for verb, status, words in (
        ("start", 5, "Failed to start t-none.service: Unit t-none.service not found."),
        ("stop", 5, "Failed to stop t-none.service: Unit t-none.service not loaded."),
        ("restart", 5, "Failed to restart t-none.service: Unit t-none.service not found."),
        ("reset-failed", 1, "Unit t-none.service not loaded."),
        ("cat", 1, "No files found for t-none.service."),
    ):
        said = units.run(f"systemctl {verb} t-none.service")
        assert (verb, said.status) == (verb, status)
        assert words in said.error
    assert units.run("systemctl is-active t-none").out == "inactive\n"


def test_values_alone_and_several_units(units: Units) -> None:
    units.service("t-one.service", "ExecStart=/bin/sleep 100", unit=("Description=one",))
    units.ok("systemctl start t-one.service")
    assert units.ok("systemctl show --value -p ActiveState -p LoadState t-one").split() == [
        "loaded", "active",
    ]  # fmt: skip
    out = units.ok("systemctl show -p Id -p ActiveState -- t-one.service t-none.service")
    assert out.split("\n\n") == [
        "Id=t-one.service\nActiveState=active", "Id=t-none.service\nActiveState=inactive\n",
    ]  # fmt: skip
    assert units.run("systemctl is-active t-one").status == 0
    assert units.run("systemctl is-enabled t-one").out == "static\n"
    assert "Description=one" in units.ok("systemctl cat t-one")


@pytest.mark.parametrize("script", ["sleep 100", "setsid sleep 100 & sleep 100"])
def test_every_process_of_a_unit_is_in_its_group_and_ends_with_it(
    units: Units, script: str
) -> None:
    units.service("t-group.service", f"ExecStart=/bin/sh -c '{script} & wait'", "TimeoutStopSec=5")
    units.ok("systemctl start t-group.service")
    many = 1 + len(script.split("&"))
    units.until(lambda: len(units.group("t-group.service")) == many)
    pids = units.group("t-group.service")
    assert int(units.show("t-group.service", "MainPID")["MainPID"]) in pids
    units.ok("systemctl stop t-group.service")
    assert units.group("t-group.service") == set()
    alive = " ".join(f"/proc/{pid}" for pid in pids)
    assert units.run(f"ls -d {alive} 2>/dev/null").out == ""


def test_kill_mode_process_leaves_the_others(units: Units) -> None:
    units.service("t-mode.service", "ExecStart=/bin/sh -c 'sleep 100 & exec sleep 100'",
                  "KillMode=process")  # fmt: skip
    units.ok("systemctl start t-mode.service")
    units.until(lambda: len(units.group("t-mode.service")) == 2)
    pids = units.group("t-mode.service")
    units.ok("systemctl stop t-mode.service")
    (left,) = (pid for pid in pids if units.run(f"kill -0 {pid}").status == 0)
    units.ok(f"kill {left}")


def test_a_service_that_does_not_stop_is_killed(units: Units) -> None:
    units.service("t-stuck.service", "ExecStart=/bin/sh -c 'trap \"\" TERM; sleep 99; sleep 99'",
                  "TimeoutStopSec=1")  # fmt: skip
    units.ok("systemctl start t-stuck.service")
    units.until(lambda: len(units.group("t-stuck.service")) >= 1)
    units.ok("sleep 0.3; systemctl stop t-stuck.service")
    assert units.show("t-stuck.service", "ActiveState", "Result") == {
        "ActiveState": "failed", "Result": "timeout",
    }  # fmt: skip


def test_conflicting_units_take_turns(units: Units) -> None:
    units.service("t-old.service", "ExecStart=/bin/sh -c 'trap \"sleep 0.5; exit 0\" TERM; "
                  "while :; do sleep 0.05; done'")  # fmt: skip
    units.service("t-new.service", "ExecStart=/bin/sleep 100",
                  unit=("Conflicts=t-old.service", "After=t-old.service"))  # fmt: skip
    units.ok("systemctl start t-old.service; sleep 0.3; systemctl start t-new.service")
    assert units.state("t-old.service") == "inactive"
    assert units.state("t-new.service") == "active"
    assert "t-new.service" in units.show("t-old.service", "ConflictedBy")["ConflictedBy"]
    units.ok("systemctl start t-old.service")
    units.until(lambda: units.state("t-new.service") == "inactive")
    assert units.state("t-old.service") == "active"


def test_units_that_stop_with_another(units: Units) -> None:
    units.service("t-base.service", "ExecStart=/bin/sleep 100")
    for relation in ("Requires", "BindsTo", "PartOf"):
        units.service(f"t-{relation.lower()}.service", "ExecStart=/bin/sleep 100",
                      unit=(f"{relation}=t-base.service", "After=t-base.service"))  # fmt: skip
    names = ["t-requires.service", "t-bindsto.service", "t-partof.service"]
    units.ok(f"systemctl start t-base.service {' '.join(names)}")
    shown = units.show("t-base.service", "RequiredBy", "BoundBy", "ConsistsOf")
    assert shown == {
        "RequiredBy": names[0], "BoundBy": names[1], "ConsistsOf": names[2],
    }  # fmt: skip
    units.ok("systemctl stop t-base.service")
    assert [units.state(name) for name in names] == ["inactive"] * 3
    units.ok("systemctl start t-requires.service")
    assert units.state("t-base.service") == "active"


def test_a_start_that_was_asked_for_without_waiting(units: Units) -> None:
    units.service("t-slow.service", "Type=oneshot", "ExecStart=/bin/sleep 2")
    units.ok("systemctl start --no-block t-slow.service")
    assert units.state("t-slow.service") == "activating"
    units.ok("systemctl start t-slow.service")
    assert units.state("t-slow.service") == "inactive"
    units.ok("systemctl start --no-block t-slow.service")
    units.ok("systemctl stop t-slow.service")
    assert units.state("t-slow.service") in ("inactive", "failed")


def test_a_service_is_started_again_when_its_unit_says_so(units: Units) -> None:
    units.service("t-again.service", "ExecStart=/bin/sleep 100", "Restart=always", "RestartSec=0.1")
    units.ok("systemctl start t-again.service")
    first = units.show("t-again.service", "InvocationID", "NRestarts")
    assert first["NRestarts"] == "0"
    units.ok("systemctl kill -s KILL t-again.service")
    units.until(
        lambda: (
            units.show("t-again.service", "NRestarts", "SubState")
            == {"NRestarts": "1", "SubState": "running"}
        )
    )
    assert units.show("t-again.service", "InvocationID")["InvocationID"] != first["InvocationID"]
    units.ok("systemctl stop t-again.service")
    assert units.state("t-again.service") == "inactive"


def test_too_many_starts_are_refused_until_reset(units: Units) -> None:
    units.service("t-limit.service", "Type=exec", "ExecStart=/bin/false",
                  unit=("StartLimitBurst=2", "StartLimitIntervalSec=1h"))  # fmt: skip
    of = "journalctl --sync; journalctl -q -u t-limit -o cat -n 3"
    for _ in range(2):
        units.run("systemctl start t-limit.service")
        units.until(lambda: units.state("t-limit.service") == "failed")
    assert units.run("systemctl start t-limit.service").status == 1
    assert "t-limit.service: Start request repeated too quickly." in units.ok(of).splitlines()
    # The first result stays, as long as nobody resets it.
    assert units.show("t-limit.service", "Result")["Result"] == "exit-code"
    units.ok("systemctl reset-failed t-limit.service")
    units.run("systemctl start t-limit.service")
    units.until(lambda: units.state("t-limit.service") == "failed")
    assert "too quickly" not in units.ok(of)


def test_a_transient_service_writes_where_it_is_told(units: Units) -> None:
    out = f"{units.place.root}/var/tmp/t-out"
    units.ok(f"rm -f {out}")
    options = "--quiet --collect --unit=t-run --setenv='A=b c' --working-directory=/usr"
    script = 'pwd; echo "$A $1 %t"; echo bad >&2; sleep 3; exit 3'
    units.ok(f"systemd-run {options} -p StandardOutput=file:{out} -p StandardError=inherit "
             f"-- /bin/sh -c '{script.replace('$', '$$')}' sh word")  # fmt: skip
    said = units.run("systemd-run --quiet --unit=t-run true")
    assert said.status == 1
    assert "t-run.service was already loaded or has a fragment file" in said.error
    units.until(lambda: units.show("t-run.service", "LoadState")["LoadState"] == "not-found")
    assert units.ok(f"cat {out}; rm {out}") == "/usr\nb c word %t\nbad\n"


def test_a_transient_service_that_failed_stays_unless_it_is_to_be_collected(units: Units) -> None:
    units.ok("systemd-run --quiet --unit=t-fails /bin/false")
    units.until(lambda: units.state("t-fails.service") == "failed")
    shown = units.show("t-fails.service", "ExecMainStatus", "LoadState", "UnitFileState")
    assert shown == {"ExecMainStatus": "1", "LoadState": "loaded", "UnitFileState": "transient"}
    units.ok("systemctl reset-failed t-fails.service")
    assert units.show("t-fails.service", "LoadState")["LoadState"] == "not-found"


def test_a_transient_timer_can_be_renewed_and_stopped(units: Units) -> None:
    make = "systemd-run --quiet --collect --unit=t-dead --timer-property=AccuracySec=10ms"
    units.ok(f"{make} --on-active=1h /bin/true")
    assert units.state("t-dead.timer") == "active"
    assert units.show("t-dead.service", "LoadState", "ActiveState", "TriggeredBy") == {
        "LoadState": "loaded", "ActiveState": "inactive", "TriggeredBy": "t-dead.timer",
    }  # fmt: skip
    units.ok("systemctl restart t-dead.timer")
    assert units.state("t-dead.timer") == "active"
    units.ok("systemctl stop t-dead.timer")
    for name in ("t-dead.timer", "t-dead.service"):
        assert units.show(name, "LoadState")["LoadState"] == "not-found"
    assert units.run("systemctl restart t-dead.timer").status == 5


def test_a_timer_that_fires_starts_its_service_once(units: Units) -> None:
    out = f"{units.place.root}/var/tmp/t-fired"
    units.ok(
        f"rm -f {out}; systemd-run --quiet --collect --unit=t-fire --on-active=0.3s "
        f"--timer-property=AccuracySec=10ms /bin/sh -c 'echo fired >> {out}'"
    )
    units.until(lambda: units.run(f"cat {out}").out == "fired\n")
    units.until(lambda: units.show("t-fire.timer", "LoadState")["LoadState"] == "not-found")
    assert units.ok(f"cat {out}; rm {out}") == "fired\n"


def test_a_timers_service_can_be_started_before_its_time(units: Units) -> None:
    out = f"{units.place.root}/var/tmp/t-early"
    units.ok(
        f"rm -f {out}; systemd-run --quiet --collect --unit=t-early --on-active=1h "
        f"/bin/sh -c 'echo early >> {out}'; systemctl start --no-block t-early.service"
    )
    units.until(lambda: units.run(f"cat {out}").out == "early\n")
    assert units.state("t-early.timer") == "active"
    units.ok(f"systemctl stop t-early.timer; rm {out}")


def test_the_journal_of_one_start_has_systemds_lines_too(units: Units) -> None:
    # It lives until journald has read it: of a unit that is gone journald finds no invocation id.
    command = "ExecStart=/bin/sh -c 'echo out; echo err >&2; sleep 1'"
    units.service("t-log.service", "Type=oneshot", command, unit=("Description=talks",))
    ids = []
    for _ in range(2):
        units.install(
            "t-hold.service", "[Unit]\nAfter=t-log.service\n[Service]\nExecStart=/bin/sleep 60\n"
        )
        units.ok("systemctl start t-hold.service t-log.service")
        ids.append(units.show("t-log.service", "InvocationID")["InvocationID"])
    assert ids[0] != ids[1]
    for invocation in ids:
        lines = units.journal("t-log.service", invocation, "-o", "cat", "--all").splitlines()
        assert lines.count("out") == lines.count("err") == 1
        assert "Starting t-log.service - talks..." in lines
        assert "Finished t-log.service - talks." in lines
        assert (
            units.journal("t-log.service", invocation, "-n", "1", "-o", "cat") == lines[-1] + "\n"
        )


def test_what_the_journal_makes_of_a_carriage_return(units: Units) -> None:
    units.service("t-bar.service", "Type=oneshot",
                  "ExecStart=/bin/sh -c 'printf \"bar 100%%%%\\\\rline\\\\n\"'")  # fmt: skip
    units.ok("systemctl start t-bar.service; journalctl --sync")
    of = "journalctl -q --no-pager -u t-bar -t sh"
    # Counted in octal, because the return would not survive being read as text.
    assert "bar100%\\rline" in units.ok(f"{of} -o cat --all | od -An -c | tr -d ' \\n'")
    assert "blob data]" in units.ok(f"{of} -o short-iso")
    entry = json.loads(units.ok(f"{of} -o json --output-fields=MESSAGE"))
    assert bytes(entry["MESSAGE"]) == b"bar 100%\rline"
    assert "_PID" not in entry


def test_long_lines_of_the_journal(units: Units) -> None:
    units.service("t-long.service", "Type=oneshot",
                  f"ExecStart={units.place.python} -I -c 'print(\"x\" * 6000)'")  # fmt: skip
    units.ok("systemctl start t-long.service; journalctl --sync")
    of = "journalctl -q --no-pager -u t-long -o json"
    lengths = [
        len(entry["MESSAGE"]) if entry["MESSAGE"] else None
        for entry in map(json.loads, units.ok(f"{of} --all").splitlines())
    ]
    assert 6000 in lengths
    short = [json.loads(line)["MESSAGE"] for line in units.ok(of).splitlines()]
    assert None in short


def test_a_unit_file_that_was_removed(units: Units) -> None:
    units.service("t-rm.service", "ExecStart=/bin/sleep 100")
    units.ok("systemctl start t-rm.service")
    path = f"{units.place.root}/run/systemd/system/t-rm.service"
    units.ok(f"rm {path}; systemctl daemon-reload")
    assert units.state("t-rm.service") == "active"
    units.ok("systemctl stop t-rm.service")
    assert units.show("t-rm.service", "LoadState")["LoadState"] == "not-found"


def test_drop_ins_are_merged(units: Units) -> None:
    directory = f"{units.place.root}/run/systemd/system/t-drop.service.d"
    units.service("t-drop.service", "Environment=A=1 B=2", "Type=oneshot", "ExecStart=/bin/false")
    units.ok(f"mkdir -p {directory}; cat > {directory}/x.conf; systemctl daemon-reload",
             f"[Service]\nExecStart=\nExecStart={argv_printer(units.place)} dropped\n"
             "Environment=B=3\n")  # fmt: skip
    units.ok("systemctl start t-drop.service; journalctl --sync")
    words, environment = printed(units.ok("journalctl -q -u t-drop -o cat"))
    assert units.show("t-drop.service", "DropInPaths")["DropInPaths"] == f"{directory}/x.conf"
    units.ok(f"rm -r {directory}")
    assert (words, environment["A"], environment["B"]) == (["dropped"], "1", "3")


def test_who_listens_on_a_port(units: Units) -> None:
    code = (
        'import socket,sys,time; s=socket.create_server(("127.0.0.1", 0)); '
        "print(s.getsockname()[1], flush=True); time.sleep(100)"
    )
    units.service("t-port.service", f"ExecStart={units.place.python} -I -c '{code}'",
                  "SyslogIdentifier=t-port")  # fmt: skip
    units.ok("systemctl start t-port.service")
    of = "journalctl --sync; journalctl -q -t t-port -o cat -n 1"
    units.until(lambda: units.ok(of).strip().isdigit())
    port = units.ok(of).strip()
    pid = units.show("t-port.service", "MainPID")["MainPID"]
    listening = units.ok(f"ss -Hltnp 'sport = :{port}'")
    assert listening.startswith("LISTEN")
    assert f"127.0.0.1:{port}" in listening
    assert f",pid={pid},fd=" in listening
    units.ok("systemctl stop t-port.service")
    assert units.ok(f"ss -Hltnp 'sport = :{port}'") == ""


@pytest.mark.parametrize(
    "lines",
    [
        ["ExecStart=relative/path"],
        ["Type=exec"],
        ["ExecStart=/bin/true", "ExecStart=/bin/false"],
        ["ExecStart=/bin/true", "ExecStart="],
        ['ExecStart=/bin/true "open'],
    ],
)
def test_a_unit_that_cannot_be_loaded(units: Units, lines: list[str]) -> None:
    units.service("t-bad.service", *lines)
    said = units.run("systemctl start t-bad.service")
    assert said.status == 1
    assert "Unit t-bad.service has a bad unit file setting." in said.error
    shown = units.show("t-bad.service", "LoadState", "ActiveState", "Result", "LoadError")
    error = 'BadUnitSetting "Unit t-bad.service has a bad unit file setting."'
    assert shown == {
        "LoadState": "bad-setting", "ActiveState": "inactive", "Result": "success",
        "LoadError": f"org.freedesktop.systemd1.{error}",
    }  # fmt: skip


def test_a_working_directory_that_is_not_there(units: Units) -> None:
    units.service("t-dir.service", "Type=exec", "WorkingDirectory=/nowhere", "ExecStart=/bin/true")
    assert units.run("systemctl start t-dir.service").status == 1
    assert units.show("t-dir.service", "ExecMainStatus")["ExecMainStatus"] == "200"


def test_another_user_is_for_root_alone(demo: Place) -> None:
    units = Units(demo)
    user = "nobody" if os.getuid() == 0 else "root"
    units.service("t-user.service", "Type=exec", f"User={user}", "ExecStart=/bin/sh -c 'id -un'")
    units.run("systemctl start t-user.service")
    units.until(lambda: units.state("t-user.service") in ("inactive", "failed"))
    if os.getuid() == 0:
        assert "nobody" in units.ok("journalctl -q -u t-user -o cat").splitlines()
    else:
        assert units.show("t-user.service", "ExecMainStatus")["ExecMainStatus"] == "217"
    units.clean()


def test_the_stand_ins_are_found_before_the_real_ones(demo: Place) -> None:
    for command in ("systemctl", "journalctl", "systemd-run", "ss", "nvidia-smi", "sudo"):
        assert demo.sh(f"command -v {command}").out.strip() == f"{demo.root}/bin/{command}"
    assert Path(demo.root).stat().st_mode & 0o777 == 0o700
