"""A specification in signal temporal logic that is watched while the robot acts."""

from collections.abc import Callable

import numpy as np

from robo_rl.core import PASSED, EnvSpec, Observation, ObservationSignals, Verdict, parse_specification

from .motion import Action


class SpecificationMonitor:
    """Stops the robot once an episode cannot keep a specification any more; before that it may hold it still.

    Robustness is known up to an interval while the episode goes on. Where even its upper end is below 0 the
    specification is broken, whatever comes: ``eventually[0, 8 s] ...`` after 8 s, ``always ...`` at once.

    Args:
        text: the specification; see :mod:`robo_rl.core.temporal`.
        spec: names the signals.
        backup: highest robustness that can still be reached below which the robot holds still; None: it goes on.
        hold: returns the action that stands still, with the gripper as in the action given.

    Raises:
        ConfigError: if the specification cannot be read, or does not fit the observations.
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
        self._seen = {name: np.empty(0) for name in self._names}

    def __call__(self, observation: Observation, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return ``action``, or holding still where the specification is broken or near to it."""
        for name, values in self._seen.items():
            self._seen[name] = np.append(values, self._signals.values(name, observation))
        highest = self._formula.highest(self._seen, self._period)
        if highest < 0:
            message = f"the specification {self._text!r} is broken, by {-highest:.3g}"
            held = self._hold(observation, action)
            return held, Verdict(changed=True, stop=True, reasons=("specification",), message=message)
        if self._backup is not None and highest < self._backup:
            return self._hold(observation, action), Verdict(changed=True, reasons=("specification_backup",))
        return action, PASSED
