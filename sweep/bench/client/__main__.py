"""`python3 -m sweep.bench.client job.json result.json`."""

import sys

from .trial import main

sys.exit(main(sys.argv))
