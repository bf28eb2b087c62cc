"""Telling somebody how a run goes, with real endpoints: good ones, failing ones, hanging ones."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sweep.inventory import NotifySpec, SecretRef
from sweep.notify import Notifier, notifying
from sweep.plan_document import plan_to_doc
from sweep.results import RunDirectory, new_run
from tests.results.made import make_plan, make_row

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def endpoint(answer: Answer | None = None, status: int = 200) -> Iterator[tuple[str, list[dict]]]:
    """A local HTTP server: its URL, and the JSON bodies posted to it so far."""
    told: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if answer is not None:
                answer(self)
                return
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/hooks/s3cret", told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    found = new_run(tmp_path, "overnight")
    with found.lock():
        found.write_plan({"plan": plan_to_doc(make_plan())})
        found.append(make_row("p-000000000101"), {})
    return found


def log_of(run: RunDirectory) -> str:
    path = run.path / "sweep.log"
    return path.read_text() if path.exists() else ""


def test_a_webhook_is_told_as_json(run: RunDirectory) -> None:
    with endpoint() as (url, told), notifying([NotifySpec(webhook=url)], run) as notifier:
        run.event("restored", text="sglang.service again up after 2 s")
        run.end("finished", 0)
        run.event("report", text="C=1: 3 steps")
        notifier.close()
        restored, finished = told
    assert restored["event"] == "restored"
    assert restored["text"] == f"{run.id}: sglang.service again up after 2 s"
    assert finished["text"] == f"{run.id}: 1 ok, 0 failed, 3 missing; finished; C=1: 3 steps"
    assert {key: finished[key] for key in ("event", "run", "sweep", "host")} == {
        "event": "finished", "run": run.id, "sweep": "overnight", "host": "gpu",
    }  # fmt: skip
    assert (finished["trials"], finished["ok"], finished["missing"]) == (4, 1, 3)
    assert "finished told to the webhook at 127.0.0.1" in log_of(run)


def test_a_command_is_told_in_its_words_and_on_stdin(run: RunDirectory, tmp_path: Path) -> None:
    there = tmp_path / "told"
    script = "import sys; open(sys.argv[1], 'w').write(sys.argv[2] + '|' + sys.stdin.read())"
    command = (sys.executable, "-c", script, str(there), "{event}: {text}")
    with notifying([NotifySpec(command=command)], run):
        run.end("stopped by the failure brake", 1)
    words, _, body = there.read_text().partition("|")
    assert words.startswith(f"failed: {run.id}: 1 ok, 0 failed, 3 missing; stopped by the")
    assert json.loads(body)["event"] == "failed"


def test_only_the_events_that_are_wanted(run: RunDirectory) -> None:
    with endpoint() as (url, told):
        spec = NotifySpec(webhook=url, events=("failed",))
        with notifying([spec], run) as notifier:
            run.event("restored", text="up")
            notifier.tell("finished", "done")
            notifier.tell("failed", "lost")
        assert [one["event"] for one in told] == ["failed"]


def hang(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(20)


def drip(handler: BaseHTTPRequestHandler) -> None:
    """A header that never ends, a byte at a time: no single read takes long."""
    try:
        for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 500:
            handler.wfile.write(bytes([byte]))
            time.sleep(0.05)
    except OSError:
        return


def nonsense(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"\0\1\2 not http\r\n\r\n")


def redirect(handler: BaseHTTPRequestHandler) -> None:
    """As a host does that wants https: whoever follows comes back with a GET and no body."""
    handler.send_response(301)
    handler.send_header("Location", "https://new.example.net/hooks/s3cret")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (redirect, 301, "HTTP status 301: it has moved to https://new.example.net; name it there"),
        (hang, 200, ""),
        (drip, 200, "no answer"),
        (nonsense, 200, ""),
        (None, 500, "HTTP status 500"),
    ],
    ids=["redirects", "hangs", "drips", "talks nonsense", "answers 500"],
)
def test_a_bad_webhook_costs_a_line_in_the_log(
    run: RunDirectory, answer: Answer | None, status: int, said: str
) -> None:
    with endpoint() as (good, heard), endpoint(answer, status) as (bad, told):
        specs = [NotifySpec(webhook=bad, timeout_s=0.2), NotifySpec(webhook=good)]
        with notifying(specs, run) as notifier:
            notifier.tell("finished", "done")
        assert [one["event"] for one in told] == ["finished"]
        assert [one["event"] for one in heard] == ["finished"], "the other one is told all the same"
    assert "finished was not told to the webhook at 127.0.0.1" in log_of(run)
    assert said in log_of(run)
    assert "s3cret" not in log_of(run)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (NotifySpec(webhook="http://127.0.0.1:9/hooks/s3cret"), "refused"),
        (NotifySpec(webhook="http://127.0.0.1:9/hooks/s3cret two"), "no http or https URL"),
        (NotifySpec(command=("/no/such/program",)), "cannot be started"),
        (NotifySpec(command=("false",)), "exit status 1"),
        (NotifySpec(command=("sh", "-c", "sleep 60 & wait"), timeout_s=0.2), "killed"),
        (NotifySpec(webhook=SecretRef(env="SWEEP_NOT_SET")), "SWEEP_NOT_SET is not set"),
    ],
)
def test_an_endpoint_that_is_not_there(run: RunDirectory, spec: NotifySpec, said: str) -> None:
    with notifying([spec], run) as notifier:
        notifier.tell("finished", "done")
    assert said in log_of(run)
    assert "s3cret" not in log_of(run)


def test_the_url_may_be_a_secret(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint() as (url, told):
        monkeypatch.setenv("SWEEP_TEST_HOOK", url)
        with notifying([NotifySpec(webhook=SecretRef(env="SWEEP_TEST_HOOK"))], run) as notifier:
            notifier.tell("finished", "done")
        assert len(told) == 1
    assert "s3cret" not in log_of(run)


def test_a_run_that_stands_still_is_told_once_for_each_pause(run: RunDirectory) -> None:
    now = [0.0]
    with endpoint() as (url, told):
        spec = NotifySpec(webhook=url, stalled_after_s=600)
        notifier = Notifier([spec], run, monotonic=lambda: now[0], look_s=0.01)
        run.listen(notifier.heard)
        notifier.start()
        for _ in range(2):
            run.event("stage", stage="wait healthy", launch="l-01")
            before = len(told)
            now[0] += 599
            time.sleep(0.1)
            assert len(told) == before
            now[0] += 2
            wait_until(lambda before=before: len(told) > before)
            time.sleep(0.1)
            assert len(told) == before + 1
        notifier.close()
    assert told[0]["event"] == "stalled"
    assert "nothing has moved for 10 min 01 s; the last stage is wait healthy" in told[0]["text"]


def test_the_end_of_a_run_waits_for_an_endpoint_but_not_for_ever(run: RunDirectory) -> None:
    with endpoint(hang) as (url, told):
        notifier = Notifier([NotifySpec(webhook=url, timeout_s=60)], run)
        notifier.start()
        notifier.tell("finished", "done")
        began = time.monotonic()
        notifier.close(patience_s=0.2)
        assert time.monotonic() - began < 15
        assert len(told) <= 1


def wait_until(true: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)
