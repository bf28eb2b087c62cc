"""Attention over the paged KV cache, request by request.

A request's row of `table` says in which slot of the cache each of its tokens lies.
"""

# ruff: noqa: PLR0917  the signatures are SGLang's

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def store_cache_cpu(
    key: Tensor, value: Tensor, keys: Tensor, values: Tensor, slots: Tensor, width: int
) -> None:
    keys.view(-1, width)[slots] = key.reshape(-1, width).to(keys.dtype)
    values.view(-1, width)[slots] = value.reshape(-1, width).to(values.dtype)


def attend(query: Tensor, keys: Tensor, values: Tensor, scale: float, *, causal: bool) -> Tensor:
    """Of the last tokens of a request, (tokens, heads, width), to all its tokens."""
    new, known = len(query), len(keys)
    mask = None
    if causal and new > 1:
        mask = torch.ones(new, known, dtype=torch.bool).tril(known - new)
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (query, keys, values))
    out = scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=True)
    return out[0].transpose(0, 1)


def refuse(**unknown: object) -> None:
    for name, value in unknown.items():
        if isinstance(value, Tensor) or value:
            raise NotImplementedError(f"{name} is not part of the stand-in for SGLang's kernels")


def decode_attention_cpu(
    query: Tensor, keys: Tensor, values: Tensor, _k_scale: float, _v_scale: float, out: Tensor,
    key: Tensor | None, value: Tensor | None, slots: Tensor, _logits: Tensor, table: Tensor,
    rows: Tensor, lengths: Tensor, scale: float, cap: float, cross: bool, window: int,
    _encoder_lengths: Tensor | None, sinks: Tensor | None,
) -> None:  # fmt: skip
    """One new token of each request; `key` and `value` of it are stored first."""
    refuse(logit_cap=cap > 0, cross_attention=cross, sliding_window=window > 0, sinks=sinks)
    if key is not None and value is not None:
        store_cache_cpu(key, value, keys, values, slots, keys[0].numel())
    for i, (row, length) in enumerate(zip(rows.tolist(), lengths.tolist(), strict=True)):
        at = table[row, :length]
        out[i : i + 1] = attend(query[i : i + 1], keys[at], values[at], scale, causal=False)


def extend_attention_cpu(
    query: Tensor, _key: Tensor | None, _value: Tensor | None, out: Tensor, keys: Tensor,
    values: Tensor, _k_scale: float, _v_scale: float, table: Tensor, rows: Tensor,
    lengths: Tensor, new: Tensor, starts: Tensor, _longest: int, scale: float, cap: float,
    cross: bool, window: int, _encoder_lengths: Tensor | None, sinks: Tensor | None,
    tree: Tensor | None, causal: bool,
) -> None:  # fmt: skip
    """Several new tokens of each request, in the cache already: `new` of its `lengths`."""
    refuse(logit_cap=cap > 0, cross_attention=cross, sliding_window=window > 0, sinks=sinks)
    refuse(tree_mask=tree)
    counts = (values.tolist() for values in (rows, lengths, new, starts))
    for row, length, count, start in zip(*counts, strict=True):
        if count:
            at, ours = table[row, :length], slice(start, start + count)
            out[ours] = attend(query[ours], keys[at], values[at], scale, causal=causal)


KERNELS = (store_cache_cpu, decode_attention_cpu, extend_attention_cpu)
