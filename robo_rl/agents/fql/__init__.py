"""Flow Q-learning: reinforcement learning of a one-step policy that is kept close to a flow of the data."""

from typing import TYPE_CHECKING

from robo_rl.core.lazy import imported_on_use

from .config import FQLConfig

if TYPE_CHECKING:
    from .agent import FQL, make_fql
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["FQL", "FQLConfig", "make_fql"]
