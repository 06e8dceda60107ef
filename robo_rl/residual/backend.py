"""A backend that also observes what a base policy would do."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, ConfigError, EnvBackend, EnvSpec, Observation, Step, WrappedBackend, require

from .base_policy import BasePolicy
from .config import Growth

BASE_ACTION = "base_action"
"""Observation key of the action of the base policy."""
BASE_POLICY = "base_policy"
"""Key of ``EnvSpec.extra`` for the base policy: its fingerprint, and the scale of residuals and its growth."""
_ROUNDING = 1e-5
"""By how much a correction may exceed the scale by rounding."""


class BaseActions:
    """The actions of a base policy along an episode.

    Within the reach of residuals the base continues its chunk. After an action further away, which a person, a script
    or a safety filter executed, it decides on a new chunk. Recorded episodes therefore get the actions that the base
    would have proposed while they were recorded.

    Args:
        base: the base policy.
        spec: spec of the environment without base actions.
        scale: scale of residuals, see :class:`.BaseConfig`.
        growth: how the scale grows to this bound; None: it is constant.

    Attributes:
        spec: spec of the environment with base actions.

    Raises:
        ConfigError: if the policy was made for another spec, naming each difference.
    """

    def __init__(self, base: BasePolicy, spec: EnvSpec, scale: float, growth: Growth | None = None) -> None:
        require(0 < scale <= 1, "base.residual_scale", "in (0, 1]", scale)
        if differences := base.differences(spec):
            made_for = f"task {base.spec.task}" if base.spec is not None else "another task"
            raise ConfigError(
                f"the base policy {base.name} was made for {made_for}, whose observations or actions are not "
                f"those of task {spec.task}: {'; '.join(differences)}. Give the task the options of the base, or "
                "choose another base"
            )
        if BASE_ACTION in spec.observation or len(spec.action.shape) != 1:
            raise ConfigError(f"task {spec.task!r}: expected actions that are vectors, and no {BASE_ACTION!r} observed")
        self._base, self._inner, self._scale = base, spec, scale
        action = ArraySpec(spec.action.shape, "float32", -1.0, 1.0, spec.action.names)
        facts = {"fingerprint": base.fingerprint, "residual_scale": scale}
        facts |= {} if growth is None else {f"residual_{name}": value for name, value in growth._asdict().items()}
        self.spec = replace(
            spec,
            observation={**spec.observation, BASE_ACTION: action},
            extra={**spec.extra, BASE_POLICY: facts},
        )
        self._action = np.zeros(spec.action.shape, np.float32)

    def begin(self, observation: Observation, seed: int | None) -> Observation:
        """Return the first observation of an episode with the base's action; see :meth:`.BasePolicy.begin_episode`."""
        self._base.begin_episode(seed)
        return self._added(observation)

    def follow(self, executed: NDArray[np.float32], observation: Observation) -> Observation:
        """Return the observation after the action ``executed`` (A,), with the base's action.

        Raises:
            SpecError: if the base returns an action of another shape, out of range, or not finite.
        """
        if np.abs(executed - self._action).max() > self._scale + _ROUNDING:
            self._base.forget_plan(executed)
        return self._added(observation)

    def _added(self, observation: Observation) -> Observation:
        action = self._base.act(observation)
        self._inner.action.check(f"the action of the base policy {self._base.name}", action)
        self._action = action
        return {**observation, BASE_ACTION: action}


def without_base_actions(spec: EnvSpec) -> EnvSpec:
    """Return ``spec`` without the base's action: that of the task itself, for data that does not depend on the base."""
    observation = {key: array for key, array in spec.observation.items() if key != BASE_ACTION}
    extra = {key: fact for key, fact in spec.extra.items() if key != BASE_POLICY}
    return replace(spec, observation=observation, extra=extra)


class BaseActionBackend(WrappedBackend):
    """An :class:`~robo_rl.core.EnvBackend` whose observations contain the action of a base policy (``base_action``).

    Actions are those of the task, so the replay buffer, interventions, safety filters and data sets are those of every
    run; :class:`.ResidualAgent` adds its residual to the observed action of the base.

    Args:
        backend: backend of the task, with its safety filters.
        base: the base policy.
        scale: see :class:`.BaseConfig`.
        growth: how the scale grows to this bound; None: it is constant.

    Attributes:
        base: the base policy.
        base_actions: the actions of the base in the current episode.
        relabel: None, as the base acts for the goal of the episode; see :class:`~robo_rl.core.GoalTask`.

    Raises:
        ConfigError: if the policy was made for another spec, naming each difference.
    """

    relabel = None

    def __init__(self, backend: EnvBackend, base: BasePolicy, scale: float, growth: Growth | None = None) -> None:
        super().__init__(backend)
        self.base = base
        self.base_actions = BaseActions(base, backend.spec, scale, growth)

    @property
    def spec(self) -> EnvSpec:
        return self.base_actions.spec

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode; see :meth:`.BasePolicy.begin_episode`."""
        step = self.inner.reset(seed)
        return replace(step, observation=self.base_actions.begin(step.observation, seed))

    def step(self, action: NDArray[np.float32]) -> Step:
        step = self.inner.step(action)
        executed = action if step.executed_action is None else step.executed_action
        try:
            observation = self.base_actions.follow(executed, step.observation)
        except BaseException:
            self.inner.stop("the base policy failed")
            raise
        return replace(step, observation=observation)

    def close(self) -> None:
        self.inner.close()
        self.base.close()
