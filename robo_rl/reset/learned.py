"""Resets by a second agent that learns to undo the effects of the first (Eysenbach et al. 2018, "Leave no trace")."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    Batch,
    EnvBackend,
    EnvSpec,
    Observation,
    ResetOutcome,
    ReturnLearner,
    Source,
    State,
    Step,
    Transition,
    saved_counts,
)

from .config import LearnedConfig
from .practice import ReturningReset
from .states import Event, PracticeState


class LearnedReset(ReturningReset):
    """A reset controller with its own agent, which acts after each episode until the robot is where episodes begin.

    The reset agent learns from its own steps and from those of the task's policy, but the task's policy does not learn
    from the steps of the reset agent. The critics of the reset agent end an episode early, before an action after which
    it could hardly return.

    Args:
        config: configuration of the behaviour.
        spec: spec of the backend.
        learner: reset agent, with its critics and its training.
    """

    def __init__(self, config: LearnedConfig, spec: EnvSpec, learner: ReturnLearner) -> None:
        super().__init__(spec)
        self._config = config
        self._learner = learner
        self._episode_length = self._sequence = 0

    @property
    def learns(self) -> bool:
        return True

    def fit(self, episodes: Sequence[Batch]) -> None:
        self._learner.fit(episodes)

    def note(self, transition: Transition) -> None:
        super().note(transition)
        self._episode_length += 1
        self._learner.add(transition)

    def refuses(self, observation: Observation, action: NDArray[np.float32]) -> str:
        threshold = self._config.least_value
        if threshold is None or self._episode_length == 0 or self._resets < self._config.refuses_from:
            return ""
        value = self._learner.value(observation, action)
        if value >= threshold:
            return ""
        self._refusals += 1
        return f"after the next action the way back has a value of {value:.3g}, reset.least_value is {threshold:g}"

    def run(self, backend: EnvBackend) -> ResetOutcome:
        step = self._begin(backend)
        if self._machine.current is not PracticeState.RECOVERY:  # the episode was refused, stopped or not ended
            self._happens(Event.EPISODE_ENDED)
        self._resets += 1
        self._episode_length = 0
        for attempt in range(1, self._config.attempts + 1):
            self._attempts += 1
            step = self._return(backend, step)
            if not self._learner.is_back(step.observation):
                continue
            step = backend.reset()
            if not step.success:
                self._successes += 1
                self._happens(Event.RECOVERED)
                return ResetOutcome(step, attempt)
        return self._gives_up(self._config.attempts, "the robot did not come back to where episodes begin")

    def state(self) -> State:
        counts = [self._resets, self._successes, self._refusals, self._episode_length, self._sequence]
        learner = {f"learner/{key}": value for key, value in self._learner.state().items()}
        return super().state() | learner | {"resets": np.array(counts, np.int64)}

    def load(self, state: State) -> None:
        super().load(state)
        counts = saved_counts(state["resets"], 5)
        self._resets, self._successes, self._refusals, self._episode_length, self._sequence = counts
        prefix = "learner/"
        self._learner.load({key.removeprefix(prefix): v for key, v in state.items() if key.startswith(prefix)})

    def _return(self, backend: EnvBackend, step: Step) -> Step:
        """Make one attempt and learn from each of its steps; return the last step."""
        steps = max(1, round(self._config.seconds * self._rate))
        for number in range(1, steps + 1):
            previous, action = step, self._learner.act(step.observation)
            step = self._act(backend, previous, action)
            has_returned = self._learner.is_back(step.observation)
            self._learner.add(
                Transition(
                    observation=previous.observation,
                    proposed_action=action,
                    executed_action=action if step.executed_action is None else step.executed_action,
                    rewards=step.rewards,
                    next_observation=step.observation,
                    terminated=False,
                    truncated=step.ended or number == steps,
                    source=Source.POLICY,
                    actor="reset",
                    session=0,
                    episode=self._attempts,
                    sequence=self._sequence,
                    policy_version=-1,
                    stamp_ns=previous.stamp_ns,
                    verdict=step.verdict,
                )
            )
            self._sequence += 1
            self._learner.learn()
            if has_returned:
                break
        return step
