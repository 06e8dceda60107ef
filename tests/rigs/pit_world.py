"""A flat world with a pit that nothing comes out of, for tests of resets that are learned."""

from typing import Any

import numpy as np

from robo_rl.core import ArraySpec, EnvSpec, ManualClock, Step

EDGE = 0.5
"""From this x on there is no way back."""
STRIDE = 0.12
SPEC = EnvSpec(
    task="pit",
    observation={"state": ArraySpec((2,), names=("x", "y"))},
    action=ArraySpec((2,), low=-1.0, high=1.0),
    action_space="velocity",
    action_frame="base",
    control_rate=10.0,
    max_episode_steps=15,
    reward_terms=("far",),
    reports_success=False,
)


class PitWorld:
    """A point that begins near (0, 0) and walks by up to ``STRIDE`` a step."""

    spec = SPEC
    robot = None

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.place = np.zeros(2)
        self.placed = 0
        self._steps = 0

    @property
    def is_lost(self) -> bool:
        return bool(self.place[0] > EDGE)

    def reset(self, seed: int | None = None) -> Step:
        self._steps = 0
        info: dict[str, Any] = {}
        if seed is not None:
            self.place = np.random.default_rng(seed).uniform(-0.05, 0.05, 2)
            self.placed += 1
            info = {"placed": True}
        return self._step(truncated=False, info=info)

    def step(self, action: np.ndarray) -> Step:
        self._steps += 1
        if not self.is_lost:
            self.place = np.clip(self.place + STRIDE * action, -1, 1)
        return self._step(truncated=self._steps >= 15, info={})

    def _step(self, truncated: bool, info: dict[str, Any]) -> Step:
        observation = {"state": self.place.astype(np.float32)}
        rewards = {"far": float(self.place[0])}
        return Step(observation, rewards, False, truncated, self.clock.now_ns(), success=None, info=info)

    def stop(self, reason: str) -> None: ...

    def close(self) -> None: ...
