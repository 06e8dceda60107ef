"""Whole numbers of the command line in other notations than digits: ``1e4``, ``2.5e3`` and ``10000.0``."""

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, IntegerNode, ListConfig, Node
from omegaconf.errors import OmegaConfBaseException

from .usage import composed

_FLOAT = re.compile(r"(?<=[=,\[(:])([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?=[,\])}]|$)")
"""A number that is a whole value, or an element of a list, a dictionary or a sweep."""

MOST_DIGITS = 30
"""Longer numbers are left to the option's own check: the digits of 1e9999999999 would not fit into memory."""


def with_whole_numbers(config_name: str, overrides: Sequence[str]) -> list[str]:
    """Return the overrides, with whole numbers in digits wherever an option holds an integer.

    Hydra reads ``1e4`` as a float, and OmegaConf refuses floats for integers, even those without a fraction. Numbers
    with a fraction are unchanged, and so refused.

    Args:
        config_name: name of the command's file in configs, without its extension.
        overrides: words of the command line.
    """
    written = [_FLOAT.sub(_in_digits, word) for word in overrides]
    changed = {word for word, digits in zip(overrides, written, strict=True) if word != digits}
    if not changed:
        return list(overrides)
    others = [word for word in overrides if "=" in word and word[0] != "-" and word not in changed]
    try:
        config = composed(config_name, [_with_first_value(word) for word in others])
        return [
            digits if word in changed and _holds_integers(config, word) else word
            for word, digits in zip(overrides, written, strict=True)
        ]
    except (HydraException, OmegaConfBaseException):
        return list(overrides)  # the command itself reports the error


def _with_first_value(word: str) -> str:
    """Return ``word`` with the first of the values that it sweeps over."""
    parsed = OverridesParser.create().parse_override(word)
    if not (parsed.is_choice_sweep() or parsed.is_range_sweep()):
        return word
    return f"{parsed.get_key_element()}={next(parsed.sweep_string_iterator())}"


def _in_digits(match: re.Match[str]) -> str:
    try:
        number = Decimal(match[1].replace("_", ""))
    except InvalidOperation:  # an exponent beyond those of Decimal
        return match[1]
    is_whole = abs(number.adjusted()) < MOST_DIGITS and number == number.to_integral_value()
    return str(int(number)) if is_whole else match[1]


def _holds_integers(config: DictConfig, word: str) -> bool:
    """Return whether the option that ``word`` sets is an integer, or a list or dictionary of integers."""
    key: Any = word.lstrip("+~").partition("=")[0]
    _, _, node = config._select_impl(key, throw_on_missing=False, throw_on_resolution_failure=False)
    if isinstance(node, ListConfig | DictConfig):
        kind = node._metadata.element_type
        if kind is Any and isinstance(node, ListConfig) and not node._is_none():
            return len(node) > 0 and all(_is_integer(node._get_node(index)) for index in range(len(node)))
        return kind in (int, int | None)
    return _is_integer(node)


def _is_integer(node: Any) -> bool:
    """Return whether a value is declared as an integer, or, in a file without types, has one as its default."""
    return isinstance(node, IntegerNode) or (isinstance(node, Node) and type(node._value()) is int)
