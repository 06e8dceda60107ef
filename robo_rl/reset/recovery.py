"""Autonomous practice of a vehicle: a script recovers from failures, without manual resets."""

import math

import numpy as np

from robo_rl.core import (
    ConfigError,
    EnvBackend,
    EnvSpec,
    Metrics,
    Observation,
    ResetOutcome,
    Step,
    Transition,
    generator,
    happened,
    nearest,
)

from .config import RecoveryConfig
from .practice import Element, PracticeReset
from .states import Event, PracticeState

BRAKE = 1.0
"""Braking throttle per speed [s/m]."""

ASIDE = math.pi / 4
"""Bearing of the next checkpoint beyond which a recovery turns the robot towards it [rad]."""


class RecoveryReset(PracticeReset):
    """A reset controller that begins the episodes of a vehicle where it stands.

    After an episode without a failure (a lap, a time limit) the next one begins at once. After a failure the robot
    comes to rest, drives backwards with random steering and, if necessary, forwards and backwards in turn, until it
    is upright, has moved far enough and has the next checkpoint ahead of it. While the checkpoint is beside or behind
    it, it steers so that it turns towards the checkpoint.
    All random numbers depend only on the seed and the numbers of the recovery and the attempt.

    Raises:
        ConfigError: if actions, observations or reward terms lack a name of the configuration.
    """

    def __init__(self, config: RecoveryConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(spec)
        self._config = config
        self._seed = seed
        names = config.speed, config.upright, config.goal_x, config.goal_y
        self._elements = {name: Element(spec, name) for name in names}
        self._size = spec.action.shape[0]
        self._steering, self._throttle = (_action(spec, name) for name in ("steering", "throttle"))
        for term in (*config.crash_terms, *config.stuck_terms):
            if term not in spec.reward_terms:
                raise ConfigError(f"reset: task {spec.task!r} has no term {term!r}: {nearest(term, spec.reward_terms)}")

    def note(self, transition: Transition) -> None:
        super().note(transition)
        if not (transition.terminated or transition.truncated):
            return  # a robot may report a failure for many steps, but only one that ends the episode needs a recovery
        if happened(transition.rewards, self._config.crash_terms):
            self._happens(Event.CRASH)
        elif happened(transition.rewards, self._config.stuck_terms):
            self._happens(Event.STUCK)

    def run(self, backend: EnvBackend) -> ResetOutcome:
        step = self._begin(backend)
        if self._machine.current is PracticeState.CRASHED:
            step = self._rest(backend, step)
            self._happens(Event.RECOVERY_BEGINS)
        if self._machine.current is not PracticeState.RECOVERY:
            return ResetOutcome(step, 0)
        number, direction, farthest = self._machine.entries[PracticeState.RECOVERY], -1.0, 0.0
        for attempt in range(1, self._config.attempts + 1):
            self._attempts += 1
            rng = generator(self._seed, "recovery", number, attempt)
            step, distance = self._drive(backend, step, direction, rng)
            farthest = max(farthest, distance)
            if self._is_good(step.observation, farthest):
                step = backend.reset()
                self._happens(Event.RECOVERED)
                return ResetOutcome(step, attempt)
            direction = -direction
        return self._gives_up(self._config.attempts, "the robot cannot continue from its position")

    def metrics(self) -> Metrics:
        entries = self._machine.entries
        return {
            "practice/crashes": entries[PracticeState.CRASHED],
            "practice/recoveries": entries[PracticeState.RECOVERY],
            "practice/recovery_attempts": self._attempts,
            **super().metrics(),
        }

    def _drive(self, backend: EnvBackend, step: Step, direction: float, rng: np.random.Generator) -> tuple[Step, float]:
        """Drive for one attempt and come to rest; return the last step and the distance driven [m]."""
        goal_x, goal_y = (
            self._value(step.observation, self._config.goal_x),
            self._value(step.observation, self._config.goal_y),
        )
        steering = rng.uniform(-1, 1)
        if abs(math.atan2(goal_y, goal_x)) > ASIDE:
            steering = math.copysign(rng.uniform(0.7, 1), goal_y * direction)
        distance = 0.0
        for _ in range(max(1, round(self._config.seconds * self._rate))):
            step = self._steer(backend, step, steering, direction * self._config.throttle)
            distance += self._value(step.observation, self._config.speed) / self._rate
        return self._rest(backend, step), abs(distance)

    def _rest(self, backend: EnvBackend, step: Step) -> Step:
        """Brake; return the last step."""
        for _ in range(round(self._config.rest_seconds * self._rate)):
            speed = self._value(step.observation, self._config.speed)
            step = self._steer(backend, step, 0.0, min(max(-BRAKE * speed, -1.0), 1.0))
        return step

    def _steer(self, backend: EnvBackend, step: Step, steering: float, throttle: float) -> Step:
        """Take one step with ``steering`` and ``throttle``."""
        action = np.zeros(self._size, np.float32)
        action[self._steering], action[self._throttle] = steering, throttle
        return self._act(backend, step, action)

    def _is_good(self, observation: Observation, farthest: float) -> bool:
        config = self._config
        upright = self._value(observation, config.upright) >= config.min_upright
        return upright and farthest >= config.min_distance and self._value(observation, config.goal_x) > 0

    def _value(self, observation: Observation, name: str) -> float:
        return self._elements[name](observation)


def _action(spec: EnvSpec, name: str) -> int:
    if name not in spec.action.names:
        raise ConfigError(
            f"reset=recovery drives vehicles, but actions of task {spec.task!r} have no element {name!r}; "
            "use reset=seeded"
        )
    return spec.action.names.index(name)
