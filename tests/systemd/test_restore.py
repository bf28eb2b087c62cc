"""Giving the host back: exactly what served before, and nothing of ours left."""

from __future__ import annotations

import dataclasses
import re

import pytest

from sweep.clock import SystemClock
from sweep.errors import HostError, HostTaken
from sweep.inventory import ProductionCommands
from sweep.systemd import runs_on
from tests.systemd.targets import (
    NO_SECRETS,
    Target,
    dead,
    free_port,
    http_server,
    me,
    new_run,
    rendered,
    service,
    taken,
    wait_for,
)

HOSTS = ("demo", "trixie-user")
SLEEP = "/bin/sleep 600"


def serve(target: Target, run_id: str) -> None:
    """A run that has a server up, of a process that will not come back."""
    systemd = target.systemd(run_id)
    systemd.take(me())
    systemd.install(rendered(target, http_server(target.port)), NO_SECRETS)
    systemd.start()


def test_what_was_down_stays_down(target: Target) -> None:
    target = target.with_(production=("llm.service",))
    target.add_units({"llm.service": service(SLEEP)})
    try:
        with taken(target) as systemd:
            systemd.install(rendered(target, http_server(target.port)), NO_SECRETS)
            systemd.start()
            restored = systemd.restore(within_s=30)
            assert restored.units == ()
            assert "stays down" in restored.text
        assert target.active("llm.service") == "inactive"
    finally:
        target.remove_units(["llm.service"])


def test_another_process_restores_and_waits_until_production_answers(target: Target) -> None:
    """`sweep restore` has nothing but the run's id and what lies on the host."""
    port = free_port()
    slow = f"/bin/sh -c 'sleep 1; exec {http_server(port)}'"
    target = target.with_(
        production=("llm.service",), production_health=f"http://127.0.0.1:{port}/"
    )
    target.add_units({"llm.service": service(slow)}, start=["llm.service"])
    try:
        wait_for(lambda: target.sh(f"ss -Hltn 'sport = :{port}'"), "production")
        run_id = new_run()
        serve(target, run_id)
        (run,) = runs_on(target.host, target.spec, SystemClock())
        assert (run.run_id, run.owes, run.restored) == (run_id, "llm.service", False)
        assert run.dead is None
        restored = target.systemd(run_id).restore(within_s=30)
        assert restored.units == ("llm.service",)
        assert restored.seconds >= 1
        assert runs_on(target.host, target.spec, SystemClock()) == ()
    finally:
        target.remove_units(["llm.service"])


def test_a_run_that_was_gone_on_with_meanwhile_keeps_its_places(root: Target) -> None:
    """Whoever tidies up after a restore may be late: the same run has taken the host again."""
    with taken(root) as systemd:
        run = systemd.site.paths.run
        root.sh(f"touch {run}/restored")  # the lock is taken before that mark is removed
        systemd.hand_over()
        assert systemd.has_the_host()
        assert root.sh(f"cd {run} && ls record.json restore.sh") == "record.json\nrestore.sh\n"
        root.sh(f"rm -f {run}/restored {run}/forget")


def test_production_that_did_not_answer_before_is_not_waited_for(root: Target) -> None:
    target = root.with_(
        production=("llm.service",), production_health=f"http://127.0.0.1:{free_port()}/"
    )
    target.add_units({"llm.service": service(SLEEP)}, start=["llm.service"])
    try:
        with taken(target) as systemd:
            notes = systemd.take(me()).notes
            assert any("its health does not answer" in note for note in notes)
    finally:
        target.remove_units(["llm.service"])


def test_production_that_does_not_come_back_is_named_and_may_be_tried_again(
    target: Target,
) -> None:
    target = target.with_(production=("llm.service",))
    flag = f"{target.host.root}/tmp/llm-of-test-may-start"
    fails = "echo cannot start; sleep 0.5; exit 7"
    start = f"/bin/sh -c 'test -e {flag} && exec sleep 600; {fails}'"
    target.sh(f"mkdir -p {target.host.root}/tmp; touch {flag}")
    target.add_units({"llm.service": service(start)}, start=["llm.service"])
    try:
        run_id = new_run()
        serve(target, run_id)
        target.sh(f"rm {flag}")
        with pytest.raises(HostError) as caught:
            target.systemd(run_id).restore(within_s=60)
        for part in ("llm.service is failed", "exit-code 7", "cannot start", "sweep restore"):
            assert part in str(caught.value)

        target.sh(f"touch {flag}")
        assert target.systemd(run_id).restore(within_s=30).units == ("llm.service",)
        assert target.active("llm.service") == "active"
    finally:
        target.remove_units(["llm.service"])
        target.sh(f"rm -f {flag}")


def test_handed_over_the_host_does_it_alone_and_leaves_nothing(target: Target) -> None:
    target = target.with_(production=("llm.service",))
    target.add_units({"llm.service": service(SLEEP)}, start=["llm.service"])
    try:
        run_id = new_run()
        serve(target, run_id)
        target.systemd(run_id).hand_over()
        wait_for(lambda: not target.left_over(), "the host's own restore")
        assert target.active("llm.service") == "active"
    finally:
        target.remove_units(["llm.service"])


def test_a_lock_alone_can_be_taken_away(root: Target) -> None:
    """Its process died before it had done anything."""
    root.systemd("r-early").take(dead())
    root.sh("systemctl stop 'sweep-restore-*.timer'; rm -r /run/sweep/r-early")
    (run,) = runs_on(root.host, root.spec, SystemClock())
    assert (run.run_id, run.owes) == ("r-early", "nothing")
    assert "gone" in (run.dead or "")
    root.systemd("r-early").restore(within_s=5)


def test_interrupted_while_it_restores_the_host_still_cleans_up(root: Target) -> None:
    with taken(root) as systemd:
        systemd.hand_over()
        wait_for(lambda: not root.left_over(), "the restore")
    with taken(root) as systemd:
        root.sh(f"sh {systemd.site.paths.restore_script}")
        systemd.hand_over()
        assert root.left_over() == []


def test_what_a_person_stopped_after_the_host_restored_it_stays_down(target: Target) -> None:
    target = target.with_(production=("llm.service",))
    target.add_units({"llm.service": service(SLEEP)}, start=["llm.service"])
    try:
        run_id = new_run()
        serve(target, run_id)
        target.sh(f"sh {target.systemd(run_id).site.paths.restore_script}")
        assert target.active("llm.service") == "active"
        target.sh(f"{target.systemctl} stop llm.service")
        restored = target.systemd(run_id).restore(within_s=30)
        assert "the host itself started llm.service" in restored.text
        assert target.active("llm.service") == "inactive"
    finally:
        target.remove_units(["llm.service"])


def test_who_wakes_up_late_starts_nothing_that_a_person_stopped(root: Target) -> None:
    """Its run was restored from elsewhere meanwhile, and production stopped for a reason."""
    target = root.with_(production=("llm.service",))
    target.add_units({"llm.service": service(SLEEP)}, start=["llm.service"])
    try:
        asleep = target.systemd("r-asleep")
        asleep.take(me())
        target.systemd("r-asleep").restore(within_s=30)
        target.sh("systemctl stop llm.service")
        assert "nothing to restore" in asleep.restore(within_s=30).text
        assert target.active("llm.service") == "inactive"
    finally:
        target.remove_units(["llm.service"])


def test_nothing_to_restore(target: Target) -> None:
    assert "nothing to restore" in target.systemd().restore(within_s=5).text
    target.systemd().hand_over()


def test_a_run_whose_host_was_given_back_does_not_go_on(target: Target) -> None:
    with taken(target) as systemd:
        unit = rendered(target, http_server(target.port))
        systemd.install(unit, NO_SECRETS)
        target.systemd(systemd.site.paths.run_id).restore(within_s=30)
        assert systemd.poll().deadman == "gone"
        for verb in (
            lambda: systemd.install(unit, NO_SECRETS),
            systemd.start,
            lambda: systemd.jobs.start("j", ["true"], {}),
        ):
            with pytest.raises(HostTaken, match="sweep resume"):
                verb()


def test_a_target_that_stopped_with_production_starts_nothing_else(root: Target) -> None:
    target = root.with_(production=("llm.service",))
    units = {
        "llm.service": service(SLEEP),
        "stack.target": "[Unit]\nBindsTo=llm.service\nWants=extra.service\n",
        "extra.service": service(SLEEP),
    }
    target.add_units(units, start=["llm.service", "stack.target"])
    try:
        target.sh("systemctl stop extra.service")
        with taken(target) as systemd:
            systemd.install(rendered(target, SLEEP), NO_SECRETS)
            systemd.start()
            wait_for(lambda: target.active("stack.target") == "inactive", "the target's end")
        states = [target.active(name) for name in units]
        assert states == ["active", "active", "inactive"]
    finally:
        target.remove_units(units)


def test_production_that_systemd_does_not_run(target: Target) -> None:
    place = f"{target.host.root}/tmp/llm-of-test"
    pid = f"{place}/pid"
    commands = ProductionCommands(
        start=f"mkdir -p {place}; nohup sleep 600 >/dev/null 2>&1 & echo $! > {pid}",
        stop=f"kill $(cat {pid}); rm {pid}",
        check=f"kill -0 $(cat {pid})",
    )
    target = target.with_(production=commands)
    target.sh(f"mkdir -p {place}")
    target.sh(commands.start)
    try:
        with taken(target) as systemd:
            assert systemd.take(me()).record.by_command
            systemd.install(rendered(target, SLEEP), NO_SECRETS)
            systemd.start()
            assert not target.run(commands.check).ok
            assert systemd.poll().production_active == ()
        assert target.run(commands.check).ok, "and it outlives the restore's own unit"

        target.sh(commands.stop)
        with taken(target) as systemd:
            systemd.install(rendered(target, SLEEP), NO_SECRETS)
            systemd.start()
        assert not target.run(commands.check).ok
    finally:
        target.run(commands.stop)
        target.sh(f"rm -rf {place}")


def test_a_host_that_was_started_anew_gets_its_production_back(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A boot empties /run, record and timer included, and starts only what is enabled."""
    target = target.with_(production=("llm.service",))
    target.add_units({"llm.service": service("/bin/sleep 600")}, start=["llm.service"])
    try:
        with taken(target) as systemd:
            systemd.install(rendered(target, http_server(target.port)), NO_SECRETS)
            systemd.start()
            target.sh(f"{target.systemctl} stop {systemd.site.paths.timer} {target.spec.unit}")
            target.wipe()
            before = dataclasses.replace(systemd.facts, boot_id="the boot before")
            monkeypatch.setattr(systemd, "facts", before)
            assert systemd.restore().units == ("llm.service",)
            assert target.active("llm.service") == "active"
    finally:
        target.remove_units(["llm.service"])


def test_what_another_sweep_holds_by_now_is_left_alone(root: Target) -> None:
    root = root.with_(production=("llm.service",))
    root.add_units({"llm.service": service("/bin/sleep 600")}, start=["llm.service"])
    try:
        first = root.systemd()
        first.take(me())
        root.wipe()
        with taken(root) as second:
            second.install(rendered(root, http_server(root.port)), NO_SECRETS)
            second.start()
            assert first.restore().units == ()
            assert second.poll().running
        assert root.active("llm.service") == "active"
    finally:
        root.remove_units(["llm.service"])


def restored_by_host(target: Target, run_id: str) -> tuple[str, int]:
    """What restore.sh says, and its status, run by hand as its unit would."""
    script = target.systemd(run_id).site.paths.restore_script
    result = target.host.run(f"sh {script}", timeout_s=120)
    return result.text, result.exit_status


@pytest.mark.parametrize(
    ("unit", "up"),
    [
        ("Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true", "active"),
        ("Type=oneshot\nExecStart=/bin/sleep 3", "activating"),
        ("Type=forking\nExecStart=/bin/sh -c 'sleep 600 & exit 0'", "active"),
        ("Type=notify\nNotifyAccess=all\n"
         "ExecStart=/bin/sh -c 'sleep 1; systemd-notify --ready; exec sleep 600'", "active"),
    ],
    ids=["oneshot that stays", "oneshot at work", "forking", "notify"],
)  # fmt: skip
def test_every_type_of_service_is_known_to_be_up(root: Target, unit: str, up: str) -> None:
    target = root.with_(production=("llm.service",))
    target.add_units({"llm.service": f"[Service]\n{unit}\n"})
    try:
        target.sh("systemctl start --no-block llm.service")
        wait_for(lambda: target.active("llm.service") == up, "production")
        run_id = new_run()
        serve(target, run_id)
        said, status = restored_by_host(target, run_id)
        assert status == 0, said
        assert "serves again" in said
        target.systemd(run_id).restore(within_s=5)
    finally:
        target.remove_units(["llm.service"])


@pytest.mark.parametrize(
    ("unit", "state"),
    [
        ("ExecStart=/bin/sh -c 'test -e {flag} && exec sleep 600; sleep 0.2; exit 7'\n"
         "Restart=always\nRestartSec=0.2\nStartLimitIntervalSec=0",
         "llm.service is activating/auto-restart|it does not stay up"),
        ("Type=notify\nNotifyAccess=all\nTimeoutStartSec=infinity\nExecStart=/bin/sh -c "
         "'test -e {flag} && systemd-notify --ready; exec sleep 600'",
         "llm.service is activating/start,"),
    ],
    ids=["crash loop", "never ready"],
)  # fmt: skip
def test_what_never_comes_up_is_not_waited_for_for_ever(
    root: Target, unit: str, state: str
) -> None:
    target = root.with_(production=("llm.service",), server_health_timeout_s=6.0)
    flag = "/tmp/llm-of-test-may-start"
    text = "[Unit]\nStartLimitIntervalSec=0\n[Service]\n" + unit.format(flag=flag) + "\n"
    target.sh(f"touch {flag}")
    target.add_units({"llm.service": text}, start=["llm.service"])
    try:
        run_id = new_run()
        serve(target, run_id)
        target.sh(f"rm {flag}")
        said, status = restored_by_host(target, run_id)
        assert status == 1
        assert re.search(f"not back: ({state})", said)
        with pytest.raises(HostError, match="did not come back"):
            target.systemd(run_id).restore(within_s=3)
        (run,) = runs_on(target.host, target.spec, SystemClock())
        assert not run.restored, "and it is still owed"

        target.sh(f"touch {flag}")
        target.sh("systemctl stop llm.service")
        assert target.systemd(run_id).restore(within_s=30).units == ("llm.service",)
    finally:
        target.remove_units(["llm.service"])
        target.sh(f"rm -f {flag}")


def test_a_unit_that_crashes_once_more_is_looked_at_for_longer(root: Target) -> None:
    """Up for a moment is not up: systemd starts it again and again."""
    target = root.with_(production=("llm.service",), server_health_timeout_s=8.0)
    flag = "/tmp/llm-of-test-may-start"
    start = f"/bin/sh -c 'test -e {flag} && exec sleep 600; sleep 0.7; exit 7'"
    limits = "Restart=always\nRestartSec=0.1"
    text = service(start, "StartLimitIntervalSec=0", limits)
    target.sh(f"touch {flag}")
    target.add_units({"llm.service": text}, start=["llm.service"])
    try:
        run_id = new_run()
        serve(target, run_id)
        target.sh(f"rm {flag}")
        said, status = restored_by_host(target, run_id)
        assert status == 1, said
        # The start that is under way crashes once more; the next one stays.
        target.sh(f"touch {flag}; sleep 2")
        target.systemd(run_id).restore(within_s=30)
    finally:
        target.remove_units(["llm.service"])
        target.sh(f"rm -f {flag}")


def test_a_server_whose_stop_never_ends_is_killed(
    root: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep.systemd.restore_script._STOP_LIMIT_S", 2)
    target = root.with_(production=("llm.service",))
    target.add_units({"llm.service": service(SLEEP)}, start=["llm.service"])
    try:
        run_id = new_run()
        systemd = target.systemd(run_id)
        systemd.take(me())
        endless = "ExecStop=/bin/sleep 600\nTimeoutStopSec=infinity"
        systemd.install(rendered(target, SLEEP, service=endless), NO_SECRETS)
        systemd.start()
        said, status = restored_by_host(target, run_id)
        assert status == 0, said
        assert "not stopped after 2 s: killed" in said
        assert target.active("llm.service") == "active"
        assert target.active(target.spec.unit) == "inactive"
        target.systemd(run_id).restore(within_s=5)
    finally:
        target.remove_units(["llm.service"])


def test_a_start_command_that_fails_is_tried_again(target: Target) -> None:
    """As units are: a name not free yet, a card not given back yet."""
    place = f"{target.host.root}/tmp/llm-of-test"
    pid = f"{place}/pid"
    commands = ProductionCommands(
        start=f"echo again >> {place}/tries; [ $(wc -l < {place}/tries) -gt 2 ] || exit 1; "
        f"nohup sleep 600 >/dev/null 2>&1 & echo $! > {pid}",
        stop=f"kill $(cat {pid}); rm {pid}",
        check=f"kill -0 $(cat {pid})",
    )
    target = target.with_(production=commands)
    target.sh(f"mkdir -p {place}; sleep 600 >/dev/null 2>&1 & echo $! > {pid}")
    try:
        run_id = new_run()
        serve(target, run_id)
        assert not target.run(commands.check).ok
        target.systemd(run_id).restore(within_s=30)
        assert target.run(commands.check).ok
        assert target.sh(f"wc -l < {place}/tries").strip() == "3"
    finally:
        target.run(commands.stop)
        target.sh(f"rm -rf {place}")


def test_a_start_command_that_never_returns_is_production_too(target: Target) -> None:
    port = free_port()
    pid = f"ss -Hltnp 'sport = :{port}' | sed -n 's/.*pid=\\([0-9]*\\),.*/\\1/p'"
    commands = ProductionCommands(
        start=http_server(port),
        stop=f"kill $({pid})",
        check=f"ss -Hltn 'sport = :{port}' | grep -q .",
    )
    target = target.with_(production=commands, production_health=f"http://127.0.0.1:{port}/")
    target.sh(f"nohup {commands.start} >/dev/null 2>&1 & :")
    try:
        wait_for(lambda: target.run(commands.check).ok, "production")
        run_id = new_run()
        serve(target, run_id)
        assert not target.run(commands.check).ok
        restored = target.systemd(run_id).restore(within_s=30)
        assert "production's start command again up" in restored.text
        assert target.run(commands.check).ok
    finally:
        target.run(commands.stop)


def test_results_that_nobody_fetched_outlive_the_restore(target: Target) -> None:
    target = target.with_(production=("llm.service",))
    target.add_units({"llm.service": service(SLEEP)}, start=["llm.service"])
    try:
        run_id = new_run()
        systemd = target.systemd(run_id)
        systemd.take(me())
        done = systemd.jobs.start("j-done", ["echo", "result"], {})
        systemd.jobs.start("j-cut-short", ["sleep", "600"], {})
        failed = systemd.jobs.start("j-failed", ["sh", "-c", "exit 143"], {})
        wait_for(lambda: not systemd.jobs.state(failed).running, "the other client")
        wait_for(lambda: not systemd.jobs.state(done).running, "the client")
        restored = systemd.restore(within_s=30)
        assert f"1 finished benchmark clients' results wait in {systemd.site.paths.work}" in (
            restored.text
        )
        assert f"`sweep resume {run_id}`" in restored.text
        assert runs_on(target.host, target.spec, SystemClock()) == ()

        again = target.systemd(run_id)
        again.take(me())
        assert again.jobs.read(done, "stdout") == b"result\n"
        assert target.sh(f"ls {again.site.paths.work}").split() == ["j-done"]
        again.jobs.forget(done)
        assert "wait" not in again.restore(within_s=30).text
    finally:
        target.remove_units(["llm.service"])
