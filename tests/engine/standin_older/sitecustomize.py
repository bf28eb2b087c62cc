"""Read by Python when it starts with this folder on PYTHONPATH: prepares for SGLang 0.5.9.

It does what `../standin/sitecustomize.py` does for torchvision, and stands in for all of SGLang's
compiled kernels with names that are there and say so when they are called. On a CPU without AMX
0.5.9 attends through torch itself, so it serves without any of them; it does not speculate there.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, NoReturn

PACKAGE = "sgl_kernel"
USERS = ("sglang", "torchvision")


class Missing:
    """A kernel, a type or a table of them."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self.__name__}.{name}")

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"{self.__name__}: SGLang's kernels are not here")


class Kernels(ModuleType):
    """The package or any module below it; whatever is imported from it is Missing."""

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self.__name__}.{name}")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self) -> None:
        self.prepared = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        top = name.partition(".")[0]
        if top in USERS and not self.prepared:
            self.prepared = True
            torchvision()
        if top == PACKAGE:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return Kernels(spec.name)  # `is_package` above gives it the __path__ of a package

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


def torchvision() -> None:
    """Its own library is built for CUDA; its Python half fails without the operators' names."""
    import torch  # noqa: PLC0415  only where it is used

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    torch._sweep_engine_library = library  # it lasts as long as it is held


sys.meta_path.insert(0, Finder())
