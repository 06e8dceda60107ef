"""Go round a closed track with a small car, faster than it was demonstrated."""

from typing import Any, ClassVar

from ..driving import CarBackend, DriveConfig


class Drive:
    """Laps between walls, from checkpoint to checkpoint of one slow demonstrated lap (docs/reference/driving.md)."""

    config_class: ClassVar[type[DriveConfig]] = DriveConfig
    gymnasium_id: ClassVar[str] = "robo_rl/Drive-v0"
    cameras: ClassVar[tuple[str, ...]] = ("front",)
    has_file: ClassVar[bool] = True

    @classmethod
    def make_backend(cls, **values: Any) -> CarBackend:
        """Return the car on its track, as fields of ``config_class`` have it."""
        return CarBackend(cls.config_class(**values))
