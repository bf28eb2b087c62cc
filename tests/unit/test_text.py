"""Reading a unit's directives, and two units side by side."""

from __future__ import annotations

from sweep.unit import unit_diff
from sweep.unit.text import entries


def test_entries_are_joined_and_comments_left_out() -> None:
    text = """# comment
[Unit]
Description = with spaces\x20\x20
; another
[Service]
ExecStart=/bin/x \\
  a \\
# inside
  b
Environment=A=1
even=ends in \\\\
no directive
Empty=
"""
    assert list(entries(text)) == [
        ("Unit", "Description", "with spaces"),
        ("Service", "ExecStart", "/bin/x  a  b"),
        ("Service", "Environment", "A=1"),
        ("Service", "even", "ends in \\\\"),
        ("Service", "Empty", ""),
    ]


def test_diff() -> None:
    old, new = "[Service]\nA=1\nB=2\n", "[Service]\nA=1\nB=3"
    assert unit_diff(old, new, "sglang.service", "l-01") == (
        "--- sglang.service\n+++ l-01\n@@ -1,3 +1,3 @@\n [Service]\n A=1\n-B=2\n+B=3\n"
    )
    assert unit_diff(old, old, "a", "b") == ""


def test_a_diff_can_be_shown_to_anybody() -> None:
    old = "[Service]\nEnvironment=HF_TOKEN=abc\nExecStart=/bin/s --api-key sk-1 --tp 2\n"
    new = "[Service]\nExecStart=/bin/s --api-key other --tp 4\n"
    assert unit_diff(old, new, "a", "b").split("\n")[3:-1] == [
        " [Service]",
        "-Environment=HF_TOKEN=[redacted]",
        "-ExecStart=/bin/s --api-key [redacted] --tp 2",
        "+ExecStart=/bin/s --api-key [redacted] --tp 4",
    ]
    assert unit_diff("K_TOKEN=1", "K_TOKEN=2", "a", "b") == ""
