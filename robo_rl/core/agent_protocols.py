"""The interfaces of policies, of agents, and of what some agents offer beyond."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .specs import ArraySpec
from .types import Batch, Comparisons, Metrics, Observation, State


class Policy(Protocol):
    """Anything that chooses actions from observations."""

    def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
        """Return an action (A,) float32 in [-1, 1]; the mode of the distribution unless ``explore``.

        A policy of action chunks returns the next action of the chunk that it has decided, whatever is observed, and
        decides anew where none is left. Those with and without ``explore`` are apart: neither uses up the other's.
        """
        ...

    def forget_plan(self, *, explore: bool) -> None:
        """Forget what is left of a chunk: the next observation does not follow from the last action returned.

        So it is where an episode begins, and after somebody else acted.
        """
        ...


class ScriptedExpert(Protocol):
    """A scripted solution that may look at the simulator's state. Made for one episode after another."""

    def reset(self) -> None:
        """Begin an episode (after the backend's reset)."""
        ...

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return an action (A,) float32 in [-1, 1]."""
        ...


@runtime_checkable
class Critic(Protocol):
    """What agents with values of states and actions offer."""

    def value(self, observation: Observation, action: NDArray[np.float32]) -> float:
        """Return the estimated discounted return after ``action`` (A,) on ``observation``: Q(s, a)."""
        ...


@runtime_checkable
class RankedLearner(Protocol):
    """What an agent offers if several processes can share the computation of its updates."""

    def follow(self) -> None:
        """Compute this process's share of the updates that rank 0 does, until it ends.

        Raises:
            RankError: if another process is gone.
        """
        ...


@runtime_checkable
class OfflineLearner(Protocol):
    """What an agent offers if its values too can be learned from demonstrations before the first step."""

    @property
    def offline_steps(self) -> int:
        """Steps that it wants to take; 0: none."""
        ...

    def pretrain_critics(self, batch: Batch) -> Metrics:
        """Take one step on a batch of demonstrations that has ``return_to_go``, after all steps of ``pretrain``."""
        ...


@runtime_checkable
class ComparisonLearner(Protocol):
    """What an agent offers if it learns from preferences directly, without a reward model between."""

    def fit_comparisons(self, comparisons: Comparisons | None) -> None:
        """Take over comparisons of segments of the demonstrations; once, before anything is learned.

        Raises:
            ConfigError: if there are none.
        """
        ...


class FeatureExtractor(Protocol):
    """A function of images that never changes, so that the replay may keep what it returns."""

    @property
    def views(self) -> int:
        """How many views of each image, such as random shifts, have features of their own."""
        ...

    @property
    def spec(self) -> Mapping[str, ArraySpec]:
        """Specs of the features of one view, by observation key of the image that they stand for."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of everything but images and numbers that the features depend on."""
        ...

    def __call__(self, images: Batch, numbers: NDArray[np.intp]) -> Batch:
        """Return the features (n, views, ...) of ``images`` (n, H, W, C), both by observation key.

        ``numbers`` (n,) seed the views: equal images with equal numbers have equal features.
        """
        ...


class AgentConfig(Protocol):
    """What the composition reads of an agent's configuration; see :class:`~robo_rl.agents.sac.SACConfig`."""

    @property
    def learns_online(self) -> bool: ...
    @property
    def imitates(self) -> bool:
        """Whether ``pretrain`` imitates, so that demonstrations which failed are not for it."""
        ...

    @property
    def online_cloning_weight(self) -> float:
        """Weight of imitating the steps of the running training that are worth it; 0: none is imitated."""
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
    """A learner of a policy. ``state`` and ``load`` carry everything, optimisers too, and random generators by names
    that begin with ``generator/``.
    """

    @property
    def config(self) -> AgentConfig: ...

    @property
    def implementation(self) -> str:
        """Name of the implementation that computes updates, for people."""
        ...

    @property
    def features(self) -> FeatureExtractor | None:
        """Makes the features that Batches have in the place of images; None: Batches have the images."""
        ...

    @property
    def observed(self) -> tuple[str, ...]:
        """Observation keys that it learns from: those that Batches have to have."""
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
