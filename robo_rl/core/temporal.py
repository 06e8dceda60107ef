"""Signal temporal logic: whether a signal satisfies a specification, and by what margin.

    always (force < 30 N) and eventually[0, 8 s] grasped

A comparison of named signals and numbers is an atom; a name alone is true above one half. ``not``, ``and``, ``or``,
``implies``, ``always``, ``eventually`` and ``until`` combine them. An operator without bounds extends to the end of the
signal. Numbers may have a unit (:data:`.temporal_text.UNITS`), which must match that of the other operand.

The robustness (Donzé and Maler 2010) is positive if the specification holds and negative if it does not; its magnitude
is the amount by which all signals could change before that changed. On a signal that has ended, operators use the part
of their interval that exists; if no part does, ``always`` is inf and the others are -inf. For a signal that continues,
robustness is known up to an interval (Deshmukh et al. 2017), whose ends are its values if the future is as bad, or as
good, as possible.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import ConfigError, nearest

Array = NDArray[np.float64]
Signals = Mapping[str, Array]


class Formula(ABC):
    """A specification."""

    @property
    def is_momentary(self) -> bool:
        """Whether the robustness at a time depends only on the signals at that time."""
        return False

    @abstractmethod
    def trace(self, signals: Signals, period: float, beyond: float | None = None) -> Array:
        """Return the robustness at every time (T,).

        Args:
            signals: signals by name, each (T,), sampled every ``period``.
            period: time between two samples [s].
            beyond: robustness of this formula after the last sample, inf or -inf; None: the signals have ended.
        """

    @abstractmethod
    def check(self, units: Mapping[str, str | None]) -> frozenset[str]:
        """Check the formula's signals against ``units``, those of all signals; return their names.

        Raises:
            ConfigError: if a signal does not exist, or is compared with a value of another unit.
        """

    def robustness(self, signals: Signals, period: float) -> float:
        """Return the robustness at the first time of signals that have ended; see :meth:`trace`."""
        return float(self.trace(signals, period)[0])

    def highest(self, signals: Signals, period: float) -> float:
        """Return the highest robustness at the first time that continuing signals can reach; see :meth:`trace`."""
        return float(self.trace(signals, period, math.inf)[0])


@dataclass(frozen=True)
class Atom(Formula):
    """``left`` minus ``right``, or the reverse, is positive. Each is the name of a signal or a number in ``unit``."""

    left: str | float
    right: str | float
    greater: bool
    unit: str | None = None

    @property
    def is_momentary(self) -> bool:
        return True

    def trace(self, signals: Signals, period: float, beyond: float | None = None) -> Array:
        length = len(next(iter(signals.values())))
        left, right = (
            np.full(length, side) if isinstance(side, float) else np.asarray(signals[side], np.float64)
            for side in (self.left, self.right)
        )
        return left - right if self.greater else right - left

    def check(self, units: Mapping[str, str | None]) -> frozenset[str]:
        names = [side for side in (self.left, self.right) if isinstance(side, str)]
        for name in names:
            if name not in units:
                raise ConfigError(f"the specification names {name!r}, which is not a signal: {nearest(name, units)}")
        operand_units = {units[name] for name in names} | ({self.unit} if self.unit else set())
        if len(operand_units) > 1:
            operands = " and ".join(f"{name!r} [{units[name] or 'no unit'}]" for name in names)
            with_unit = f" and a number [{self.unit}]" if self.unit else ""
            raise ConfigError(f"the specification compares {operands}{with_unit}, whose units differ")
        return frozenset(names)


@dataclass(frozen=True)
class Not(Formula):
    """The negation."""

    child: Formula

    @property
    def is_momentary(self) -> bool:
        return self.child.is_momentary

    def trace(self, signals: Signals, period: float, beyond: float | None = None) -> Array:
        return -self.child.trace(signals, period, None if beyond is None else -beyond)

    def check(self, units: Mapping[str, str | None]) -> frozenset[str]:
        return self.child.check(units)


@dataclass(frozen=True)
class _Pair(Formula):
    left: Formula
    right: Formula

    @property
    def is_momentary(self) -> bool:
        return self.left.is_momentary and self.right.is_momentary

    def check(self, units: Mapping[str, str | None]) -> frozenset[str]:
        return self.left.check(units) | self.right.check(units)


class And(_Pair):
    """The conjunction."""

    def trace(self, signals: Signals, period: float, beyond: float | None = None) -> Array:
        return np.minimum(self.left.trace(signals, period, beyond), self.right.trace(signals, period, beyond))


class Or(_Pair):
    """The disjunction."""

    def trace(self, signals: Signals, period: float, beyond: float | None = None) -> Array:
        return np.maximum(self.left.trace(signals, period, beyond), self.right.trace(signals, period, beyond))


class Interval(NamedTuple):
    """An interval of time relative to now [s], with both ends included."""

    start: float = 0.0
    end: float = math.inf

    def samples(self, period: float, length: int) -> tuple[int, int]:
        """Return the first sample and the one after the last, relative to now.

        The sample at ``length`` from now represents all later ones.
        """
        # A bound that is a multiple of the period must not be lost to rounding.
        first = math.ceil(self.start / period - 1e-9)
        last = length if math.isinf(self.end) else math.floor(self.end / period + 1e-9)
        return min(first, length), min(last, length) + 1


TO_THE_END = Interval()


@dataclass(frozen=True)
class Always(Formula):
    """The child holds at all times of the interval."""

    child: Formula
    interval: Interval = TO_THE_END

    def trace(self, signals: Signals, period: float, beyond: float | None = None) -> Array:
        values = self.child.trace(signals, period, beyond)
        return -_largest(-values, self.interval, period, -math.inf if beyond is None else -beyond)

    def check(self, units: Mapping[str, str | None]) -> frozenset[str]:
        return self.child.check(units)


@dataclass(frozen=True)
class Eventually(Formula):
    """The child holds at some time of the interval."""

    child: Formula
    interval: Interval = TO_THE_END

    def trace(self, signals: Signals, period: float, beyond: float | None = None) -> Array:
        values = self.child.trace(signals, period, beyond)
        return _largest(values, self.interval, period, -math.inf if beyond is None else beyond)

    def check(self, units: Mapping[str, str | None]) -> frozenset[str]:
        return self.child.check(units)


def _largest(values: Array, interval: Interval, period: float, after: float) -> Array:
    """Return the largest of ``values`` (T,), continued by ``after``, within the interval from each time on."""
    return _reached(np.full(len(values), math.inf), values, interval, period, after)


def _reached(left: Array, right: Array, interval: Interval, period: float, after: float) -> Array:
    """Return the largest minimum of ``right`` at a time in the interval and ``left`` at all times before, (T,).

    ``left`` and ``right`` (T,) are continued by ``after``.
    """
    first, end = interval.samples(period, len(right))
    if first >= end:  # the interval contains no sample
        return np.full(len(right), -math.inf)
    held, _ = _joined(left, right, first, after)
    _, best = _joined(left, right, end - first, after)
    return np.minimum(held, _later(best, first, after))


def _joined(left: Array, right: Array, count: int, after: float) -> tuple[Array, Array]:
    """Return the least of ``left`` (T,) in ``count`` samples from each time on, and the best of ``right`` in them.

    The latter is as in :func:`_reached`. Intervals are joined to intervals of twice the length, so that the work grows
    with the logarithm of ``count``.
    """
    held, best, done, span = np.full(len(left), math.inf), np.full(len(right), -math.inf), 0, 1
    while True:
        if count & span:
            best = np.maximum(best, np.minimum(held, _later(right, done, after)))
            held = np.minimum(held, _later(left, done, after))
            done += span
        if done == count:
            return held, best
        right = np.maximum(right, np.minimum(left, _later(right, span, after)))
        left = np.minimum(left, _later(left, span, after))
        span *= 2


def _later(values: Array, samples: int, after: float) -> Array:
    """Return ``values`` (T,), continued by ``after``, shifted so that they start ``samples`` later."""
    result = np.full(len(values), after)
    result[: max(len(values) - samples, 0)] = values[samples:]
    return result


@dataclass(frozen=True)
class Until(_Pair):
    """``right`` holds at some time of the interval, and ``left`` at all times before."""

    interval: Interval = TO_THE_END

    @property
    def is_momentary(self) -> bool:
        return False

    def trace(self, signals: Signals, period: float, beyond: float | None = None) -> Array:
        left, right = (side.trace(signals, period, beyond) for side in (self.left, self.right))
        return _reached(left, right, self.interval, period, -math.inf if beyond is None else beyond)
