"""Command ``robo-rl reward publish``: a node that scores a live robot with reward modules."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..core import (
    Batch,
    ConfigError,
    EnvSpec,
    Observation,
    Source,
    SpecError,
    TermScorer,
    nearest,
    require,
)
from ..operators.guard import Seen
from ..operators.panel import Steering

SUCCESS = "success"


@dataclass(frozen=True)
class PublishConfig:
    """The section ``publish`` of configs/reward_publish.yaml, which documents the options and their defaults."""

    rate: float
    topic: str
    success: str | None
    threshold: float

    def __post_init__(self) -> None:
        require(0 < self.rate <= 1000, "publish.rate", "in (0, 1000]", self.rate)
        require(bool(self.topic), "publish.topic", "the name of a topic", self.topic)
        require(bool(np.isfinite(self.threshold)), "publish.threshold", "finite", self.threshold)


class Scored(Protocol):
    """Robot to observe and to publish scores for, such as :class:`robo_rl.drivers.robot.watch.ScoredRobot`."""

    def look(self) -> Seen: ...

    def publish(self, terms: Mapping[str, float], success: bool) -> None: ...


class RewardNode:
    """Node that repeatedly observes a robot and publishes the terms of reward modules and the success.

    Nothing is published while a source of the robot is silent or the operator has paused the node. Subscribers detect
    this silence like that of any other source.

    Args:
        settings: rate and definition of success.
        robot: robot to observe and to publish for.
        scorer: fitted reward modules, all of which score states.
        spec: spec of the observations that the modules score.
        steering: buttons and display of the operator.
        convert: converts observations of the robot to these observations; None: they are the same.

    Attributes:
        settings: current settings; the operator may change rate and threshold.

    Raises:
        ConfigError: if a module needs more than a state, or it is ambiguous which module decides about success.
    """

    def __init__(
        self,
        settings: PublishConfig,
        robot: Scored,
        scorer: TermScorer,
        spec: EnvSpec,
        steering: Steering,
        convert: Callable[[Observation], Observation] | None = None,
    ) -> None:
        if scorer.needs_steps:
            raise ConfigError(
                f"{', '.join(scorer.needs_steps)}: reward modules that need more than a state (the action, the state "
                "before, a whole episode) cannot score a robot that is only looked at"
            )
        self.settings = settings
        self._robot, self._scorer, self._spec, self._steering = robot, scorer, spec, steering
        self._convert = convert
        names = [name for name in scorer.terms if "/" not in name]  # without the terms that shaping adds
        if settings.success is None and len(names) > 1:
            raise ConfigError(f"publish.success: which module decides about success? One of {', '.join(names)}")
        success_module = names[0] if settings.success is None else settings.success
        if success_module not in names:
            raise ConfigError(
                f"publish.success: there is no module {success_module!r}: {nearest(success_module, names)}"
            )
        self._names, self._success_name = names, success_module
        self._paused = False
        self._looks = 0
        steering.offer("publish.topic", settings.topic)
        steering.offer("publish.success", self._success_name)
        for key in ("rate", "threshold"):
            steering.offer(f"publish.{key}", getattr(settings, key), partial(self._change, key))

    def turn(self) -> None:
        """Observe the robot once, publish the scores, and update the operator's display."""
        self._paused ^= "pause" in self._steering.take_buttons()
        terms: dict[str, float] = {}
        state, alarm = "paused", False
        if not self._paused:
            try:
                view = self._robot.look()
                state = f"waits for {', '.join(view.silent)}"
                if view.observation is not None and not view.silent:
                    terms = self._score(view.observation)
                    state = "scores"
            except SpecError as error:
                state, alarm = str(error), True
        facts = {"looks": str(self._looks)} | {name: f"{value:.6g}" for name, value in terms.items()}
        self._steering.report(state, not terms, alarm, facts)

    def _score(self, observation: Observation) -> dict[str, float]:
        if self._convert is not None:
            observation = self._convert(observation)
        scores = self._scorer.score(rows_of(observation, self._spec), online=False)
        terms = {name: float(scores[name][0]) for name in self._names}
        success = terms[self._success_name] > self.settings.threshold
        terms[SUCCESS] = float(success)
        self._robot.publish(terms, success)
        self._looks += 1
        return terms

    def _change(self, key: str, value: Any) -> None:
        self.settings = dataclasses.replace(self.settings, **{key: value})


def rows_of(observation: Observation, spec: EnvSpec) -> Batch:
    """Return a state as a single row (1, ...) for modules that score states; the action is unknown and zero."""
    rows: Batch = {"action": np.zeros((1, *spec.action.shape), np.float32)}
    for key, value in observation.items():
        rows |= {f"observation/{key}": value[np.newaxis], f"next_observation/{key}": value[np.newaxis]}
    rows |= {f"term/{name}": np.zeros(1, np.float32) for name in spec.reward_terms}
    return rows | {
        "terminated": np.zeros(1, np.bool_),
        "truncated": np.zeros(1, np.bool_),
        "source": np.full(1, Source.POLICY, np.uint8),
        "success": np.full(1, -1, np.int8),
    }
