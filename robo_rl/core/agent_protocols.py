"""Protocols of policies, agents, and optional abilities of agents."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .specs import ArraySpec
from .types import Batch, Comparisons, Metrics, Observation, State

if TYPE_CHECKING:
    from torch import Tensor


class Policy(Protocol):
    """A function that chooses actions from observations."""

    def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
        """Return an action (A,) float32 in [-1, 1]; the mode of the distribution unless ``explore``.

        A policy of action chunks returns the next action of its current chunk, whatever the observation, and decides on
        a new chunk when the current one is used up. Chunks with and without ``explore`` are kept separately.
        """
        ...

    def forget_plan(self, *, explore: bool) -> None:
        """Forget the rest of a chunk, because the next observation does not follow from the last action returned.

        Call this when an episode begins, and after someone else has acted.
        """
        ...


class ScriptedExpert(Protocol):
    """A scripted solution that may read the simulator's state. One object solves one episode after another."""

    def reset(self) -> None:
        """Begin an episode (after the backend's reset)."""
        ...

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return an action (A,) float32 in [-1, 1]."""
        ...


@runtime_checkable
class Critic(Protocol):
    """The ability of an agent to estimate values of states and actions."""

    def value(self, observation: Observation, action: NDArray[np.float32]) -> float:
        """Return the estimated discounted return after ``action`` (A,) on ``observation``: Q(s, a)."""
        ...


@runtime_checkable
class RankedLearner(Protocol):
    """The ability of an agent to share the computation of its updates among several processes."""

    def follow(self) -> None:
        """Compute this process's share of the updates of rank 0, until rank 0 ends.

        Raises:
            RankError: if another process is gone.
        """
        ...


@runtime_checkable
class OfflineLearner(Protocol):
    """The ability of an agent to do offline reinforcement learning on demonstrations before the first step."""

    @property
    def offline_steps(self) -> int:
        """Number of pretraining steps; 0 for none."""
        ...

    def pretrain_critics(self, batch: Batch) -> Metrics:
        """Take one step on a batch of demonstrations, after all steps of ``pretrain``."""
        ...


@runtime_checkable
class ComparisonLearner(Protocol):
    """The ability of an agent to learn from preferences directly, without a reward model."""

    def fit_comparisons(self, comparisons: Comparisons | None) -> None:
        """Set the comparisons of segments of the demonstrations; called once, before anything is learned.

        Raises:
            ConfigError: if there are no comparisons.
        """
        ...


@dataclass(frozen=True)
class Decision:
    """The decision of a policy without exploration, as a function of tensors.

    Attributes:
        compute: function that returns the chunk of actions (h, A) in [-1, 1] for one observation, tensors by key, and
            noise (noise_size,). It consists of tensor operations alone, whose sequence depends on no values.
        observed: observation keys that it uses, sorted.
        example: function that returns a random observation of the magnitude that the policy was trained with.
        noise_size: elements of standard normal noise for one decision; 0 if the decision is deterministic.
        noise_seed: seed of the generator that the policy draws this noise from.
        inpaint: function that returns a chunk like ``compute``, but one that continues known actions: its further
            arguments are a chunk (h, A) and the weight (h,) in [0, 1] with which each of its actions is to be kept.
            None: the policy has no such chunks.
    """

    compute: "Callable[[Mapping[str, Tensor], Tensor], Tensor]"
    observed: tuple[str, ...]
    example: Callable[[np.random.Generator], Observation]
    noise_size: int = 0
    noise_seed: int = 0
    inpaint: "Callable[[Mapping[str, Tensor], Tensor, Tensor, Tensor], Tensor] | None" = None


@runtime_checkable
class Deployable(Protocol):
    """The ability of an agent to state its decision as a function that can be written to a file (robo-rl deploy)."""

    def decision(self) -> Decision:
        """Return the decision of the policy with its current parameters.

        Raises:
            ConfigError: if a file cannot hold it.
        """
        ...


class FeatureExtractor(Protocol):
    """A function of images that never changes, so that the replay buffer may store its results."""

    @property
    def views(self) -> int:
        """Number of views of each image, such as random shifts, that have features of their own."""
        ...

    @property
    def spec(self) -> Mapping[str, ArraySpec]:
        """Specs of the features of one view, by observation key of the image."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the features depend on, except images and numbers."""
        ...

    def __call__(self, images: Batch, numbers: NDArray[np.intp]) -> Batch:
        """Return the features (n, views, ...) of ``images`` (n, H, W, C), both by observation key.

        ``numbers`` (n,) seed the views: equal images with equal numbers have equal features.
        """
        ...


class AgentConfig(Protocol):
    """The fields of an agent's configuration that a run reads; see :class:`~robo_rl.agents.sac.SACConfig`."""

    @property
    def learns_online(self) -> bool: ...
    @property
    def imitates(self) -> bool:
        """Whether ``pretrain`` imitates, so that failed demonstrations are not used for it."""
        ...

    @property
    def online_cloning_weight(self) -> float:
        """Weight of imitating the valuable steps of the running training; 0 for no imitation."""
        ...

    @property
    def gamma(self) -> float: ...
    @property
    def n_step(self) -> int: ...
    @property
    def action_chunk(self) -> int: ...
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
    """A learner of a policy. ``state`` and ``load`` carry everything, including optimisers; the names of random
    generators in a state begin with ``generator/``.
    """

    @property
    def config(self) -> AgentConfig: ...

    @property
    def implementation(self) -> str:
        """Name of the implementation that computes updates, for display."""
        ...

    @property
    def features(self) -> FeatureExtractor | None:
        """Computes the features that batches hold instead of images; None if batches hold the images."""
        ...

    @property
    def observed(self) -> tuple[str, ...]:
        """Observation keys that the agent learns from and that batches must contain."""
        ...

    def fit_normaliser(self, batch: Batch) -> None:
        """Fix the normalisation of observations from a batch of demonstrations, before anything is learned."""
        ...

    def pretrain(self, batch: Batch) -> Metrics:
        """Take one step of behaviour cloning on a batch of demonstrations."""
        ...

    @property
    def update_rows(self) -> int:
        """Rows of the batch that ``update`` takes: update-to-data ratio times batch size."""
        ...

    def update(self, batch: Batch) -> Metrics:
        """Learn from ``update_rows`` rows: the gradient steps that one environment step pays for."""
        ...

    def state(self) -> State: ...

    def load(self, state: State) -> None:
        """Restore ``state``.

        Raises:
            CheckpointError: if names or shapes do not match this agent.
        """
        ...

    def policy_state(self) -> State:
        """Return the part of the state that ``act`` needs; names, shapes and types never change."""
        ...

    def load_policy(self, state: State) -> None:
        """Restore a state from :meth:`policy_state`."""
        ...


@runtime_checkable
class WarmStartLearner(Protocol):
    """The ability of an agent to start from what another agent of its kind has learned."""

    def start_from(self, other: Agent, *, critics: bool) -> tuple[str, ...]:
        """Take over the policy of ``other`` and, if requested, its critics; return the names of what was taken over.

        Raises:
            ConfigError: names each difference between the agents.
        """
        ...
