"""Acting loop that all training runs share: the choice of an action and the execution of a step."""

from typing import Protocol

import numpy as np

from ..actor import ActionChoice, Actor, Interventions
from ..core import Agent, EnvBackend, Observation, Source, Transition, generator


class People(Protocol):
    """Operators beside a robot or at a web page, as an acting loop needs them."""

    def begin_episode(self) -> bool:
        """Return whether the new episode may take its first step."""

    def choose(self, observation: Observation, choice: ActionChoice) -> ActionChoice:
        """Return the action to execute, given the policy's ``choice``."""

    def mark(self, transition: Transition) -> Transition:
        """Return the step that was just taken with the operators' marks; they may make it the last of its episode."""


class Collector:
    """Collector of an agent's steps: first random ones, then by its policy, unless an expert or a person acts.

    Args:
        actor: steps through episodes on ``backend``.
        backend: robot or simulator.
        agent: its policy acts.
        people: may act instead of the policy, and end episodes.
        intervention: a simulated expert that intervenes at times, or None.
        seed: the random numbers of a step follow from the seed, ``names`` and the number of the step.
        names: distinguish this collector from others with the same seed.

    Attributes:
        policy_version: number of the policy that acts.
    """

    def __init__(
        self,
        actor: Actor,
        backend: EnvBackend,
        agent: Agent,
        people: People,
        intervention: Interventions | None,
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
        """Bring the robot to the start of an episode, which may take long, without taking a first step.

        Raises:
            SafetyStop: if the robot was stopped.
        """
        self._agent.forget_plan(explore=True)
        if self._intervention is not None:
            self._intervention.end_episode()  # however the previous episode ended
        self._actor.begin_episode()
        if not self._people.begin_episode():
            self._actor.abandon_episode()

    def take_step(self, number: int, env_steps: int) -> Transition:
        """Take one step of the open episode.

        Args:
            number: number of steps that this collector has taken before.
            env_steps: steps of the whole run.

        Raises:
            SafetyStop: if the robot was stopped before it could take a step.
            EpisodeRefusedError: if the robot has to be brought back before it can take a step.
        """
        self._number, self._env_steps = number, env_steps
        transition = self._people.mark(self._actor.take_step(self._choose))
        if self._intervention is not None:
            self._intervention.note(transition)
        return transition

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
