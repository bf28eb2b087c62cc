"""Every column against numbers worked out by hand, and against a second way to compute them."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.bench.metrics import empty_places, failures, measure, percentile, steady, with_acceptance
from sweep.rows import FLAGS, MEASURED

MS = 1000


def request(sent: int, t: list[int], n: list[int] | None = None, **more: object) -> dict:
    """A record whose times are milliseconds: `t` gaps, `n` tokens (1 each), ends at its last."""
    n = n or [1] * len(t)
    return {
        "index": 0,
        "sent": sent * MS,
        "first": (sent + t[0]) * MS if t else None,
        "end": (sent + sum(t)) * MS,
        "t": [gap * MS for gap in t],
        "n": n,
        "merged": 0,
        "tokens_in": 5,
        "tokens_out": sum(n),
        "asked": sum(n),
        "ignore_eos": True,
        "verify": None,
        "proposed": None,
        "accepted": None,
        "histogram": None,
        "finish": "length",
        "error": None,
        **more,
    }


def failed(sent: int | None, end: int, error: str) -> dict:
    broken = request(sent or 0, [])
    times = {"sent": None if sent is None else sent * MS, "end": end * MS}
    return {**broken, **times, "tokens_out": None, "asked": 9, "finish": None, "error": error}


def result(requests: list[dict], concurrency: int = 1, **more: object) -> dict:
    return {
        "error": None,
        "concurrency": concurrency,
        "started": 1000.0,
        "ended": 1010.0,
        "requests": requests,
        "warmup": None,
        "flush": None,
        "server_before": None,
        "server_after": None,
        "client": {"cpu": 0.25, "lag_ms_p99": 0.5, "lag_ms_max": 1.0, "reads": 9, "stamped": 9},
        **more,
    }


def test_one_request_by_hand():
    # Sent at 0; 1 token at 100 ms, then 3 at 130, 2 at 150.
    measured = measure(result([request(0, [100, 30, 20], [1, 3, 2])]))
    values = measured.values
    assert values["requests"] == values["requests_ok"] == 1
    assert values["output_tokens"] == 6
    assert values["wall_s"] == pytest.approx(0.150)
    assert values["agg_tok_s"] == values["per_req_tok_s"] == pytest.approx(40)
    assert values["decode_tok_s"] == pytest.approx(100)  # 5 tokens in 50 ms
    assert values["steady_tok_s"] == pytest.approx(40)
    assert values["ttft_ms_mean"] == values["ttft_ms_p99"] == pytest.approx(100)
    assert values["tpot_ms_p50"] == pytest.approx(10)
    assert values["itl_ms_mean"] == pytest.approx(10)  # 10, 10, 10, 10, 10
    assert values["itl_chunk_ms_p50"] == pytest.approx(25)
    assert values["itl_chunk_ms_p99"] == pytest.approx(29.9)
    assert values["e2e_ms_p90"] == pytest.approx(150)
    assert values["concurrency_achieved"] == pytest.approx(1)
    assert (values["client_cpu"], values["client_lag_ms_p99"]) == (0.25, 0.5)
    assert values["accept_length"] is None
    assert measured.flags == frozenset()
    assert measured.window == (1000.0, 1010.0)
    assert set(values) == set(MEASURED)


def test_two_in_flight_and_the_tail():
    # Two at once until 200 ms, then one alone until 400 ms.
    values = measure(result([request(0, [100, 100]), request(0, [200, 100, 100])], 2)).values
    assert values["wall_s"] == pytest.approx(0.4)
    assert values["agg_tok_s"] == pytest.approx(12.5)
    assert values["per_req_tok_s"] == pytest.approx((10 + 7.5) / 2)
    assert values["steady_tok_s"] == pytest.approx(3 / 0.2)
    assert values["concurrency_achieved"] == pytest.approx(1.5)
    assert values["ttft_ms_mean"] == pytest.approx(150)


def test_the_gap_between_two_requests_of_one_place_is_not_steady():
    # C=1: 0..100, a gap of 50 ms, 150..250.
    values = measure(result([request(0, [50, 50]), request(150, [50, 50])])).values
    assert values["steady_tok_s"] == pytest.approx(4 / 0.2)
    assert values["agg_tok_s"] == pytest.approx(4 / 0.25)
    assert values["concurrency_achieved"] == pytest.approx(0.8)


def test_never_c_in_flight():
    values = measure(result([request(0, [10]), request(20, [10])], 2)).values
    assert values["steady_tok_s"] is None


def test_gaps_without_tokens_count_for_the_next_token():
    values = measure(result([request(0, [10, 10, 30], [1, 0, 2])])).values
    assert values["itl_ms_p50"] == values["itl_ms_p99"] == pytest.approx(20)
    assert values["itl_chunk_ms_p50"] == pytest.approx(20)


def test_failed_requests_count_nowhere_but_in_the_window():
    broken = [failed(10, 500, "silent for 1 s"), failed(None, 600, "not sent: x")]
    measured = measure(result([request(0, [100, 100]), *broken], 2))
    values = measured.values
    assert (values["requests"], values["requests_ok"], values["output_tokens"]) == (3, 1, 2)
    assert values["wall_s"] == pytest.approx(0.5)
    assert values["agg_tok_s"] == pytest.approx(4)
    assert values["per_req_tok_s"] == pytest.approx(10)
    assert values["concurrency_achieved"] == pytest.approx((200 + 490) / 500)


def test_nothing_ok_leaves_cells_empty():
    values = measure(result([failed(0, 10, "HTTP 503")])).values
    assert (values["requests"], values["requests_ok"], values["output_tokens"]) == (1, 0, 0)
    known = {"requests", "requests_ok", "output_tokens", "client_cpu", "client_lag_ms_p99"}
    assert {name for name, value in values.items() if value is not None} == known
    nothing = measure(result([], started=None, ended=None, client=None))
    assert nothing.window is None
    assert nothing.values["requests"] == 0


def test_acceptance_from_requests():
    requests = [request(0, [10] * 10, verify=4), request(0, [10] * 20, verify=8)]
    measured = measure(result(requests), steps=3, draft_tokens=4)
    assert measured.values["accept_length"] == pytest.approx(30 / 12)
    assert measured.values["accept_rate"] == pytest.approx(1.5 / 3)
    assert measured.values["accept_source"] == "requests"
    counted = [{**item, "proposed": 12, "accepted": 5} for item in requests]
    assert measure(result(counted), steps=3).values["accept_rate"] == pytest.approx(10 / 24)


def test_acceptance_is_never_taken_from_some_requests_only():
    requests = [request(0, [10] * 10, verify=4), request(0, [10] * 20)]
    measured = measure(result(requests), steps=3, draft_tokens=4)
    assert measured.values["accept_source"] is None
    assert measured.flags == {"no_acceptance_data"}


def info(*averages: float | None) -> dict:
    states = [{} if one is None else {"avg_spec_accept_length": one} for one in averages]
    return {"internal_states": states}


def test_acceptance_from_totals_that_a_flush_has_reset():
    def source(**more: object) -> object:
        plain = [request(0, [10] * 10)]
        return measure(result(plain, **more), steps=3, draft_tokens=4).values["accept_source"]

    reset = {"flush": 200, "server_before": info(None), "server_after": info(2.5)}
    assert source(**reset) == "server_totals"
    assert source(**{**reset, "flush": 404}) is None
    assert source(**{**reset, "flush": None}) is None
    assert source(**{**reset, "server_before": info(2.0)}) is None  # this version resets nothing
    assert source(**{**reset, "server_after": info(None)}) is None
    assert source(**{**reset, "server_after": None}) is None
    two = measure(
        result([request(0, [10] * 10)], **{**reset, "server_after": info(2.0, 3.0)}),
        steps=3,
        draft_tokens=4,
    )
    assert two.values["accept_length"] == pytest.approx(2.5)
    assert two.values["accept_rate"] == pytest.approx(0.5)


def test_acceptance_from_the_journal_is_filled_in_afterwards():
    measured = measure(result([request(0, [10] * 10)]), steps=3, draft_tokens=4)
    filled = with_acceptance(measured, 3.1, "journal", 4)
    assert filled.values["accept_length"] == 3.1
    assert filled.values["accept_rate"] == pytest.approx(0.7)
    assert filled.values["accept_source"] == "journal"
    assert filled.flags == frozenset()
    assert filled.values["agg_tok_s"] == measured.values["agg_tok_s"]


def test_a_rate_is_never_above_one():
    lucky = measure(result([request(0, [10] * 41, verify=10)]), steps=3, draft_tokens=4)
    assert lucky.values["accept_length"] == pytest.approx(4.1)
    assert lucky.values["accept_rate"] == 1.0


def test_no_speculation_no_acceptance_and_no_flag():
    measured = measure(result([request(0, [10] * 10, verify=4)]), steps=0)
    assert measured.values["accept_length"] is None
    assert measured.flags == frozenset()


@pytest.mark.parametrize(
    ("changes", "short"),
    [
        ({}, False),
        ({"asked": 4}, True),
        ({"asked": 2}, True),
        ({"finish": "stop"}, True),
        ({"asked": 4, "ignore_eos": False}, False),
        ({"asked": None}, False),
        ({"error": "no tokens"}, True),
        ({"error": "no usage"}, False),
    ],
)
def test_short_output(changes, short):
    requests = [request(0, [5, 5, 5]), request(0, [5, 5, 5], **changes)]
    assert ("short_output" in measure(result(requests)).flags) == short


def test_a_client_at_its_limit_says_so():
    busy = {"cpu": 0.97, "lag_ms_p99": 80.0}
    assert measure(result([request(0, [5, 5])], client=busy)).flags == {"client_limited"}


def test_a_client_that_leaves_places_empty_says_so():
    def flags(gap: int) -> object:
        return measure(result([request(0, [50, 50]), request(100 + gap, [50, 50])])).flags

    assert flags(2) == frozenset()
    assert flags(3) == {"client_limited"}


def test_empty_places():
    two = [request(0, [100]), request(0, [60]), request(80, [100]), request(100, [50])]
    # From 0 to 100, of two places one was empty for 20 ms.
    assert empty_places(two, 2) == pytest.approx(0.1)
    # The tail, when there is nothing more to send, is nobody's fault.
    assert empty_places(two[:2], 2) is None
    assert empty_places([request(0, [10]), request(0, [10])], 1) is None


def test_flags_are_words_of_the_table():
    assert {"no_acceptance_data", "short_output", "client_limited"} <= set(FLAGS)


def test_failures_are_told_on_one_line():
    requests = [
        request(0, [5]),
        failed(0, 9, "connection closed after 100 bytes"),
        failed(0, 9, "connection closed after 220 bytes"),
        failed(0, 9, "HTTP 503 (text/plain): busy"),
    ]
    told = failures(requests)
    assert told == (
        "3 of 4 requests failed: connection closed after some bytes (2); "
        "HTTP 503 (text/plain): busy (1)"
    )
    assert failures(requests[:1]) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_percentiles_are_those_of_the_statistics_module(values):
    ordered = sorted(values)
    inclusive = statistics.quantiles(ordered, n=100, method="inclusive")
    for percent in (1, 50, 90, 99):
        assert percentile(ordered, percent) == pytest.approx(inclusive[percent - 1], abs=1e-6)


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.lists(st.integers(1, 9), min_size=1, max_size=6)),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 4),
)
def test_the_steady_window_is_what_counting_millisecond_by_millisecond_gives(shapes, concurrency):
    requests = [request(sent, gaps) for sent, gaps in shapes]
    full = {
        moment
        for moment in range(200)
        if sum(item["sent"] <= moment * MS < item["end"] for item in requests) >= concurrency
    }
    tokens = 0
    for sent, gaps in shapes:
        moment = sent
        for gap in gaps:
            moment += gap
            tokens += moment - 1 in full
    wanted = tokens / len(full) * 1000 if full else None
    assert steady(requests, concurrency) == (None if wanted is None else pytest.approx(wanted))
