"""Imports of packages that belong to extras of robo-rl, and may not be installed."""

import contextlib
from collections.abc import Iterator

from .errors import ConfigError


@contextlib.contextmanager
def importing_extra(extra: str, need: str) -> Iterator[None]:
    """Turn the ImportError of a missing package within the block into an error that says what to install.

    Args:
        extra: name of the extra of robo-rl.
        need: what needs which package, for example ``gamepads need pygame``.

    Raises:
        ConfigError: if a package is missing.
    """
    try:
        yield
    except ImportError as error:
        raise ConfigError(f"{need} ({error}): pip install 'robo-rl[{extra}]'") from error
