"""A car on a closed track: physics, track, scripted driver, and what goes wrong with a car on its own."""

from .backend import CarBackend
from .config import DriveConfig

__all__ = ["CarBackend", "DriveConfig"]
