"""Results of the checks of a robot, and the options of these checks."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..core import require

PASS, WARN, FAIL, SKIP = "pass", "warn", "fail", "skip"
"""Outcomes of a check."""
DEVICES = ("terminal", "browser")
"""Places of the dialog with the operator."""


@dataclass(frozen=True)
class BringUpConfig:
    """Options of configs/setup.yaml, which documents them and holds their defaults."""

    output: str
    listen: float
    resets: int
    joint_motion: float
    translation: float
    seconds: float
    gripper: bool
    exercise: float
    ask: bool
    device: str
    reference: str | None
    largest_shift: float
    largest_brightness_change: float
    seed: int

    def __post_init__(self) -> None:
        for name, low, high in (
            ("listen", 0.5, 3600),
            ("joint_motion", 0.005, 0.3),
            ("translation", 0.002, 0.1),
            ("seconds", 0.5, 60),
            ("exercise", 0, 3600),
        ):
            require(low <= getattr(self, name) <= high, name, f"from {low:g} to {high:g}", getattr(self, name))
        require(self.device in DEVICES, "device", f"one of {', '.join(DEVICES)}", self.device)
        for name in ("largest_shift", "largest_brightness_change"):
            require(getattr(self, name) > 0, name, "above 0", getattr(self, name))
        require(self.resets >= 1, "resets", "1 or more", self.resets)
        require(self.seed >= 0, "seed", "0 or more", self.seed)


@dataclass(frozen=True)
class Check:
    """A check and its outcome.

    Attributes:
        name: what was checked.
        outcome: :data:`PASS`, :data:`WARN`, :data:`FAIL` or :data:`SKIP`.
        text: explanation for the operator.
        figures: measurements by name.
    """

    name: str
    outcome: str
    text: str
    figures: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the check as JSON values."""
        return asdict(self)
