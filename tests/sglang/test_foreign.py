"""What shows that somebody else used the server, and what does not."""

from __future__ import annotations

import pytest

from sweep.sglang.foreign import Ours, foreign
from sweep.sglang.stacks import failed_to_dump, stack_dumps

OURS = Ours(ports=frozenset({40001, 40002}), sent=2, in_flight=2, finished=2)
THROUGH_TUNNEL = Ours(ports=None, sent=2, in_flight=2, finished=2)
SCRIPT = Ours()


def access(port: int, line: str = "POST /v1/chat/completions", status: int = 200,
           client: str = "127.0.0.1") -> str:  # fmt: skip
    return f'[2026-11-29 22:00:01] INFO:     {client}:{port} - "{line} HTTP/1.1" {status} OK'


def decode(running: int, rank: str = "") -> str:
    return (
        f"[2026-11-29 22:00:01{rank}] Decode batch, #running-req: {running}, #token: 900, "
        "token usage: 0.01, accept len: 3.05, accept rate: 0.68, cuda graph: True, "
        "gen throughput (token/s): 239.06, #queue-req: 0"
    )


MINE = (access(40001), access(40002), decode(2))

NOTHING = [
    ("our own", OURS, MINE, 2),
    ("our own, through a tunnel", THROUGH_TUNNEL, MINE, 2),
    ("health probes", OURS, (*MINE, access(50000, "GET /health_generate")), None),
    ("what does not generate", OURS, (*MINE, access(50000, "POST /flush_cache"),
                                      access(50000, "POST /abort_request"),
                                      access(50000, "GET /v1/models")), 2),
    ("what was refused", OURS, (*MINE, access(50000, status=401), access(50000, status=400)), 2),
    ("less than was sent: the journal lost lines", THROUGH_TUNNEL, MINE[:1], 1),
    ("a user's script, whatever it sends", SCRIPT, (*MINE, *MINE, decode(99)), 99),
    ("a counter that is not there", OURS, MINE, None),
    ("each rank has its own batch", OURS, (*MINE, decode(2, " DP0 TP0"), decode(2, " DP1 TP0")), 2),
    ("an empty journal", OURS, (), None),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "lines", "counted"), [case[1:] for case in NOTHING],
                         ids=[case[0] for case in NOTHING])  # fmt: skip
def test_nobody_else(ours: Ours, lines: tuple[str, ...], counted: int | None) -> None:
    assert foreign("\n".join(lines).encode() + b"\n", ours, counted) is None


SOMETHING = [
    ("another port", OURS, (*MINE, access(50000)), 2, 1, "access lines: 1 requests"),
    ("another path", OURS, (*MINE, access(50000, "POST /generate")), 2, 1, "/generate"),
    ("a query behind it", OURS, (*MINE, access(50000, "POST /v1/completions?x=1")), None, 1, "/v1"),
    ("more than we sent", THROUGH_TUNNEL, (*MINE, access(7), access(8)), 2, 2, "access lines: 2"),
    ("another machine", SCRIPT, (*MINE, access(9, client="10.1.2.3")), None, 1, "from 10.1.2.3"),
    ("over IPv6", OURS, (*MINE, access(9, client="2001:db8::7")), None, 1, "from 2001:db8::7"),
    ("more running", OURS, (*MINE, decode(5)), 2, 3, "5 requests ran, 2 at most were ours"),
    ("the counter", OURS, MINE, 6, 4, "/metrics: 6 requests finished, 2 were ours"),
    ("the strongest counts", OURS, (*MINE, access(50000), decode(4)), 8, 6, "/metrics: 8"),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "lines", "counted", "requests", "said"),
                         [case[1:] for case in SOMETHING],
                         ids=[case[0] for case in SOMETHING])  # fmt: skip
def test_somebody_else(
    ours: Ours, lines: tuple[str, ...], counted: int | None, requests: int, said: str
) -> None:
    found = foreign("\n".join(lines).encode() + b"\n", ours, counted)
    assert found is not None
    assert found.requests == requests
    assert said in "; ".join(found.seen)


def test_stacks_are_told_from_what_stands_around_them() -> None:
    journal = (
        b"[2026-11-29 22:00:00 TP0] Decode batch, #running-req: 1\n"
        b"[2026-11-29 22:05:00 TP0] Pyspy dump for PID 71 (py-spy dump --native --pid 71):\n"
        b'Thread 71 (active): "MainThread"\n    verify (eagle_worker_v2.py:791)\n\n'
        b"[2026-11-29 22:05:00 TP1] Pyspy dump for PID 72:\nThread 72 (idle)\n"
        b"[2026-11-29 22:05:01 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300)\n"
    )
    first, second = stack_dumps(journal)
    assert first.startswith("Pyspy dump for PID 71 ")
    assert first.endswith("verify (eagle_worker_v2.py:791)")
    assert second == "Pyspy dump for PID 72:\nThread 72 (idle)"
    assert not failed_to_dump(journal)


def test_a_host_without_py_spy_has_no_stacks() -> None:
    journal = b"[2026-11-29 22:05:00] Pyspy failed (py-spy dump --pid 7). Error: not found\n"
    assert stack_dumps(journal) == ()
    assert failed_to_dump(journal)
