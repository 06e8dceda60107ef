"""Safety around the policy: filters of actions and guards of observations.

Filters are functions ``(observation, action, now) -> (action, Verdict)``. The configuration group ``safety`` selects
them, and docs/reference/safety.md describes each one.
"""

from .backend import SafeBackend
from .chain import ACTION_NOT_FINITE, FilterChain
from .compose import make_safe_backend, register_configs, without_safety
from .config import SafetyConfig
from .notices import ChangeNotices, NoticingBackend
from .watch import SafetyWatch, WatchConfig

__all__ = [
    "ACTION_NOT_FINITE",
    "ChangeNotices",
    "FilterChain",
    "NoticingBackend",
    "SafeBackend",
    "SafetyConfig",
    "SafetyWatch",
    "WatchConfig",
    "make_safe_backend",
    "register_configs",
    "without_safety",
]
