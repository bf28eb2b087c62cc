"""What SGLang makes of an adaptive.json: runs on the engine's interpreter.

Arguments: the file, the steps to start with, then running batch sizes. Prints a JSON object:
`candidates`, all of them; `steps`, by batch size, before anything was accepted.
"""

from __future__ import annotations

import json
import sys

from sglang.srt.speculative.adaptive_spec_params import (
    AdaptiveSpeculativeParams,
    resolve_candidate_steps_from_config,
)

path, start, *batches = sys.argv[1:]
params = AdaptiveSpeculativeParams(initial_steps=int(start), cfg_path=path)
assert params.candidate_steps == resolve_candidate_steps_from_config(path)
steps = {batch: params.get_steps_for_batch(int(batch)) for batch in batches}
print(json.dumps({"candidates": params.candidate_steps, "steps": steps}))
