"""Reward composed of the backend's terms and of modules: weights, gates, clipping, normalisation, potentials."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    BEFORE,
    Batch,
    Comparisons,
    ConfigError,
    EnvSpec,
    Experience,
    Metrics,
    RewardModule,
    RewardWeights,
    SpecError,
    State,
    generator,
    nearest,
    require,
)

from .parts.arrays import take_over, with_prefix, without_prefix
from .parts.entries import entry
from .parts.module import Floats

_FORGETTING = 1e-3
"""Weight of the newest step in the running mean square of ``normalise``, which thus averages over about 1000 steps."""
_FIRST_ROWS = 256
"""Number of rows of the replay buffer from which the mean square starts once a module has learned for the first
time.
"""


@dataclass(frozen=True)
class TermConfig:
    """Processing of a term before it is added to the reward: clipping, division, gating, difference, weight.

    Attributes:
        weight: factor in the sum.
        clip: smallest and largest value; null: no clipping. The range of a potential must contain 0.
        normalise: divide by the root of the running mean square. Signs and zeros are kept, because a shift would change
            what is learned if episodes end early. Values of a module before it first learned are not counted
            afterwards.
        only_where_zero: name of another term; this term counts only in steps in which the other one (as scored) is 0. A
            dense reward can thus stand in for a sparse one.
        potential: whether the term is a potential of the state: gamma times its value after the step minus its value
            before is added (Ng et al. 1999), which does not change the best policy. After a termination its value is 0.
            Only for modules that judge states, and for ``machine_progress``.
    """

    weight: float = 1.0
    clip: tuple[float, float] | None = None
    normalise: bool = False
    only_where_zero: str | None = None
    potential: bool = False

    def __post_init__(self) -> None:
        require(bool(np.isfinite(self.weight)), "reward.terms.*.weight", "finite", self.weight)
        if self.clip is not None:
            object.__setattr__(self, "clip", tuple(self.clip))
            require(
                len(self.clip) == 2 and self.clip[0] < self.clip[1],
                "reward.terms.*.clip",
                "null or [smallest, largest]",
                list(self.clip),
            )
            require(
                not self.potential or self.clip[0] <= 0 <= self.clip[1],
                "reward.terms.*.clip",
                "a range that contains 0 if potential is true: after a termination a potential is 0",
                list(self.clip),
            )
        require(
            not (self.potential and self.only_where_zero is not None),
            "reward.terms.*.only_where_zero",
            "null if potential is true: a gated difference is not potential-based shaping",
            self.only_where_zero,
        )


@dataclass(frozen=True)
class ComposedRewardConfig:
    """Weighted sum of terms, of the backend or of modules.

    Attributes:
        modules: configuration of each module, by the name of its term. A module without an entry in ``terms`` has
            weight 1.
        terms: processing of each term, by name: a ``TermConfig``, or its fields. Terms of the backend without an entry
            are not used.
        offset: constant that is added to the reward of every step.
    """

    modules: dict[str, Any] = field(default_factory=dict)
    terms: dict[str, Any] = field(default_factory=dict)
    offset: float = 0.0

    def __post_init__(self) -> None:
        terms = {
            name: entry(f"reward.terms.{name}", value, TermConfig, "{weight: 1}") for name, value in self.terms.items()
        }
        object.__setattr__(self, "terms", terms)
        require(bool(np.isfinite(self.offset)), "reward.offset", "finite", self.offset)

    def make(self, spec: EnvSpec, seed: int) -> "ComposedReward":
        """Return the reward for an environment of ``spec``.

        Raises:
            ConfigError: if a term is unknown, or a value of ``modules`` is not a module or does not suit the task.
        """
        for name, config in self.modules.items():
            if name in spec.reward_terms or "/" in name:
                raise ConfigError(f"reward.modules: {name!r} is a term of the task, or has a '/': choose another name")
            if not callable(getattr(config, "make", None)):
                raise ConfigError(
                    f"reward.modules.{name}: is not a module; choose one with +reward/module@reward.modules.{name}=NAME"
                )
        valid_names = (*spec.reward_terms, *self.modules)
        for name, term in self.terms.items():
            for term_name, key in (
                (name, "reward.terms"),
                (term.only_where_zero, f"reward.terms.{name}.only_where_zero"),
            ):
                if term_name is not None and term_name not in valid_names:
                    raise ConfigError(f"{key}: there is no term {term_name!r}: {nearest(term_name, valid_names)}")
        modules = {name: config.make(name, spec, seed) for name, config in self.modules.items()}
        terms = self.terms | {name: TermConfig() for name in modules if name not in self.terms}
        for name, term in terms.items():
            is_potential = name + BEFORE in spec.reward_terms or (name in modules and modules[name].judges_state)
            if term.potential and not is_potential:
                raise ConfigError(
                    f"reward.terms.{name}.potential: only a module that judges states, or machine_progress with "
                    "task.machine, can be a potential"
                )
        return ComposedReward(modules, terms, self.offset)


class ComposedReward:
    """Weighted sum of terms; see :class:`ComposedRewardConfig`.

    Attributes:
        scorer: the modules, or None if there are none.
        task: the reward that evaluations report: success or, if the task has none, all terms of the backend. The
            rewards of modules are excluded: they change with the module's version, and the policy was trained to
            exploit them.
    """

    def __init__(self, modules: Mapping[str, RewardModule], terms: Mapping[str, TermConfig], offset: float) -> None:
        self.task = RewardWeights()
        self._terms = terms
        self._offset = offset
        self._scales = {name: RunningScale(term.clip) for name, term in terms.items() if term.normalise}
        potentials = frozenset(name for name, term in terms.items() if term.potential)
        gates = {term.only_where_zero for term in terms.values()}
        held_out = tuple(name for name in modules if terms[name].weight == 0 and name not in gates)
        self.scorer = ModuleScorer(modules, potentials, self._scales, held_out) if modules else None

    def combine(self, terms: Sequence[str], values: NDArray[np.float32], gamma: float) -> NDArray[np.float32]:
        """Return the rewards (...,) of steps with ``values`` (..., T) of the T named ``terms``.

        Raises:
            ConfigError: if a term of the configuration is not among ``terms``.
        """
        total = np.full(values.shape[:-1], self._offset, dtype=np.float32)
        for name, term in self._terms.items():
            value = self._prepared(name, terms, values, term)
            if term.potential:
                value = np.float32(gamma) * value - self._prepared(name + BEFORE, terms, values, term)
            if term.only_where_zero is not None:
                value = np.where(_column(term.only_where_zero, terms, values) == 0, value, np.float32(0))
            total += np.float32(term.weight) * value
        return total

    def _prepared(self, column: str, terms: Sequence[str], values: Floats, term: TermConfig) -> Floats:
        value = _column(column, terms, values)
        if term.clip is not None:
            value = value.clip(np.float32(term.clip[0]), np.float32(term.clip[1]))
        scale = self._scales.get(column.removesuffix(BEFORE))
        return value if scale is None else value / np.float32(scale.value)


def _column(name: str, terms: Sequence[str], values: Floats) -> Floats:
    if name not in terms:
        raise ConfigError(f"reward.terms: the data has no term {name!r}: {nearest(name, terms)}")
    return values[..., terms.index(name)]


class RunningScale:
    """Root of the exponential moving average of a term's squares, with bias correction; 1 while all values are 0.

    Args:
        clip: smallest and largest value that the term is clipped to first; None for no clipping.
    """

    def __init__(self, clip: tuple[float, float] | None = None) -> None:
        self._clip = clip or (-np.inf, np.inf)
        self.sums = np.zeros(2)  # sums of squares and of weights

    def update(self, values: Floats) -> None:
        """Add values (n,), the newest last."""
        for value in values.clip(*self._clip).tolist():
            self.sums *= 1 - _FORGETTING
            self.sums += _FORGETTING * np.array([value * value, 1.0])

    def restart(self, values: Floats) -> None:
        """Discard all previous values, and start from the mean square of values (n,), with the weight of one step."""
        self.sums[...] = _FORGETTING * np.array([np.mean(np.square(values.clip(*self._clip), dtype=float)), 1.0])

    @property
    def value(self) -> float:
        """The divisor, never 0."""
        squares, weights = self.sums
        return max(float(np.sqrt(squares / weights)), 1e-8) if squares and weights else 1.0


class _Modules:
    """Reward modules of a run, those of constraints among them, and what follows for all together.

    Attributes:
        modules: the modules by the name of their term, without those of constraints.
    """

    def __init__(self, modules: Mapping[str, RewardModule], held_out: tuple[str, ...]) -> None:
        self.modules = modules
        self._modules = dict(modules)
        self._held_out = held_out

    @property
    def held_out(self) -> tuple[str, ...]:
        """Names of the modules that do not count, without learned modules that have not learned yet."""
        return tuple(name for name in self._held_out if not (module := self._modules[name]).learned or module.version)

    @property
    def learns(self) -> bool:
        """Whether a module is learned."""
        return any(module.learned for module in self._modules.values())

    @property
    def whole_episodes(self) -> bool:
        """Whether a module needs whole episodes."""
        return any(module.whole_episodes for module in self._modules.values())

    @property
    def waiting(self) -> bool:
        """Whether a module waits for an answer of a person or a model."""
        return any(module.waiting for module in self._modules.values())

    @property
    def needs_steps(self) -> tuple[str, ...]:
        """Names of the modules that do not judge single states."""
        return tuple(name for name, module in self._modules.items() if not module.judges_state)

    @property
    def version(self) -> int:
        """Sum of the versions of the modules that count."""
        return sum(module.version for name, module in self._modules.items() if name not in self._held_out)

    @property
    def discount(self) -> float | None:
        """The smallest discount that a module that counts requests, or None."""
        counting_modules = (module for name, module in self._modules.items() if name not in self._held_out)
        requested = [gamma for module in counting_modules if (gamma := module.discount()) is not None]
        return min(requested, default=None)

    @property
    def comparisons(self) -> Comparisons | None:
        """The comparisons of demonstrations of the first module that has any, or None."""
        collected = (result for module in self._modules.values() if (result := module.comparisons()) is not None)
        return next(collected, None)


class ModuleScorer(_Modules):
    """Reward modules of a run; implements :class:`robo_rl.core.Scorer`.

    Args:
        modules: reward modules by the name of their term.
        potentials: names of the modules that are also stored for the state before a step.
        scales: scales of the normalised terms; the scorer updates them.
        held_out: names of the modules that do not count, and that judge the policy.

    Attributes:
        terms: names of the terms that modules add.
    """

    def __init__(
        self,
        modules: Mapping[str, RewardModule],
        potentials: frozenset[str],
        scales: Mapping[str, RunningScale],
        held_out: tuple[str, ...],
    ) -> None:
        super().__init__(modules, held_out)
        self._potentials = potentials
        self._scales = scales
        self.terms = (*modules, *(name + BEFORE for name in modules if name in potentials))

    def add(self, constraints: Mapping[str, RewardModule], limited: Collection[str]) -> None:
        """Add the modules of constraints.

        Args:
            constraints: modules by the names of their terms, which come last.
            limited: names of the modules whose values are limited. They do not judge the policy otherwise.
        """
        self._modules |= constraints
        self.terms = (*self.terms, *constraints)
        self._held_out = tuple(name for name in self._held_out if name not in limited)

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Prepare all modules from demonstrations; metrics are named ``<module>/<metric>``."""
        metrics: Metrics = {}
        for name, module in self._modules.items():
            metrics |= {f"{name}/{metric}": value for metric, value in module.fit(episodes).items()}
        return metrics

    def ready(self, first: Batch) -> bool:
        """Return whether no module has to wait for an answer; all modules request their answers at once."""
        answered = [module.ready(first) for module in self._modules.values()]
        return all(answered)

    def score(self, batch: Batch, *, online: bool) -> dict[str, Floats]:
        """Return all ``terms`` (n,) for the n steps of an episode that are about to be inserted."""
        scores: dict[str, Floats] = {}
        for name, module in self._modules.items():
            if online:
                module.observe(batch)
            scores |= self._scored(name, module, batch)
        for name, scale in self._scales.items():
            scale.update(scores[name] if name in scores else batch[f"term/{name}"])
        return scores

    def rescore(self, batch: Batch) -> dict[str, Floats]:
        """Return the terms (n,), for any n rows, of the learned modules that count."""
        scores: dict[str, Floats] = {}
        for name, module in self._modules.items():
            if module.learned and name not in self._held_out:
                scores |= self._scored(name, module, batch)
        return scores

    def judge(self, batch: Batch) -> dict[str, Floats]:
        """Return the rewards (n,) of modules that judge single transitions, for any rows, including invented ones."""
        judging = {
            name: module for name, module in self._modules.items() if module.judges_state or not module.whole_episodes
        }
        return {name: module(batch) for name, module in judging.items()}

    def update(self, experience: Experience) -> Metrics:
        """Update the learned modules; metrics are named ``<module>/<metric>``."""
        metrics: Metrics = {}
        for name, module in self._modules.items():
            had_learned = module.version > 0
            metrics |= {f"{name}/{metric}": value for metric, value in module.update(experience).items()}
            if module.version and not had_learned and name in self._scales and len(experience):
                # Until then, many scores are 0. Stored steps are scored again at once, so the scale cannot wait for new
                # steps. New steps soon outweigh the stored ones, which a module that learned from them may score lower.
                rows = experience.sample_rows(_FIRST_ROWS, generator(0, "scale", name))
                self._scales[name].restart(self._scored(name, module, rows)[name])
        return metrics

    def _scored(self, name: str, module: RewardModule, batch: Batch) -> dict[str, Floats]:
        score = module(batch)
        if score.shape != batch["action"].shape[:1] or not np.isfinite(score).all():
            raise SpecError(f"reward module {name!r}: expected {len(batch['action'])} finite values, got {score}")
        if name not in self._potentials:
            return {name: score}
        before = {f"next_{key}": value for key, value in batch.items() if key.startswith("observation/")}
        return {
            name: np.where(batch["terminated"], np.float32(0), score),
            name + BEFORE: module(batch | before),
        }

    def state(self) -> State:
        """Return the states of all modules and scales."""
        state: State = {f"scale/{name}": scale.sums for name, scale in self._scales.items()}
        for name, module in self._modules.items():
            state |= with_prefix(f"module/{name}/", module.state())
        return state

    def load(self, state: State) -> None:
        """Restore ``state``."""
        take_over({f"scale/{name}": scale.sums for name, scale in self._scales.items()}, state, "normalise")
        for name, module in self._modules.items():
            module.load(without_prefix(f"module/{name}/", state))
