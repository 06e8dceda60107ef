"""Actor that runs episodes on a backend and returns transitions."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    CheckpointError,
    EnvBackend,
    Observation,
    PersistentWorld,
    ResetController,
    SafetyStop,
    Source,
    State,
    Step,
    Transition,
    derive_seed,
    saved_counts,
)

from .marking import marked


class ActionChoice(NamedTuple):
    """Action for the robot, and its origin.

    Attributes:
        action: (A,) float32 in [-1, 1].
        source: source of the action.
        policy_version: number of the policy that chose it, -1 if no policy did.
        proposed: (A,) float32, the action before noise was added; None: equal to ``action``.
    """

    action: NDArray[np.float32]
    source: Source
    policy_version: int = -1
    proposed: NDArray[np.float32] | None = None


class EpisodeRefusedError(Exception):
    """Raised instead of executing an action of the policy if the robot must be reset; the message gives the reason."""


class Actor:
    """Runs episodes on one backend.

    Each episode begins with ``backend.reset(seed)``, whose seed is derived from the run's seed and the number of the
    episode. An interrupted episode is resumed by repeating its actions. In simulation this leads to exactly the same
    state, so no simulator needs to save its state.

    With ``resets``, only the first episode, and those that the reset controller could not begin, begin with
    ``backend.reset(seed)``. An episode then depends on all earlier ones, so the state of the backend at its beginning
    is saved. If the backend cannot save its state, like a robot, an interrupted episode counts as truncated.

    Args:
        backend: robot or simulator.
        seed: seed of the run.
        name: identity of this actor, part of every transition.
        session: number of this actor's session.
        resets: begins all episodes but the first; None: ``backend.reset(seed)`` begins every episode.
    """

    def __init__(
        self,
        backend: EnvBackend,
        seed: int,
        name: str = "local",
        session: int = 0,
        resets: ResetController | None = None,
    ) -> None:
        self._backend = backend
        self._resets = resets
        self._world: State | None = None
        self._seed = seed
        self._name = name
        self._session = session
        self._episode = -1
        self._sequence = 0
        self._step: Step | None = None
        self._actions: list[NDArray[np.float32]] = []
        self._has_begun_episode = False  # whether this object has begun an episode on the backend, or restored one

    @property
    def episode_length(self) -> int:
        """Number of steps of the current or last episode; 0 after a failed reset."""
        return len(self._actions)

    @property
    def is_between_episodes(self) -> bool:
        """Whether the next step begins an episode."""
        return self._step is None or self._step.ended

    @property
    def episode(self) -> int:
        """Number of the current or last episode, counted from 0; -1 before the first."""
        return self._episode

    @property
    def sequence(self) -> int:
        """Number of the next step, counted from 0 over all episodes of the actor."""
        return self._sequence

    def take_step(self, choose: Callable[[Observation], ActionChoice]) -> Transition:
        """Take one step with the action that ``choose`` returns; begin an episode first if none is open.

        Raises:
            SafetyStop: if the robot was stopped before the step was complete; the next call begins another episode.
            EpisodeRefusedError: if the reset controller refuses the action and requires a reset instead; the next call
                begins another episode.
        """
        if self.is_between_episodes:
            self.begin_episode()
        assert self._step is not None
        before = self._step
        choice = choose(before.observation)
        if self._resets is not None and choice.source is not Source.HUMAN:
            refusal = self._resets.refuses(before.observation, choice.action)
            if refusal:
                self._step = None
                raise EpisodeRefusedError(refusal)
        try:
            after = self._backend.step(choice.action)
        except SafetyStop:
            self._step = None
            raise
        self._actions.append(choice.action)
        self._step = after
        transition = Transition(
            observation=before.observation,
            proposed_action=choice.action if choice.proposed is None else choice.proposed,
            executed_action=choice.action if after.executed_action is None else after.executed_action,
            rewards=after.rewards,
            next_observation=after.observation,
            terminated=after.terminated,
            truncated=after.truncated,
            source=choice.source,
            actor=self._name,
            session=self._session,
            episode=self._episode,
            sequence=self._sequence,
            policy_version=choice.policy_version,
            stamp_ns=before.stamp_ns,
            success=after.success,
            verdict=after.verdict,
        )
        self._sequence += 1
        return transition

    def end_episode(self, transition: Transition, button: str) -> Transition:
        """Stop the robot after a person pressed ``button``; return ``transition`` as the last one of the episode."""
        self._backend.stop(button)
        self.abandon_episode()
        return marked(transition, button)

    def abandon_episode(self) -> None:
        """Abandon the open episode; the next step begins another one."""
        self._step = None

    def begin_episode(self) -> None:
        """Begin an episode before its first step is taken.

        Raises:
            SafetyStop: if the robot was stopped; the next call begins another episode.
        """
        self._actions = []
        self._step = None
        seed = derive_seed(self._seed, "episode", self._name, self._episode + 1)
        step = None
        if self._resets is not None and self._episode >= 0:
            if not self._has_begun_episode and isinstance(self._backend, PersistentWorld):
                # A resumed run has no saved state here. Without this reset, the simulator would be in an arbitrary
                # state.
                self._backend.reset(seed)
            step = self._resets.run(self._backend).step
        self._step = self._backend.reset(seed) if step is None else step
        self._has_begun_episode = True
        self._world = self._current_world()
        self._episode += 1

    def begin_again(self) -> None:
        """Begin the open episode again, if none of its steps has been taken; see :meth:`begin_episode`."""
        self._episode -= 1
        self.begin_episode()

    def _current_world(self) -> State | None:
        """Return the current state of the backend, or None if episodes do not depend on it or it cannot be saved."""
        if self._resets is None or not isinstance(self._backend, PersistentWorld):
            return None
        return self._backend.world()

    def state(self) -> State:
        """Return the counters, and the actions and last observation of the open episode.

        With a reset controller, also return the state of the backend at the beginning of the open episode, or the
        current state if no episode is open.
        """
        ended = self._step is None or self._step.ended
        world = self._current_world() if ended else self._world
        if self._resets is not None and world is None:
            ended = True
        size = self._backend.spec.action.shape[0]
        actions = np.zeros((0, size), np.float32) if ended or not self._actions else np.stack(self._actions)
        state: State = {
            "counters": np.array([self._episode, self._sequence, not ended], dtype=np.int64),
            "actions": actions,
        }
        if self._step is not None and not ended:
            state |= {f"observation/{key}": value for key, value in self._step.observation.items()}
        return state | {f"world/{key}": value for key, value in (world or {}).items()}

    def load(self, state: State) -> None:
        """Restore ``state``: an open episode is begun again and its actions are repeated.

        Raises:
            CheckpointError: if this does not lead to the stored observation, as on a real robot or with another version
                of the simulator.
        """
        self._episode, self._sequence, is_open = saved_counts(state["counters"], 3, -1)
        self._step = None
        self._actions = []
        prefix = "world/"
        world = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        if world and self._episode >= 0:
            if not isinstance(self._backend, PersistentWorld):
                raise CheckpointError("the checkpoint holds a simulator's world: resume on that simulator")
            self._step = self._backend.restore(world)
            self._world = world
            self._has_begun_episode = True
        if not is_open:
            self._step = None
            return
        if self._step is None:
            self.begin_again()
        assert self._step is not None
        for action in state["actions"]:
            if self._step.ended:
                raise CheckpointError(
                    f"the interrupted episode ended after {len(self._actions)} of its {len(state['actions'])} actions; "
                    "resume with the simulator version and task configuration of the run"
                )
            self._step = self._backend.step(action)
            self._actions.append(action)
        for key, value in self._step.observation.items():
            if not np.array_equal(state[f"observation/{key}"], value):
                raise CheckpointError(
                    f"repeating the {len(self._actions)} actions of the interrupted episode led to another "
                    f"observation {key!r} than was stored; resume with the simulator version and task configuration "
                    "of the run"
                )
