"""python -m tests.testhost build: make the base images now. (reap is for `Pool` itself.)"""

from __future__ import annotations

import sys

from tests.testhost.base import RELEASES, base
from tests.testhost.pool import reap

if sys.argv[1:] == ["build"]:
    for name in RELEASES:
        base(name)
elif sys.argv[1:2] == ["reap"]:
    reap(int(sys.argv[2]))
else:
    sys.exit(__doc__)
