"""Ensembles of reward modules, whose disagreement can lower the reward (Coste et al. 2023)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from robo_rl.core import (
    Batch,
    CheckpointError,
    Comparisons,
    ConfigError,
    EnvSpec,
    Experience,
    Metrics,
    Options,
    RewardModule,
    State,
    derive_seed,
    option,
    require,
)

from ..parts.arrays import with_prefix, without_prefix
from ..parts.module import Floats

COMBINATIONS = ("mean", "worst", "uncertainty")


@dataclass(frozen=True)
class EnsembleConfig(Options):
    """Modules whose rewards are combined into one.

    A policy that exploits an error of one learned reward exploits others less if they do not have the same error.
    Members should differ in how they were made: in their seeds (``copies``), their data or their kind. A reward without
    randomness, such as optimal transport, gains nothing from copies. Members of different kinds should have rewards of
    the same range.

    Attributes:
        members: configuration of each module, by name.
        copies: number of copies of each member, with different seeds.
        combination: ``mean``, ``worst`` (the smallest reward) or ``uncertainty`` (the mean minus ``uncertainty_weight``
            times the variance).
        uncertainty_weight: see ``combination``.
    """

    members: dict[str, Any] = field(default_factory=dict)
    copies: int = option(3, low=1)
    combination: str = "worst"
    uncertainty_weight: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_combination(self.combination, self.uncertainty_weight)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "EnsembleReward":
        """Return the module of term ``name``.

        Raises:
            ConfigError: if there are no members, or one is not a module or does not suit the environment or the others.
        """
        option = f"reward.modules.{name}.members"
        if not self.members:
            raise ConfigError(f"{option}: there are none; choose one with +reward/module@{option}.NAME=classifier")
        modules: dict[str, list[RewardModule]] = {}
        for member, config in self.members.items():
            if not callable(getattr(config, "make", None)):
                raise ConfigError(
                    f"{option}.{member}: is not a module; choose one with +reward/module@{option}.{member}=NAME"
                )
            if hasattr(config, "members"):
                raise ConfigError(f"{option}.{member}: is an ensemble itself, with options members and combination")
            seeds = (derive_seed(seed, "member", member, copy) for copy in range(self.copies))
            modules[member] = [config.make(f"{name}.members.{member}", spec, member_seed) for member_seed in seeds]
        # Learned modules are scored again row by row, and only the combined reward of the members is stored.
        learned = [member for member, (module, *_) in modules.items() if module.learned]
        whole = [
            member for member, (module, *_) in modules.items() if module.whole_episodes and not module.judges_state
        ]
        if learned and whole:
            raise ConfigError(
                f"{option}: {whole[0]} judges whole episodes, so it cannot be scored again with {learned[0]}, which is "
                "learned: give each a separate entry in reward.modules"
            )
        return EnsembleReward(self, list(chain.from_iterable(modules.values())))


class EnsembleReward:
    """Reward module that combines several members; see :class:`EnsembleConfig`.

    Args:
        config: configuration of the module.
        members: the modules; copies of a module are adjacent.
    """

    def __init__(self, config: EnsembleConfig, members: Sequence[RewardModule]) -> None:
        self.config = config
        self._members = members
        self.learned = any(member.learned for member in members)
        self.whole_episodes = any(member.whole_episodes for member in members)
        self.judges_state = all(member.judges_state for member in members)

    @property
    def waiting(self) -> bool:
        """Whether a member waits for an answer of a person or a model."""
        return any(member.waiting for member in self._members)

    @property
    def version(self) -> int:
        """Sum of the members' versions."""
        return sum(member.version for member in self._members)

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Prepare all members from the same demonstrations; return each metric averaged over members that have it."""
        return _mean([member.fit(episodes) for member in self._members])

    def observe(self, batch: Batch) -> None:
        """Pass rows to all members."""
        for member in self._members:
            member.observe(batch)

    def __call__(self, batch: Batch) -> Floats:
        """Return the combined rewards (n,) of the members."""
        rewards = np.stack([member(batch) for member in self._members])
        return combined(rewards, self.config.combination, self.config.uncertainty_weight)

    def update(self, experience: Experience) -> Metrics:
        """Update all members; return each metric averaged over the members that have it."""
        return _mean([member.update(experience) for member in self._members])

    def discount(self) -> float | None:
        """Return the smallest discount that a member requests, or None."""
        return min((gamma for member in self._members if (gamma := member.discount()) is not None), default=None)

    def comparisons(self) -> Comparisons | None:
        """Return None: modules that collect comparisons are ensembles themselves."""
        return None

    def ready(self, first: Batch) -> bool:
        """Return whether no member has to wait for an answer; all members request their answers at once."""
        answered = [member.ready(first) for member in self._members]
        return all(answered)

    def state(self) -> State:
        """Return the states of all members, and their number."""
        state: State = {"members": np.array([len(self._members)])}
        for number, member in enumerate(self._members):
            state |= with_prefix(f"member/{number}/", member.state())
        return state

    def load(self, state: State) -> None:
        """Restore ``state``."""
        count = state["members"].tolist() if "members" in state else []
        if count != [len(self._members)]:
            raise CheckpointError(
                f"reward ensemble: expected {len(self._members)} members, found {count}; resume with the configuration "
                "of the run"
            )
        for number, member in enumerate(self._members):
            member.load(without_prefix(f"member/{number}/", state))


def require_combination(combination: str, uncertainty_weight: float) -> None:
    """Raise :class:`ConfigError` unless :func:`combined` accepts these values."""
    require(combination in COMBINATIONS, "combination", f"one of {', '.join(COMBINATIONS)}", combination)
    require(uncertainty_weight >= 0, "uncertainty_weight", "0 or more", uncertainty_weight)


def combined(members: Floats, combination: str, uncertainty_weight: float) -> Floats:
    """Return the combined rewards (n,) of an ensemble (members, n); see :class:`EnsembleConfig`.

    The variance is the population variance: the sum of squares divided by the number of members.
    """
    rewards: Floats = members.min(0) if combination == "worst" else members.mean(0)
    if combination == "uncertainty":
        rewards = rewards - np.float32(uncertainty_weight) * members.var(0)
    return rewards


def _mean(metrics: Sequence[Metrics]) -> Metrics:
    """Return each metric averaged over the members that have it."""
    names = dict.fromkeys(name for member_metrics in metrics for name in member_metrics)
    return {
        name: float(np.mean([member_metrics[name] for member_metrics in metrics if name in member_metrics]))
        for name in names
    }
