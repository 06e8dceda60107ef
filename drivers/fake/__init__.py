"""Fake arm in a separate process, driven like a real one, for tests of failures."""

from typing import TYPE_CHECKING, Any

from .config import FakeArmConfig

if TYPE_CHECKING:
    from .backend import FakeArmBackend

__all__ = ["FakeArmConfig", "make_fake_arm"]


def make_fake_arm(**fields: Any) -> "FakeArmBackend":
    """Start a fake arm and return it as a backend.

    Args:
        fields: fields of :class:`FakeArmConfig`.
    """
    from .backend import FakeArmBackend

    return FakeArmBackend(FakeArmConfig(**fields))
