"""Telling somebody how a run goes: a command or a webhook of the inventory.

Everything happens in a thread of its own and within a time-out: an endpoint that fails or hangs
costs a line in sweep.log, never the sweep.

    finished   the plan is done (some trials may have failed)
    failed     the run ended before its plan was done; why
    stalled    no stage began and no trial ended for `stalled_after_s`; once for each such pause
    restored   production is back on the host
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from sweep.errors import InventoryError, SweepError
from sweep.inventory import NOTIFY_WORDS, NotifyEvent, NotifySpec
from sweep.inventory_file import is_url
from sweep.results import Event, RunDirectory, read_status
from sweep.results.status import duration
from sweep.rows import utc
from sweep.unit import secret_value

# How often a pause is looked for, and how long the end of a run waits for what is still being told.
LOOK_S = 1.0
PATIENCE_S = 15.0


class NotTold(Exception):
    """An endpoint did not take a message; the text says why, without the endpoint's secret."""


@dataclass(frozen=True)
class Message:
    """What is told: `event` is finished, failed, stalled or restored; `text` a sentence."""

    event: NotifyEvent
    text: str


class Notifier:
    """Tells every endpoint that wants to hear of an event. No method waits, none raises."""

    def __init__(
        self,
        specs: Sequence[NotifySpec],
        run: RunDirectory,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        look_s: float = LOOK_S,
    ) -> None:
        self._specs = specs
        self._run = run
        self._monotonic = monotonic
        self._look_s = look_s
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._moved_at = monotonic()
        self._stage = "beginning"
        self._stalled: set[int] = set()
        self._end: Message | None = None
        self._answer = ""
        self._over = False
        self._thread = threading.Thread(target=self._work, name="notify", daemon=True)

    def heard(self, event: Event) -> None:
        """What the run's directory is told. May be called from a signal handler."""
        self._moved_at = self._monotonic()
        self._stalled.clear()
        if event.kind == "stage":
            self._stage = str(event.fields.get("stage"))
        if event.kind == "restored":
            self.tell("restored", str(event.fields.get("text")))
        if event.kind == "end":
            done = event.fields.get("exit_code") in (0, 1) and event.fields["reason"] == "finished"
            self._end = Message("finished" if done else "failed", str(event.fields["reason"]))
        if event.kind == "report":
            self._answer = str(event.fields.get("text"))

    def tell(self, event: NotifyEvent, text: str) -> None:
        """Have it told, some time."""
        if self._specs:
            self._messages.put(Message(event, text))

    def start(self) -> None:
        """Begin to tell; without anybody to tell there is no thread."""
        if self._specs:
            self._thread.start()

    def close(self, patience_s: float = PATIENCE_S) -> None:
        """Tell how the run ended, and wait for what is still to be told, but not for ever."""
        self._over = True
        if self._end is not None:
            answer = f"; {self._answer}" if self._answer else ""
            self.tell(self._end.event, f"{self._end.text}{answer}")
            self._end = None
        self._messages.put(None)
        if self._thread.is_alive():
            self._thread.join(patience_s)

    def _work(self) -> None:
        while True:
            try:
                message = self._messages.get(timeout=self._look_s)
            except queue.Empty:
                self._look_for_pauses()
                continue
            if message is None:
                return
            for spec in self._specs:
                if message.event in spec.events:
                    self._tell(spec, message)

    def _look_for_pauses(self) -> None:
        still = self._monotonic() - self._moved_at
        for number, spec in enumerate(self._specs):
            if still >= spec.stalled_after_s and number not in self._stalled and not self._over:
                self._stalled.add(number)
                text = f"nothing has moved for {duration(still)}; the last stage is {self._stage}"
                if "stalled" in spec.events:
                    self._tell(spec, Message("stalled", text))

    def _tell(self, spec: NotifySpec, message: Message) -> None:
        try:
            _within(spec.timeout_s, lambda: deliver(spec, self._body(message)))
        except (NotTold, InventoryError) as error:
            self._run.log(f"notify: {message.event} was not told to {name_of(spec)}: {error}")
        else:
            self._run.log(f"notify: {message.event} told to {name_of(spec)}")

    def _body(self, message: Message) -> dict[str, object]:
        body: dict[str, object] = {
            "event": message.event,
            "run": self._run.id,
            "text": f"{self._run.id}: {message.text}",
            "at": utc(self._run.now()),
            "directory": str(self._run.path),
        }
        with contextlib.suppress(SweepError):
            status = read_status(self._run)
            body |= {"sweep": status.sweep, "host": status.host, "trials": status.trials}
            body |= {"ok": status.ok, "failed": status.failed, "missing": status.missing}
            if message.event in ("finished", "failed"):
                counts = f"{status.ok} ok, {status.failed} failed, {status.missing} missing"
                body["text"] = f"{self._run.id}: {counts}; {message.text}"
        return body


@contextmanager
def notifying(specs: Sequence[NotifySpec], run: RunDirectory) -> Iterator[Notifier]:
    """A notifier that hears what happens to the run, for as long as somebody works on it."""
    notifier = Notifier(specs, run)
    run.listen(notifier.heard)
    notifier.start()
    try:
        yield notifier
    finally:
        notifier.close()


def name_of(spec: NotifySpec) -> str:
    """An endpoint as a log may name it: a webhook's path and query are often its password."""
    if spec.command:
        return spec.command[0]
    if isinstance(spec.webhook, str):
        with contextlib.suppress(ValueError):  # an address that is none is told of when it is used
            return f"the webhook at {urlsplit(spec.webhook).hostname}"
    return "the webhook"


def deliver(spec: NotifySpec, body: Mapping[str, object]) -> None:
    """Tell one endpoint, now. Raises NotTold, or InventoryError when its secret cannot be read."""
    if spec.command:
        _run_command(spec, body)
    else:
        _post(spec, body)


def _run_command(spec: NotifySpec, body: Mapping[str, object]) -> None:
    """The command with its words filled in, and the whole body as JSON on its stdin."""
    words = list(spec.command)
    for name in NOTIFY_WORDS:
        words = [word.replace(f"{{{name}}}", str(body[name])) for word in words]
    with tempfile.TemporaryFile() as given:
        given.write(json.dumps(body).encode() + b"\n")
        given.seek(0)
        try:
            # In a session of its own: Ctrl-C is meant for the sweep alone.
            process = subprocess.Popen(
                words, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise NotTold(f"cannot be started: {error.strerror}") from error
    try:
        status = process.wait(spec.timeout_s)
    except subprocess.TimeoutExpired as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise NotTold(f"no end after {spec.timeout_s:g} s, killed") from error
    if status != 0:
        raise NotTold(f"exit status {status}")


def _post(spec: NotifySpec, body: Mapping[str, object]) -> None:
    url = spec.webhook
    if url is None or not isinstance(url, str):
        url = secret_value(url, "notify.webhook") if url else ""
    if not is_url(url):
        raise NotTold("it is no http or https URL")
    request = urllib.request.Request(  # noqa: S310 - http and https alone, see above
        url,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "sweep"},
    )
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=spec.timeout_s):
            pass
    except urllib.error.HTTPError as error:
        raise NotTold(f"HTTP status {error.code}{_where_to(error)}") from error
    except (OSError, ValueError) as error:
        # http.client's own exceptions are not all of these: see below.
        reason = getattr(error, "reason", None) or error
        raise NotTold(f"{reason}") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would arrive as a GET without its body, and count as told."""

    def redirect_request(self, *_arguments: object) -> None:
        return None


def _where_to(error: urllib.error.HTTPError) -> str:
    """Of a redirect: as much of its target as a log may hold."""
    to = urlsplit(error.headers.get("Location") or "")
    return f": it has moved to {to.scheme}://{to.hostname}; name it there" if to.hostname else ""


def _within(seconds: float, work: Callable[[], None]) -> None:
    """Do it in a thread that is left behind when it takes longer: a time-out of sockets is for
    each read, and an endpoint that drips would never reach it."""
    trouble: list[Exception] = []

    def guarded() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever an endpoint causes ends here
            trouble.append(error)

    thread = threading.Thread(target=guarded, name="notify endpoint", daemon=True)
    thread.start()
    thread.join(seconds + 1)
    if thread.is_alive():
        raise NotTold(f"no answer after {seconds:g} s")
    if trouble:
        error = trouble[0]
        if isinstance(error, NotTold | InventoryError):
            raise error
        raise NotTold(f"{type(error).__name__}: {error}") from error
