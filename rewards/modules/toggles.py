"""Penalty for commands that reverse a gripper (HIL-SERL, Luo et al. 2024)."""

from dataclasses import dataclass

import numpy as np

from robo_rl.core import Batch, ConfigError, EnvSpec, Options, option

from ..parts.module import Floats, Module


@dataclass(frozen=True)
class TogglesConfig(Options, section="toggles"):
    """Reward of -1 for each step whose action closes an open gripper or opens one that is not open, else 0.

    A gripper that takes several steps to move costs as many, so that the reward depends only on observation and action.

    Attributes:
        command: magnitude of the action's element ``gripper`` above which it commands the gripper: above it to close,
            below its negative to open.
        open: opening, 0 (closed) to 1 (open), above which the gripper counts as open.
    """

    command: float = option(0.5, low=0, below=1)
    open: float = option(0.95, above=0, below=1)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "TogglesReward":
        """Return the module of term ``name``."""
        return TogglesReward(self, spec)


class TogglesReward(Module):
    """Penalty for reversing a gripper; see :class:`TogglesConfig`.

    Raises:
        ConfigError: if actions do not move a gripper, or its opening is not observed.
    """

    judges_state = False

    def __init__(self, config: TogglesConfig, spec: EnvSpec) -> None:
        super().__init__()
        observed = spec.observation["state"].names if "state" in spec.observation else ()
        if "gripper" not in spec.action.names or "gripper_opening" not in observed:
            raise ConfigError(
                "the reward module toggles needs a gripper: task "
                f"{spec.task!r} has no element 'gripper' in its action, or no 'gripper_opening' in the observation "
                "'state'; leave the module out"
            )
        self._config = config
        self._gripper, self._opening = spec.action.names.index("gripper"), observed.index("gripper_opening")

    def __call__(self, batch: Batch) -> Floats:
        """Return the rewards (n,) of n steps."""
        command = batch["action"][..., self._gripper]
        is_open = batch["observation/state"][..., self._opening] > self._config.open
        closes, opens = command > self._config.command, command < -self._config.command
        return -np.where(is_open, closes, opens).astype(np.float32)
