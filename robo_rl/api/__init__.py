"""Training from Python: ``robo_rl.train``, ``robo_rl.load``, and the runs and policies that they return.

Importing this package is as slow as starting a training run, so ``import robo_rl`` imports it on first use.
"""

from .policies import Policy
from .runs import Run, load, train

__all__ = ["Policy", "Run", "load", "train"]
