"""The checks that the packages for ONNX files and for policy servers are installed."""

import contextlib
from collections.abc import Iterator

from robo_rl.core import ConfigError


@contextlib.contextmanager
def onnx_packages() -> Iterator[None]:
    """Turn the ImportError of a missing package within the block into an error that says what to install.

    Raises:
        ConfigError: see above.
    """
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"ONNX files need the packages onnx and onnxruntime ({error}): pip install 'robo-rl[deploy]'"
        ) from error


@contextlib.contextmanager
def server_packages() -> Iterator[None]:
    """Do the same for the packages of policy servers.

    Raises:
        ConfigError: if one is missing.
    """
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"policy servers need the packages websockets and msgpack ({error}): pip install 'robo-rl[serve]'"
        ) from error
