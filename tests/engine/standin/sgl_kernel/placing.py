"""Which slots of the KV cache speculation writes to, and what it keeps of them.

`table` maps (request's row, position of a token) to its slot. Outputs are filled in place, one
request's piece behind the other's.
"""

# ruff: noqa: PLR0917  the signatures are SGLang's

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import torch
from torch import Tensor


def pieces(rows: Tensor, starts: Tensor, ends: Tensor) -> Iterator[tuple[int, int, int, slice]]:
    """(row, start, end, where its piece lies in the flat tensor) of each request."""
    at = 0
    spans = (values.tolist() for values in (rows, starts, ends))
    for row, start, end in zip(*spans, strict=True):
        yield row, start, end, slice(at, at + end - start)
        at += end - start


def assign_req_to_token_pool_cpu(
    rows: Tensor, table: Tensor, starts: Tensor, ends: Tensor, slots: Tensor, _width: int
) -> None:
    """Writes newly allocated slots into the table."""
    for row, start, end, piece in pieces(rows, starts, ends):
        table[row, start:end] = slots[piece].to(table.dtype)


def assign_extend_cache_locs_cpu(
    rows: Tensor, table: Tensor, starts: Tensor, ends: Tensor, slots: Tensor, _width: int
) -> None:
    """Reads slots from the table."""
    for row, start, end, piece in pieces(rows, starts, ends):
        slots[piece] = table[row, start:end].to(slots.dtype)


def assign_draft_cache_locs_contiguous_cpu(
    rows: Tensor, table: Tensor, lengths: Tensor, slots: Tensor, width: int, topk: int, steps: int
) -> None:
    """Reads the slots of the drafts, which follow the tokens there are."""
    assign_extend_cache_locs_cpu(rows, table, lengths, lengths + topk * steps, slots, width)


def build_draft_decode_metadata_cpu(
    table: Tensor, rows: Tensor, _lengths: Tensor, topk: int, _steps: int, _width: int
) -> Tensor:
    """The table as the draft steps see it: with one chain, the requests' own rows."""
    if topk != 1:
        raise NotImplementedError("drafts other than a chain (topk 1)")
    return table[rows]


def fill_bonus_tokens_cpu(accepted: Tensor, counts: Tensor, bonus: Tensor, stride: int) -> None:
    """The last accepted token of each request, the one no draft was needed for."""
    bonus.copy_(accepted.flatten()[torch.arange(len(counts)) * stride + counts - 1])


def fill_accept_out_cache_loc_cpu(index: Tensor, slots: Tensor, kept: Tensor) -> None:
    """The slots of the accepted tokens, without gaps; -1 in `index` was not accepted."""
    found = slots[index[index >= 0]]
    kept[: len(found)] = found


def rotate_input_ids_cpu(
    tokens: Tensor, starts: Tensor, counts: Tensor, following: Tensor, last: Tensor | None
) -> None:
    """Moves each request's tokens one to the left and puts the one that follows at the end."""
    spans = zip(starts.tolist(), counts.tolist(), strict=True)
    for i, (start, count) in enumerate(spans):
        if count:
            end = start + count - 1
            tokens[start:end] = tokens[start + 1 : end + 1].clone()
            tokens[end if last is None else int(last[i])] = following.flatten()[i]


def copy_all_layer_kv_cache_cpu(
    buffers: Tensor, row_bytes: Tensor, targets: Tensor, sources: Tensor
) -> None:
    """Copies rows within each layer's keys and values, which come as addresses."""
    for buffer, size in zip(buffers.tolist(), row_bytes.tolist(), strict=True):
        start = buffer % 2**64  # a signed tensor holds the unsigned address
        rows = [ctypes.string_at(start + row * size, size) for row in sources.tolist()]
        for row, data in zip(targets.tolist(), rows, strict=True):
            ctypes.memmove(start + row * size, data, size)


KERNELS = (
    assign_req_to_token_pool_cpu, assign_extend_cache_locs_cpu,
    assign_draft_cache_locs_contiguous_cpu, build_draft_decode_metadata_cpu,
    fill_bonus_tokens_cpu, fill_accept_out_cache_loc_cpu, rotate_input_ids_cpu,
    copy_all_layer_kv_cache_cpu,
)  # fmt: skip
