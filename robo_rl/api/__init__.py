"""Training from Python: ``robo_rl.train``, ``robo_rl.load``, and the runs and policies that they return.

Importing this package takes as long as starting a training; ``import robo_rl`` imports it with the first use.
"""

from .policies import Policy
from .runs import Run, load, train

__all__ = ["Policy", "Run", "load", "train"]
