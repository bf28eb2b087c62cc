"""The tree of drafts, a chain here: node 0 is the last token, node i + 1 follows node i."""

# ruff: noqa: PLR0917  the signatures are SGLang's

from __future__ import annotations

import torch
from torch import Tensor


def build_tree_kernel_efficient_cpu(
    _parents: Tensor, _chosen: Tensor, lengths: Tensor, mask: Tensor, positions: Tensor,
    index: Tensor, next_node: Tensor, next_sibling: Tensor, topk: int, _depth: int, nodes: int,
    _mask_mode: int,
) -> None:  # fmt: skip
    """Describes it: who sees whom (`mask`), positions in the text, the links between nodes."""
    if topk != 1:
        raise NotImplementedError("drafts other than a chain (topk 1)")
    requests = len(lengths)
    sees = torch.ones(nodes, nodes, dtype=torch.bool).tril()
    mask.view(-1)[: requests * nodes * nodes] = sees.flatten().repeat(requests).to(mask.dtype)
    order = torch.arange(nodes)
    positions.view(requests, nodes).copy_(lengths.unsqueeze(1) + order)
    index.view(requests, nodes).copy_(torch.arange(requests * nodes).view(requests, nodes))
    next_node.view(requests, nodes).copy_(torch.where(order + 1 < nodes, order + 1, -1))
    next_sibling.fill_(-1)


def verify_tree_greedy_cpu(
    *, predicts: Tensor, accept_index: Tensor, accept_token_num: Tensor, candidates: Tensor,
    retrive_index: Tensor, retrive_next_token: Tensor, retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:  # fmt: skip
    """Accepts drafts as long as each is what the target writes after the node before it."""
    requests, nodes = candidates.shape
    wanted = target_predict.view(requests, nodes)
    right = (candidates[:, 1:] == wanted[:, :-1]).long()
    accept_token_num.copy_(right.cumprod(dim=1).sum(dim=1))
    for i, accepted in enumerate(accept_token_num.tolist()):
        path = retrive_index[i, : accepted + 1]
        accept_index[i, : accepted + 1] = path.to(accept_index.dtype)
        predicts[path] = wanted[i, : accepted + 1].to(predicts.dtype)


KERNELS = (build_tree_kernel_efficient_cpu, verify_tree_greedy_cpu)
