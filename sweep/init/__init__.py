"""An inventory for what a host runs today.

read         the unit, in systemd's own words        look    what else is asked of the host
words        words of a command line, their secrets  shell   start scripts
start        script, container or SGLang itself      container   docker run, podman run
flags        SGLang's flags                          speculation   made fit for a sweep
carry        directives that stay                    server  all of it together
draft        the file's text                         yaml_text   values in it
"""

from __future__ import annotations

from sweep.init.draft import InventoryDraft, from_unit, write_new

__all__ = ["InventoryDraft", "from_unit", "write_new"]
