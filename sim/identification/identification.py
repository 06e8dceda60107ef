"""Identification of an arm from recordings, the error of its predictions, and the configuration that follows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DataError

from ..config import ArmDynamics, TaskConfig
from ..observation import NOISE
from .excitation import Excitation, ExcitationConfig
from .fitting import Estimate, Fit
from .parameters import UNITS, make_parameters
from .prediction import Predictor, Recording, Stretch

Array = NDArray[np.float64]

WINDOW = 1.0
"""Duration of a prediction that is compared with what was measured [s]."""
EVERY = 0.5
"""Time between the beginnings of two such predictions [s]."""
LONGEST_GAP = 1.0
"""Longest time from one measurement or command to the next that a recording may have [s]."""
DIGITS = 5
RANDOMISED = ("friction", "viscosity", "armature", "payload")
"""Parameters that ``randomisation.dynamics`` multiplies."""
MOST_RANDOMISED = 0.9
"""Largest ``randomisation.dynamics`` that is proposed."""


@dataclass(frozen=True)
class Identification:
    """Result of an identification.

    Attributes:
        joints: names of the n joints.
        dynamics: the arm's dynamics; what the recordings cannot tell has the nominal value.
        estimates: what the recordings say of each parameter.
        error: root mean square error of predictions over one second of what was not fitted [rad or m].
        nominal_error: the same with the dynamics before.
        noise: standard deviation of the errors that remain in what was fitted [rad or m].
        age: median time from a measurement to the command that follows it, which the delay contains [s].
        times: times (T + 1,) of the curves [s].
        curves: measured positions (T + 1, n), and those that were predicted before and after, of the last recording
            that was not fitted, by name. Predictions begin at the first position and see commands alone.
    """

    joints: tuple[str, ...]
    dynamics: ArmDynamics
    estimates: tuple[Estimate, ...]
    error: float
    nominal_error: float
    noise: float
    age: float
    times: Array
    curves: dict[str, Array]

    def parameters(self) -> list[dict[str, Any]]:
        """Return the parameters as JSON values."""
        return [
            {
                "name": estimate.parameter.name(self.joints),
                "unit": UNITS[estimate.parameter.key],
                "value": _rounded(estimate.value),
                "nominal": _rounded(estimate.nominal),
                "interval": ([*map(_rounded, estimate.interval())] if estimate.identified else None),
                "identified": estimate.identified,
            }
            for estimate in self.estimates
        ]

    def report(self) -> dict[str, Any]:
        """Return everything but the curves as JSON values."""
        return {
            "error": self.error,
            "nominal_error": self.nominal_error,
            "ratio": self.error / self.nominal_error if self.nominal_error else None,
            "noise": self.noise,
            "age": self.age,
            "parameters": self.parameters(),
        }

    def configuration(self) -> dict[str, Any]:
        """Return the changes to a task's configuration: what was identified."""
        dynamics: dict[str, Any] = {}
        for field in fields(self.dynamics):
            identified = [each for each in self.estimates if each.parameter.key == field.name and each.identified]
            value = getattr(self.dynamics, field.name)
            if identified:
                dynamics[field.name] = [*map(_rounded, value)] if isinstance(value, tuple) else _rounded(value)
        return {"arm": {"dynamics": dynamics}}

    def randomisation(self) -> dict[str, Any]:
        """Return the changes to a task's configuration that randomise the arm as much as it is unknown, too.

        The delay varies within its interval. One share multiplies all of :data:`RANDOMISED`: the median of the half
        widths of their intervals, relative to their values. Noise is that of the errors that remain.
        """
        identified = {each.parameter.name(self.joints): each for each in self.estimates if each.identified}
        shares = [
            each.half_width / each.value
            for each in identified.values()
            if each.parameter.key in RANDOMISED and each.value > 0
        ]
        ranges: dict[str, Any] = {"observation_noise": _rounded(self.noise / NOISE["joint_positions"])}
        changes: dict[str, Any] = {"randomisation": ranges}
        if shares:
            ranges["dynamics"] = _rounded(min(float(np.median(shares)), MOST_RANDOMISED))
        if "delay" in identified:
            shortest, longest = identified["delay"].interval()
            ranges["latency"] = _rounded(longest - shortest)
            changes["arm"] = {"dynamics": {"delay": _rounded(shortest)}}
        return changes


class ArmIdentification:
    """Identification of the arm of a task.

    Args:
        config: configuration of the task, with joint actions.
    """

    def __init__(self, config: TaskConfig) -> None:
        self._config = config
        self._state = tuple(f"{joint}_{kind}" for kind in ("position", "velocity") for joint in config.arm.joints)

    def excitation(self, **options: Any) -> Excitation:
        """Return the excitation with fields of :class:`ExcitationConfig`."""
        return Excitation(self._config, ExcitationConfig(**options))

    def recording(
        self, names: Sequence[str], states: NDArray[Any], actions: NDArray[Any], times: NDArray[Any] | None = None
    ) -> Recording:
        """Return a recording.

        Args:
            names: names of the elements of ``states``.
            states: observations ``state`` (T + 1, S).
            actions: executed actions (T, A).
            times: times (T + 1, 2) at which each state was measured, and at which the command before it went out [s];
                None: states are measured and commands go out at the control rate.

        Raises:
            DataError: if the arm's joints are not among the names, or times do not rise as those of a recording.
        """
        rate = self._config.control_rate
        if times is None:
            grid = np.arange(len(states)) / rate
            times = np.stack([grid, np.concatenate([grid[:1], grid[:-1]])], axis=1)
        if times.shape != (len(states), 2) or not times[-1, 0] > times[0, 0]:
            raise DataError(
                f"the data set's times: expected two for each of {len(states)} states, the first of which rises, "
                f"got shape {times.shape} from {times.min():.3g} to {times.max():.3g} s: record again"
            )
        measured, commanded = times.astype(np.float64).T
        for name, values in (("measurements", measured), ("commands", commanded[1:])):
            gaps = np.diff(values)
            if not ((gaps >= 0) & (gaps < LONGEST_GAP)).all():
                raise DataError(
                    f"the data set's times of {name} are {gaps.min():.3g} to {gaps.max():.3g} s apart, but expected "
                    f"are 0 to {LONGEST_GAP:g} s: record again"
                )
        if lacking := [name for name in self._state if name not in names]:
            raise DataError(f"the data set lacks {', '.join(lacking)}: it is another arm's, or observes it relatively")
        columns = states[:, [list(names).index(name) for name in self._state]].astype(np.float64)
        count = len(self._config.arm.joints)
        return Recording(columns[:, :count], columns[:, count:], actions.astype(np.float32), measured, commanded[1:])

    def fit(
        self, recordings: Sequence[Recording], held_out: int, report: Callable[[str], None] = lambda text: None
    ) -> Identification:
        """Return what recordings say of the arm.

        Args:
            recordings: recordings.
            held_out: number of recordings, the last ones, that are not fitted.
            report: called with what is being done.

        Raises:
            DataError: if there are too few or too short recordings.
        """
        rate = self._config.control_rate
        length = round(WINDOW * rate)
        recordings = [each for each in recordings if len(each.actions) > 2 * length]
        if len(recordings) <= held_out:
            raise DataError(
                f"{len(recordings)} recordings of more than {2 * WINDOW:g} s, of which held_out={held_out} are not "
                "fitted: record more, or hold out fewer"
            )
        predictor = Predictor(self._config)
        parameters = make_parameters(predictor, self._config.arm)
        fitted = [predictor.stretch(each) for each in recordings[: len(recordings) - held_out]]
        fit = Fit(predictor, parameters, fitted, rate, report)
        dynamics, estimates = fit.run()
        unseen = recordings[len(recordings) - held_out :]
        windows = [window for each in unseen for window in predictor.windows(each, length, round(EVERY * rate))]
        last = predictor.stretch(unseen[-1])
        return Identification(
            joints=tuple(self._config.arm.joints),
            dynamics=dynamics,
            estimates=tuple(estimates),
            error=_error(predictor, dynamics, windows),
            nominal_error=_error(predictor, predictor.nominal, windows),
            noise=float(np.median(fit.deviations)),
            age=float(np.median([each.age for each in recordings])),
            times=last.places * predictor.tick,
            curves={
                "measured": last.positions,
                "before": predictor.predict(predictor.nominal, last),
                "identified": predictor.predict(dynamics, last),
            },
        )


def _error(predictor: Predictor, dynamics: ArmDynamics, windows: Sequence[Stretch]) -> float:
    """Return the root mean square error of predictions [rad or m]."""
    errors = [predictor.predict(dynamics, window)[1:] - window.positions[1:] for window in windows]
    return float(np.sqrt(np.mean(np.square(errors))))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
