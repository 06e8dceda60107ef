"""A car on a closed track: physics, track, scripted driver, detectors of failures."""

from .backend import CarBackend
from .config import DriveConfig

__all__ = ["CarBackend", "DriveConfig"]
