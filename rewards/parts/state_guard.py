"""Condition that a state must satisfy in addition to the output of a classifier."""

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, ConfigError, EnvSpec, Formula, ObservationSignals, parse_specification


class StateGuard:
    """Condition on single observations, such as ``end_effector_z > 10 cm``.

    docs/reference/safety.md#specifications describes the syntax.

    Args:
        condition: the condition; None if every state satisfies it.
        spec: spec of the environment.
        option: configuration key of the condition, for messages.

    Raises:
        ConfigError: if the condition cannot be parsed, uses signals that the observation lacks, or spans more than one
            moment.
    """

    def __init__(self, condition: str | None, spec: EnvSpec, option: str) -> None:
        self._condition: Formula | None = None
        self._signals = ObservationSignals(spec)
        self._names: frozenset[str] = frozenset()
        if condition is None:
            return
        try:
            self._condition = parse_specification(condition)
            self._names = self._condition.check(self._signals.units)
        except ConfigError as error:
            raise ConfigError(f"{option}: {error}") from error
        if not self._condition.is_momentary:
            raise ConfigError(f"{option}: {condition!r} refers to several moments, but a guard checks single states")

    def holds(self, batch: Batch) -> NDArray[np.bool_]:
        """Return which of n rows satisfy the condition (n,), by their ``next_observation/...``."""
        if self._condition is None:
            return np.ones(len(next(iter(batch.values()))), np.bool_)
        prefix = "next_observation/"
        observed = {key.removeprefix(prefix): value for key, value in batch.items() if key.startswith(prefix)}
        signals = {name: self._signals.values(name, observed) for name in self._names}
        return self._condition.trace(signals, 1.0) > 0
