"""The stacks SGLang prints of its own processes when its watchdog finds one hung. Pure.

`Pyspy dump for PID 4711 (py-spy dump --native --pid 4711):` and what py-spy says, as one record
(srt/utils/cudacore_pyspy_dump_utils.py of 0.5.23, srt/utils/common.py of 0.5.9). Without py-spy on
the host it prints `Pyspy failed (...)` instead.
"""

from __future__ import annotations

from sweep.sglang.lines import HEADER, find_all, plain

_DUMP = b"Pyspy dump for PID "
_FAILED = b"Pyspy failed ("
_LONGEST = 64 * 1024


def stack_dumps(journal: bytes) -> tuple[str, ...]:
    """Every dump in a journal, each as one text that begins with the process it is of."""
    text = plain(journal)
    found = []
    for position in find_all(text, _DUMP):
        end = min(len(text), position + _LONGEST)
        following = HEADER.search(text, position, end)
        dump = text[position : following.start() if following else end]
        found.append(dump.decode("utf-8", "replace").strip())
    return tuple(found)


def failed_to_dump(journal: bytes) -> bool:
    """Whether SGLang tried to, and could not."""
    return _FAILED in journal and _DUMP not in journal
