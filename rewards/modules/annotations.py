"""Rewards distilled from delayed annotations of single moments (ONI, Zheng et al. 2024)."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from robo_rl.core import EnvSpec, Metrics, option, require

from ..asking.endpoint import Endpoint
from ..asking.oracles import ScoringOracle
from .distillation import DistillationConfig, DistilledReward


@dataclass(frozen=True)
class AnnotationsConfig(DistillationConfig):
    """Reward that networks learned from the scores that a vision-language model or a person gave to images.

    Attributes (besides those of :class:`.DistillationConfig`, whose questions show one picture each):
        levels: largest score: an answer is a whole number from 0 (not at all) to this number (the goal is reached). 1:
            yes or no.
    """

    levels: int = option(10, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.goal.strip()), "goal", "the goal in words", self.goal)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "AnnotationsReward":
        """Return the module of term ``name``.

        Raises:
            ConfigError: if the task has no such observation key or camera, or the endpoint cannot be used.
        """
        key = self.pictures(spec, f"reward.modules.{name}")
        oracle = ScoringOracle(Endpoint(self.endpoint), key, self.goal, self.levels)
        return AnnotationsReward(self, name, spec, seed, oracle, (1, 1))


class AnnotationsReward(DistilledReward):
    """Reward that predicts annotations; see :class:`AnnotationsConfig`.

    Each network estimates the probability that the state after a step has reached the goal, 0 to 1. Its loss is the
    logistic loss, with the answer divided by ``levels`` as label; the minimum of this loss is the expected answer.
    """

    def _rewards(self, outputs: Tensor) -> Tensor:
        return torch.sigmoid(outputs)

    def _loss(self, outputs: Tensor, answers: Tensor) -> Tensor:
        return cross_entropy(outputs[:, 0, 0], answers)

    def _expected(self, rewards: Tensor) -> Tensor:
        return rewards[..., 0, 0]

    def _explained(self, rewards: Tensor, answers: Tensor) -> Metrics:
        return {"error": float((rewards[:, 0, 0] - answers).abs().mean())}
