"""Configuration: frozen dataclasses that check themselves, and their form in Hydra's ConfigStore."""

import dataclasses
from collections.abc import Callable
from typing import Any

from .errors import ConfigError


def require(condition: bool, key: str, allowed: str, got: object) -> None:
    """Raise :class:`ConfigError` naming ``key``, the allowed values and what came, unless ``condition``.

    Called from ``__post_init__`` of configuration dataclasses.
    """
    if not condition:
        raise ConfigError(f"{key} must be {allowed}, got {got!r}")


def config_node(target: str | Callable[..., Any], config_class: type) -> type:
    """Return ``config_class`` with a ``_target_`` field, for ``ConfigStore.store(node=...)``.

    Defaults stay where they are written once, in ``config_class``. ``app.py`` calls ``target`` with the fields
    as keyword arguments; a user's own class in a user's own package works the same way.

    Args:
        target: dotted name of the callable, or the callable itself.
        config_class: a frozen dataclass whose fields all have defaults.
    """
    name = target if isinstance(target, str) else f"{target.__module__}.{target.__qualname__}"
    return dataclasses.make_dataclass(
        config_class.__name__,
        [("_target_", str, dataclasses.field(default=name))],
        bases=(config_class,),
        frozen=True,
        kw_only=True,
        namespace={"__doc__": config_class.__doc__, "__module__": config_class.__module__},
    )
