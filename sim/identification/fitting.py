"""The fit of an arm's dynamics to recordings: a search for the delay, then robust least squares for everything."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mujoco import minimize
from numpy.typing import NDArray

from ..config import ArmDynamics
from .parameters import LONGEST_DELAY, Parameter, values_of, with_values
from .prediction import Predictor, Stretch

Array = NDArray[np.float64]

DELAY_STEP = 0.01
"""Distance of the delays that are tried first [s]."""
OUTLIER = 3.0
"""Error, in standard deviations, from which on it counts by its size and not by its square (Huber)."""
QUIET = 1e-5
"""Smallest standard deviation of an error that is assumed [rad]."""
DIFFERENCE = 1e-3
"""Step of finite differences, in scales of the parameters."""
SETTLING = 0.5
"""Time at the beginning of a recording in which the arm comes to rest, without influence [s]."""
BLOCK = 0.5
"""Time within which errors may depend on each other [s]."""
NORMAL_95 = 1.96
STEPS = (7, 3)
"""Largest number of steps of a first fit and of one that continues another."""
TELLING = 0.5
"""Largest half width of a parameter's interval, relative to its value or its scale, that tells something."""
UNKNOWN = 0.5
"""Standard deviation of a parameter that keeps its value, in its scale."""


class Huber(minimize.Norm):  # type: ignore[misc]  # MuJoCo has no annotations
    """Sum of squares / 2 up to :data:`OUTLIER`, and linear beyond."""

    def value(self, r: Array) -> np.float64:
        size = np.abs(r)
        return np.float64(np.where(size <= OUTLIER, size**2 / 2, OUTLIER * (size - OUTLIER / 2)).sum())

    def grad_hess(self, r: Array, proj: Array) -> tuple[Array, Array]:
        weights = huber_weights(r)
        weighted = weights * proj
        return weighted.T @ r, weighted.T @ proj


def huber_weights(errors: Array) -> Array:
    """Return the weights of errors, those beyond :data:`OUTLIER` below 1."""
    weights: Array = np.minimum(1.0, OUTLIER / np.maximum(np.abs(errors), 1e-12))
    return weights


@dataclass(frozen=True)
class Estimate:
    """Estimate of a parameter from recordings.

    Attributes:
        parameter: the parameter.
        value: its value; the nominal one if it is not identifiable from the recordings.
        nominal: value before.
        half_width: half of the width of its 95 % interval. That others keep their values, which may be wrong by
            :data:`UNKNOWN`, makes it wider.
        identified: whether it is identifiable from the recordings. All others keep their value.
    """

    parameter: Parameter
    value: float
    nominal: float
    half_width: float
    identified: bool

    def interval(self) -> tuple[float, float]:
        """Return the ends of the interval, within the parameter's bounds."""
        low, high = self.parameter.low, self.parameter.high
        return max(self.value - self.half_width, low), min(self.value + self.half_width, high)


class Fit:
    """Fit of parameters to stretches.

    Args:
        predictor: predicts positions.
        parameters: all parameters.
        stretches: whole recordings.
        control_rate: control periods per second [Hz].
        report: called with what is being done.

    Attributes:
        deviations: standard deviation of the errors of each joint (n,), after the fit [rad or m].
    """

    def __init__(
        self,
        predictor: Predictor,
        parameters: Sequence[Parameter],
        stretches: Sequence[Stretch],
        control_rate: float,
        report: Callable[[str], None],
    ) -> None:
        self._predictor, self._parameters, self._stretches = predictor, list(parameters), stretches
        self._skipped, self._block = round(SETTLING * control_rate), max(round(BLOCK * control_rate), 1)
        self._report = report
        self.deviations: Array = np.ones(predictor.joints)

    def run(self) -> tuple[ArmDynamics, list[Estimate]]:
        """Return the dynamics, and an estimate for each parameter."""
        predictor, parameters = self._predictor, self._parameters
        dynamics = replace(predictor.nominal, delay=self._search_delay())
        self._report(f"Delay: about {1000 * dynamics.delay:.0f} ms")
        self._measure(dynamics)
        for steps in STEPS:  # the errors that remain tell how much each joint is worth, and what an outlier is
            dynamics = self._solve(dynamics, parameters, steps)
            self._measure(dynamics)
            self._report(f"Fit: errors of {1000 * float(self.deviations.mean()):.2f} mrad")
        widths, identified = self._intervals(dynamics, parameters)
        known = [parameter for parameter, is_identified in zip(parameters, identified, strict=True) if is_identified]
        if len(known) < len(parameters):
            kept = [parameter for parameter in parameters if parameter not in known]
            dynamics = with_values(dynamics, kept, values_of(kept, predictor.nominal))
            dynamics = self._solve(dynamics, known, STEPS[-1])
            self._measure(dynamics)
        estimates = [
            Estimate(
                parameter, parameter.of(dynamics), parameter.of(predictor.nominal), float(width), bool(is_identified)
            )
            for parameter, width, is_identified in zip(parameters, widths, identified, strict=True)
        ]
        return dynamics, estimates

    def _search_delay(self) -> float:
        def cost(delay: float) -> float:
            dynamics = replace(self._predictor.nominal, delay=delay)
            return float(np.abs(self._predictor.predict(dynamics, first) - first.positions).mean())

        first = self._stretches[0]
        delays = [round(number * DELAY_STEP, 6) for number in range(round(LONGEST_DELAY / 2 / DELAY_STEP))]
        return min(delays, key=cost)

    def _errors(self, dynamics: ArmDynamics) -> Array:
        """Return the errors (r,) of all predictions, in standard deviations."""
        parts = [
            (self._predictor.predict(dynamics, stretch) - stretch.positions)[self._skipped :] / self.deviations
            for stretch in self._stretches
        ]
        errors: Array = np.concatenate([part.ravel() for part in parts])
        return np.clip(np.nan_to_num(errors, nan=1e6), -1e6, 1e6)

    def _measure(self, dynamics: ArmDynamics) -> None:
        errors = self._errors(dynamics).reshape(-1, self._predictor.joints) * self.deviations
        spread = 1.4826 * np.median(np.abs(errors - np.median(errors, axis=0)), axis=0)
        self.deviations = np.maximum(spread, QUIET)

    def _solve(self, dynamics: ArmDynamics, parameters: Sequence[Parameter], steps: int) -> ArmDynamics:
        scales = np.array([parameter.scale for parameter in parameters])

        def changed(scaled: Array) -> ArmDynamics:
            return with_values(dynamics, parameters, scaled.ravel() * scales)

        def residual(points: Array) -> Array:
            return np.stack([self._errors(changed(point)) for point in points.T], axis=1)

        def jacobian(point: Array, _: Array) -> Array:
            return self._jacobian(changed(point), parameters)

        bounds: Any = [np.array([getattr(each, end) for each in parameters]) / scales for end in ("low", "high")]
        solution, _ = minimize.least_squares(
            values_of(parameters, dynamics) / scales,
            residual,
            bounds=[np.clip(bound, -1e6, 1e6) for bound in bounds],
            jacobian=jacobian,
            norm=Huber(),
            xtol=1e-3,
            gtol=1e-6,
            max_iter=steps,
            verbose=minimize.Verbosity.SILENT,
        )
        return changed(solution)

    def _jacobian(self, dynamics: ArmDynamics, parameters: Sequence[Parameter]) -> Array:
        """Return derivatives (r, m) of the errors by scaled parameters.

        A joint's parameters are taken to move this joint alone, as is nearly so. This takes a fraction of the time,
        because the same parameter of all joints changes at once.
        """
        errors, values = self._errors(dynamics), values_of(parameters, dynamics)
        scales = np.array([parameter.scale for parameter in parameters])
        steps = DIFFERENCE * np.where(values + scales > [each.high for each in parameters], -1.0, 1.0)
        joint_of_row = np.arange(len(errors)) % self._predictor.joints
        groups: dict[str, list[int]] = {}
        for number, each in enumerate(parameters):
            groups.setdefault(each.key, []).append(number)
        columns = np.zeros((len(errors), len(parameters)))
        for numbers in groups.values():
            moved = values.copy()
            moved[numbers] += steps[numbers] * scales[numbers]
            difference = self._errors(with_values(dynamics, parameters, moved)) - errors
            for number in numbers:
                joint = parameters[number].joint
                rows = slice(None) if joint is None else joint_of_row == joint
                columns[rows, number] = difference[rows] / steps[number]
        return columns

    def _intervals(self, dynamics: ArmDynamics, parameters: Sequence[Parameter]) -> tuple[Array, NDArray[np.bool_]]:
        """Return half widths (m,) of the parameters, and which of them (m,) the recordings tell.

        The parameter with the widest interval is left out, and the intervals of the others are computed again, until
        all that remain are identified: of two that act alike, one can be once the other keeps its value. That kept
        values may be wrong makes intervals wider afterwards and excludes no parameter: gains, friction and offset of a
        joint whose armature is kept are known up to one common factor, and predict well.
        """
        jacobian, errors = self._jacobian(dynamics, parameters), self._errors(dynamics)
        scales = np.array([parameter.scale for parameter in parameters])
        values = values_of(parameters, dynamics)
        sizes = np.maximum(np.abs(values), scales)
        identified, widths = np.ones(len(parameters), bool), np.full(len(parameters), np.inf)
        while identified.any():
            widths[identified] = self._half_widths(jacobian[:, identified], errors) * scales[identified]
            worst = int(np.argmax(np.where(identified, widths / sizes, 0)))
            if widths[worst] <= TELLING * sizes[worst]:
                break
            identified[worst] = False
        weighted = huber_weights(errors)[:, None] * jacobian[:, identified]
        square = weighted.T @ jacobian[:, identified]
        shifts = np.linalg.pinv(square) @ (
            weighted.T @ jacobian[:, ~identified]
        )  # by parameters that keep their values
        kept = NORMAL_95 * UNKNOWN * np.sqrt(np.square(shifts).sum(axis=1)) * scales[identified]
        widths[identified] = np.hypot(widths[identified], kept)
        return widths, identified

    def _half_widths(self, jacobian: Array, errors: Array) -> Array:
        """Return half widths (m,) of 95 % intervals of scaled parameters.

        They are the larger of those for independent errors, and of those for errors that depend on each other within
        :data:`BLOCK` (sandwich estimator).
        """
        weights = huber_weights(errors)
        weighted = weights[:, None] * jacobian
        square = weighted.T @ jacobian
        inverse = np.linalg.pinv(square + 1e-12 * np.trace(square) * np.eye(len(square)))
        independent = np.diag(inverse) * float(weights @ errors**2) / max(len(errors) - len(square), 1)
        scores, first = [], 0
        for stretch in self._stretches:
            rows = (len(stretch.positions) - self._skipped) * self._predictor.joints
            for begin in range(first, first + rows, self._block * self._predictor.joints):
                end = min(begin + self._block * self._predictor.joints, first + rows)
                scores.append(weighted[begin:end].T @ errors[begin:end])
            first += rows
        outer = np.array(scores).T @ np.array(scores)
        dependent = np.diag(inverse @ outer @ inverse)
        half: Array = NORMAL_95 * np.sqrt(np.maximum(np.maximum(independent, dependent), 0))
        return half
