"""The acting loop that all trainings share: how an action is chosen and a step taken."""

from typing import Protocol

import numpy as np

from ..actor import ActionChoice, Actor, SimulatedIntervention
from ..core import Agent, EnvBackend, Observation, Source, Transition, generator


class People(Protocol):
    """People beside a robot, or at a page, as an acting loop needs them."""

    def begin_episode(self) -> bool:
        """Return whether the episode that was begun may go on to its first step."""

    def choose(self, observation: Observation, choice: ActionChoice) -> ActionChoice:
        """Return what is to be done, where the policy would do ``choice``."""

    def mark(self, transition: Transition) -> Transition:
        """Return the step just taken as people have it: perhaps as the last of its episode."""


class Collector:
    """Takes steps with an agent: at random first, then by its policy, unless an expert or a person acts instead.

    Args:
        actor: steps through episodes on ``backend``.
        backend: robot or simulator.
        agent: whose policy acts.
        people: may act instead, and end episodes.
        intervention: a simulated expert who takes over now and then; None: there is none.
        seed: what is random in a step follows from it, ``names`` and the number of the step.
        names: set this collector apart from others of the same seed.

    Attributes:
        policy_version: number of the policy that acts.
    """

    def __init__(
        self,
        actor: Actor,
        backend: EnvBackend,
        agent: Agent,
        people: People,
        intervention: SimulatedIntervention | None,
        seed: int,
        names: tuple[str, ...] = (),
    ) -> None:
        self._actor = actor
        self._action_shape = backend.spec.action.shape
        self._agent = agent
        self._people = people
        self._intervention = intervention
        self._seed, self._names = seed, names
        self.policy_version = 0
        self._number = self._env_steps = 0

    def begin_episode(self) -> None:
        """Bring the robot to where an episode begins, which may take long; its first step comes after.

        Raises:
            SafetyStop: if the robot was stopped.
        """
        self._agent.forget_plan(explore=True)
        if self._intervention is not None:
            self._intervention.end_episode()  # however the one before ended
        self._actor.begin_episode()
        if not self._people.begin_episode():
            self._actor.abandon_episode()

    def take_step(self, number: int, env_steps: int) -> Transition:
        """Take one step of the open episode.

        Args:
            number: steps taken here before.
            env_steps: steps of the whole run.

        Raises:
            SafetyStop: if the robot was stopped and no step came of it.
            EpisodeRefusedError: if the robot is to be brought back before it.
        """
        self._number, self._env_steps = number, env_steps
        return self._people.mark(self._actor.take_step(self._choose))

    def _choose(self, observation: Observation) -> ActionChoice:
        choice = self._policy_choice(observation)
        if self._intervention is not None:
            choice = self._intervention(observation, choice, self._number)
        choice = self._people.choose(observation, choice)
        if choice.source is not Source.POLICY:
            self._agent.forget_plan(explore=True)
        return choice

    def _policy_choice(self, observation: Observation) -> ActionChoice:
        if self._env_steps < self._agent.config.random_steps:
            rng = generator(self._seed, "random action", *self._names, self._number)
            return ActionChoice(rng.uniform(-1, 1, self._action_shape).astype(np.float32), Source.RANDOM)
        return ActionChoice(self._agent.act(observation, explore=True), Source.POLICY, self.policy_version)
