"""The scraper: forms, ranks, cuts, several launches, any bytes."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sweep.sglang.journal import Scrape, scrape, scrape_json
from sweep.sglang.lines import LINE_MAX
from tests.sglang.forms import ARGS, BAR, CAPACITY, DECODE, FORMS, LINES, READY


def numbers(found: Scrape) -> tuple[object, ...]:
    return (found.max_running_requests, found.max_total_num_tokens, found.launches)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(form: str) -> None:
    found = scrape(FORMS[form](LINES).encode())
    assert numbers(found) == (80, 1310464, 1)
    assert [(rank.prefix, rank.dp) for rank in found.ranks] == [("DP0 TP0", 0), ("DP1 TP0", 1)]
    assert (found.speculative_num_steps, found.speculative_num_draft_tokens) == (3, 4)
    assert (found.ready, found.failure, found.context_len) == (True, None, 262144)
    assert [(line.rank, line.accept_len, line.queue) for line in found.decode] == [
        ("DP0 TP0", 2.61, 0)
    ]


def test_ranks_in_any_order() -> None:
    lines = [ARGS.replace("'dp_size': 2", "'dp_size': 8")]
    lines += [CAPACITY.format(dp=dp, tokens=1000 + dp, requests=40) for dp in range(8)]
    for seed in range(5):
        random.Random(seed).shuffle(lines[1:])
        found = scrape("\n".join(lines).encode())
        assert numbers(found) == (320, 8028, 1)
        assert [rank.dp for rank in found.ranks] == list(range(8))


def test_a_rank_that_speaks_twice_counts_once() -> None:
    text = "\n".join([*LINES[:2], *LINES[2:4], LINES[3].replace("655104", "655000"), READY])
    assert scrape(text.encode()).max_total_num_tokens == 655360 + 655000


def test_a_cut_argument_line_gives_no_cut_number() -> None:
    cut = ARGS[: ARGS.index("'speculative_num_steps': 3") + len("'speculative_num_steps': 3")]
    found = scrape(cut.encode())
    assert found.speculative_num_steps is None
    assert found.speculative_algorithm == "EAGLE"


@pytest.mark.parametrize("prefix", ["", "Nov 03 02:00:28 gpu1 python3[811]: "])
def test_what_journald_cut_at_48_kb_is_put_together(prefix: str) -> None:
    bars = (BAR + "\r") * (LINE_MAX // len(BAR.encode()) + 1)
    whole = (bars + LINES[3]).encode()
    at = whole.index(b"max_running_requests=40") + len(b"max_running_requests=4")
    start = at - LINE_MAX
    pieces = [whole[:start], whole[start:at], whole[at:]]
    assert len(pieces[1]) == LINE_MAX
    lines = [line.encode() for line in LINES[:3]] + pieces + [READY.encode()]
    found = scrape(b"".join(prefix.encode() + line + b"\n" for line in lines))
    assert numbers(found) == (80, 1310464, 1)


def test_json_says_itself_where_journald_cut() -> None:
    head, tail = LINES[3][:70], LINES[3][70:]
    records = [{"MESSAGE": line} for line in LINES[:3]]
    records += [{"MESSAGE": head, "_LINE_BREAK": "line-max"}, {"MESSAGE": tail}]
    found = scrape("\n".join(map(json.dumps, records)).encode())
    assert found.max_running_requests == 80


def test_a_launch_that_has_only_begun_has_no_numbers() -> None:
    before = FORMS["short-iso"](LINES)
    for begun in (
        "2026-11-03T03:00:00+0000 gpu1 systemd[1]: Started sglang-sweep.service - SGLang.",
        "2026-11-03T03:00:00+0000 gpu1 systemd[1]: Starting sglang-sweep.service - SGLang...",
        "-- Boot 0123456789abcdef0123456789abcdef --",
        "-- Reboot --",
        "sglang-1  | == CUDA ==",
        f"2026-11-03T03:00:00+0000 gpu1 python3[900]: {ARGS}",
        "2026-11-03T03:00:00+0000 gpu1 python3[900]: usage: sglang serve [-h]",
    ):
        found = scrape((before + begun + "\n").encode())
        assert numbers(found) == (None, None, 2), begun
        assert (found.ready, found.decode) == (False, ()), begun


def test_an_excerpt_that_begins_in_the_middle_of_a_launch() -> None:
    tail = "\n".join([DECODE, "sglang.service: Deactivated successfully.", "Stopped SGLang."])
    found = scrape(f"{tail}\nStarted SGLang.\n{FORMS['cat'](LINES)}".encode())
    assert numbers(found) == (80, 1310464, 2)
    assert len(found.decode) == 1


def test_what_a_program_prints_does_not_begin_a_launch() -> None:
    text = FORMS["cat"](LINES) + "Starting warmup with 1 sequences...\nStarted profiling.\n"
    assert numbers(scrape(text.encode())) == (80, 1310464, 1)


def test_another_unit_in_the_same_json_journal() -> None:
    other = {"MESSAGE": "backup done", "_SYSTEMD_INVOCATION_ID": "b" * 32, "_BOOT_ID": "5e2a" * 8}
    text = FORMS["json"](LINES) + json.dumps(other) + "\n"
    assert numbers(scrape(text.encode())) == (80, 1310464, 1)


def test_json_with_messages_that_are_none() -> None:
    odd = [{"MESSAGE": None}, {"MESSAGE": [300, -1]}, {"MESSAGE": ["a", "b"]}, {"MESSAGE": {}}]
    text = FORMS["json"](LINES) + "\n".join(map(json.dumps, odd)) + '\n{"MESSAGE": "\\ud800"}\n{'
    assert numbers(scrape(text.encode())) == (80, 1310464, 1)


def test_no_number_is_ever_not_json() -> None:
    text = "\n".join([*LINES, DECODE.replace("402.17", "nan").replace("2.61", "inf")])
    printed = json.loads(scrape_json(text.encode()))
    assert printed["decode"][1]["gen_throughput"] is None
    assert printed["decode"][1]["accept_len"] is None


def test_where_nothing_warms_up_listening_is_ready() -> None:
    skips = ARGS.replace("'skip_server_warmup': False", "'skip_server_warmup': True")
    listens = "[2026-11-03 02:00:29] INFO:     Uvicorn running on http://127.0.0.1:30900"
    assert scrape(f"{skips}\n{listens}\n".encode()).ready
    assert not scrape(f"{ARGS}\n{listens}\n".encode()).ready


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    json.loads(scrape_json(data))


_PIECES = st.sampled_from(
    [
        *(line.encode() for line in LINES), b"\n", b"\r", b"\x1b[32m", b"\x1b]0;", b"{", b"}", b"'",
        b'{"MESSAGE": "', b'{"MESSAGE": [1, 2], "_BOOT_ID": "b"}', b'{"log": "', b'"}', b"\\",
        b"server_args={", b"server_args=ServerArgs(", b"max_total_num_tokens=9, ",
        b"99999999999999", b"max_running_requests=", b"Decode batch, #running-req: ",
        b"[2026-11-03 02:00:28 TP0] ",
        b"Scheduler hit an exception: ", b"Traceback (most recent call last):\n", b'  File "',
        b"Subprocess scheduler_0 (pid=1) crashed with exit code ", b"-9", b"Started a.service.",
        b"Stopping a.service.", b"-- Boot ", b"Main process exited, code=", b"status=203/EXEC",
        b"Failed with result '", b"stderr P ", b"2026-11-03T02:00:28Z ", b": error: argument --x",
        b"Engine startup timings (s): load_weight=1.0, cuda_graph={decode=", b"\xff\x00",
    ]
)  # fmt: skip


@example(
    [b"Engine startup timings (s): cuda_graph={decode=", b"Load weight begin. avail mem=94.10 GB"]
)
@given(st.lists(st.one_of(_PIECES, st.binary(max_size=8)), max_size=30))
def test_any_mixture_of_what_it_knows(pieces: list[bytes]) -> None:
    json.loads(scrape_json(b"".join(pieces)))
