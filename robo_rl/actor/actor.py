"""The actor's side of the control loop."""

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
)

from .marking import marked


class ActionChoice(NamedTuple):
    """What the robot is told to do.

    Attributes:
        action: (A,) float32 in [-1, 1].
        source: who chose it.
        policy_version: number of the policy that did, -1 if none did.
        proposed: (A,) float32, what was chosen before noise was added to it; None: the same.
    """

    action: NDArray[np.float32]
    source: Source
    policy_version: int = -1
    proposed: NDArray[np.float32] | None = None


class EpisodeRefusedError(Exception):
    """The robot is to be brought back rather than take the policy's next action; the message says why."""


class Actor:
    """Steps through episodes on one backend.

    Every episode begins with ``backend.reset(seed)`` with a seed of its own, derived from the run's seed and the
    episode's number. An interrupted episode is taken up again by repeating its actions, which in simulation leads
    to the same state, bit for bit: no simulator needs to save its state for that.

    With ``resets`` only the first episode begins so, and others where the controller could not begin them. Then an
    episode depends on all that went before, so the world in which it began is saved where the backend can tell it;
    where it cannot, as on a robot, an interrupted episode counts as cut.

    Args:
        backend: robot or simulator.
        seed: seed of the run.
        name: identity of this actor, part of every transition.
        session: number of this actor's run.
        resets: begins all episodes but the first; None: ``backend.reset(seed)`` begins every one.
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
        self._placed = False  # by this object: the world is what an episode of it began in, or what it left

    @property
    def episode_length(self) -> int:
        """Steps of the episode that is open or has ended last; 0 after a reset that failed."""
        return len(self._actions)

    @property
    def is_between_episodes(self) -> bool:
        """Whether the next step begins an episode."""
        return self._step is None or self._step.ended

    @property
    def episode(self) -> int:
        """Number of that episode."""
        return self._episode

    @property
    def sequence(self) -> int:
        """Number of the next step, counted from 0 when the actor began."""
        return self._sequence

    def take_step(self, choose: Callable[[Observation], ActionChoice]) -> Transition:
        """Take one step with the action that ``choose`` returns, after a reset where an episode has ended.

        Raises:
            SafetyStop: if the robot was stopped and no step came of it; the next call begins another episode.
            EpisodeRefusedError: if the reset controller brings the robot back rather than have the policy's action
                taken; the same.
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
        """Bring the robot to rest because a person pressed ``button``; return the step just taken as the last one."""
        self._backend.stop(button)
        self.abandon_episode()
        return marked(transition, button)

    def abandon_episode(self) -> None:
        """Leave the open episode as it is: the next step begins another."""
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
            if not self._placed and isinstance(self._backend, PersistentWorld):
                self._backend.reset(
                    seed
                )  # resumed in a simulator that could not tell its world: not one drawn at random
            step = self._resets.run(self._backend).step
        self._step = self._backend.reset(seed) if step is None else step
        self._placed = True
        self._world = self._present_world()
        self._episode += 1

    def begin_again(self) -> None:
        """Begin the open episode, of which no step was taken, once more; see :meth:`begin_episode`."""
        self._episode -= 1
        self.begin_episode()

    def _present_world(self) -> State | None:
        """Return the world as it is now, where later episodes depend on it and the backend can tell it."""
        if self._resets is None or not isinstance(self._backend, PersistentWorld):
            return None
        return self._backend.world()

    def state(self) -> State:
        """Return the counters, and the actions and last observation of the open episode.

        With a reset controller also the world in which the open episode began, or else the present one.
        """
        ended = self._step is None or self._step.ended
        world = self._present_world() if ended else self._world
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
        """Go on from ``state``: an open episode is begun again and its actions are repeated.

        Raises:
            CheckpointError: if that does not lead to the observation that was stored, as on a real robot or with
                another version of the simulator.
        """
        self._episode, self._sequence, is_open = (int(value) for value in state["counters"])
        self._step = None
        self._actions = []
        prefix = "world/"
        world = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        if world and self._episode >= 0:
            if not isinstance(self._backend, PersistentWorld):
                raise CheckpointError("the checkpoint holds a simulator's world: resume on that simulator")
            self._step = self._backend.restore(world)
            self._world = world
            self._placed = True
        if not is_open:
            self._step = None
            return
        if self._step is None:
            self.begin_again()
        for action in state["actions"]:
            self._step = self._backend.step(action)
            self._actions.append(action)
        assert self._step is not None
        for key, value in self._step.observation.items():
            if not np.array_equal(state[f"observation/{key}"], value):
                raise CheckpointError(
                    f"repeating the {len(self._actions)} actions of the interrupted episode led to another "
                    f"observation {key!r} than was stored; resume with the simulator version and task configuration "
                    "of the run"
                )
