"""The scale of residuals, constant or growing, and its state."""

from collections.abc import Callable

import numpy as np

from robo_rl.core import CheckpointError, ConfigError, EnvSpec, State, reading, saved_counts

from .backend import BASE_ACTION, BASE_POLICY
from .config import Growth

PROGRESS = "residual_updates"
"""Name, in a state, of the number of updates from which the scale follows."""


class ResidualScale:
    """The largest correction of each element of an action, which may grow linearly to its bound.

    Args:
        spec: spec of an environment with the base's action, see :class:`.BaseActionBackend`.
        delay: number of updates before it begins to grow.

    Attributes:
        grows: whether it grows; its progress is then part of the state of an agent and of its policy.

    Raises:
        ConfigError: if the facts about the base policy in ``spec`` are invalid.
    """

    def __init__(self, spec: EnvSpec, delay: int) -> None:
        self._bound, self._growth, self._delay = residual_scale(spec), residual_growth(spec), delay
        self._updates = 0

    @property
    def grows(self) -> bool:
        return self._growth is not None

    @property
    def value(self) -> float:
        """The scale at present."""
        if self._growth is None:
            return self._bound
        done = max(self._updates - self._delay, 0) / self._growth.steps
        return self._growth.start + (self._bound - self._growth.start) * min(done, 1.0)

    def count_update(self) -> None:
        """Note that the agent was updated."""
        self._updates += 1

    def start_from(self, other: "ResidualScale") -> None:
        """Begin with the scale that ``other``, for an equal spec, has reached."""
        grown = other._updates - other._delay
        self._updates = grown + self._delay if grown > 0 else 0

    def state(self) -> State:
        """Return the progress; nothing if the scale is constant."""
        return {PROGRESS: np.array([self._updates], np.int64)} if self.grows else {}

    def load(self, state: State, load: Callable[[State], None]) -> None:
        """Restore the progress, and by ``load`` everything else in ``state``.

        Raises:
            CheckpointError: if ``state`` does not match this scale; and by ``load``.
        """
        if (PROGRESS in state) != self.grows:
            own = "grows" if self.grows else "is constant"
            raise CheckpointError(f"the scale of residuals {own}, unlike in the state; use another checkpoint")
        with reading(f"{PROGRESS!r} in the state", CheckpointError, "use another checkpoint"):
            (updates,) = saved_counts(state[PROGRESS], 1) if self.grows else (0,)
        load({name: array for name, array in state.items() if name != PROGRESS})
        self._updates = updates


def residual_scale(spec: EnvSpec) -> float:
    """Return the scale of residuals of a spec, which may come from a file.

    Raises:
        ConfigError: if it is invalid.
    """
    facts = spec.extra.get(BASE_POLICY)
    scale = facts.get("residual_scale") if isinstance(facts, dict) else None
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale <= 1:
        raise ConfigError(f"{BASE_POLICY}: expected a residual_scale in (0, 1], got {str(facts)[:80]}")
    if BASE_ACTION not in spec.observation or spec.observation[BASE_ACTION].shape != spec.action.shape:
        raise ConfigError(f"{BASE_POLICY}: expected the observation {BASE_ACTION!r}, a vector like an action")
    return float(scale)


def residual_growth(spec: EnvSpec) -> Growth | None:
    """Return the growth of the scale of residuals of a spec, which may come from a file; None if it is constant.

    Raises:
        ConfigError: if it is invalid.
    """
    bound, facts = residual_scale(spec), spec.extra[BASE_POLICY]
    start, steps = facts.get("residual_start"), facts.get("residual_steps")
    if start is None and steps is None:
        return None
    is_number = isinstance(start, int | float) and not isinstance(start, bool)
    if not is_number or not 0 < start < bound or type(steps) is not int or steps < 1:
        raise ConfigError(f"{BASE_POLICY}: expected a residual_start in (0, {bound:g}) and residual_steps of 1 or more")
    return Growth(float(start), steps)
