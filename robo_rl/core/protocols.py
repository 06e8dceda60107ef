"""All interfaces on one page."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .clock import Clock
from .reward import RewardWeights
from .robot import RobotDescription
from .specs import ArraySpec, EnvSpec
from .types import (
    Batch,
    Intervention,
    Metrics,
    Observation,
    Refusal,
    ResetOutcome,
    SessionProgress,
    State,
    Step,
    Transition,
    Verdict,
)


class EnvBackend(Protocol):
    """A robot or a simulator. It never resets by itself."""

    @property
    def spec(self) -> EnvSpec:
        """Observations, actions, rates and reward terms."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock that stamps observations: monotonic time, or simulated time since the reset."""
        ...

    @property
    def robot(self) -> RobotDescription | None:
        """What safety filters must know of the robot; None where there is no description."""
        ...

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode. In simulation the same ``seed`` gives the same episode, whatever went before.

        Without ``seed`` a robot begins where it stands. Where somebody, or a simulator, put it somewhere else,
        ``info["placed"]`` of the step may say so.
        """
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


class FeatureExtractor(Protocol):
    """A function of images that never changes, so that the replay may keep what it returns."""

    @property
    def views(self) -> int:
        """Views of each image, such as random shifts, that have features of their own."""
        ...

    @property
    def spec(self) -> Mapping[str, ArraySpec]:
        """Specs of the features of one view, by observation key of the image that they stand for."""
        ...

    @property
    def fingerprint(self) -> str:
        """Of everything that the features depend on, beside images and numbers."""
        ...

    def __call__(self, images: Batch, numbers: NDArray[np.intp]) -> Batch:
        """Return the features (n, views, ...) of ``images`` (n, H, W, C), by key.

        ``numbers`` (n,) tell images apart: equal images with equal numbers have equal features.
        """
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

    @property
    def features(self) -> FeatureExtractor | None:
        """Makes the features that Batches have in the place of images; None: Batches have the images."""
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


class Experience(Protocol):
    """What a learned reward may look at: the transitions of the running training. A replay ring is one.

    Rows have the keys that :class:`RewardModule` says.
    """

    def __len__(self) -> int:
        """Return the number of transitions."""
        ...

    def sample_rows(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw ``n`` transitions uniformly with replacement: arrays (n, ...)."""
        ...

    def sample_segments(self, n: int, length: int, rng: np.random.Generator) -> Batch | None:
        """Draw ``n`` unbroken stretches of ``length`` transitions: arrays (n, length, ...). None: there are none."""
        ...


class RewardModule(Protocol):
    """A reward that is computed, as one term beside those of the backend.

    Batches of rows for a module have ``observation/<key>``, ``next_observation/<key>`` and ``action`` as in
    :data:`~robo_rl.core.types.Batch`, and ``terminated`` and ``truncated`` (n,) bool, ``source`` (n,) uint8
    (:class:`Source`), ``success`` (n,) int8 (1, 0, or -1: unknown) and ``term/<name>`` (n,) float32 for each reward
    term of the backend. What a module may read of this is a matter of the experiment: one that replaces the task's
    reward does not look at ``success`` and ``term/...``.
    """

    @property
    def learned(self) -> bool:
        """False: fixed once fitted, scored once, on insertion. True: scored again when sampled after it changed."""
        ...

    @property
    def whole_episodes(self) -> bool:
        """Whether it is called with all rows of one episode, in order, rather than with rows in any order."""
        ...

    @property
    def judges_state(self) -> bool:
        """Whether it reads ``next_observation/...`` alone, so that it can be a potential for shaping."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether it asked somebody whose answer has yet to arrive."""
        ...

    @property
    def version(self) -> int:
        """Number that rises with every change of a learned module."""
        ...

    def fit(self, episodes: Sequence[Batch]) -> None:
        """Prepare from demonstrations, each an episode in order; before anything is scored. There may be none.

        Raises:
            DataError: if the module cannot do with these.
        """
        ...

    def observe(self, batch: Batch) -> None:
        """Take note of rows of the running training that are about to be scored for the first time."""
        ...

    def __call__(self, batch: Batch) -> NDArray[np.float32]:
        """Return rewards (n,), finite."""
        ...

    def update(self, experience: Experience) -> Metrics:
        """Learn; called after every environment step. Return what there is to log, often nothing."""
        ...

    def discount(self) -> float | None:
        """Return the discount that the agent shall use from now on, or None: its own."""
        ...

    def state(self) -> State: ...

    def load(self, state: State) -> None:
        """Go on from ``state``, also without :meth:`fit`.

        Raises:
            CheckpointError: if it is of another module.
        """
        ...


class Scorer(Protocol):
    """The reward modules of a run; see :class:`RewardModule` for what they are called with."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms that scoring adds to those of the backend."""
        ...

    @property
    def learns(self) -> bool:
        """Whether a module is learned."""
        ...

    @property
    def whole_episodes(self) -> bool:
        """Whether a module needs whole episodes."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether a module asked somebody whose answer has yet to arrive."""
        ...

    @property
    def version(self) -> int:
        """Number that rises with every change of a learned module."""
        ...

    @property
    def discount(self) -> float | None:
        """The discount that a module asks for, or None."""
        ...

    def fit(self, episodes: Sequence[Batch]) -> None:
        """Prepare all modules from demonstrations."""
        ...

    def score(self, batch: Batch, *, online: bool) -> dict[str, NDArray[np.float32]]:
        """Return all of ``terms`` (n,) for rows that are inserted: the steps of one episode, in order.

        Args:
            batch: rows.
            online: whether they are of the running training, rather than demonstrations.
        """
        ...

    def rescore(self, batch: Batch) -> dict[str, NDArray[np.float32]]:
        """Return the terms (n,) of learned modules for any rows."""
        ...

    def judge(self, batch: Batch) -> dict[str, NDArray[np.float32]]:
        """Return the rewards (n,) of modules that judge single transitions, for any rows, also made up ones."""
        ...

    def update(self, experience: Experience) -> Metrics:
        """Let the learned modules learn; called after every environment step."""
        ...

    def state(self) -> State: ...

    def load(self, state: State) -> None: ...


class Reward(Protocol):
    """How the reward of a transition follows from its stored terms. :class:`RewardWeights` is one."""

    @property
    def scorer(self) -> Scorer | None:
        """What computes the terms that the backend does not report; None if there are none."""
        ...

    @property
    def task(self) -> RewardWeights:
        """The reward that evaluations report, of the backend's terms alone."""
        ...

    def combine(self, terms: Sequence[str], values: NDArray[np.float32], gamma: float) -> NDArray[np.float32]:
        """Return the rewards (...,) of steps with ``values`` (..., T) of the T named ``terms``.

        Args:
            terms: names of the stored terms.
            values: of each step.
            gamma: discount per step, for shaping by potentials.

        Raises:
            ConfigError: if a term that it needs is not among ``terms``.
        """
        ...


class RewardConfig(Protocol):
    """What the configuration group ``reward`` makes."""

    def make(self, spec: EnvSpec, seed: int) -> Reward:
        """Return the reward for an environment of ``spec``.

        Raises:
            ConfigError: if it does not fit the environment.
        """
        ...


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
    """A function around the policy. What it returns follows from the calls since ``reset`` alone."""

    def reset(self) -> None:
        """Begin an episode."""
        ...

    def __call__(
        self, observation: Observation, action: NDArray[np.float32], now_ns: int
    ) -> tuple[NDArray[np.float32], Verdict]:
        """Return the action (A,) in [-1, 1] to execute instead of ``action``, and why; ``action`` is not written to."""
        ...


class ObservationGuard(Protocol):
    """Decides whether an observation can be trusted. What it returns follows from the calls since ``reset`` alone."""

    def reset(self) -> None:
        """Begin an episode."""
        ...

    def __call__(self, observation: Observation, stamp_ns: int, now_ns: int) -> Verdict:
        """Return a verdict with ``stop`` if nothing may be decided on ``observation``, taken at ``stamp_ns``."""
        ...


class ResetController(Protocol):
    """Brings a robot back to where an episode may begin, in a bounded number of attempts.

    Nothing that it does is learned from: the actor stores no transition of it.
    """

    def run(self, backend: EnvBackend) -> ResetOutcome:
        """Begin the next episode.

        Returns:
            its first step; none where every attempt failed and a person has to help.

        Raises:
            SafetyStop: if the robot was stopped on the way.
        """
        ...

    def note(self, transition: Transition) -> None:
        """Take note of a step of an episode."""
        ...

    def watch(self, listener: Callable[[str], None]) -> None:
        """Tell ``listener`` from now on what the robot is doing, in a word, whenever that changes."""
        ...

    def metrics(self) -> Metrics:
        """Return counts and times so far, by name; ``practice/manual_resets`` among them."""
        ...

    def save(self) -> State:
        """Return everything needed to go on."""
        ...

    def load(self, saved: State) -> None:
        """Go on from what :meth:`save` returned."""
        ...


@runtime_checkable
class PersistentWorld(Protocol):
    """What a backend offers whose episodes may begin where the last one ended, if its world can be saved.

    A simulator's can; a robot's cannot.
    """

    def world(self) -> State | None:
        """Return all that the next episode depends on if it begins where the robot is; None if that cannot be told."""
        ...

    def restore(self, world: State) -> Step:
        """Begin an episode in the world as it was when :meth:`world` returned it, bit for bit."""
        ...


class Teleop(Protocol):
    """A device by which a human drives the robot."""

    def read(self) -> Intervention | None:
        """Return what the human does now, or None if the device says nothing new. Never blocks."""
        ...

    def close(self) -> None: ...


class TransitionInbox(Protocol):
    """Where the learner's end of the wire puts what arrives; safe to call from several threads."""

    def open_session(self, actor: str, newest: int) -> int:
        """Return a session number that ``actor`` never had, above ``newest``; durable on return."""
        ...

    def has_session(self, actor: str, session: int) -> bool:
        """Whether ``open_session`` gave this number to ``actor``, now or before a restart."""
        ...

    def progress(self, actor: str, session: int) -> SessionProgress: ...

    def blocked(self) -> str:
        """Return why nothing can be taken in now, or an empty text."""
        ...

    def offer(self, actor: str, session: int, items: Sequence[Transition | Refusal]) -> None:
        """Take in ``items``, in order and without a gap from ``progress().wanted``."""
        ...

    def close_session(self, actor: str, session: int) -> None:
        """Store what is left of a session from which nothing more will come."""
        ...


class TransitionOutbox(Protocol):
    """Where the actor's end of the wire finds encoded steps; they stay until the learner has settled them."""

    def sessions(self) -> list[int]:
        """Return the sessions with something to send or to end, oldest first."""
        ...

    def extent(self, session: int) -> tuple[int, int]:
        """Return the smallest sequence number held and the one after the largest."""
        ...

    def read(self, session: int, sequence: int, max_bytes: int) -> list[bytes]:
        """Return encoded steps from ``sequence`` on: at least one if there is one, else up to ``max_bytes``."""
        ...

    def settle(self, session: int, sequence: int) -> None:
        """Forget the steps below ``sequence``."""
        ...

    def drop_session(self, session: int) -> None:
        """Forget a session that has ended and is settled."""
        ...
