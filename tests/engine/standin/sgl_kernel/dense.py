"""Linear layers, norms, activation and rotation of a Llama."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def init_cpu_threads_env(cpus: str) -> str:
    """SGLang would bind a thread to each of `cpus`; here OMP_NUM_THREADS decides."""
    return f"{torch.get_num_threads()} threads, not bound to {cpus}"


def initialize(processes: int, _rank: int) -> None:
    if processes != 1:
        raise NotImplementedError("tensor parallelism (tp-size other than 1)")


def convert_weight_packed(weight: Tensor) -> Tensor:
    """The kernels' own layout of a weight: here the plain one."""
    return weight.contiguous()


def weight_packed_linear(x: Tensor, weight: Tensor, bias: Tensor | None, _packed: bool) -> Tensor:
    return functional.linear(x, weight, bias)


def rmsnorm_cpu(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return functional.rms_norm(x.float(), weight.shape, weight.float(), eps).to(x.dtype)


def fused_add_rmsnorm_cpu(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> None:
    """residual += x; x = the norm of it."""
    residual += x
    x.copy_(rmsnorm_cpu(residual, weight, eps))


def silu_and_mul_cpu(x: Tensor) -> Tensor:
    gate, up = x.tensor_split(2, dim=-1)
    return functional.silu(gate) * up


def rotary_embedding_cpu(
    positions: Tensor, query: Tensor, key: Tensor, head: int, table: Tensor, halves: bool
) -> tuple[Tensor, Tensor]:
    """Turns each pair of a head's numbers by its position's angle.

    `table` holds for each position the cosines, then the sines. `halves`: number i is paired with
    number i + head / 2 (Llama), which is the only way known here.
    """
    if not halves or table.shape[-1] != head:
        raise NotImplementedError("rotation of neighbours, or of a part of each head")
    cosine, sine = table[positions.flatten()].float().unsqueeze(1).tensor_split(2, dim=-1)

    def turned(x: Tensor) -> Tensor:
        left, right = x.reshape(len(x), -1, head).float().tensor_split(2, dim=-1)
        pair = (left * cosine - right * sine, right * cosine + left * sine)
        return torch.cat(pair, dim=-1).to(x.dtype).reshape(x.shape)

    return turned(query), turned(key)


KERNELS = (
    init_cpu_threads_env, initialize, convert_weight_packed, weight_packed_linear,
    rmsnorm_cpu, fused_add_rmsnorm_cpu, silu_and_mul_cpu, rotary_embedding_cpu,
)  # fmt: skip
