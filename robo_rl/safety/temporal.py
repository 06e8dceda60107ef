"""Signal temporal logic: how well, and by how much, a signal keeps a specification.

    always (force < 30) and eventually[0, 8] (opening > 0.5)

A comparison of named signals and numbers is an atom; ``not``, ``and``, ``or``, ``implies``, ``always``, ``eventually``
and ``until`` combine them. Times are in seconds; without bounds an operator looks to the end of the signal.

The robustness (Donzé and Maler 2010) is positive where the specification holds and negative where it does not; its size
says by how much all signals could change before that changed. On a signal that ends, operators look at the part of
their interval that is there: nothing is known beyond. Where no part is there, ``always`` is inf, the others -inf.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, nearest

Array = NDArray[np.float64]
Signals = Mapping[str, Array]


class Formula:
    """A specification. ``robustness`` is all that matters of it."""

    def trace(self, signals: Signals, period: float) -> Array:
        """Return the robustness at every time (T,).

        Args:
            signals: by name, (T,), sampled every ``period``.
            period: between two samples [s].

        Raises:
            ConfigError: if the specification names another signal.
        """
        raise NotImplementedError

    def robustness(self, signals: Signals, period: float) -> float:
        """Return the robustness at the first time; see :meth:`trace`."""
        return float(self.trace(signals, period)[0])


@dataclass(frozen=True)
class Atom(Formula):
    """``left`` minus ``right``, or the reverse, is positive. Each is a signal's name or a number."""

    left: str | float
    right: str | float
    greater: bool

    def trace(self, signals: Signals, period: float) -> Array:
        length = len(next(iter(signals.values())))
        left, right = (self._values(side, signals, length) for side in (self.left, self.right))
        return left - right if self.greater else right - left

    @staticmethod
    def _values(side: str | float, signals: Signals, length: int) -> Array:
        if isinstance(side, float):
            return np.full(length, side)
        if side not in signals:
            raise ConfigError(f"the specification names {side!r}, which is no signal: {nearest(side, signals)}")
        return np.asarray(signals[side], dtype=np.float64)


@dataclass(frozen=True)
class Not(Formula):
    """The negation."""

    child: Formula

    def trace(self, signals: Signals, period: float) -> Array:
        return -self.child.trace(signals, period)


@dataclass(frozen=True)
class And(Formula):
    """Both."""

    left: Formula
    right: Formula

    def trace(self, signals: Signals, period: float) -> Array:
        return np.minimum(self.left.trace(signals, period), self.right.trace(signals, period))


@dataclass(frozen=True)
class Or(Formula):
    """One or both."""

    left: Formula
    right: Formula

    def trace(self, signals: Signals, period: float) -> Array:
        return np.maximum(self.left.trace(signals, period), self.right.trace(signals, period))


class Interval(NamedTuple):
    """Of time, from now [s], both ends included."""

    start: float = 0.0
    end: float = math.inf

    def samples(self, period: float, length: int) -> tuple[int, int]:
        """Return the first sample and the one after the last, relative to now; at most ``length``."""
        # A bound that is a multiple of the period is not lost to rounding.
        first = math.ceil(self.start / period - 1e-9)
        last = length - 1 if math.isinf(self.end) else math.floor(self.end / period + 1e-9)
        return min(first, length), min(last, length - 1) + 1


TO_THE_END = Interval()


@dataclass(frozen=True)
class Always(Formula):
    """At all times of the interval."""

    child: Formula
    interval: Interval = TO_THE_END

    def trace(self, signals: Signals, period: float) -> Array:
        return -_latest(-self.child.trace(signals, period), self.interval, period)


@dataclass(frozen=True)
class Eventually(Formula):
    """At some time of the interval."""

    child: Formula
    interval: Interval = TO_THE_END

    def trace(self, signals: Signals, period: float) -> Array:
        return _latest(self.child.trace(signals, period), self.interval, period)


def _latest(values: Array, interval: Interval, period: float) -> Array:
    """Return the largest of ``values`` (T,) within the interval from each time on."""
    length = len(values)
    first, end = interval.samples(period, length)
    if first >= end:
        return np.full(length, -math.inf)
    if end == length:  # to the end, as all that is beyond it is not there
        padded = np.concatenate([values, np.full(first, -math.inf)])
        result: Array = np.maximum.accumulate(padded[::-1])[::-1][first:]
        return result
    padded = np.concatenate([values, np.full(end, -math.inf)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, end - first)
    largest: Array = windows[first : first + length].max(axis=1)
    return largest


@dataclass(frozen=True)
class Until(Formula):
    """``right`` at some time of the interval, and ``left`` at all times before."""

    left: Formula
    right: Formula
    interval: Interval = TO_THE_END

    def trace(self, signals: Signals, period: float) -> Array:
        left, right = self.left.trace(signals, period), self.right.trace(signals, period)
        length = len(left)
        first, end = self.interval.samples(period, length)
        result = np.full(length, -math.inf)
        for now in range(length):
            stop = min(now + end, length)
            if now + first >= stop:
                continue
            before = np.concatenate([[math.inf], np.minimum.accumulate(left[now : stop - 1])])
            result[now] = np.minimum(right[now + first : stop], before[first : stop - now]).max()
        return result


_TOKEN = re.compile(r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
                    r"|(?P<sign><=|>=|<|>|\(|\)|\[|\]|,))")  # fmt: skip
_UNARY: Mapping[str, type[Always] | type[Eventually]] = {"always": Always, "eventually": Eventually}
_WORDS = ("always", "eventually", "until", "not", "and", "or", "implies")


def parse(text: str) -> Formula:
    """Return the specification that ``text`` writes.

    ``not``, ``always`` and ``eventually`` bind strongest, then ``until``, ``and``, ``or``, ``implies``.

    Raises:
        ConfigError: naming the place that cannot be read.
    """
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, int]] = []
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None:
                self._fail(place, "a name, a number, a comparison or a bracket")
            token = match[0].strip()
            self._tokens.append((token, match.end() - len(token)))
            place = match.end()
        self._next = 0

    def parse(self) -> Formula:
        formula = self._implication()
        if self._next < len(self._tokens):
            self._fail_here("the end")
        return formula

    def _implication(self) -> Formula:
        left = self._disjunction()
        return Or(Not(left), self._implication()) if self._take("implies") else left

    def _disjunction(self) -> Formula:
        left = self._conjunction()
        while self._take("or"):
            left = Or(left, self._conjunction())
        return left

    def _conjunction(self) -> Formula:
        left = self._until()
        while self._take("and"):
            left = And(left, self._until())
        return left

    def _until(self) -> Formula:
        left = self._unary()
        if self._take("until"):
            interval = self._interval()
            return Until(left, self._unary(), interval)
        return left

    def _unary(self) -> Formula:
        if self._take("not"):
            return Not(self._unary())
        for word, kind in _UNARY.items():
            if self._take(word):
                interval = self._interval()
                return kind(self._unary(), interval)
        if self._take("("):
            formula = self._implication()
            self._expect(")")
            return formula
        return self._atom()

    def _atom(self) -> Formula:
        left = self._operand()
        sign = self._peek()
        if sign not in ("<", "<=", ">", ">="):
            self._fail_here("<, <=, > or >=")
        self._next += 1
        return Atom(left, self._operand(), greater=sign.startswith(">"))

    def _operand(self) -> str | float:
        token = self._peek()
        if token[:1].isalpha() or token[:1] == "_":
            if token in _WORDS:
                self._fail_here("a signal or a number")
            self._next += 1
            return token
        return self._number()

    def _number(self) -> float:
        try:
            value = float(self._peek())
        except ValueError:
            self._fail_here("a number")
        self._next += 1
        return value

    def _interval(self) -> Interval:
        if not self._take("["):
            return Interval()
        start = self._number()
        self._expect(",")
        end = math.inf if self._take("inf") else self._number()
        if not 0 <= start <= end:
            raise ConfigError(f"{self._text!r}: an interval goes from 0 s or later to its end, got [{start}, {end}]")
        self._expect("]")
        return Interval(start, end)

    def _peek(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _take(self, token: str) -> bool:
        taken = self._peek() == token
        self._next += taken
        return taken

    def _expect(self, token: str) -> None:
        if not self._take(token):
            self._fail_here(f"'{token}'")

    def _fail_here(self, expected: str) -> NoReturn:
        place = self._tokens[self._next][1] if self._next < len(self._tokens) else len(self._text)
        self._fail(place, expected)

    def _fail(self, place: int, expected: str) -> NoReturn:
        rest = self._text[place:].strip()
        place += len(self._text[place:]) - len(self._text[place:].lstrip())
        found = f"{rest[:20]!r}" if rest else "the end"
        raise ConfigError(f"{self._text!r}: expected {expected} at character {place + 1}, found {found}")
