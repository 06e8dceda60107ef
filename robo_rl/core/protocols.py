"""All interfaces on one page."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .specs import EnvSpec
from .types import Batch, Intervention, Metrics, Observation, ResetOutcome, State, Step, Transition, Verdict


class EnvBackend(Protocol):
    """A robot or a simulator. It never resets by itself."""

    @property
    def spec(self) -> EnvSpec:
        """Observations, actions, rates and reward terms."""
        ...

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode. In simulation the same ``seed`` gives the same episode, whatever went before."""
        ...

    def step(self, action: NDArray[np.float32]) -> Step:
        """Execute ``action`` (A,) in [-1, 1] for one control period.

        Raises:
            SpecError: if the action has another shape or dtype, is not finite, or is out of range.
            RuntimeError: if the episode has ended or none was begun.
        """
        ...

    def render(self) -> NDArray[np.uint8]:
        """Return a picture (height, width, 3) of the scene for people.

        Raises:
            RenderingError: if this machine cannot render.
        """
        ...

    def expert(self, seed: int) -> "ScriptedExpert":
        """Return a scripted solution of the task.

        Raises:
            ConfigError: if there is none for this task.
        """
        ...

    def stop(self, reason: str) -> None:
        """Bring the robot to rest."""
        ...

    def close(self) -> None:
        """Free devices and rendering contexts. May be called twice."""
        ...


class Policy(Protocol):
    """Anything that chooses actions from observations."""

    def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
        """Return an action (A,) float32 in [-1, 1]; the mode of the distribution unless ``explore``."""
        ...


class ScriptedExpert(Protocol):
    """A scripted solution that may look at the simulator's state. Made for one episode after another."""

    def reset(self) -> None:
        """Begin an episode (after the backend's reset)."""
        ...

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return an action (A,) float32 in [-1, 1]."""
        ...


class AgentConfig(Protocol):
    """What the composition reads of an agent's configuration; see :class:`~robo_rl.agents.sac.SACConfig`."""

    @property
    def learns_online(self) -> bool: ...
    @property
    def gamma(self) -> float: ...
    @property
    def n_step(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def update_to_data(self) -> int: ...
    @property
    def demonstration_ratio(self) -> float: ...
    @property
    def learning_starts(self) -> int: ...
    @property
    def random_steps(self) -> int: ...
    @property
    def pretrain_steps(self) -> int: ...


class Agent(Policy, Protocol):
    """A learner of a policy. ``state`` and ``load`` carry everything, random generators and optimisers too."""

    @property
    def config(self) -> AgentConfig: ...

    @property
    def backend(self) -> str:
        """Which implementation computes updates, for people."""
        ...

    def fit_normaliser(self, batch: Batch) -> None:
        """Fix the normalisation of observations from a batch of demonstrations, before anything is learned."""
        ...

    def pretrain(self, batch: Batch) -> Metrics:
        """Take one step of behaviour cloning on a batch of demonstrations."""
        ...

    @property
    def update_rows(self) -> int:
        """Rows of the Batch that ``update`` takes: update-to-data ratio times batch size."""
        ...

    def update(self, batch: Batch) -> Metrics:
        """Learn from ``update_rows`` rows: the gradient steps that one environment step pays for."""
        ...

    def state(self) -> State: ...

    def load(self, state: State) -> None:
        """Go on from ``state``.

        Raises:
            CheckpointError: if names or shapes are not this agent's.
        """
        ...

    def policy_state(self) -> State:
        """Return what ``act`` alone needs."""
        ...

    def load_policy(self, state: State) -> None:
        """Take over a ``policy_state``."""
        ...


class RewardModule(Protocol):
    """A reward computed from a batch of transitions."""

    @property
    def learned(self) -> bool:
        """False: scored once, on insertion. True: scored when sampled, with the newest version."""
        ...

    def __call__(self, batch: Batch) -> NDArray[np.float32]:
        """Return rewards (n,)."""
        ...

    def update(self, batch: Batch) -> Metrics: ...

    def state(self) -> State: ...

    def load(self, state: State) -> None: ...


class ReplayStore(Protocol):
    """A store of transitions from which batches are drawn."""

    def append(self, transitions: Sequence[Transition]) -> int:
        """Store ``transitions``; return how many were taken (acknowledged)."""
        ...

    def sample(self, n: int) -> Batch:
        """Draw ``n`` rows uniformly with replacement."""
        ...

    def recover(self) -> int:
        """Go back to the last committed content after a crash; return the number of transitions."""
        ...


class SafetyFilter(Protocol):
    """A pure function around the policy."""

    def __call__(
        self, observation: Observation, action: NDArray[np.float32], now_ns: int
    ) -> tuple[NDArray[np.float32], Verdict]: ...


class ResetController(Protocol):
    """Brings a robot back to where an episode may begin, in a bounded number of attempts."""

    def run(self, backend: EnvBackend) -> ResetOutcome: ...


class Teleop(Protocol):
    """A device by which a human drives the robot."""

    def read(self) -> Intervention | None:
        """Return what the human does now, or None if the device says nothing new. Never blocks."""
        ...

    def close(self) -> None: ...


class Transport(Protocol):
    """The wire between actors and learner: authenticated and size-capped."""

    def send(self, message: Any) -> None: ...

    def receive(self, timeout: float) -> Any: ...

    def publish_policy(self, version: int, state: State) -> None: ...
