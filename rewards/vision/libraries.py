"""The one place that imports open_clip and timm, and what must be done before.

open_clip (and timm) import torchvision. The wheel of torchvision that a package index gives is built for CUDA; beside
a PyTorch built for the CPU its compiled library cannot be loaded, and ``import torchvision`` stops with "operator
torchvision::nms does not exist", because torchvision describes (but does not call) an operator of that library. Nothing
here uses the compiled operators: transforms are Python. So where the library cannot be loaded the operators are
declared by name, without an implementation, and the import goes through.
"""

import importlib
import importlib.util
import os
from functools import cache
from pathlib import Path
from types import ModuleType

import torch

from robo_rl.core import ConfigError

OPERATORS = ("nms", "qnms")
"""Operators of torchvision that its Python code describes when it is imported."""


@cache
def open_clip() -> ModuleType:
    """Return the module ``open_clip``.

    It is made to keep off the network: what a model needs is fetched by :func:`.files.find_files` alone, and only
    where that is allowed. ``HF_HUB_OFFLINE`` in the environment overrides it.

    Raises:
        ConfigError: if it is not installed.
    """
    for package in ("open_clip", "torchvision"):
        if importlib.util.find_spec(package) is None:
            raise ConfigError(f"CLIP models need {package}: pip install -c constraints.txt -e '.[vision]'")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    _declare_operators()
    return importlib.import_module("open_clip")


@cache
def timm() -> ModuleType:
    """Return the module ``timm``, kept off the network as :func:`open_clip` is.

    Raises:
        ConfigError: if it is not installed.
    """
    if importlib.util.find_spec("timm") is None:
        raise ConfigError("models of timm need timm: pip install -c constraints.txt -e '.[vision]'")
    open_clip()
    return importlib.import_module("timm")


def _declare_operators() -> None:
    """Declare torchvision's operators if its library is not there to do so."""
    specification = importlib.util.find_spec("torchvision")
    assert specification is not None and specification.origin is not None
    library = Path(specification.origin).parent / "_C.so"
    try:
        torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
    except OSError:
        definitions = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for name in OPERATORS:
            if not hasattr(torch.ops.torchvision, name):
                schema = f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
                definitions.define(schema)  # type: ignore[no-untyped-call]
        _kept.append(definitions)


_kept: list[torch.library.Library] = []
"""Declarations live as long as the object that made them."""
