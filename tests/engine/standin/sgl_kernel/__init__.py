"""Stands in for SGLang's compiled CPU kernels, in plain PyTorch.

Those kernels are published on no package registry. Here are the ones that SGLang 0.5.23 calls for a
dense Llama in bfloat16 on one process, decoding plainly or with a chain of drafts (topk 1). Each is
written from the places that call it, to be read and not to be fast. What is missing says so when it
is called.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from sgl_kernel import attention, dense, placing, tree

__version__ = "0+standin"

CALLED_THROUGH_TORCH = (*dense.KERNELS, *attention.KERNELS)
IMPORTED = (*placing.KERNELS, *tree.KERNELS)
# SGLang takes these names when it is imported, for models other than ours.
ELSEWHERE = (
    "apply_rotary_pos_emb_cpu", "conv3d_embed_cpu", "flash_attn_varlen_func",
    "fused_dual_residual_rmsnorm_cpu", "fused_experts_cpu", "fused_moe_router_cpu",
    "fused_sigmoid_mul_cpu", "gelu_and_mul", "gelu_and_mul_cpu", "gelu_tanh_and_mul",
    "gelu_tanh_and_mul_cpu", "silu_and_mul",
)  # fmt: skip


def missing(name: str) -> Any:
    def call(*_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"{name} is not part of the stand-in for SGLang's kernels")

    return call


class Operators:
    """What `torch.ops.sgl_kernel` is here: a namespace of plain functions."""

    def __init__(self) -> None:
        for name in ELSEWHERE:
            setattr(self, name, missing(name))
        for kernel in CALLED_THROUGH_TORCH:
            setattr(self, kernel.__name__, kernel)


torch.ops.sgl_kernel = Operators()
globals().update({name: missing(name) for name in ELSEWHERE})
globals().update({kernel.__name__: kernel for kernel in IMPORTED})
