"""A filter that monitors a specification in signal temporal logic while the robot acts."""

from collections.abc import Callable

import numpy as np

from robo_rl.core import PASSED, EnvSpec, Observation, ObservationSignals, Verdict, parse_specification

from .motion import Action


class SpecificationMonitor:
    """Stops the robot once an episode can no longer satisfy a specification, and may hold it still before that.

    While an episode runs, its robustness is known only up to an interval. If even the upper end of the interval is
    below 0, the specification is violated whatever follows: ``eventually[0, 8 s] ...`` after 8 s, ``always ...`` at
    once.

    Args:
        text: the specification; see :mod:`robo_rl.core.temporal`.
        spec: names of the signals.
        backup: the robot holds still while the highest robustness that can still be reached is below this; None to
            never hold still.
        hold: returns the action that holds still, with the gripper as in the given action.

    Raises:
        ConfigError: if the specification cannot be parsed or does not match the observations.
    """

    def __init__(
        self, text: str, spec: EnvSpec, backup: float | None, hold: Callable[[Observation, Action], Action]
    ) -> None:
        self._text = text
        self._formula = parse_specification(text)
        self._signals = ObservationSignals(spec)
        self._period = 1.0 / spec.control_rate
        self._backup = backup
        self._hold = hold
        self._names = self._formula.check(self._signals.units)
        self.reset()

    def reset(self) -> None:
        """Begin an episode."""
        self._history = {name: np.empty(0) for name in self._names}

    def __call__(self, observation: Observation, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return ``action``, or the action that holds still if the specification is violated or close to it."""
        for name, values in self._history.items():
            self._history[name] = np.append(values, self._signals.values(name, observation))
        highest = self._formula.highest(self._history, self._period)
        if highest < 0:
            message = f"the specification {self._text!r} is broken, by {-highest:.3g}"
            held = self._hold(observation, action)
            return held, Verdict(changed=True, stop=True, reasons=("specification",), message=message)
        if self._backup is not None and highest < self._backup:
            return self._hold(observation, action), Verdict(changed=True, reasons=("specification_backup",))
        return action, PASSED
