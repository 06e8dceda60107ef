"""robo-rl: reinforcement learning on real robots, in the time of a coffee break.

``train`` and ``load``, which return a :class:`Run` with its :class:`Policy`, are imported with their first use.
"""

import os
from typing import TYPE_CHECKING

from .graphics import choose_graphics
from .version import __version__

if TYPE_CHECKING:
    from .api import Policy, Run, load, train
else:
    from .core.lazy import imported_on_use

    __getattr__ = imported_on_use(__name__, __file__)

# Threads of OpenMP, which PyTorch computes with, spin for 7 ms after each operation, and keep their cores from others:
# the threads of our update, an actor, a control loop. With this it is half a millisecond, so that operations that
# follow each other closely still find them awake. It is read when PyTorch is imported.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")

choose_graphics()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = ["Policy", "Run", "__version__", "load", "train"]
