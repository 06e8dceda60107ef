"""Which implementation computes the update."""

from collections.abc import Callable

from torch import Tensor

from robo_rl.core import ConfigError

from . import native
from .config import SACConfig
from .networks import Parameters
from .update import Minibatches, Noise, TorchUpdate

Update = Callable[[Minibatches, Noise, int], Tensor]
"""One whole update, see :meth:`.TorchUpdate.__call__`."""


def make_update(config: SACConfig, parameters: Parameters, first: Parameters, second: Parameters) -> tuple[Update, str]:
    """Return the update that ``config.backend`` asks for, and a line for people that says which it is and why.

    Raises:
        ConfigError: if the native update is asked for and cannot be had.
    """
    if config.backend in ("auto", "native"):
        available, why = native.available(config.precision)
        if available:
            return native.NativeUpdate(config, parameters, first, second), f"native ({why})"
        if config.backend == "native":
            raise ConfigError(f"agent.backend=native cannot be had: {why}. Use agent.backend=auto")
        return TorchUpdate(config, parameters, first, second), f"torch (native cannot be had: {why})"
    compiled = config.backend == "compile"
    return TorchUpdate(config, parameters, first, second, compiled=compiled), "torch.compile" if compiled else "torch"
