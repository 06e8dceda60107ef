"""The wrappers that the options ``task.observation.*`` put around a backend."""

from collections.abc import Mapping
from typing import Any

from .delayed import DelayedBackend
from .history import HistoryBackend
from .protocols import EnvBackend
from .relative import RelativeBackend
from .turning import TurningBackend, turning_positions


def observe(backend: EnvBackend, options: Mapping[str, Any], is_simulated: bool = True) -> EnvBackend:
    """Put the wrappers around ``backend`` that change what it observes.

    Args:
        backend: robot or simulator, with the safety filters around it.
        options: options of the section ``task.observation``, of which ``relative``, ``delay``, ``delay_range``,
            ``history`` and ``history_stride`` are read; a task may have none of them.
        is_simulated: whether delays are emulated; observations of a robot have their own.

    Raises:
        ConfigError: if the backend does not observe what an option needs.
    """
    if options.get("relative"):
        backend = RelativeBackend(backend)
    elif turning_positions(backend.spec, backend.robot):
        backend = TurningBackend(backend)
    if is_simulated and options.get("delay"):
        backend = DelayedBackend(backend, options["delay"], options["delay_range"])
    if options.get("history"):
        backend = HistoryBackend(backend, options["history"], options["history_stride"])
    return backend
