"""Limits that a reward sets on what a policy does, in physical units."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .reward_protocols import Reward
from .types import Batch

CONSTRAINT = "constraint/"
"""Beginning of the names of terms and metrics of a constraint."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit.

    Attributes:
        name: name of the constraint.
        kind: ``share`` of the steps in which a formula does not hold, ``mean`` of a quantity over the steps, or
            ``success``, the share of solved episodes.
        subject: the formula or the name of the quantity; ``success`` for the share of solved episodes.
        bound: largest share or mean, or smallest share of solved episodes.
        unit: unit of a mean; empty if it has none.
    """

    name: str
    kind: Literal["share", "mean", "success"]
    subject: str
    bound: float
    unit: str = ""

    def kept(self, value: float) -> bool:
        """Return whether ``value`` is within the limit."""
        return value >= self.bound if self.kind == "success" else value <= self.bound


class Constraints(Protocol):
    """The limits of a reward, and the costs of steps that they limit."""

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits."""
        ...

    @property
    def reads(self) -> frozenset[str]:
        """Names of the elements of observations, and of the reward terms, that costs are computed from."""
        ...

    @property
    def is_weighed(self) -> bool:
        """Whether a cost has a multiplier above 0, so that it lowers rewards."""
        ...

    def costs(self, rows: Batch) -> Mapping[str, NDArray[np.float32]]:
        """Return the costs (n,) of rows by the name of the constraint.

        A cost is 1 where a formula does not hold and 0 where it does, or the value of a quantity in its unit. Limits on
        success have none.

        Args:
            rows: rows as described in :class:`~robo_rl.core.RewardModule`.
        """
        ...


@runtime_checkable
class Constrained(Protocol):
    """A reward with constraints."""

    @property
    def constraints(self) -> Constraints:
        """The constraints."""
        ...


def find_constraints(reward: Reward) -> Constraints | None:
    """Return the constraints of ``reward``; None if it has none."""
    return reward.constraints if isinstance(reward, Constrained) else None
