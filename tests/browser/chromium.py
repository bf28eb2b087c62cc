"""A real browser, driven over its DevTools protocol: what a page looks like, asks for and says."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from websockets.sync.client import ClientConnection, connect

# Root in a container has no sandbox; nothing but the page itself may ask for anything.
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--remote-debugging-port=0", "--hide-scrollbars")  # fmt: skip
START_S, ANSWER_S = 60.0, 60.0


def program() -> str | None:
    """The browser of this machine."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@dataclass
class Visit:
    """A page that was opened. `requests`: every URL it asked for; `complaints`: what the console,
    the security policy and failed requests said."""

    browser: Browser
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def evaluate(self, script: str) -> Any:
        """What a JavaScript expression gives, as plain values."""
        found = self.browser.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        shot = self.browser.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))


class Browser:
    """One tab of a running browser."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._number = 0
        self._events: list[dict[str, Any]] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol; what happens meanwhile is kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        self._connection.send(json.dumps(message))
        while True:
            answer = json.loads(self._connection.recv(timeout=ANSWER_S))
            if answer.get("id") != self._number:
                self._events.append(answer)
                continue
            if "error" in answer:
                raise AssertionError(f"{method}: {answer['error']}")
            return answer["result"]

    def open(self, page: Path, *, width: int, scheme: str) -> Visit:
        """Open a file as on a screen of that width, for a reader of light or dark pages."""
        self._events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media="screen", features=features)
        self.call("Page.navigate", url=page.as_uri())
        until = time.monotonic() + ANSWER_S
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            assert time.monotonic() < until, f"{page} did not load"
            self.call("Runtime.evaluate", expression="1")
            time.sleep(0.02)
        visit = Visit(self)
        for event in self._events:
            _note(visit, str(event.get("method")), event.get("params", {}))
        return visit


def _note(visit: Visit, method: str, told: Mapping[str, Any]) -> None:
    if method == "Network.requestWillBeSent":
        visit.requests.append(told["request"]["url"])
    elif method == "Network.loadingFailed":
        visit.complaints.append(f"a request failed: {told.get('errorText')}")
    elif method == "Log.entryAdded":
        visit.complaints.append(told["entry"]["text"])
    elif method == "Runtime.exceptionThrown":
        visit.complaints.append(told["exceptionDetails"]["text"])
    elif method == "Runtime.consoleAPICalled":
        visit.complaints.append(f"console.{told['type']}")


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with a fresh profile in the empty directory `profile`."""
    found = program()
    if found is None:
        raise RuntimeError("no chromium on this machine: apt-get install chromium")
    with (profile / "browser.log").open("wb") as log:
        process = subprocess.Popen(
            [found, *FLAGS, f"--user-data-dir={profile}", "about:blank"], stdout=log, stderr=log
        )
    try:
        port = _port(process, profile)
        with connect(_tab(port), max_size=None, open_timeout=START_S) as connection:
            yield Browser(connection)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(process: subprocess.Popen[bytes], profile: Path) -> int:
    until = time.monotonic() + START_S
    told = profile / "DevToolsActivePort"
    while time.monotonic() < until:
        if told.exists() and (lines := told.read_text().splitlines()):
            return int(lines[0])
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(
        f"the browser did not start: {(profile / 'browser.log').read_text()[-2000:]}"
    )


def _tab(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=START_S) as answer:
        tabs = json.load(answer)
    return str(next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"))
