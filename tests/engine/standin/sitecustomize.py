"""Read by Python when it starts with this folder on PYTHONPATH: prepares torch for SGLang.

When SGLang or torchvision is first imported, two things are set right in torch:

- It says that this CPU has AMX. On a CPU, SGLang speculates only through the kernels written for
  AMX (srt/speculative/draft_utils.py, 0.5.23), and what stands in for those needs none.
- It knows the operators of torchvision, whose own library is built for CUDA and does not load
  beside a CPU build of torch; torchvision's Python half fails without their names.

Other processes do not pay for importing torch.
"""

from __future__ import annotations

import importlib.abc
import sys
from typing import Any

USERS = ("sglang", "torchvision")
OPERATORS = ("nms", "qnms")


class BeforeUse(importlib.abc.MetaPathFinder):
    """Finds nothing: it only notices that one of them is about to be imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name in USERS and self in sys.meta_path:
            sys.meta_path.remove(self)
            prepare()
        return None


def prepare() -> None:
    import torch  # noqa: PLC0415  only where it is used

    torch.cpu._is_amx_tile_supported = lambda: True
    library = torch.library.Library("torchvision", "DEF")
    for name in OPERATORS:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    torch._sweep_engine_library = library  # it lasts as long as it is held


sys.meta_path.insert(0, BeforeUse())
