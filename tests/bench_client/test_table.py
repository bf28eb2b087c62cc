"""The published table, to the letter, and as other people's scripts print it."""

from __future__ import annotations

import pytest

from sweep.bench import table

PUBLISHED = """\
Warming up...
  Warmup: 100 tokens, ok=True

   C |  Agg tok/s |  Per-req tok/s |   Tokens |  Wall(s) |   Ok
-----------------------------------------------------------------
   1 |      182.7 |          185.7 |     4000 |     21.9 |    4
   4 |      542.6 |          162.4 |     7217 |     13.3 |    8
-----------------------------------------------------------------
"""

FIRST = {
    "agg_tok_s": 182.7,
    "per_req_tok_s": 185.7,
    "output_tokens": 4000,
    "wall_s": 21.9,
    "requests_ok": 4,
}


def test_the_published_layout_to_the_letter():
    second = dict(zip(FIRST, (542.6, 162.4, 7217, 13.3, 8), strict=True))
    lines = ["Warming up...", *table.warmup_lines(100, ok=True)]
    lines += [table.row(1, FIRST), table.row(4, second), table.RULE]
    assert "\n".join(lines) + "\n" == PUBLISHED


def test_what_is_unknown_is_a_dash():
    assert table.row(16, {"requests_ok": 0, "output_tokens": 0, "agg_tok_s": None}) == (
        "  16 |          - |              - |        0 |        - |    0"
    )


def test_it_reads_what_it_prints():
    read = table.parse(PUBLISHED)
    assert list(read) == [1, 4]
    assert read[1] == FIRST
    assert isinstance(read[1]["output_tokens"], int)


@pytest.mark.parametrize(
    "text",
    [
        PUBLISHED.replace("\n", "\r\n"),
        PUBLISHED.replace("\n", "\n\x1b[32m").replace(" |", "\x1b[0m |"),
        "INFO starting\nC = 1 | nothing\n" + PUBLISHED + "Done | in | 3 s\n",
        "| C | Agg tok/s | Per-req tok/s | Tokens | Wall(s) | Ok |\n|---|---|---|---|---|---|\n"
        "| 1 | 182.7 | 185.7 | 4,000 | 21.9 | 4 |\n",
        "progress 1\rprogress 2\r   C | Ok | Note |  Agg tok/s | Tokens | Wall(s) | Per-req tok/s\n"
        "1 | 4 | warm | 182.7 | 4000 | 21.9 | 185.7\n",
    ],
)
def test_it_reads_what_others_print(text):
    assert table.parse(text)[1] == FIRST


def test_a_later_row_wins_and_ok_may_be_a_fraction():
    row = "   1 |      150.0 |          n/a |     4000 |     21.9 |  3/4\n"
    read = table.parse(PUBLISHED + row)[1]
    assert read == {
        "agg_tok_s": 150.0, "output_tokens": 4000, "wall_s": 21.9, "requests_ok": 3, "requests": 4,
    }  # fmt: skip


def test_no_table():
    assert table.parse("") == {}
    assert table.parse("a | b\n1 | 2\n") == {}
    assert table.parse(PUBLISHED.partition("   1 |")[0]) == {}


@pytest.mark.parametrize(
    "text",
    [
        '{"agg_tok_s": 10.5, "requests": 4, "unknown": 1}',
        'starting\n{"agg_tok_s": 1}\n{"agg_tok_s": 10.5, "requests": 4}\ndone\n',
        'starting\n{\n  "agg_tok_s": 10.5,\n  "requests": 4\n}\n',
    ],
)
def test_a_json_object(text):
    assert table.parse_object(text) == {"agg_tok_s": 10.5, "requests": 4}


def test_no_json_object():
    assert table.parse_object("[1]\n{broken\n") is None
    assert table.parse_object('  {"agg_tok_s": 1}') is None


@pytest.mark.parametrize("value", ['"fast"', "true", "NaN", "Infinity", "[1]"])
def test_a_column_that_is_no_number(value):
    with pytest.raises(ValueError, match="agg_tok_s is "):
        table.parse_object(f'{{"agg_tok_s": {value}}}')
    assert table.parse_object('{"accept_source": "journal"}') == {"accept_source": "journal"}
    with pytest.raises(ValueError, match="accept_source is 3"):
        table.parse_object('{"accept_source": 3}')
