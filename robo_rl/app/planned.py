"""Simulators whose demonstrations come from a planner instead of a script."""

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig

from ..core import (
    ConfigError,
    EnvBackend,
    Reward,
    ScriptedExpert,
    Step,
    WrappedBackend,
    derive_seed,
    generator,
    section,
)
from ..planning import Planner, PlannerConfig
from ..residual import BASE_POLICY
from .components import build_backend
from .composition import build_reward, has_robot, observation_options

PLANNER = "planner"
"""Source of demonstrations that plans."""


class PlannedBackend(WrappedBackend):
    """A simulator whose expert is a :class:`~robo_rl.planning.Planner`.

    Args:
        backend: the simulator.
        config: configuration of the simulator, with the section ``planner``.
    """

    def __init__(self, backend: EnvBackend, config: DictConfig) -> None:
        super().__init__(backend)
        self._config = config
        self._copy: EnvBackend | None = None

    def reset(self, seed: int | None = None) -> Step:
        return self.inner.reset(seed)

    def step(self, action: NDArray[np.float32]) -> Step:
        return self.inner.step(action)

    def expert(self, seed: int) -> ScriptedExpert:
        """Return a planner.

        Raises:
            ConfigError: if the reward cannot judge single transitions without training, or the task has a machine.
        """
        settings: PlannerConfig = section(self._config, "planner")
        node = self._config.planner.reward
        if node is None or "_target_" not in node:
            choice = "null" if node is None else "a reward that also changes other sections"
            raise ConfigError(
                f"reward@planner.reward must be a reward that judges transitions, such as shaped, got {choice}"
            )
        reward = build_reward(node, self.spec, derive_seed(seed, "planner"))
        if self._copy is None:
            config = _without_images(self._config, reward, BASE_POLICY in self.spec.extra)
            self._copy = build_backend(config, simulated=True)
        return Planner(self.inner, self._copy, reward, settings, generator(seed, "planner"))

    def close(self) -> None:
        """Close the simulator and the copy of it in which sequences are acted out."""
        try:
            super().close()
        finally:
            if self._copy is not None:
                self._copy.close()


def _without_images(config: DictConfig, reward: Reward, has_base: bool) -> DictConfig:
    """Return ``config`` without the cameras of the task, whose images take most of the time, if nothing reads them."""
    if reward.scorer is not None or has_base or not observation_options(config).get("cameras"):
        return config
    config = config.copy()
    config.task.observation.cameras = []
    return config


def with_source(backend: EnvBackend, config: DictConfig, source: str) -> EnvBackend:
    """Return ``backend``, or a :class:`PlannedBackend` around it if ``source`` is ``planner``.

    Raises:
        ConfigError: if there is a robot, which cannot be copied.
    """
    if source != PLANNER:
        return backend
    if has_robot(config):
        raise ConfigError("source=planner acts out sequences in a simulator, which is not possible with robot=NAME")
    return PlannedBackend(backend, config)
