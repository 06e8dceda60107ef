"""Import of open_clip and timm, and the preparation that it needs. No other module imports them.

open_clip and timm import torchvision. The wheel of torchvision from a package index is built for CUDA. With a PyTorch
built for the CPU its compiled library cannot be loaded, and ``import torchvision`` fails with "operator
torchvision::nms does not exist", because torchvision describes (but does not call) an operator of that library. The
modules of this package do not use the compiled operators: transforms are Python. If the library cannot be loaded, the
operators are therefore declared by name, without an implementation, so that the import succeeds.
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
"""Operators of torchvision that its Python code describes on import."""


@cache
def open_clip() -> ModuleType:
    """Return the module ``open_clip``.

    The module is configured to work offline: only :func:`.files.find_files` downloads files of a model, and only if
    that is allowed. ``HF_HUB_OFFLINE`` in the environment overrides this.

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
    """Return the module ``timm``, configured to work offline like :func:`open_clip`.

    Raises:
        ConfigError: if it is not installed.
    """
    if importlib.util.find_spec("timm") is None:
        raise ConfigError("models of timm need timm: pip install -c constraints.txt -e '.[vision]'")
    open_clip()
    return importlib.import_module("timm")


def _declare_operators() -> None:
    """Declare torchvision's operators if its library, which declares them, cannot be loaded."""
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
        _declarations.append(definitions)


_declarations: list[torch.library.Library] = []
"""Libraries of declarations. They are stored because a declaration exists only as long as its library object."""
