"""The check that the packages for ONNX files are installed."""

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
