"""What a real journald makes of SGLang's output, read in every form the tool may be given."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from sweep.sglang.failures import classify
from sweep.sglang.journal import scrape
from sweep.sglang.lines import LINE_MAX
from tests.sglang.forms import ARGS, BAR, DECODE, LINES, READY
from tests.testhost import Machine

UNIT = "sweep-scrape-test.service"
LOG = "/run/sweep-scrape-test"
# Bars for more than 48 KB without a newline, with the line that is wanted glued behind them.
BARS = (BAR + "\r") * (LINE_MAX // len(BAR.encode()) + 1)
FORMS = ("cat", "short --all", "short-iso --all", "short-precise --all", "short-full --all")
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.fixture
def host(machine: Machine) -> Iterator[Machine]:
    yield machine
    machine.remove_service(UNIT)
    machine.sh(f"rm -f {LOG}*")


def printed(cut_at: str) -> str:
    """A launch whose second capacity line journald cuts after `cut_at`."""
    glued = (BARS + LINES[3]).encode()
    end = glued.index(cut_at.encode()) + len(cut_at)
    glued = glued[end - LINE_MAX :]
    return "\n".join(
        [ARGS, *LINES[1:3], glued.decode(errors="replace"), f"\x1b[32m{READY}", DECODE]
    )


def run(host: Machine, text: str, command: str) -> str:
    """Start a unit that prints `text` and then runs `command`; its invocation id when it is over.

    The unit says its id itself: of one that is over, systemd may know nothing any more. And it
    lives until journald has read its text: from a process that is gone, journald cannot tell any
    more to which invocation it belonged.
    """
    stdin = base64.b64encode(text.encode()).decode()
    host.run("sh", "-c", f"base64 -d > {LOG}.text", stdin=stdin)
    said = f"ExecStartPre=/bin/sh -c 'echo $$INVOCATION_ID > {LOG}.id'"
    host.install_service(UNIT, f"[Service]\n{said}\nExecStart={command}\n", start=False)
    return host.sh(
        f"systemctl start {UNIT}; while systemctl is-active -q {UNIT}; do sleep 0.05; done; "
        f"journalctl --sync; cat {LOG}.id"
    )


def shell(command: str) -> str:
    return f"/bin/sh -c 'cat {LOG}.text; journalctl --sync; {command}'"


def read(host: Machine, invocation: str, form: str) -> bytes:
    """The journal of an invocation, byte for byte."""
    host.sh(
        f"journalctl --no-pager -o {form} _SYSTEMD_INVOCATION_ID={invocation} "
        f"+ INVOCATION_ID={invocation} > {LOG}.journal"
    )
    return (host.live_root / f"{LOG}.journal".lstrip("/")).read_bytes()


def test_every_form_of_a_real_journal(host: Machine) -> None:
    invocation = run(host, printed("max_running_requests=4"), shell("exit 0"))
    read_as = {form: scrape(read(host, invocation, form)) for form in (*FORMS, "json --all")}
    for form, found in read_as.items():
        assert found.max_running_requests == 80, form
        assert found.max_total_num_tokens == 1310464, form
        assert (found.ready, found.speculative_num_steps, found.launches) == (True, 3, 1), form
        assert len(found.decode) == 1, form


def test_without_all_journalctl_hides_messages(host: Machine) -> None:
    invocation = run(host, printed("max_running_requests=4"), shell("exit 0"))
    hidden = scrape(read(host, invocation, "short"))
    assert hidden.max_running_requests is None
    assert hidden.blobs > 0


@pytest.mark.parametrize(
    ("text", "command", "kind"),
    [
        ("sglang serve: error: unrecognized arguments: --x\n", "exit 2", "bad_argument"),
        (f"{ARGS}\n{OOM}\n", "kill -9 $$$$", "cuda_oom"),
        ("", "exit 127", "exec_failed"),
        ("", "exit 0", "unknown"),
        ("", "/nowhere/python3", "exec_failed"),
    ],
)
def test_how_real_units_end(host: Machine, text: str, command: str, kind: str) -> None:
    invocation = run(host, text, command if command.startswith("/") else shell(command))
    shown = host.sh(f"systemctl show -P Result -P ExecMainCode -P ExecMainStatus {UNIT}")
    result, code, status = sorted(shown.split(), key=str.isdigit)
    found = classify(
        read(host, invocation, "cat"), result=result, exit_code=code, exit_status=int(status)
    )
    assert found.kind == kind, found
