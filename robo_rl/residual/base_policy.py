"""Frozen policies that an agent corrects."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import EnvSpec, Observation, SpecError, generator

Decide = Callable[[Observation, NDArray[np.float32]], NDArray[np.float32]]


class KnownActions(NamedTuple):
    """The actions that a new chunk begins with or should continue.

    Attributes:
        actions: the next actions (k, A) of the current chunk.
        weights: weight (k,) in [0, 1] of each: 1 if it will be executed before the new chunk is used.
    """

    actions: NDArray[np.float32]
    weights: NDArray[np.float32]


Inpaint = Callable[[Observation, NDArray[np.float32], KnownActions], NDArray[np.float32]]


class BasePolicy:
    """A frozen policy of actions or of chunks of actions, whatever computes it.

    Its state is the rest of its chunk and a generator of noise. Both are reset at the start of each episode, so an
    interrupted episode that is repeated from its seed has the same base actions.

    Args:
        decide: function of an observation and of standard normal noise (noise_size,) that returns a chunk (h, A) in
            [-1, 1], or a single action (A,).
        name: name for messages, such as ``runs/clone (task reach, agent bc, step 0)``.
        fingerprint: text that changes with the policy. Two processes of a run, and a resumed run, need the same.
        spec: spec of the environment that the policy was made for; None if it is unknown and cannot be checked.
        noise_size: elements of noise for one decision; 0 if the policy is deterministic.
        inpaint: the same as ``decide`` for a chunk that continues known actions; None: the policy has no such chunks.

    Attributes:
        observed_steps: number of consecutive observations that a decision depends on.
    """

    observed_steps = 1

    def __init__(
        self,
        decide: Decide,
        name: str,
        fingerprint: str,
        spec: EnvSpec | None = None,
        noise_size: int = 0,
        inpaint: Inpaint | None = None,
    ) -> None:
        self._decide, self._inpaint = decide, inpaint
        self.name, self.fingerprint, self.spec, self._noise_size = name, fingerprint, spec, noise_size
        self._noise = generator(0, "base policy")
        self._plan: list[NDArray[np.float32]] = []

    @classmethod
    def of_function(
        cls, function: Callable[[Observation], NDArray[np.float32]], name: str, fingerprint: str = ""
    ) -> "BasePolicy":
        """Return the policy that ``function`` computes from an observation alone: an action (A,) or a chunk (h, A)."""
        return cls(lambda observation, _: function(observation), name, fingerprint)

    def differences(self, spec: EnvSpec) -> list[str]:
        """Return one line for each point in which ``spec`` differs from the spec that the policy was made for."""
        return [] if self.spec is None else self.spec.differences(spec)

    def begin_episode(self, seed: int | None) -> None:
        """Begin an episode; its noise follows from ``seed``. Without a seed, the noise of the last episode goes on."""
        self.forget_plan()
        if seed is not None:
            self._noise = generator(seed, "base policy")

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return the next action (A,) of the current chunk, or decide on another chunk if there is none.

        Raises:
            SpecError: if the policy returns something that is no chunk of actions.
        """
        if not self._plan:
            self._plan = list(self.decide(observation))
        return self._plan.pop(0)

    @property
    def continues_actions(self) -> bool:
        """Whether the policy can return chunks that continue known actions."""
        return self._inpaint is not None

    def decide(self, observation: Observation, known: KnownActions | None = None) -> NDArray[np.float32]:
        """Return a new chunk of actions (h, A), which continues the ``known`` ones if the policy can.

        Raises:
            SpecError: if the policy returns something that is no chunk of actions.
        """
        noise = self._noise.standard_normal(self._noise_size, dtype=np.float32)
        if known is None or self._inpaint is None:
            chunk = np.asarray(self._decide(observation, noise), dtype=np.float32)
        else:
            chunk = np.asarray(self._inpaint(observation, noise, known), dtype=np.float32)
        if chunk.ndim not in (1, 2) or not chunk.size:
            raise SpecError(
                f"base policy {self.name}: expected an action (A,) or a chunk (h, A), got shape {chunk.shape}"
            )
        return chunk.reshape(-1, chunk.shape[-1])

    def forget_plan(self, executed: NDArray[np.float32] | None = None) -> None:
        """Forget the rest of the chunk, because the next observation does not follow from its actions.

        Args:
            executed: the action (A,) that was executed instead, if it is known. A policy that decides in the background
                holds the robot still from there.
        """
        self._plan = []

    def close(self) -> None:
        """End what computes in the background."""
        return


class FrozenPolicy:
    """A :class:`~robo_rl.core.Policy` that a base policy computes; it does not explore.

    Args:
        base: the base policy. Its episodes begin without seeds.
    """

    def __init__(self, base: BasePolicy) -> None:
        self._base = base

    def act(self, observation: Observation, *, explore: bool = False) -> NDArray[np.float32]:
        """Return an action (A,) in [-1, 1]; ``explore`` has no effect."""
        return self._base.act(observation)

    def forget_plan(self, *, explore: bool = False) -> None:
        """Begin an episode."""
        self._base.begin_episode(None)
