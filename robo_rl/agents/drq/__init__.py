"""DrQ: soft actor-critic that learns from images with random shifts."""

from typing import TYPE_CHECKING

from robo_rl.core.lazy import imported_on_use

from ..parts.encoder_config import EncoderConfig
from .config import DrQConfig

if TYPE_CHECKING:
    from .agent import DrQ, make_drq
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = ["DrQ", "DrQConfig", "EncoderConfig", "make_drq"]
