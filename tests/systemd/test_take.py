"""Taking a host: the lock and its owners, the unit's name, what was serving."""

from __future__ import annotations

import dataclasses
import json
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sweep.clock import SystemClock
from sweep.errors import HostError, HostRefused, HostTaken
from sweep.host import Result
from sweep.systemd import lock, runs_on
from sweep.systemd.leftovers import runs
from sweep.systemd.owner import process_started
from sweep.systemd.site import Site, at_the_end
from tests.systemd.conftest import connection_as
from tests.systemd.targets import (
    NO_SECRETS,
    Target,
    dead,
    http_server,
    me,
    new_run,
    rendered,
    service,
    somebody,
    taken,
    wait_for,
)
from tests.testhost import Machine

HOSTS = ("demo", "trixie-user")


def test_taking_twice_is_fine_and_changes_nothing(target: Target) -> None:
    with taken(target) as systemd:
        before = lock_of(target)
        again = systemd.take(me())
        assert "production is down, and stays down afterwards" in again.notes
        assert lock_of(target)["pid"] == before["pid"]
        assert systemd.poll().deadman == "armed"


def lock_of(target: Target) -> dict[str, object]:
    owner: dict[str, object] = json.loads(target.sh(f"cat {target.runtime}/sweep/lock"))["owner"]
    return owner


def test_a_second_sweep_is_refused_and_told_whose_the_host_is(target: Target) -> None:
    with taken(target, "r-first"):
        other = target.systemd("r-second")
        for owner in (me(), somebody()):
            with pytest.raises(HostRefused) as caught:
                other.take(owner)
            message = str(caught.value)
            for part in ("r-first", me().user, f"pid {me().pid}", "since 20", "sweep restore"):
                assert part in message
        assert [run.run_id for run in runs_on(target.host, target.spec, SystemClock())] == [
            "r-first"
        ]


def test_of_many_who_come_at_once_one_gets_the_host(root: Target) -> None:
    outcomes: list[str] = []

    def take(number: int) -> None:
        try:
            root.systemd(f"r-crowd-{number}").take(somebody(machine=f"m{number}"))
            outcomes.append(f"r-crowd-{number}")
        except HostRefused:
            pass

    threads = [threading.Thread(target=take, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 1
    root.systemd(outcomes[0]).restore(within_s=30)


def test_of_many_who_bury_a_dead_owner_one_gets_the_host(root: Target) -> None:
    root.systemd("r-dead").take(dead())
    outcomes: list[str] = []

    def take(number: int) -> None:
        try:
            root.systemd(f"r-heir-{number}").take(me())
            outcomes.append(f"r-heir-{number}")
        except HostRefused:
            pass

    threads = [threading.Thread(target=take, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 1
    root.systemd(outcomes[0]).restore(within_s=30)


def test_of_many_who_resume_copies_of_one_run_one_gets_the_host(root: Target) -> None:
    """Each of them is told whose it is: that all are refused would end the night."""
    root.systemd("r-copied").take(dead())
    outcomes: list[str] = []

    def take(number: int) -> None:
        try:
            root.systemd("r-copied").take(dataclasses.replace(me(), user=f"user-{number}"))
            outcomes.append(f"user-{number}")
        except HostRefused:
            pass

    threads = [threading.Thread(target=take, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 1
    assert lock_of(root)["user"] == outcomes[0]
    root.systemd("r-copied").restore(within_s=30)


@pytest.mark.parametrize("more", ["", "rm -r /run/sweep"])
def test_a_lock_that_is_released_while_it_is_looked_at_is_no_others(
    root: Target, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    """As when the host has just restored itself: nobody else is there to be refused for."""
    root.systemd("r-dead").take(dead())
    looked = lock._look

    def released(site: Site, content: bytes) -> lock.Found:
        found = looked(site, content)
        site.run(f"rm -f {shlex.quote(site.paths.lock)}; {more}")
        return found

    monkeypatch.setattr(lock, "_look", released)
    heir = root.systemd("r-heir")
    heir.take(me())
    monkeypatch.undo()
    assert lock_of(root)["pid_started"] == me().pid_started
    heir.restore(within_s=30)


def test_a_lock_does_not_depend_on_what_may_be_cut_off(root: Target) -> None:
    """A connection that is lost looks like the end of standard input: half a lock is nobody's."""

    class Deaf:
        name = root.host.name

        def run(self, script: str, *, timeout_s: float = 30, stdin: bytes = b"") -> Result:
            return root.host.run(script, timeout_s=timeout_s)

    site = dataclasses.replace(root.systemd("r-deaf").site, host=Deaf())
    mine = lock.Lock("r-deaf", root.spec.unit, "boot", me())
    assert lock.take_lock(site, mine) == (mine, None)
    heir = lock.Lock("r-heir", root.spec.unit, "another", me())
    assert lock.take_lock(site, heir)[0] == heir
    lock.release(dataclasses.replace(site, paths=site.paths.of_run("r-heir")))
    root.sh(f"rmdir {root.runtime}/sweep")


@pytest.mark.parametrize("status", [1, 124, 137])
def test_runs_that_cannot_be_listed_are_not_none(root: Target, status: int) -> None:
    """Else whoever takes the host over would forget what a dead run owes."""

    class Hung:
        name = root.host.name

        def run(self, script: str, *, timeout_s: float = 30, stdin: bytes = b"") -> Result:
            return Result(status, b"@@runs\n", b"")

    spec = root.spec.model_copy(update={"reconnect_for_s": 0})
    site = dataclasses.replace(root.systemd("r-hung").site, host=Hung(), spec=spec)
    with pytest.raises(HostError, match="look for runs"):
        runs(site, restored=False)


def test_a_dead_owners_run_goes_on_under_the_same_id(target: Target) -> None:
    target = target.with_(production=("llm.service",))
    target.add_units({"llm.service": service("/bin/sleep 600")}, start=["llm.service"])
    try:
        first = target.systemd("r-resumed")
        first.take(dead())
        first.install(rendered(target, http_server(target.port)), NO_SECRETS)
        first.start()
        assert target.active("llm.service") == "inactive"

        with taken(target, "r-resumed") as second:
            takeover = second.take(me())
            assert takeover.record.units == ("llm.service",), "the record is not forgotten"
            second.install(rendered(target, http_server(target.port)), NO_SECRETS)
            second.start()
        assert target.active("llm.service") == "active"
    finally:
        target.remove_units(["llm.service"])


def test_another_run_inherits_what_a_dead_one_owes(target: Target) -> None:
    target = target.with_(production=("llm.service",))
    target.add_units({"llm.service": service("/bin/sleep 600")}, start=["llm.service"])
    try:
        first = target.systemd("r-dead")
        first.take(dead())
        first.install(rendered(target, http_server(target.port)), NO_SECRETS)
        first.start()

        heir = target.systemd("r-heir")
        takeover = heir.take(me())
        assert any("r-dead" in note and "gone" in note for note in takeover.notes)
        assert takeover.record.units == ("llm.service",)
        assert target.active(target.spec.unit) == "inactive", "the dead run's server is ended"
        assert target.active("llm.service") == "inactive", "and production waits for us"
        assert "r-dead" not in "\n".join(target.left_over())
        assert heir.restore(within_s=30).units == ("llm.service",)
        assert target.active("llm.service") == "active"
    finally:
        target.remove_units(["llm.service"])


@pytest.mark.parametrize(
    ("silent", "refused"), [("2 seconds ago", True), ("10 minutes ago", False)]
)
def test_an_owner_elsewhere_is_dead_when_its_timer_is(
    root: Target, silent: str, refused: bool
) -> None:
    first = root.systemd("r-elsewhere")
    first.take(somebody())
    root.sh("systemctl stop sweep-restore-r-elsewhere.timer")
    root.sh(f"touch -d '{silent}' /run/sweep/lock")
    heir = root.systemd("r-heir")
    if refused:
        with pytest.raises(HostRefused):
            heir.take(me())
        first.restore(within_s=30)
    else:
        assert any("timer" in note for note in heir.take(me()).notes)
        heir.restore(within_s=30)


def test_a_lock_of_another_boot_is_no_lock(root: Target) -> None:
    first = root.systemd("r-before")
    first.take(somebody())
    root.sh('sed -i \'s/"host_boot_id": "[^"]*"/"host_boot_id": "x"/\' /run/sweep/lock')
    heir = root.systemd("r-after")
    assert any("started anew" in note for note in heir.take(me()).notes)
    heir.restore(within_s=30)


@pytest.mark.parametrize("content", ["", "{}", '{"run_id": "r-torn", "un'])
def test_a_damaged_lock_is_not_guessed_at(target: Target, content: str) -> None:
    state = f"{target.runtime}/sweep"
    target.sh(f"mkdir -p {state}; printf %s {shlex.quote(content)} > {state}/lock")
    try:
        with pytest.raises(HostRefused, match=f"remove it: rm {state}/lock"):
            target.systemd().take(me())
        with pytest.raises(HostRefused, match="is damaged"):
            runs_on(target.host, target.spec, SystemClock())
    finally:
        target.sh(f"rm -r {state}")


def test_two_processes_with_one_run_are_two(root: Target) -> None:
    """A copy of the run's directory on another machine, or a second resume."""
    with taken(root, "r-copied") as first:
        for owner in (somebody(), dataclasses.replace(me(), pid=1, pid_started=init_started())):
            with pytest.raises(HostRefused, match="taken by run r-copied"):
                root.systemd("r-copied").take(owner)
        assert first.poll().deadman == "armed"


def init_started() -> str:
    started = process_started(1)
    assert started is not None
    return started


def test_a_host_that_is_being_restored_is_waited_for(target: Target) -> None:
    target = target.with_(production=("llm.service",))
    slow = service("/bin/sh -c 'sleep 1; exec sleep 600'", more="ExecStartPost=/bin/sleep 2")
    target.add_units({"llm.service": slow}, start=["llm.service"])
    try:
        first = target.systemd("r-first")
        first.take(dead())
        first.install(rendered(target, http_server(target.port)), NO_SECRETS)
        first.start()
        first.hand_over()
        with taken(target, "r-second") as second:
            assert target.active("llm.service") == "active"
            second.install(rendered(target, http_server(target.port)), NO_SECRETS)
            second.start()
        assert target.active("llm.service") == "active", "as the second run has found it"
    finally:
        target.remove_units(["llm.service"])


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("printf '[Service]\\nExecStart=/bin/true\\n' > {file}", "somebody else's unit"),
        ("ln -sf /dev/null {file}", "somebody else's unit"),
        ("printf '[Service]\\nExecStart=/bin/true\\n' > {runtime}", "not written by this tool"),
    ],
    ids=["file", "masked", "runtime"],
)
def test_somebody_elses_unit_of_our_name_is_never_touched(
    root: Target, script: str, reason: str
) -> None:
    unit = root.spec.unit
    runtime = f"/run/systemd/system/{unit}"
    script = script.format(file=f"{root.unit_directory}/{unit}", runtime=runtime)
    root.sh(f"{script}; systemctl daemon-reload")
    try:
        with pytest.raises(HostRefused, match=reason):
            root.systemd().take(me())
        assert "sweep" not in root.sh("ls /run").split()
    finally:
        root.remove_units([unit])
        root.sh(f"rm -f {runtime}; systemctl daemon-reload")


def test_a_drop_in_of_somebody_elses_is_refused(root: Target) -> None:
    directory = f"{root.unit_directory}/{root.spec.unit}.d"
    root.sh(f"mkdir {directory}; echo '[Service]' > {directory}/override.conf")
    try:
        with taken(root) as systemd, pytest.raises(HostRefused, match=r"override\.conf"):
            systemd.install(rendered(root, "/bin/true"), NO_SECRETS)
    finally:
        root.sh(f"rm -r {directory}; systemctl daemon-reload")


def test_a_production_unit_that_is_not_there_is_a_mistake(target: Target) -> None:
    wrong = target.with_(production=("nobody.service",))
    with pytest.raises(HostRefused, match=r"nobody\.service does not exist"):
        wrong.systemd().take(me())


def test_a_work_directory_that_somebody_else_made_is_refused(root: Target) -> None:
    root.sh("mkdir /var/tmp/sweep-0; chown plain /var/tmp/sweep-0")
    try:
        with pytest.raises(HostRefused, match="/var/tmp/sweep-0 is not ours"):
            root.systemd("r-refused").take(me())
        assert root.run("test -e /run/sweep/lock").exit_status == 1, "a refused host is not locked"
    finally:
        root.sh("rmdir /var/tmp/sweep-0")


def test_production_is_recorded_with_all_that_stops_with_it(target: Target) -> None:
    target = target.with_(production=("llm.service", "router.service"))
    units = {
        "llm.service": service("/bin/sleep 600"),
        "router.service": service("/bin/sleep 600"),
        "part.service": service("/bin/sleep 600", "PartOf=llm.service"),
        "bound.service": service("/bin/sleep 600", "BindsTo=llm.service\nAfter=llm.service"),
        "second.service": service("/bin/sleep 600", "Requires=bound.service"),
        "down.service": service("/bin/sleep 600", "PartOf=llm.service"),
        "stranger.service": service("/bin/sleep 600", "Wants=llm.service"),
        r"odd\x2dname@a.service": service("/bin/sleep 600", "PartOf=llm.service"),
    }
    up = {
        "llm.service", "part.service", "bound.service", "second.service",
        r"odd\x2dname@a.service",
    }  # fmt: skip
    target.add_units(units, start=[*up, "stranger.service"])
    try:
        with taken(target) as systemd:
            record = systemd.take(me()).record
            assert set(record.units) == up
            assert {"router.service", *up} <= set(record.judged) <= {*units} - {"stranger.service"}
            systemd.install(rendered(target, http_server(target.port)), NO_SECRETS)
            systemd.start()
            wait_for(lambda: {target.active(one) for one in up} == {"inactive"}, "its end")
            assert target.active("stranger.service") == "active"
        assert {name for name in units if target.active(name) == "active"} == {
            *up, "stranger.service",
        }  # fmt: skip
        assert target.active("down.service") == "inactive"
    finally:
        target.remove_units(units)


def test_what_our_unit_conflicts_with_is_recorded_too(root: Target) -> None:
    """A template of the user's own may stop more than `production`."""
    units = {
        "batch.service": service("/bin/sleep 600"),
        "batch-part.service": service("/bin/sleep 600", "PartOf=batch.service"),
    }
    root.add_units(units, start=[*units])
    try:
        with taken(root) as systemd:
            unit = rendered(root, http_server(root.port), conflicts=["batch.service"])
            systemd.install(unit, NO_SECRETS)
            systemd.start()
            assert root.active("batch.service") == "inactive"
        assert [root.active(name) for name in units] == ["active", "active"]
    finally:
        root.remove_units(units)


def test_a_run_whose_unit_was_renamed_ends_the_server_of_the_old_name(target: Target) -> None:
    """The inventory names another unit when the run is resumed: one of them must not be left."""
    target = target.with_(production=("llm.service",))
    target.add_units({"llm.service": service("/bin/sleep 600")}, start=["llm.service"])
    renamed = target.with_(unit=f"other-{target.spec.unit}")
    try:
        first = target.systemd("r-renamed")
        first.take(dead())
        first.install(rendered(target, http_server(target.port)), NO_SECRETS)
        first.start()
        with taken(renamed, "r-renamed") as second:
            assert target.active(target.spec.unit) == "inactive"
            assert second.standing(NO_SECRETS) is None
            second.install(rendered(renamed, http_server(target.port)), NO_SECRETS)
            second.start()
        assert target.active("llm.service") == "active", "what it owed is not forgotten"
        assert target.sh(f"ls {target.runtime}/systemd/*/*{target.spec.unit} 2>/dev/null; :") == ""
    finally:
        target.remove_units(["llm.service"])


def test_a_trigger_that_could_start_production_is_told(root: Target) -> None:
    target = root.with_(production=("llm.service",))
    units = {
        "llm.service": service("/bin/sleep 600"),
        "llm.timer": "[Timer]\nOnCalendar=daily\n",
    }
    target.add_units(units, start=["llm.timer"])
    try:
        with taken(target) as systemd:
            notes = systemd.take(me()).notes
            assert any("llm.timer can start llm.service" in note for note in notes)
    finally:
        target.remove_units(units)


def test_what_pulls_production_in_is_told_with_its_trigger(root: Target) -> None:
    target = root.with_(production=("llm.service",))
    units = {
        "llm.service": service("/bin/sleep 600"),
        "nightly.service": service("/bin/true", "Wants=llm.service"),
        "nightly.timer": "[Timer]\nOnCalendar=daily\n",
        "stopped.timer": "[Timer]\nOnCalendar=daily\nUnit=llm.service\n",
    }
    target.add_units(units, start=["llm.service", "nightly.timer"])
    try:
        with taken(target) as systemd:
            notes = "\n".join(systemd.take(me()).notes)
            assert "nightly.timer can start llm.service" in notes
            assert "stopped.timer" not in notes, "a timer that is down starts nothing"
    finally:
        target.remove_units(units)


def test_production_that_systemd_upholds_cannot_be_kept_stopped(root: Target) -> None:
    units = {
        "llm.service": service("/bin/sleep 600"),
        "keeper.service": service("/bin/sleep 600", "Upholds=llm.service"),
    }
    root.add_units(units, start=["keeper.service", "llm.service"])
    try:
        target = root.with_(production=("llm.service",))
        with pytest.raises(HostRefused, match=r"keeper\.service upholds llm\.service"):
            target.systemd().take(me())
        target = root.with_(production=("llm.service", "keeper.service"))
        with taken(target) as systemd:
            systemd.install(rendered(target, http_server(target.port)), NO_SECRETS)
            systemd.start()
            assert [target.active(name) for name in units] == ["inactive", "inactive"]
        assert [target.active(name) for name in units] == ["active", "active"]
    finally:
        root.remove_units(["keeper.service", "llm.service"])


def test_rights_that_do_not_suffice(root: Target, bookworm: Machine) -> None:
    for user, scope, reason in (
        ("plain", "system", "may not manage system units"),
        ("ops", "user", "loginctl enable-linger ops"),
    ):
        with (
            connection_as(bookworm, user, scope=scope) as target,
            pytest.raises(HostRefused, match=reason),
        ):
            target.systemd().take(me())


def test_a_host_that_does_not_answer_in_time_is_asked_again_and_then_called_so(
    target: Target,
) -> None:
    """For as long as a host that is not reached."""
    mark = f"{target.host.root}/tmp/asked-{new_run()}"
    hangs = f"mkdir -p {target.host.root}/tmp; : > {mark}; echo @@half; sleep 60"
    once = f"if [ -e {mark} ]; then rm {mark}; echo @@whole; else {hangs}; fi"
    answer = target.systemd().site.ask("look", once, timeout_s=2)
    assert list(answer) == ["whole"]
    impatient = target.with_(reconnect_for_s=0)
    with pytest.raises(HostError, match=r"could not look: .* did not answer in time"):
        impatient.systemd().site.ask("look", "echo @@half; sleep 60", timeout_s=0.3)


def test_verbs_need_the_host(root: Target) -> None:
    with pytest.raises(RuntimeError, match="take"):
        root.systemd(new_run()).poll()
    assert issubclass(HostRefused, HostError)


def test_production_that_is_started_before_our_first_start_comes_back(target: Target) -> None:
    """A host that still boots when it is taken, or a person: it would be stopped and forgotten."""
    target = target.with_(production=("llm.service",))
    target.add_units({"llm.service": service("/bin/sleep 600")})
    try:
        with taken(target) as systemd:
            systemd.install(rendered(target, http_server(target.port)), NO_SECRETS)
            target.sh(f"{target.systemctl} start llm.service")
            systemd.start()
            assert target.active("llm.service") == "inactive"
            assert systemd.findings()[0] == "llm.service was started meanwhile: again in the end"
            assert systemd.restore(within_s=30).units == ("llm.service",)
        assert target.active("llm.service") == "active"
    finally:
        target.remove_units(["llm.service"])


@contextmanager
def starting_slowly(host: Target) -> Iterator[Target]:
    """Production whose start systemd has still to do, as soon as it is asked to."""
    target = host.with_(production=("llm.service",))
    target.add_units({
        "slow.service": service("/bin/sleep 600", more="Type=oneshot"),
        "llm.service": service("/bin/sleep 600", "Wants=slow.service\nAfter=slow.service"),
    })  # fmt: skip
    try:
        yield target
    finally:
        target.remove_units(["llm.service", "slow.service"])


def test_what_systemd_has_still_to_start_is_production(root: Target) -> None:
    """In a host that boots it waits for the network, a disk, a driver."""
    with starting_slowly(root) as target:
        target.sh("systemctl start --no-block llm.service")
        assert target.active("llm.service") == "inactive"
        systemd = target.systemd()
        takeover = systemd.take(me())
        assert takeover.record.units == ("llm.service",)
        target.sh("systemctl kill -s KILL slow.service")
        wait_for(lambda: target.active("llm.service") == "active", "production")
        assert systemd.restore(within_s=30).units == ("llm.service",)


def test_a_start_that_systemd_has_still_to_do_is_not_cancelled_by_ours(root: Target) -> None:
    with starting_slowly(root) as target, taken(target) as systemd:
        unit = rendered(target, http_server(target.port))
        systemd.install(unit, NO_SECRETS)
        systemd.start()
        systemd.stop()
        target.sh("systemctl start --no-block llm.service")
        systemd.install(unit, NO_SECRETS)
        with pytest.raises(HostTaken, match=r"somebody started llm\.service"):
            systemd.start()
        assert "Job=0" not in target.sh("systemctl show -p Job llm.service")


def test_what_served_before_a_reboot_has_to_serve_again(root: Target) -> None:
    """A reboot between the first look and the taking leaves production down that nobody enabled."""
    target = root.with_(production=("llm.service",))
    target.add_units({"llm.service": service("/bin/sleep 600")}, start=["llm.service"])
    try:
        systemd = target.systemd()
        seen = systemd.see()
        assert (seen.record.units, systemd.taken) == (("llm.service",), False)
        target.sh("systemctl stop llm.service")
        same = systemd.take(me(), seen)
        assert (same.record.units, systemd.taken) == ((), True), "a person has stopped it"
        systemd.restore(within_s=30)
        systemd = target.systemd()
        takeover = systemd.take(me(), dataclasses.replace(seen, boot_id="an earlier one"))
        assert takeover.record.units == ("llm.service",)
        assert any("before its reboot: llm.service" in note for note in takeover.notes)
        systemd.restore(within_s=30)
        assert target.active("llm.service") == "active"
    finally:
        target.remove_units(["llm.service"])


def test_a_lock_script_that_is_ended_leaves_nothing(root: Target) -> None:
    """Its connection is cut between its two commands; nobody would ever remove what it made."""
    systemd = root.systemd()
    script = at_the_end("rm -f /run/of-test-1 /run/of-test-2")
    for end in ("kill -HUP $$", "kill -PIPE $$", "kill -TERM $$", "exit 3", ":"):
        systemd.site.run(f"{script}\ntouch /run/of-test-1 /run/of-test-2\n{end}\n:")
        assert root.sh("ls -d /run/of-test-* 2>/dev/null; :") == ""
