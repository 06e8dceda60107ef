"""Options of the planner."""

from dataclasses import dataclass
from typing import Any

from ..core import Options, option


@dataclass(frozen=True)
class PlannerConfig(Options, section="planner"):
    """Options of the planner.

    Attributes:
        samples: action sequences that are acted out in each iteration of a decision.
        iterations: iterations of a decision. Each one searches around the best sequence of the previous one, with half
            of its noise.
        horizon: length of a sequence [control periods].
        knots: number of actions of a sequence that are searched for; those between them are interpolated.
        deviation: standard deviation of the noise on these actions in the first iteration, in units of the action.
        reward: reward that the sequences are judged by, a configuration of the group ``reward``.
    """

    samples: int = option(24, low=2, high=1000)
    iterations: int = option(2, low=1, high=20)
    horizon: int = option(8, low=1, high=200)
    knots: int = option(3, low=1, high=50)
    deviation: float = option(0.5, above=0, high=2)
    reward: Any = None
