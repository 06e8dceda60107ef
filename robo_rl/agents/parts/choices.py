"""Options of agents that are one of a few names."""

from robo_rl.core import ConfigError, nearest

ACTIVATIONS = ("gelu", "relu", "silu", "tanh")


def require_choice(key: str, value: str, valid: tuple[str, ...]) -> None:
    """Raise :class:`ConfigError` naming the choices unless ``value`` is one of ``valid``."""
    if value not in valid:
        raise ConfigError(f"unknown {key} {value!r}; {nearest(value, valid)}")
