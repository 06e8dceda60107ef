"""Safety around the policy: filters of actions and guards of observations.

Filters are functions ``(observation, action, now) -> (action, Verdict)``. The configuration group ``safety`` selects
them, and docs/reference/safety.md describes each one.
"""

from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node
from robo_rl.core.lazy import imported_on_use

from .config import NoSafetyConfig, SafetyConfig

if TYPE_CHECKING:
    from .backend import SafeBackend
    from .chain import ACTION_NOT_FINITE
    from .compose import make_safe_backend, without_safety
    from .notices import ChangeNotices, NoticingBackend
    from .watch import SafetyWatch, WatchConfig
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = [
    "ACTION_NOT_FINITE",
    "ChangeNotices",
    "NoticingBackend",
    "SafeBackend",
    "SafetyConfig",
    "SafetyWatch",
    "WatchConfig",
    "make_safe_backend",
    "register_configs",
    "without_safety",
]


def register_configs() -> None:
    """Register ``safety=default`` and ``safety=none`` with Hydra."""
    store = ConfigStore.instance()
    store.store(group="safety", name="default", node=config_node("robo_rl.safety.make_safe_backend", SafetyConfig))
    store.store(group="safety", name="none", node=config_node("robo_rl.safety.without_safety", NoSafetyConfig))
