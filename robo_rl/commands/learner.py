"""robo-rl learner: training with actors on other machines. It is robo-rl train with other defaults."""

from .train import run

__all__ = ["run"]
