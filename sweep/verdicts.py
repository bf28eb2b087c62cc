"""What each flag of a row means: the one place for the sentences of the report and the docs.

`bench.verdicts` finds out which of them a trial has earned.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# In the order of `rows.FLAGS`.
FLAG_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "capped": "more work at a time than the server takes: queueing was measured as well",
        "client_limited": "the client was late: server and first tokens may be faster",
        "short_output": "answers were not as long as asked for, or counts of tokens disagree",
        "retracted": "the server ran out of KV memory and threw requests back into its queue",
        "cold": "something was compiled while it was measured",
        "unstable": "the server's speed changed by more than a tenth during the trial",
        "drift": "the same point measured again came out different",
        "throttled": "a card lowered its clocks for heat or for want of power",
        "foreign_requests": "requests of somebody else reached the server under test",
        "journal_incomplete": "the journal lacks lines, so that evidence may be missing",
        "no_acceptance_data": "speculation, and nothing told its acceptance length",
        "simulated": "a simulated server: the numbers are made up",
    }
)
