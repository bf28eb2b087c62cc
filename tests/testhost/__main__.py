"""Hosts outside of tests:

python -m tests.testhost up [bookworm|trixie]    a host to play with, until Ctrl-C
python -m tests.testhost build                   make the base images now

(reap is for `Pool` itself.)
"""

from __future__ import annotations

import signal
import sys

from tests.testhost.base import RELEASES, base
from tests.testhost.pool import Pool, reap, why_not


def up(release: str) -> None:
    """Switch a host on, say how to reach it, and keep it until Ctrl-C or SIGTERM."""
    if reason := why_not():
        sys.exit(reason)
    if release not in RELEASES:
        sys.exit(f"no release {release!r}; there is {', '.join(RELEASES)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Pool() as pool:
        host = pool.fresh("playground", release=release)
        print(f"ssh -F {host.ssh_config} {host.name}   # root; {host.name}-ops may sudo, ...")
        print(f"in inventory.yaml: address: {host.name}, ssh_config: {host.ssh_config}")
        print("Ctrl-C removes it", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("removed")


match sys.argv[1:]:
    case ["build"]:
        for name in RELEASES:
            base(name)
    case ["up", *more] if len(more) < 2:
        up(*(more or ["trixie"]))
    case ["reap", number]:
        reap(int(number))
    case ["-h" | "--help"]:
        print(__doc__)
    case _:
        sys.exit(__doc__)
