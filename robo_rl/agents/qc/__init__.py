"""Q-chunking: reinforcement learning of a policy that takes the best of several chunks sampled from a flow."""

from typing import TYPE_CHECKING

from robo_rl.core.lazy import imported_on_use

from .config import QCConfig

if TYPE_CHECKING:
    from .agent import QC, make_qc
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["QC", "QCConfig", "make_qc"]
