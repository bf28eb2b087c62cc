"""Names SGLang imports for models with state-space layers, which ours are not."""

from __future__ import annotations

from sgl_kernel import missing

causal_conv1d_fn_cpu = missing("causal_conv1d_fn_cpu")
causal_conv1d_update_cpu = missing("causal_conv1d_update_cpu")
chunk_gated_delta_rule_cpu = missing("chunk_gated_delta_rule_cpu")
