"""The text form of specifications in signal temporal logic (:mod:`.temporal`), and its parser."""

import math
import re
from collections.abc import Mapping
from typing import NoReturn

from .errors import ConfigError
from .temporal import Always, And, Atom, Eventually, Formula, Interval, Not, Or, Until

UNITS: Mapping[str, tuple[str, float]] = {
    "m": ("m", 1.0),
    "cm": ("m", 0.01),
    "mm": ("m", 0.001),
    "rad": ("rad", 1.0),
    "deg": ("rad", math.pi / 180),
    "s": ("s", 1.0),
    "ms": ("s", 0.001),
    "m/s": ("m/s", 1.0),
    "rad/s": ("rad/s", 1.0),
    "deg/s": ("rad/s", math.pi / 180),
    "m/s2": ("m/s2", 1.0),
    "N": ("N", 1.0),
    "Nm": ("Nm", 1.0),
}
"""Units of numbers: for each, the corresponding unit of signals, and the factor to it."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*(?:/[A-Za-z]\w*)?)"
    r"|(?P<sign><=|>=|<|>|\(|\)|\[|\]|,))"
)
_UNARY: Mapping[str, type[Always] | type[Eventually]] = {"always": Always, "eventually": Eventually}
_WORDS = ("always", "eventually", "until", "not", "and", "or", "implies")


def parse_specification(text: str) -> Formula:
    """Return the specification that ``text`` describes.

    ``not``, ``always`` and ``eventually`` bind strongest, then ``until``, ``and``, ``or``, ``implies``.

    Raises:
        ConfigError: names the place that cannot be parsed.
    """
    return _Parser(_Tokens(text)).parse()


def _is_name(token: str) -> bool:
    return token[:1].isalpha() or token[:1] == "_"


class _Tokens:
    """The tokens of a text, read from left to right.

    Raises:
        ConfigError: if the text contains anything else.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens: list[tuple[str, int]] = []
        self._next = 0
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None:
                self._fail(place, "a name, a number, a comparison or a bracket")
            token = match[0].strip()
            self._tokens.append((token, match.end() - len(token)))
            place = match.end()

    def peek(self) -> str:
        """Return the next token, or "" at the end."""
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def pop(self) -> str:
        """Return the next token and advance past it."""
        token = self.peek()
        self._next += 1
        return token

    def take(self, *tokens: str) -> str:
        """Return the next token and advance past it if it is one of ``tokens``; else return ""."""
        return self.pop() if self.peek() in tokens else ""

    def expect(self, token: str) -> None:
        """Skip ``token``, or raise an error."""
        if not self.take(token):
            self.fail(f"'{token}'")

    def fail(self, expected: str, back: int = 0) -> NoReturn:
        """Raise an error: the next token, or the token ``back`` places before it, is not ``expected``."""
        number = self._next - back
        self._fail(self._tokens[number][1] if number < len(self._tokens) else len(self.text), expected)

    def _fail(self, place: int, expected: str) -> NoReturn:
        rest = self.text[place:].strip()
        place += len(self.text[place:]) - len(self.text[place:].lstrip())
        found = f"{rest[:20]!r}" if rest else "the end"
        raise ConfigError(f"{self.text!r}: expected {expected} at character {place + 1}, found {found}")


class _Parser:
    """A recursive-descent parser with one method for each level of precedence."""

    def __init__(self, tokens: _Tokens) -> None:
        self._tokens = tokens

    def parse(self) -> Formula:
        formula = self._implication()
        if self._tokens.peek():
            self._tokens.fail("the end")
        return formula

    def _implication(self) -> Formula:
        left = self._disjunction()
        return Or(Not(left), self._implication()) if self._tokens.take("implies") else left

    def _disjunction(self) -> Formula:
        left = self._conjunction()
        while self._tokens.take("or"):
            left = Or(left, self._conjunction())
        return left

    def _conjunction(self) -> Formula:
        left = self._until()
        while self._tokens.take("and"):
            left = And(left, self._until())
        return left

    def _until(self) -> Formula:
        left = self._unary()
        if self._tokens.take("until"):
            interval = self._interval()
            return Until(left, self._unary(), interval)
        return left

    def _unary(self) -> Formula:
        if self._tokens.take("not"):
            return Not(self._unary())
        if word := self._tokens.take(*_UNARY):
            interval = self._interval()
            return _UNARY[word](self._unary(), interval)
        if self._tokens.take("("):
            formula = self._implication()
            self._tokens.expect(")")
            return formula
        return self._atom()

    def _atom(self) -> Formula:
        left, unit = self._operand()
        sign = self._tokens.take("<", "<=", ">", ">=")
        if not sign:
            if isinstance(left, str):
                return Atom(left, 0.5, greater=True)
            self._tokens.fail("<, <=, > or >=")
        right, other = self._operand()
        if not isinstance(left, str) and not isinstance(right, str):
            text = self._tokens.text
            raise ConfigError(f"{text!r}: a comparison names a signal, got the numbers {left:g} and {right:g}")
        return Atom(left, right, greater=sign.startswith(">"), unit=other or unit)

    def _operand(self) -> tuple[str | float, str | None]:
        token = self._tokens.peek()
        if not _is_name(token):
            return self._quantity()
        if token in _WORDS:
            self._tokens.fail("a signal or a number")
        return self._tokens.pop(), None

    def _quantity(self) -> tuple[float, str | None]:
        """Consume a number and its unit, if any; return the number in the unit of signals, and that unit."""
        try:
            number = float(self._tokens.peek())
        except ValueError:
            self._tokens.fail("a number")
        self._tokens.pop()
        unit = self._tokens.peek()
        if not _is_name(unit) or unit in _WORDS:
            return number, None
        if unit not in UNITS:
            self._tokens.fail(f"a unit ({', '.join(UNITS)})")
        base, factor = UNITS[self._tokens.pop()]
        return number * factor, base

    def _interval(self) -> Interval:
        if not self._tokens.take("["):
            return Interval()
        start = self._time()
        self._tokens.expect(",")
        end = math.inf if self._tokens.take("inf") else self._time()
        if not 0 <= start <= end:
            text = self._tokens.text
            raise ConfigError(f"{text!r}: an interval goes from 0 s or later to its end, got [{start}, {end}]")
        self._tokens.expect("]")
        return Interval(start, end)

    def _time(self) -> float:
        seconds, unit = self._quantity()
        if unit not in (None, "s"):
            self._tokens.fail("a time in s or ms", back=2)
        return seconds
