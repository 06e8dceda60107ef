"""Options with bounds that stand beside their declaration."""

import dataclasses
import math
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar, overload

from .errors import ConfigError

Value = TypeVar("Value")

MAX_SECONDS = 7 * 24 * 3600.0
"""Longest time that an option may be [s]: a week. System timers do not accept arbitrary numbers."""
MIN_RATE, MAX_RATE = 0.01, 1e4
"""Lowest and highest rate of actions, measurements and commands [Hz]."""

_BOUNDS = "bounds"
_problems: ContextVar[list[str] | None] = ContextVar("problems", default=None)
_moved: ContextVar[tuple[str, str] | None] = ContextVar("moved", default=None)


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The valid values of an option.

    Attributes:
        low: smallest value (inclusive), or None.
        high: largest value (inclusive), or None.
        above: exclusive lower bound, or None.
        below: exclusive upper bound, or None.
        choices: all valid values; None if the other attributes define them.
    """

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[Any, ...] | None = None

    def admit(self, value: Any) -> bool:
        """Return whether ``value`` is valid. NaN and what is no number are never valid if there is a bound."""
        if self.choices is not None:
            return value in self.choices
        if not isinstance(value, Real):
            return False
        number: Any = value  # mypy does not compare a Real with a float
        return (
            (self.low is None or number >= self.low)
            and (self.above is None or number > self.above)
            and (self.high is None or number <= self.high)
            and (self.below is None or number < self.below)
        )

    def __str__(self) -> str:
        if self.choices is not None:
            return f"one of {', '.join(map(str, self.choices))}"
        from_ = f"[{self.low:g}" if self.low is not None else None if self.above is None else f"({self.above:g}"
        to = f"{self.high:g}]" if self.high is not None else None if self.below is None else f"{self.below:g})"
        if from_ and to and self.below != math.inf:
            return f"in {from_}, {to}"
        if from_:
            least = f"{self.low:g} or more" if self.low is not None else f"above {self.above:g}"
            return f"{least}, and finite" if to else least
        return f"at most {self.high:g}" if self.high is not None else f"below {self.below:g}"


@overload
def option(
    default: Value,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Iterable[Any] | None = None,
) -> Value: ...


@overload
def option(
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Iterable[Any] | None = None,
) -> Any: ...


def option(
    default: Any = dataclasses.MISSING,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Iterable[Any] | None = None,
) -> Any:
    """Return a field for a dataclass derived from :class:`Options`, with bounds that its values are checked against.

    If the field may be None, None is always valid.

    Args:
        default: default value; without it the option is required.
        low: smallest value.
        high: largest value.
        above: exclusive lower bound.
        below: exclusive upper bound.
        choices: all valid values.
    """
    bounds = Bounds(low, high, above, below, None if choices is None else tuple(choices))
    return dataclasses.field(default=default, metadata={_BOUNDS: bounds})


class Options:
    """Base of dataclasses whose fields are checked against the bounds that :func:`option` gives them.

    Subclasses with further checks have a ``__post_init__`` that begins with ``super().__post_init__()``.

    Args:
        section: section of the configuration that contains the fields, for messages.
    """

    _section: ClassVar[str] = ""

    def __init_subclass__(cls, section: str | None = None, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if section is not None:
            cls._section = section

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: names the option, its valid values, and its value.
        """
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            bounds = bounds_of(type(self), field.name)
            value = getattr(self, field.name)
            if bounds is None or (value is None and _may_be_none(field)):
                continue
            expected = f"null or {bounds}" if _may_be_none(field) else str(bounds)
            key = f"{self._section}.{field.name}".lstrip(".")
            if not bounds.admit(value):
                require(False, key, expected, value)
            elif _is_whole(field):
                require(isinstance(value, Integral), key, f"a whole number, {expected}", value)

    def refuse_unused(self, names: Collection[str], is_used: bool, where: str) -> None:
        """Refuse options that differ from their defaults but have no effect.

        Args:
            names: names of options.
            is_used: whether they have an effect.
            where: condition under which they have one, for the message.

        Raises:
            ConfigError: names the first such option, the condition, and its value.
        """
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            if is_used or field.name not in names:
                continue
            default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
            value = getattr(self, field.name)
            value = tuple(value) if isinstance(default, tuple) else value  # a list, if it is from a file
            require(value == default, f"{self._section}.{field.name}", f"given only where {where}", value)


def _may_be_none(field: "dataclasses.Field[Any]") -> bool:
    return "None" in str(field.type)


def _is_whole(field: "dataclasses.Field[Any]") -> bool:
    return field.type is int or str(field.type) in ("int", "int | None")


def bounds_of(kind: type, name: str) -> Bounds | None:
    """Return the bounds of a field of a dataclass, or None.

    A class that gives a field of its base another default keeps the bounds.
    """
    for each in kind.__mro__:
        field = getattr(each, "__dataclass_fields__", {}).get(name)
        if field is not None and _BOUNDS in field.metadata:
            bounds: Bounds = field.metadata[_BOUNDS]
            return bounds
    return None


def require(condition: bool, key: str, allowed: str, got: object) -> None:
    """Raise :class:`ConfigError` with ``key``, the allowed values and the actual value, unless ``condition``.

    Called from ``__post_init__`` of configuration dataclasses for checks that :func:`option` cannot express. Within
    :func:`all_problems`, the error is raised at the end of the block.
    """
    if condition:
        return
    moved = _moved.get()
    if moved is not None and f"{key}.".startswith(f"{moved[0]}."):
        key = moved[1] + key.removeprefix(moved[0])
    problem = f"{key} must be {allowed}, got {got!r}"
    if (problems := _problems.get()) is None:
        raise ConfigError(problem)
    problems.append(problem)


@contextmanager
def all_problems() -> Iterator[None]:
    """Report everything that :func:`require` refuses in the block in one error, with the error that ends the block.

    Also a decorator. A block within another one leaves the report to it.

    Raises:
        ConfigError: names all problems.
    """
    if _problems.get() is not None:
        yield
        return
    problems: list[str] = []
    token = _problems.set(problems)
    try:
        yield
    except ConfigError as error:
        raise ConfigError("; ".join(dict.fromkeys([*problems, str(error)]))) from error
    except Exception as error:
        if problems:  # an invalid value may make any later check fail
            raise ConfigError("; ".join(problems)) from error
        raise
    finally:
        _problems.reset(token)
    if problems:
        raise ConfigError("; ".join(dict.fromkeys(problems)))


@contextmanager
def moved_section(section: str, path: str) -> Iterator[None]:
    """Make messages about ``section`` name ``path``, its place in the current configuration.

    Args:
        section: name of the section in its class, for example ``agent``.
        path: actual path, for example ``reset.agent``.
    """
    token = _moved.set((section, path))
    try:
        yield
    finally:
        _moved.reset(token)
