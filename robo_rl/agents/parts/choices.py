"""The check of options of agents that accept a few names only."""

from robo_rl.core import ConfigError, nearest

ACTIVATIONS = ("gelu", "relu", "silu", "tanh")
PRECISIONS = ("auto", "bfloat16", "float32")
"""Precisions of the factors of matrix products."""


def require_choice(key: str, value: str, valid: tuple[str, ...]) -> None:
    """Raise :class:`ConfigError` with the valid names unless ``value`` is one of them."""
    if value not in valid:
        raise ConfigError(f"unknown {key} {value!r}; {nearest(value, valid)}")
