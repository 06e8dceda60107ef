"""Options of the section ``reward``, with the constraints that ``robo_rl.app`` adds to the reward it makes."""

from dataclasses import dataclass, field
from typing import Any

from robo_rl.core import RewardWeights

from .composition import ComposedRewardConfig


@dataclass(frozen=True)
class WeightsOptions(RewardWeights):
    """The combination of the terms of a step into its reward.

    Attributes:
        constraints: limits on what the policy does, by name: :class:`.constraints.ConstraintConfig`, or its fields.
    """

    constraints: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ComposedOptions(ComposedRewardConfig):
    """Weighted sum of terms, of the backend or of modules.

    Attributes:
        constraints: as in :class:`WeightsOptions`.
    """

    constraints: dict[str, Any] = field(default_factory=dict)
