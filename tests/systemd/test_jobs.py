"""Benchmark clients: transient units whose files lie on the host."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from sweep.errors import LaunchError
from sweep.systemd import Job, JobState, Systemd
from tests.systemd.targets import NO_SECRETS, PYTHON, Target, me, rendered, taken, wait_for
from tests.testhost import Machine

HOSTS = ("demo", "trixie-user")


def ended(systemd: Systemd, job: Job) -> JobState:
    wait_for(lambda: not systemd.jobs.state(job).running, "the job's end")
    return systemd.jobs.state(job)


def test_a_client_runs_beside_the_server_and_its_files_wait(target: Target) -> None:
    program = (
        "import sys, json; given = json.load(open('job.json'));"
        "print('said', given, file=sys.stderr); print(sys.argv[1:]);"
        "open('result.json', 'w').write(json.dumps({'twice': 2 * given['n']}))"
    )
    words = ["a b", "$HOME", "%h", "'", ";", ""]
    with taken(target) as systemd:
        files = {"job.json": b'{"n": 21}', "client.py": program.encode()}
        job = systemd.jobs.start("p-1-t1-a1", [PYTHON, "client.py", *words], files)
        assert ended(systemd, job) == JobState(False, 0, "said {'n': 21}")
        assert systemd.jobs.read(job, "result.json") == b'{"twice": 42}'
        assert systemd.jobs.read(job, "stdout") == f"{words}\n".encode()
        assert systemd.jobs.read(job, "other") is None
        found = systemd.jobs.files(job, ("other", "result.json", "job.json"))
        assert found == {"result.json": b'{"twice": 42}', "job.json": b'{"n": 21}'}
        assert target.sh(f"stat -c %a {job.directory}").strip() == "700"

        again = systemd.jobs.start("p-1-t1-a1", ["false"], {"job.json": b""})
        assert again == job, "a job that was started is left as it is"
        assert systemd.jobs.state(job).exit_status == 0
        assert systemd.jobs.read(job, "job.json") == b'{"n": 21}'
        systemd.jobs.forget(job)
        assert systemd.jobs.read(job, "result.json") is None


def test_a_client_that_is_started_several_times_at_once_runs_once(target: Target) -> None:
    """As when the connection breaks while its start is at work still, and the script runs again."""
    with taken(target) as systemd, ThreadPoolExecutor(4) as threads:
        script = "echo once >> count; wc -c < data; until [ -e go ]; do sleep 0.1; done"
        words = ["sh", "-c", script]
        files = {"data": b"x" * 100_000}
        starts = [threads.submit(systemd.jobs.start, "j", words, files) for _ in range(4)]
        (job,) = {start.result() for start in starts}
        target.sh(f": > {job.directory}/go")
        assert ended(systemd, job).exit_status == 0
        assert systemd.jobs.read(job, "count") == b"once\n"
        assert systemd.jobs.read(job, "stdout") == b"100000\n"
        assert target.sh(f"ls -A {job.directory} | grep -c '^[.]'; :").strip() == "0"
        systemd.jobs.forget(job)


def test_a_look_comes_when_a_client_has_ended(target: Target) -> None:
    with taken(target) as systemd, ThreadPoolExecutor(1) as beside:
        systemd.install(rendered(target, "/bin/sleep 600"), NO_SECRETS)
        systemd.start()
        script = "until [ -e go ]; do sleep 0.1; done; echo whole >&2; exit 3"
        job = systemd.jobs.start("j", ["sh", "-c", script], {})
        assert systemd.poll(job).job == JobState(True, None, "")
        look = beside.submit(systemd.poll_when_ended, job, 50)
        target.sh(f": > {job.directory}/go")
        assert look.result().job == JobState(False, 3, "whole")
        systemd.jobs.forget(job)


def test_how_a_client_ended(target: Target) -> None:
    with taken(target) as systemd:
        failed = systemd.jobs.start("failed", ["sh", "-c", "echo no >&2; exit 3"], {})
        assert ended(systemd, failed) == JobState(False, 3, "no")
        missing = systemd.jobs.start("missing", ["/no/such/program"], {})
        assert ended(systemd, missing).exit_status == 127
        for job in (failed, missing):
            systemd.jobs.forget(job)


def test_what_earlier_processes_left(target: Target) -> None:
    run_id = "r-left"
    with taken(target, run_id) as systemd:
        assert systemd.jobs.left() == ()
        ended(systemd, systemd.jobs.start("p-1-t1-a1", ["true"], {}))
        ended(systemd, systemd.jobs.start("p-1-t2-a1", ["sh", "-c", "kill -9 $PPID"], {}))
        systemd.jobs.start("p-1-t3-a1", ["sleep", "600"], {})
        later = target.systemd(run_id)
        later.take(me())
        found = {one.name: one for one in later.jobs.left()}
        assert {name: one.running for name, one in found.items()} == {
            "p-1-t1-a1": False, "p-1-t2-a1": False, "p-1-t3-a1": True,
        }  # fmt: skip
        assert found["p-1-t1-a1"].seconds is not None
        assert found["p-1-t2-a1"].seconds is None, "it was killed: nobody knows when"
        for name in found:
            later.jobs.forget(later.jobs.job(name))
        assert later.jobs.left() == ()


def test_one_look_tells_of_server_and_client(target: Target) -> None:
    with taken(target) as systemd:
        systemd.install(rendered(target, "/bin/sleep 600"), NO_SECRETS)
        systemd.start()
        command = ["sh", "-c", "printf '1/8\\r2/8' >&2; exec sleep 600"]
        job = systemd.jobs.start("running", command, {})
        wait_for(lambda: (state := systemd.poll(job).job) and state.progress, "its progress")
        state = systemd.poll(job)
        assert state.running
        assert state.job == JobState(True, None, "2/8")
        systemd.jobs.stop(job)
        assert systemd.poll(job).job == JobState(False, None, "2/8")
        assert systemd.poll().running
        systemd.jobs.forget(job)


def test_a_client_that_hears_of_the_stop_first_has_no_status_either(target: Target) -> None:
    with taken(target) as systemd:
        systemd.install(rendered(target, "/bin/sleep 600"), NO_SECRETS)
        systemd.start()
        script = "printf 2/8 >&2; kill -TERM $$; sleep 600"
        job = systemd.jobs.start("first", ["sh", "-c", script], {})
        wait_for(lambda: not (state := systemd.poll(job).job) or not state.running, "its end")
        assert systemd.poll(job).job == JobState(False, None, "2/8")
        systemd.jobs.forget(job)


def test_stopping_the_server_ends_the_clients_but_keeps_what_they_measured(target: Target) -> None:
    run_id = "r-kept"
    with taken(target, run_id) as systemd:
        systemd.install(rendered(target, "/bin/sleep 600"), NO_SECRETS)
        systemd.start()
        done = systemd.jobs.start("done", ["sh", "-c", "echo whole > result"], {})
        script = "echo half > result; sleep 600 & exec sleep 600"
        job = systemd.jobs.start("j", ["sh", "-c", script], {})
        wait_for(lambda: systemd.jobs.read(job, "result"), "its file")
        ended(systemd, done)
        systemd.stop()
        assert not systemd.jobs.state(job).running
        assert systemd.jobs.read(job, "result") == b"half\n"
    assert target.host.read(f"{done.directory}/result") == b"whole\n", "restored, and not lost"
    with taken(target, run_id) as systemd:
        assert systemd.jobs.read(done, "result") == b"whole\n"
        systemd.jobs.forget(done)


def test_a_client_of_the_servers_user(root: Target) -> None:
    with taken(root) as systemd:
        script = "id -un; touch made ~/.cache-of-test; cat job.json"
        job = systemd.jobs.start("j", ["sh", "-c", script], {"job.json": b"{}\n"}, user="plain")
        assert ended(systemd, job).exit_status == 0
        assert systemd.jobs.read(job, "stdout") == b"plain\n{}\n"
        assert root.sh(f"stat -c %U {job.directory}/made; rm /home/plain/.cache-of-test") == (
            "plain\n"
        )
        systemd.jobs.forget(job)


def test_a_full_disk_costs_the_launch(root: Target, bookworm: Machine) -> None:
    with taken(root) as systemd:
        bookworm.fill_disk()
        try:
            with pytest.raises(LaunchError) as caught:
                systemd.jobs.start("j", ["true"], {"job.json": b"x" * 100_000})
        finally:
            bookworm.free_disk()
        assert caught.value.failure == "host_disk_full"
        systemd.jobs.forget(systemd.jobs.job("j"))


@pytest.mark.parametrize("name", ["../x", "a/b", "", "a\nb", "-x"])
def test_names_that_would_steer_a_path_are_refused(root: Target, name: str) -> None:
    with taken(root) as systemd, pytest.raises(ValueError, match="name"):
        systemd.jobs.start(name, ["true"], {})
