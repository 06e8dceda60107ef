"""The choice between native updates and updates by PyTorch, and of the precision of native ones."""

from collections.abc import Callable
from typing import NamedTuple

from robo_rl.core import ConfigError

from . import native


class Choice(NamedTuple):
    """Implementation and precision of updates on the CPU.

    Attributes:
        precision: of native updates; None: they are computed by PyTorch.
        description: for operators, with the reason.
    """

    precision: str | None
    description: str


def computed_precision(implementation: str, precision: str, *, fastest: Callable[[], str], in_cpp: bool = True) -> str:
    """Return the precision in which updates on the CPU are computed.

    Args:
        implementation: the option of the agent.
        precision: the option of the agent. ``auto`` is measured for native updates, and is float32 for all others. On a
            processor without products of bfloat16, ``implementation=auto`` uses float32: PyTorch would emulate them,
            many times slower.
        fastest: measures the faster precision of native updates.
        in_cpp: whether the native update supports the agent.
    """
    if precision == "auto":
        return fastest() if in_cpp and implementation in ("auto", "native") else "float32"
    emulated = precision == "bfloat16" and not native.multiplies_bfloat16()
    return "float32" if emulated and implementation == "auto" else precision


def explained(description: str, precision: str, computed: str) -> str:
    """Return a description of updates that also explains the precision ``computed`` for the option ``precision``."""
    if precision == "auto" and computed == "bfloat16":
        return f"{description}, in bfloat16, the faster precision here"
    if precision == "bfloat16" != computed:
        return f"{description}, in float32: this processor has no products of bfloat16 (AVX512_BF16)"
    return description


def native_or_torch(implementation: str, precision: str, lacking: str = "") -> Choice:
    """Return the choice for ``implementation``: ``auto`` or ``native``.

    If no products of bfloat16 can be compiled, ``auto`` is native in float32.

    Args:
        implementation: the option of the agent.
        precision: ``float32`` or ``bfloat16``.
        lacking: the feature that the native update lacks; empty if it lacks none.

    Raises:
        ConfigError: if the native update is requested and not available.
    """
    available, reason = (False, f"it has no {lacking}") if lacking else native.available(precision)
    if available:
        return Choice(precision, f"native ({reason})")
    if implementation == "native":
        raise ConfigError(f"agent.implementation=native is not available: {reason}. Use agent.implementation=auto")
    if not lacking and native.available("float32")[0]:
        return Choice("float32", f"native, in float32 ({reason})")
    return Choice(None, f"torch (native is not available: {reason})")
