"""--detach=host: the tool, a run and what both need are copied to the GPU host and work there.

bundle        what is sent            interpreter   with which Python of the host
place         where it lies           remote        install, start, look, fetch, stop, forget

There the run is resumed with `transport: local`, as a transient unit of its own; the directory on
the controller is a copy that is brought up to date whenever somebody looks.
"""

from __future__ import annotations

from sweep.detached.bundle import Bundle, run_files, tool_files
from sweep.detached.interpreter import Interpreter, choose
from sweep.detached.place import Place, place_for
from sweep.detached.remote import Remote

__all__ = [
    "Bundle",
    "Interpreter",
    "Place",
    "Remote",
    "choose",
    "place_for",
    "run_files",
    "tool_files",
]
