"""What a host answers and what the check makes of it: tables."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sweep.check import access, files, machine, night, ours, production, release, server
from sweep.check.finding import Answer, Identity
from sweep.hints import Commands
from sweep.inventory import ClientBenchmark, CommandBenchmark, ProductionCommands
from sweep.systemd.lock import Found, Lock
from sweep.systemd.owner import Owner
from sweep.systemd.production import Seen
from tests.check.made import NOW, make_about, make_answer, make_identity, make_plan, said

GOOD_ACCESS: dict[str, str] = {
    "running": "running",
    "journal": "a line\nstatus 0",
    "journal_dirs": "/var/log/journal",
    "ntp": "yes",
}


@pytest.mark.parametrize(
    ("changed", "level", "words"),
    [
        ({}, "ok", "journal: readable, persistent"),
        ({"running": "degraded"}, "ok", "systemd: systemctl says: degraded"),
        ({"running": "starting"}, "warning", "systemd: still starting"),
        ({"running": "maintenance"}, "problem", "systemd: systemctl says: maintenance"),
        ({"running": ""}, "warning", "systemd: not readable here"),
        ({"journal_dirs": "/run/log/journal"}, "warning", "journal: kept in memory only"),
        ({"journal": "status 0"}, "problem", "journal: root cannot read it"),
        ({"journal": "No such file\nstatus 1"}, "problem", "root cannot read it: No such file"),
        ({"journal": "status 0", "journal_dirs": ""}, "problem", "journald stores nothing"),
        ({"journal": ""}, "warning", "journal: not readable here"),
        ({"ntp": "no"}, "warning", "clock: the host's clock is not synchronised"),
        ({"missing": "ss\ncmp"}, "problem", "commands: missing on the host: ss, cmp"),
        ({"selinux": "Enforcing"}, "ok", "selinux: enforcing"),
    ],
)
def test_access(changed: dict[str, str], level: str, words: str) -> None:
    answer = make_answer(**{**GOOD_ACCESS, **changed})
    lines = said(access.findings(make_about(), make_identity(), answer))
    assert any(line.startswith(level) and words in line for line in lines), lines
    if not changed:
        assert all(line.startswith("ok") for line in lines), lines


def test_selinux_and_a_program_in_a_home() -> None:
    about = make_about({"command": ("/root/env/bin/python3", "-m", "sglang.launch_server")})
    answer = make_answer(**GOOD_ACCESS, selinux="Enforcing")
    lines = said(access.findings(about, make_identity(), answer))
    assert any("203/EXEC" in line for line in lines)


def test_a_user_without_rights_is_told_three_ways_out() -> None:
    found = list(
        access.findings(make_about(), make_identity("ops", 1000), make_answer(**GOOD_ACCESS))
    )
    assert (found[0].level, found[0].text) == ("problem", "ops may not manage system units")
    assert "become: sudo" in found[0].fix


def test_no_user_manager() -> None:
    who = make_identity("ops", 1000, "user")
    answer = make_answer(**{**GOOD_ACCESS, "running": "Failed to connect to bus: No medium found"})
    lines = said(access.findings(make_about(scope="user"), who, answer))
    assert (
        "problem systemd: no user manager can be reached: Failed to connect to bus: No medium"
        in (lines[1])
    )


@pytest.mark.parametrize(
    ("version", "lingers", "scope", "wanted"),
    [
        (252, False, "system", ["ok systemd: version 252"]),
        (244, True, "system", ["problem systemd: version 244; 245 or newer is needed"]),
        (245, True, "user", ["ok systemd: version 245"]),
        (257, False, "user", ["ok systemd: version 257", "problem linger: ops does not linger"]),
    ],
)
def test_systemd(version: int, lingers: bool, scope: str, wanted: list[str]) -> None:
    about = make_about(scope=scope)
    lines = said(access.systemd_findings(about, version, lingers=lingers, user="ops"))
    assert [line[: len(words)] for line, words in zip(lines, wanted, strict=True)] == wanted


@pytest.mark.parametrize(("offset_s", "level"), [(0.3, "ok"), (-1.9, "ok"), (3, "warning")])
def test_clock(offset_s: float, level: str) -> None:
    assert access.clock_finding(offset_s).level == level


GOOD_SERVER: dict[str, str] = {
    "account": "sglang:x:998:998::/var/lib/sglang:/usr/sbin/nologin",
    "client": "3.11",
    "server": "there\n0.5.23",
    "port": "",
    "port_range": "32768\t60999",
}


@pytest.mark.parametrize(
    ("changed", "given", "level", "words"),
    [
        ({}, {}, "ok", "server: sglang.launch_server: 0.5.23"),
        ({"account": ""}, {"user": "nobody9"}, "problem", "user: there is no user nobody9"),
        ({}, {"group": "gpus"}, "problem", "user: there is no group gpus"),
        ({"client": "3.7"}, {}, "problem", "python: /usr/bin/python3 is 3.7; the client needs 3.8"),
        ({"client": "3.8"}, {}, "ok", "python: /usr/bin/python3 is 3.8"),
        (
            {"client": "sh: 1: /usr/bin/python3: Permission denied"},
            {"user": "sglang"},
            "problem",
            "python: /usr/bin/python3 does not run as sglang: sh: 1",
        ),
        ({"client": ""}, {}, "problem", "python: /usr/bin/python3 does not run as root: no answer"),
        ({"server": "missing"}, {}, "problem", "cannot be run by root: not there"),
        (
            {"server": "there\nNo module named sglang"},
            {},
            "problem",
            "server: /opt/sglang/bin/python3 does not find sglang.launch_server: No module named",
        ),
        ({"server": "there\nunknown version"}, {}, "ok", "sglang.launch_server: unknown version"),
        ({"server": "there"}, {"command": ("/usr/bin/serve",)}, "ok", "server: /usr/bin/serve is"),
        (
            {"server": "there\n0.5.1.post3"},
            {"secrets": {"api-key": {"env": "KEY"}}},
            "problem",
            "secrets: SGLang 0.5.1.post3 has no --config",
        ),
        (
            {"server": "there\n0.5.9\tspeculative-adaptive uno-lora-path"},
            {},
            "problem",
            "flags: SGLang 0.5.9 there has no --uno-lora-path and would end with exit 2",
        ),
        ({"port": ""}, {}, "ok", "port: 30900 is free"),
        (
            {"port": "812\tvllm.service\tbob python3 -m vllm"},
            {},
            "problem",
            "port: 30900 is taken by pid 812 of vllm.service: bob python3 -m vllm",
        ),
        (
            {"port": "812\tvllm.service\tbob vllm --api-key sk-1 --port 30900"},
            {},
            "problem",
            "port: 30900 is taken by pid 812 of vllm.service: bob vllm --api-key [redacted] --port",
        ),
        ({"port": "?\t\t"}, {}, "problem", "port: 30900 is taken by pid ?"),
        ({}, {"port": 40000}, "warning", "port: 40000 is free now, but any outgoing connection"),
    ],
)
def test_server(changed: dict[str, str], given: dict[str, Any], level: str, words: str) -> None:
    answer = make_answer(**{**GOOD_SERVER, **changed})
    about = make_about(given)
    lines = said(server.findings(about, make_identity(), answer))
    assert any(line.startswith(level) and words in line for line in lines), lines


@pytest.mark.parametrize(
    ("changed", "given", "hopeless"),
    [
        ({}, {}, False),
        ({"account": ""}, {}, True),
        ({"account": ""}, {"unit": {"DynamicUser": True}}, False),
        ({"group": ""}, {"group": "nobody-such"}, True),
        ({"server": "missing"}, {}, True),
        ({"server": "missing"}, {"unit": {"RootDirectory": "/srv/root"}}, False),
        ({"server": "su: Authentication failure"}, {}, False),
        ({"server": "there\nNo module named sglang"}, {}, True),
        ({"server": "there\nNo module named sglang"}, {"env_file": "/etc/pythonpath"}, False),
        ({"server": "there\n0.5.9\tuno-lora-path"}, {}, True),
        ({"server": "there\n0.5.9\tattention-backend=hpc_ops"}, {}, False),
        ({"port": "7\told.service\troot python3"}, {}, False),
    ],
)
def test_what_lets_no_launch_succeed(
    changed: dict[str, str], given: dict[str, Any], *, hopeless: bool
) -> None:
    answer = make_answer(**{**GOOD_SERVER, **changed})
    about = make_about(given, {"uno-lora-path": "/x", "speculative-num-steps": 2})
    found = list(server.findings(about, make_identity(), answer))
    assert any(one.hopeless for one in found) == hopeless, found
    assert all(one.level == "problem" for one in found if one.hopeless)


@pytest.mark.parametrize(
    ("command", "hopeless"),
    [
        (("/opt/bin/python3", "-m", "sglang.launch_server"), True),
        (("/usr/bin/docker", "run", "image", "sglang", "serve"), False),
    ],
)
def test_a_model_that_is_not_there_is_hopeless_where_sglang_runs_on_the_host_itself(
    command: tuple[str, ...], *, hopeless: bool
) -> None:
    about = make_about({"command": command}, {"model-path": "/models/m"})
    answer = make_answer(files="model-path\t/models/m\tmissing")
    (found,) = (f for f in files.findings(about, make_identity(), answer) if f.level == "problem")
    assert found.hopeless == hopeless


def test_a_draft_model_that_is_not_there_leaves_the_launch_without_speculation() -> None:
    about = make_about(None, {"speculative-draft-model-path": "/models/d"})
    answer = make_answer(files="speculative-draft-model-path\t/models/d\tmissing")
    for steps, hopeless in (((0, 2), False), ((2, 3), True)):
        (launch,) = about.plan.launches
        configs = [
            replace(launch.config, args=(*launch.config.args, ("speculative-num-steps", number)))
            for number in steps
        ]
        launches = tuple(replace(launch, config=config) for config in configs)
        some = replace(about, plan=replace(about.plan, launches=launches))
        found = [one for one in files.findings(some, make_identity(), answer)
                 if one.level == "problem"]  # fmt: skip
        assert [one.hopeless for one in found] == [hopeless]


def test_values_that_the_host_s_sglang_does_not_seem_to_take_are_warnings() -> None:
    answer = make_answer(**{**GOOD_SERVER, "server": "there\n0.5.9\tattention-backend=hpc_ops"})
    found = said(server.findings(make_about(), make_identity(), answer))
    assert (
        "warning flags: SGLang 0.5.9 there does not seem to take --attention-backend hpc_ops"
        in found
    )
    wrapped = make_about({"command": ("/opt/run.sh",)}, {"attention-backend": "mine"})
    found = said(server.findings(wrapped, make_identity(), make_answer(**GOOD_SERVER)))
    assert any("--attention-backend mine: no SGLang up to" in line for line in found)


def test_the_question_finds_values_in_the_package_s_own_source(tmp_path: Path) -> None:
    srt = tmp_path / "sglang" / "srt"
    srt.mkdir(parents=True)
    (srt.parent / "__init__.py").touch()
    (srt / "server_args.py").write_text('attention_backend = Arg(choices=["triton", "fa3"])\n')
    (srt / "registry.py").write_text('BACKENDS["of_another_file"] = 1\n')
    asked = [f"attention-backend=attention_backend={v}" for v in ("fa3", "of_another_file", "mine")]
    answer = subprocess.run(
        [sys.executable, "-c", release.PROGRAM, "sglang", *asked, "device=device"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout == "unknown version\tattention-backend=mine device\n"


@pytest.mark.parametrize(("answer", "level"), [("/usr/bin/bench", "ok"), ("missing", "problem")])
def test_the_user_s_own_benchmark(answer: str, level: str) -> None:
    about = make_about()
    benchmark = CommandBenchmark(kind="command", command=("bench", "{concurrency}"))
    about = replace(about, plan=make_plan(about.spec, benchmark=benchmark))
    found = server.findings(
        about, make_identity(), make_answer(**{**GOOD_SERVER, "client": answer})
    )
    assert next(one.level for one in found if one.subject == "benchmark") == level


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("3.11\n0 noise\nguidellm version: 0.8.1",
         "ok benchmark: guidellm: guidellm version: 0.8.1, runs as root"),
        ("3.11\n127 sh: 1: guidellm: not found",
         "problem benchmark: guidellm cannot run as root: sh: 1: guidellm: not found"),
        ("3.11\n1 ", "problem benchmark: guidellm cannot run as root: it says nothing"),
        ("3.11\n124 ", "warning benchmark: guidellm as root did not tell its version within 60 s"),
        ("3.6\n0 0.8.1", "problem python: /usr/bin/python3 is 3.6; the client needs 3.8"),
        ("", "problem python: /usr/bin/python3 does not run as root: no answer"),
    ],
)  # fmt: skip
def test_another_benchmark_client_is_asked_for_its_version(answer: str, line: str) -> None:
    about = make_about()
    benchmark = ClientBenchmark(kind="guidellm")
    about = replace(about, plan=make_plan(about.spec, benchmark=benchmark))
    assert "guidellm --version" in server.questions(about)
    found = server.findings(
        about, make_identity(), make_answer(**{**GOOD_SERVER, "client": answer})
    )
    assert line in said(found)


@pytest.mark.parametrize(
    ("unit", "advice"),
    [
        ("sglang-sweep.service", "sweep restore gpu"),
        ("sglang.service", "that is production's port"),
        ("other.service", "to a free one"),
    ],
)
def test_who_has_the_port_decides_the_advice(unit: str, advice: str) -> None:
    about = make_about(production=("sglang.service",))
    answer = make_answer(**{**GOOD_SERVER, "port": f"7\t{unit}\troot python3"})
    assert advice in list(server.findings(about, make_identity(), answer))[-1].fix


@pytest.mark.parametrize(
    ("sections", "wanted"),
    [
        ({"files": "model-path\t/models/m\tok"}, "ok model-path: /models/m is there"),
        (
            {"files": "model-path\t/models/m\tmissing"},
            "problem model-path: /models/m does not exist",
        ),
        (
            {"files": "working_directory\t/srv\tdenied"},
            "problem working_directory: /srv cannot be read by root",
        ),
        ({"files": "model-path\tQwen/Q\tabsent"}, "warning model-path: Qwen/Q is not in the Hub"),
        ({"files": "model-path\tQwen/Q\tcached"}, "ok model-path: Qwen/Q is there"),
        ({"env_file": "missing"}, "problem env_file: /etc/sglang.env cannot be read"),
        (
            {"caches": "home\t/h\tok\tu\ncache\t/h/.cache\tdenied\troot\nHF_HOME\t/hf\tdenied\tx"},
            "warning caches: root cannot write /h/.cache, HF_HOME=/hf",
        ),
    ],
)
def test_files(sections: dict[str, str], wanted: str) -> None:
    about = make_about({"env_file": "/etc/sglang.env"})
    lines = said(files.findings(about, make_identity(), make_answer(**sections)))
    assert len(lines) == 1
    assert lines[0].startswith(wanted)


SMI = "GPU 0: RTX\nstatus 0"
CARDS = "\n".join(
    f"{i}, GPU-{i}, RTX PRO 6000, 580.10, {mib}" for i, mib in enumerate((900, 4, 4, 4))
)


@pytest.mark.parametrize(
    ("sections", "args", "wanted"),
    [
        ({}, {}, ["warning gpu: not readable here: no nvidia-smi"]),
        ({}, {"device": "cpu"}, []),
        (
            {"smi": "Failed to initialize NVML: Driver/library version mismatch\nstatus 18"},
            {},
            ["problem gpu: nvidia-smi: Failed to initialize NVML"],
        ),
        ({"smi": "status 124"}, {}, ["problem gpu: nvidia-smi: no answer within 20 s"]),
        (
            {"smi": SMI, "gpus": CARDS},
            {"tp": 4},
            ["ok gpu: 4 of 4 used: RTX PRO 6000, driver 580.10"],
        ),
        (
            {"smi": SMI, "gpus": CARDS},
            {"tp": 8},
            ["problem gpu: the server needs 8 GPUs and can see 4", "ok gpu: 4 of 4"],
        ),
        (
            {"smi": SMI, "gpus": CARDS, "holders": "GPU-0\t77\t880\tXorg.service\troot Xorg"},
            {"tp": 4},
            ["ok gpu", "warning gpu: GPU 0: 880 MiB are held by pid 77 (root Xorg), which is not"],
        ),
        (
            {"smi": SMI, "gpus": CARDS, "holders": "GPU-0\t77\t80000\tjob.service\tbob train"},
            {"tp": 1},
            ["ok gpu: 1 of 4", "problem gpu: GPU 0: 80000 MiB are held by pid 77 (bob train)"],
        ),
        (  # another tenant's card
            {"smi": SMI, "gpus": CARDS, "holders": "GPU-3\t77\t80000\tjob.service\tbob train"},
            {"tp": 2},
            ["ok gpu: 2 of 4"],
        ),
        (  # production's own
            {"smi": SMI, "gpus": CARDS, "holders": "GPU-0\t77\t80000\tsglang.service\tsglang x"},
            {"tp": 1},
            ["ok gpu: 1 of 4"],
        ),
        (
            {"smi": SMI, "gpus": CARDS.replace("900", "40000")},
            {"tp": 1},
            ["ok gpu", "problem gpu: GPU 0: 40000 MiB are held by nobody to be seen"],
        ),
    ],
)
def test_gpus(sections: dict[str, str], args: dict[str, Any], wanted: list[str]) -> None:
    about = make_about(args=args, production=("sglang.service",))
    lines = said(machine.findings(about, make_answer(**{"disks": "", "smi": "", **sections})))
    assert [line[: len(words)] for line, words in zip(lines, wanted, strict=True)] == wanted


@pytest.mark.parametrize(
    ("first", "wanted"),
    [
        ("/var/tmp\t9000000\t600 500\trw", "ok disk: free: /var/tmp 8.6 GiB, /run 977 MiB"),
        ("/var/tmp\t9000000\t600 500\tro", "problem disk: /var/tmp (results of the client) cannot"),
        (
            "/var/tmp\t50000\t600 500\trw",
            "problem disk: /var/tmp (results of the client) has 49 MiB",
        ),
        ("/var/tmp\t400000\t0 0\trw", "warning disk: /var/tmp (results of the client) has 391 MiB"),
        ("/var/tmp\t9000000\t600 0\trw", "problem disk: /var/tmp (results of the client) has no"),
        ("/var/tmp\t\t\tro", "warning disk: not readable here: the free space of /var/tmp"),
    ],
)
def test_disks(first: str, wanted: str) -> None:
    rest = "/run\t1000000\t9 9\trw\n/tmp\t1000000\t9 9\tro\n/var/log\t1000000\t9 9\tro"
    lines = said(machine.findings(make_about(), make_answer(smi="", disks=f"{first}\n{rest}")))
    assert any(line.startswith(wanted) for line in lines), lines


UNIT = {
    "Id": "sglang.service",
    "LoadState": "loaded",
    "ActiveState": "active",
    "UnitFileState": "enabled",
    "NeedDaemonReload": "no",
    "User": "sglang",
    "Transient": "no",
}


def shown(**changed: str) -> Answer:
    text = "\n".join(f"{name}={value}" for name, value in {**UNIT, **changed}.items())
    return make_answer(production=text)


URL = "http://127.0.0.1:30000/health"


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, []),
        (
            {"LoadState": "not-found", "ActiveState": "inactive"},
            ["problem production: sglang.service: systemd says not-found"],
        ),
        ({"LoadState": "masked"}, ["problem production: sglang.service: systemd says masked"]),
        (
            {"ActiveState": "inactive"},
            ["warning production: sglang.service is inactive: it stays down after"],
        ),
        (
            {"UnitFileState": "disabled"},
            ["warning production: sglang.service is disabled: after a reboot"],
        ),
        ({"UnitFileState": "static"}, ["warning production: sglang.service is static"]),
        (
            {"NeedDaemonReload": "yes"},
            ["warning production: the file of sglang.service has changed"],
        ),
        (
            {"Transient": "yes", "UnitFileState": "transient"},
            ["problem production: sglang.service was made by systemd-run"],
        ),
        ({"User": ""}, ["warning user: the sweep's server runs as sglang, sglang.service as root"]),
    ],
)
def test_production(changed: dict[str, str], wanted: list[str]) -> None:
    about = make_about({"user": "sglang"}, production=("sglang.service",), production_health=URL)
    found = production.findings(about, make_identity(), shown(**changed), [], None)
    bad = [line for line in said(found) if not line.startswith("ok")]
    assert [line[: len(words)] for line, words in zip(bad, wanted, strict=True)] == wanted


def test_root_beside_a_service_user() -> None:
    about = make_about(production=("sglang.service",), production_health=URL)
    found = list(production.findings(about, make_identity(), shown(), [], None))
    warning = next(one for one in found if one.level == "warning")
    assert "files that root makes in shared directories are closed to it" in warning.text
    assert warning.fix == "set hosts.gpu.server.user: sglang"


def test_what_stops_with_production_and_what_can_start_it() -> None:
    about = make_about({"user": "sglang"}, production=("sglang.service",), production_health=URL)
    seen = [
        Seen("sglang.service", active=True, exists=True, triggers=("sglang.timer",)),
        Seen("gateway.service", active=True, exists=True, triggers=()),
        Seen("idle.service", active=False, exists=True, triggers=()),
        Seen("held.service", active=True, exists=True, upheld_by=("keeper.service",)),
    ]
    lines = said(production.findings(about, make_identity(), shown(), seen, None))
    assert "ok production: stops and starts with it: gateway.service, held.service" in lines
    upheld = "problem production: keeper.service upholds held.service: systemd would start it again"
    assert any(line.startswith(upheld) for line in lines)
    assert any(line.startswith("warning production: sglang.timer can start it") for line in lines)


@pytest.mark.parametrize(
    ("health", "trouble", "state", "wanted"),
    [
        (URL, None, "active", "ok health"),
        (URL, "503", "active", "problem health: production runs, but does not answer: 503"),
        (URL, "refused", "inactive", None),
        (None, "none", "active", "warning health: no production_health"),
    ],
)
def test_health(health: str | None, trouble: str | None, state: str, wanted: str | None) -> None:
    about = make_about({"user": "sglang"}, production=("sglang.service",), production_health=health)
    answer = shown(ActiveState=state)
    lines = said(production.findings(about, make_identity(), answer, [], trouble))
    health_lines = [line for line in lines if " health: " in line]
    assert [line[: len(wanted or "")] for line in health_lines] == ([wanted] if wanted else [])


@pytest.mark.parametrize(("status", "level"), [("0", "ok"), ("1", "warning"), ("", "warning")])
def test_production_by_commands(status: str, level: str) -> None:
    commands = ProductionCommands(stop="a", start="b", check="c")
    about = make_about(production=commands, production_health=URL)
    answer = make_answer(production="", production_check=status)
    found = list(production.findings(about, make_identity(), answer, [], None))
    assert (found[0].level, found[0].subject) == (level, "production")


def timer(clock: str, name: str, starts: str = "x.service") -> str:
    return f"{clock} UTC 2h 1min left n/a                         n/a         {name} {starts}"


@pytest.mark.parametrize(
    ("lines", "sections", "wanted"),
    [
        ([], {}, "ok timers: nothing that disturbs is due within 12.0 h"),
        ([timer("Sun 2026-03-01 22:10:00", "fstrim.timer")], {}, "ok timers"),
        ([timer("Tue 2026-03-03 06:10:00", "apt-daily-upgrade.timer")], {}, "ok timers"),
        (
            [timer("Mon 2026-03-02 06:10:00", "apt-daily-upgrade.timer")],
            {},
            "warning timers: apt-daily-upgrade.timer at 06:10 UTC: upgrades may restart",
        ),
        (
            [timer("Mon 2026-03-02 06:10:00", "apt-daily-upgrade.timer")],
            {"upgrades": 'Unattended-Upgrade::Automatic-Reboot "true";\nneedrestart'},
            "warning timers: apt-daily-upgrade.timer at 06:10 UTC: upgrades may restart services "
            "or replace the driver (it is set to reboot, needrestart is installed)",
        ),
        (
            [timer("Mon 2026-03-02 03:00:00", "train.timer")],
            {},
            "warning timers: due in the night: train.timer at 03:00 UTC",
        ),
        (
            [timer("Mon 2026-03-02 03:00:00", "x.timer", "sglang.service")],
            {},
            "problem timers: x.timer at 03:00 UTC starts production in mid-sweep",
        ),
        (
            ["- - - - never.timer never.service", "n/a n/a n/a n/a a.timer a.service"],
            {},
            "ok timers",
        ),
    ],
)
def test_timers(lines: list[str], sections: dict[str, str], wanted: str) -> None:
    about = make_about(production=("sglang.service",))
    answer = make_answer(timers="\n".join([*lines, "status 0"]), **sections)
    found = said(night.findings(about, answer))
    assert len(found) == 1
    assert found[0].startswith(wanted)


def test_timers_that_cannot_be_read() -> None:
    answer = make_answer(timers="unknown verb\nstatus 1")
    assert said(night.findings(make_about(), answer))[0] == (
        "warning timers: not readable here: unknown verb"
    )


@pytest.mark.parametrize(("hours", "level"), [(3, "problem"), (30, "warning")])
def test_a_scheduled_reboot(hours: float, level: str) -> None:
    at = int((NOW + timedelta(hours=hours)).timestamp() * 1e6)
    answer = make_answer(timers="status 0", shutdown=f"USEC={at}\nWARN_WALL=1\nMODE=reboot")
    found = list(night.findings(make_about(), answer))[1]
    assert found.level == level
    assert found.text.startswith("a reboot of the host is scheduled for 2026-03-0")


def test_cron_and_a_pending_reboot() -> None:
    answer = make_answer(
        timers="status 0",
        reboot_required="yes",
        cron="\n".join(f"0 {n} * * * reboot" for n in range(5)),
    )
    lines = said(night.findings(make_about(), answer))
    assert any(line.startswith("warning reboot: the host waits for a reboot") for line in lines)
    assert any("0 0 * * * reboot" in line and "and 2 more" in line for line in lines)


@pytest.mark.parametrize(
    ("unit", "wanted"),
    [
        ("LoadState=not-found\nActiveState=inactive", ["ok unit: sglang-sweep.service is free"]),
        (
            "LoadState=loaded\nFragmentPath=/etc/systemd/system/sglang-sweep.service",
            ["problem unit: sglang-sweep.service exists already: /etc/systemd/system/sglang-sweep"],
        ),
        (
            "LoadState=loaded\nActiveState=active\n"
            "FragmentPath=/run/systemd/system/sglang-sweep.service",
            ["problem unit: sglang-sweep.service is active: a sweep runs, or was left there"],
        ),
        ("LoadState=masked", ["problem unit: sglang-sweep.service is masked"]),
        (
            "LoadState=not-found\nDropInPaths=/etc/systemd/system/service.d/a.conf",
            ["ok unit", "warning unit: drop-ins change every unit"],
        ),
    ],
)
def test_the_sweep_s_own_unit(unit: str, wanted: list[str]) -> None:
    lines = said(ours.findings(make_about(), make_identity(), make_answer(unit=unit), None))
    assert [line[: len(words)] for line, words in zip(lines, wanted, strict=True)] == wanted


def lock_of(owner: Owner, **more: bool) -> Found:
    lock = Lock("overnight-1", "sglang-sweep.service", "boot-1", owner)
    states = {"young": False, "timer_armed": True, "restoring": False, **more}
    return Found(lock, lock.line, **states)


@pytest.mark.parametrize(
    ("boot", "more", "level", "words"),
    [
        ("boot-1", {}, "problem", "taken by run overnight-1 of ann@laptop (pid 1)"),
        ("boot-2", {}, "warning", "the host was started anew since; the next sweep takes over"),
        ("boot-1", {"timer_armed": False}, "warning", "its dead-man timer is armed no more"),
        ("boot-1", {"restoring": True}, "problem", "is giving the host back right now"),
    ],
)
def test_a_lock_on_the_host(boot: str, more: dict[str, bool], level: str, words: str) -> None:
    owner = Owner("ann", "laptop", "m", "b", 1, "s", "2026-03-01T20:00:00Z")
    answer = make_answer(boot=boot, records="overnight-1\nolder-2")
    found = list(ours.findings(make_about(), make_identity(), answer, lock_of(owner, **more)))
    assert found[1].level == level
    assert words in found[1].text
    assert (
        said(found)[2] == "warning restore: run older-2 has not given the host back as it found it"
    )


def test_what_a_finding_proposes_names_the_inventory_where_that_is_another_one() -> None:
    elsewhere = Commands(inventory=Path("/etc/hosts of mine.yaml"), runs=Path("/srv/runs"))
    about = replace(make_about(), commands=elsewhere)
    owner = Owner("ann", "laptop", "m", "b", 1, "s", "2026-03-01T20:00:00Z")
    answer = make_answer(boot="boot-2", records="older-2")
    fixes = [one.fix for one in ours.findings(about, make_identity(), answer, lock_of(owner))]
    restore = "sweep -i '/etc/hosts of mine.yaml' restore gpu"
    assert fixes[1] == (
        f"sweep resume overnight-1 --runs-dir /srv/runs goes on with it, {restore} ends it"
    )
    assert fixes[2] == restore


def test_a_host_that_did_not_get_to_the_end_is_not_guessed_at() -> None:
    nothing = make_answer()
    about, who = make_about(production=("sglang.service",), production_health=URL), make_identity()
    found = [
        *access.findings(about, who, nothing),
        *server.findings(about, who, nothing),
        *files.findings(about, who, nothing),
        *machine.findings(about, nothing),
        *night.findings(about, nothing),
        *ours.findings(about, who, nothing, None),
    ]
    assert all("not readable here" in one.text for one in found if one.subject != "rights")


def test_a_script_that_did_not_run_names_nobody() -> None:
    assert access.identity(make_about(), "", make_answer(id="")) is None
    who = access.identity(make_about(), "", make_answer(id="0\nroot\nroot adm"))
    assert isinstance(who, Identity)
    assert who.groups == ("root", "adm")
