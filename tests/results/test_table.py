"""A row becomes a line that we and plain pandas read right."""

from __future__ import annotations

import io
import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.results.table import HEADER, INTEGERS, REALS, TEXTS, decode, encode, parse, tidy
from sweep.rows import COLUMNS, Cell, Row
from tests.results.made import make_row

TRICKY = [
    "NA", "nan", "None", "null", "-1.#IND", "<NA>", "true", "FALSE", "12345e67", "0x1F", "1e5",
    "1_000", "inf", "-Infinity", "+1.", ".5", "007", "1d3", 'say "hi"', "a,b", "two\nlines",
    "cr\rhere", "nul\0byte", "esc\x1b[31mred", "line\u2028sep", "next\x85line", " padded ", "",
    " ", "#N/A", "ümläut 雪 🚀", "'quoted'", '"', "'", "a" * 5000, "\udc80", "1,5", "2026-03-01",
]  # fmt: skip

texts = st.one_of(st.text(max_size=60), st.sampled_from(TRICKY))
cells: dict[str, st.SearchStrategy[Cell]] = {
    **dict.fromkeys(TEXTS, texts),
    **dict.fromkeys(INTEGERS, st.integers(-(2**62), 2**62)),
    **dict.fromkeys(REALS, st.one_of(st.floats(), st.integers(-(2**50), 2**50))),
}
# A row of any content, with a key as the tool makes it.
any_row = st.fixed_dictionaries({}, optional=cells).map(
    lambda values: Row(
        {**values, "schema": 1, "point": "p-0123456789ab", "trial": 1, "attempt": 2, "status": "ok"}
    )
)


def test_columns_have_one_type_each() -> None:
    assert frozenset(COLUMNS) == INTEGERS | TEXTS | REALS
    assert not INTEGERS & TEXTS


@given(any_row)
@settings(max_examples=300)
def test_a_tidy_row_survives_the_csv(row: Row) -> None:
    clean = tidy(row)
    line = encode(clean)
    assert line.count(b"\n") == 1
    assert b"\r" not in line
    back = decode(line[:-1])
    assert back == clean
    assert all(type(back[name]) is type(clean[name]) for name in COLUMNS)
    assert tidy(clean) == clean


@given(st.lists(any_row, min_size=1, max_size=3))
@settings(max_examples=120, deadline=None)
def test_pandas_reads_what_was_written(rows: list[Row]) -> None:
    clean = [tidy(row) for row in rows]
    frame = pd.read_csv(io.BytesIO(HEADER + b"".join(map(encode, clean))))
    assert list(frame.columns) == list(COLUMNS)
    assert len(frame) == len(clean)
    for index, row in enumerate(clean):
        for name in COLUMNS:
            cell, wanted = frame[name].iloc[index], row[name]
            if wanted is None:
                assert pd.isna(cell), name
            elif isinstance(wanted, str):
                assert cell == wanted, name
            elif isinstance(wanted, float):
                # The default parser of pandas may be off by an ulp; every digit is in the file.
                assert math.isclose(cell, wanted, rel_tol=1e-15, abs_tol=5e-324), name
            elif abs(wanted) < 2**53:
                assert int(cell) == wanted, name


@pytest.mark.parametrize("text", TRICKY)
def test_a_tricky_detail_alone_in_its_column(text: str) -> None:
    clean = tidy(make_row(failure_detail=text, schema=1))
    frame = pd.read_csv(io.BytesIO(HEADER + encode(clean)))
    cell = frame["failure_detail"].iloc[0]
    assert pd.isna(cell) if clean["failure_detail"] is None else cell == clean["failure_detail"]


def test_dtypes_of_an_ordinary_file() -> None:
    lines = [encode(tidy(make_row(trial=n, schema=1, run_id="a-20260301-220000"))) for n in (1, 2)]
    frame = pd.read_csv(io.BytesIO(HEADER + b"".join(lines)))
    assert frame["trial"].dtype == "int64"
    assert frame["agg_tok_s"].dtype == "float64"
    for name in ("run_id", "point", "launch", "status", "started_at"):
        assert pd.api.types.is_string_dtype(frame[name].dtype), name
    assert frame["failure"].isna().all()
    assert frame.notna().all(axis=0)["agg_tok_s"]


@pytest.mark.parametrize(
    ("column", "cell", "error"),
    [
        ("trial", 1.5, ValueError),
        ("agg_tok_s", "fast", TypeError),
        ("concurrency", "max", TypeError),
        ("requests", True, TypeError),
    ],
)
def test_a_cell_of_the_wrong_kind_is_refused(
    column: str, cell: object, error: type[Exception]
) -> None:
    with pytest.raises(error, match=column):
        tidy(Row({column: cell}))  # type: ignore[dict-item]


def test_unknown_is_empty_never_nan() -> None:
    clean = tidy(make_row(agg_tok_s=math.nan, wall_s=math.inf, output_tokens=4000.0))
    assert clean["agg_tok_s"] is None
    assert clean["wall_s"] is None
    assert clean["output_tokens"] == 4000


def test_a_long_detail_is_cut() -> None:
    detail = tidy(make_row(failure_detail="x" * 10_000))["failure_detail"]
    assert len(str(detail)) == 2000
    assert str(detail).endswith("…")


@pytest.mark.parametrize(
    ("data", "header", "bad", "torn"),
    [
        (b"", "none", 0, b""),
        (b"sche", "none", 0, b"sche"),
        (HEADER, "ours", 0, b""),
        (HEADER + b"1,gar", "ours", 0, b"1,gar"),
        (HEADER + b"garbage\n\x00\xff\xfe\n", "ours", 2, b""),
        (HEADER + b'1,"open\n', "ours", 1, b""),
        (b"schema,run_id\n1,a\n", "other", 0, b""),
        (b"\xef\xbb\xbf" + HEADER, "other", 0, b""),
        (HEADER.replace(b"\n", b"\r\n"), "other", 0, b""),
        (b"\x00\x01garbage\nmore\n", "lost", 2, b""),
    ],
)
def test_parse_says_what_is_wrong(data: bytes, header: str, bad: int, torn: bytes) -> None:
    found = parse(data)
    assert (found.header, found.bad, found.torn, found.rows) == (header, bad, torn, ())
