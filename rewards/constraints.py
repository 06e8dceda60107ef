"""Constraints of a reward in physical units, whose weights follow from what recent episodes did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    CONSTRAINT,
    Batch,
    ConfigError,
    EnvSpec,
    Experience,
    Formula,
    Limit,
    Metrics,
    Options,
    Reward,
    RewardModule,
    Source,
    State,
    moved_section,
    nearest,
    option,
    parse_specification,
    require,
)

from .composition import ModuleScorer
from .parts.entries import entry
from .parts.module import Floats, Module
from .parts.multiplier import Multiplier
from .parts.quantities import Quantities

HIGHEST = 10.0
"""Multiple of a limit on a mean at which the cost of a step is 1, the most that it can be."""
_SECTION = "reward.constraints.*"
_EXAMPLE = '{keep: "force < 10 N", most: 0.02}'


@dataclass(frozen=True)
class ConstraintConfig(Options, section=_SECTION):
    """Limit on what the policy does; one of ``keep``, ``term`` and ``success`` states what is limited.

    The weight of its cost in the reward is a multiplier. After each episode it is changed by a PID controller, whose
    error is the excess of the newest episodes over the limit, relative to the limit, in [-1, 1].

    Attributes:
        keep: momentary formula that must hold after a step.
        term: name of a quantity, of a term of the task, or of a module that does not learn, whose mean is limited.
        success: smallest share of solved episodes.
        most: with ``keep``: largest share of steps in which it does not hold; with ``term``: largest mean per step.
        episodes: number of the newest episodes that the controller regards.
        proportional: multiplier for an error of 1.
        integral: growth of the multiplier in each episode with an error of 1.
        derivative: increase of the multiplier when the error grows by 1 from one episode to the next.
        initial: multiplier before the first episode. With all three gains at 0 it is a fixed weight.
    """

    keep: str | None = None
    term: str | None = None
    success: float | None = option(None, above=0, high=1)
    most: float | None = option(None, above=0, below=float("inf"))
    episodes: int = option(10, low=1, high=10_000)
    proportional: float = option(0.1, low=0, below=float("inf"))
    integral: float = option(0.02, low=0, below=float("inf"))
    derivative: float = option(0.0, low=0, below=float("inf"))
    initial: float = option(0.0, low=0, below=float("inf"))

    def __post_init__(self) -> None:
        super().__post_init__()
        limited = [name for name in ("keep", "term", "success") if getattr(self, name) is not None]
        require(len(limited) == 1, _SECTION, "a limit with one of keep, term and success", limited)
        if self.success is None:
            require(self.most is not None, f"{_SECTION}.most", "the largest share or mean", self.most)
        else:
            require(self.most is None, f"{_SECTION}.most", "left out with success, which is the limit", self.most)
        if self.keep is not None and self.most is not None:
            expected = "a share of the steps, below 1"
            require(self.most < 1, f"{_SECTION}.most", expected, self.most)


def constrained(reward: Reward, entries: Mapping[str, Any], spec: EnvSpec) -> "ConstrainedReward":
    """Return ``reward`` with the constraints of ``reward.constraints``.

    Args:
        reward: a reward of terms of the task and of modules.
        entries: a :class:`ConstraintConfig`, or its fields, by the name of the constraint.
        spec: spec of the environment.

    Raises:
        ConfigError: if a limit is impossible or unclear, a formula is not momentary, a quantity is unknown, or the
            reward is not of that kind.
    """
    scorer = ModuleScorer({}, frozenset(), {}, ()) if reward.scorer is None else reward.scorer
    if not isinstance(scorer, ModuleScorer):
        raise ConfigError("reward.constraints needs a reward of terms and modules, such as reward=composed")
    configs: dict[str, ConstraintConfig] = {}
    for name, value in entries.items():
        place = f"reward.constraints.{name}"
        require("/" not in name, place, "a name without '/'", name)
        with moved_section(_SECTION, place):
            configs[name] = entry(place, value, ConstraintConfig, _EXAMPLE)
    successes = [name for name, config in configs.items() if config.success is not None]
    require(len(successes) <= 1, "reward.constraints", "constraints of which at most one limits success", successes)
    modules: dict[str, Constraint] = {}
    for name in sorted(configs, key=lambda name: name not in successes):  # the success of an episode counts first
        modules[name] = Constraint(name, configs[name], spec, scorer, modules)
    limited = [config.term for config in configs.values() if config.term is not None]
    scorer.add({CONSTRAINT + name: module for name, module in modules.items()}, limited)
    return ConstrainedReward(reward, scorer, modules)


class Constraint(Module):
    """Costs of a constraint as a reward module, and its multiplier; see :class:`ConstraintConfig`.

    Steps count if the policy chose their actions, and episodes if it chose their last one. If success is limited, the
    positive errors of the others count in proportion to the success, up to its limit: the task is learned first. The
    multiplier of success rises only while another one is above 0, as it would have no effect.

    Args:
        name: name of the constraint.
        config: its options.
        spec: spec of the environment.
        scorer: the modules of the reward.
        all_of_them: the constraints of the reward by name, to which this one is added; that on success comes first.

    Attributes:
        limit: what is limited.
        multiplier: the multiplier.
        reads: names of the elements of observations and reward terms that costs are computed from.
        scale: factor of a cost in the reward.
    """

    judges_state = False

    def __init__(
        self,
        name: str,
        config: ConstraintConfig,
        spec: EnvSpec,
        scorer: ModuleScorer,
        all_of_them: "Mapping[str, Constraint]",
    ) -> None:
        super().__init__()
        self._all = all_of_them
        gains = config.proportional, config.integral, config.derivative
        self.multiplier = Multiplier(gains, config.initial, config.episodes)
        self._changed = False
        self._quantities = Quantities(spec)
        self._formula: Formula | None = None
        self._module: RewardModule | None = None
        self.reads = frozenset[str]()
        place = f"reward.constraints.{name}"
        if config.keep is not None:
            self._formula, self._names = _momentary(config.keep, self._quantities, place)
            self.reads = self._quantities.reads(self._names)
        elif config.term in self._quantities.units:
            self.reads = self._quantities.reads((config.term,))
        elif config.term is not None:
            self._module = _fixed_module(config.term, scorer, self._quantities, place)
        self.limit = _limit(name, config, self._quantities)
        self.scale = {"share": 1.0, "mean": 1.0 / (HIGHEST * self.limit.bound), "success": 0.0}[self.limit.kind]

    def __call__(self, batch: Batch) -> Floats:
        """Return the costs (n,) of the rows: 0 or 1, or the values of the quantity; for success 1 where it is known."""
        if self.limit.kind == "success":
            return np.asarray(batch["success"] == 1, np.float32)
        if self._module is not None:
            return self._module(batch)
        if self._formula is None:
            return np.asarray(self._quantities.values(self.limit.subject, batch), np.float32)
        signals = {name: self._quantities.values(name, batch) for name in self._names}
        return np.asarray(self._formula.trace(signals, 1.0) <= 0, np.float32)

    def observe(self, batch: Batch) -> None:
        """Count rows of the running training and, at the end of an episode, change the multiplier."""
        counted = batch["source"] == Source.POLICY
        ends = batch["terminated"] | batch["truncated"]
        least = self.limit.kind == "success"
        if least:
            counted &= ends & (batch["success"] >= 0)
        if counted.any():
            self.multiplier.add(float(self(batch)[counted].sum(dtype=np.float64)), int(counted.sum()))
        if ends.any():
            self._changed |= self.multiplier.end_episode(self.limit.bound, least=least, rising=self._rising())

    def update(self, experience: Experience) -> Metrics:
        """Return the value, the limit and the multiplier after the end of an episode."""
        if not self._changed:
            return {}
        self._changed = False
        multiplier = self.multiplier
        return {"value": multiplier.mean, "limit": self.limit.bound, "multiplier": multiplier.value}

    def state(self) -> State:
        """Return the state of the multiplier."""
        return self.multiplier.state()

    def load(self, state: State) -> None:
        """Restore ``state``."""
        self.multiplier.load(state, CONSTRAINT + self.limit.name)

    def _rising(self) -> float:
        """Return the share of a positive error that counts."""
        first, *others = self._all.values()
        if self is first:
            return float(self.limit.kind != "success" or any(other.multiplier.value for other in others))
        return 1.0 - max(0.0, first.multiplier.error) if first.limit.kind == "success" else 1.0


class ConstrainedReward:
    """Reward less the costs of constraints, weighted by their multipliers.

    With the reward r, costs c in [-1, 1], their multipliers m and the multiplier s of a limit on success, the reward is
    ((1 + s) r - sum m c) / (1 + s + sum m). It is in [-1, 1] if r is: values keep their bounds.

    Args:
        reward: the reward without constraints.
        scorer: the modules of the reward, and those of the constraints.
        modules: the modules of the constraints, by name.

    Attributes:
        scorer: the argument.
        task: the reward that evaluations report, without constraints.
        limits: the limits, see :class:`~robo_rl.core.Constraints`.
        reads: the union of what the constraints read.
    """

    def __init__(self, reward: Reward, scorer: ModuleScorer, modules: Mapping[str, Constraint]) -> None:
        self.scorer = scorer
        self.task = reward.task
        self._reward = reward
        self._modules = dict(modules)
        self._columns = tuple(CONSTRAINT + name for name in modules)
        self._scales = np.array([module.scale for module in modules.values()], np.float32)
        self.limits = tuple(module.limit for module in modules.values())
        self.reads = frozenset[str]().union(*(module.reads for module in modules.values()))

    @property
    def constraints(self) -> "ConstrainedReward":
        """The constraints: this object."""
        return self

    @property
    def is_weighed(self) -> bool:
        """Whether a cost has a multiplier above 0."""
        return any(module.scale and module.multiplier.value for module in self._modules.values())

    def combine(self, terms: Sequence[str], values: NDArray[np.float32], gamma: float) -> NDArray[np.float32]:
        """Return the rewards (...,) of steps with ``values`` (..., T) of the T named ``terms``.

        Raises:
            ConfigError: if a term of the reward is not among ``terms``, or the last of them are not the costs.
        """
        others = len(terms) - len(self._columns)
        if tuple(terms[others:]) != self._columns:
            raise ConfigError(f"reward.constraints: the data has no costs {', '.join(self._columns)}")
        rewards = self._reward.combine(terms[:others], values[..., :others], gamma)
        multipliers = np.array([module.multiplier.value for module in self._modules.values()], np.float32)
        is_cost = self._scales > 0
        task = np.float32(1.0) + multipliers[~is_cost].sum()
        costs = (values[..., others:] * self._scales).clip(-1.0, 1.0)
        weighted = task * rewards - costs @ np.where(is_cost, multipliers, np.float32(0))
        return np.asarray(weighted / (np.float32(1.0) + multipliers.sum()), np.float32)

    def costs(self, rows: Batch) -> Mapping[str, NDArray[np.float32]]:
        """Return the costs (n,) of rows; see :class:`~robo_rl.core.Constraints`."""
        return {name: module(rows) for name, module in self._modules.items() if module.limit.kind != "success"}


def _momentary(text: str, quantities: Quantities, place: str) -> tuple[Formula, frozenset[str]]:
    """Return a formula and the names of its quantities."""
    try:
        formula = parse_specification(text)
        names = formula.check(quantities.units)
    except ConfigError as error:
        raise ConfigError(f"{place}.keep: {error}") from error
    if not formula.is_momentary:
        raise ConfigError(
            f"{place}.keep: {text!r} is about more than one moment, and a constraint judges each step: leave out "
            "always, eventually and until, or use reward=specification"
        )
    return formula, names


def _fixed_module(name: str, scorer: ModuleScorer, quantities: Quantities, place: str) -> RewardModule:
    """Return the module ``name``, whose values have a fixed meaning."""
    module = scorer.modules.get(name)
    if module is None:
        valid = (*quantities.units, *scorer.modules)
        raise ConfigError(f"{place}.term: there is no quantity, term or module {name!r}: {nearest(name, valid)}")
    if module.learned or (module.whole_episodes and not module.judges_state):
        raise ConfigError(
            f"{place}.term: a limit needs values of a fixed meaning for each step, and the module {name!r} "
            f"{'learns' if module.learned else 'judges whole episodes'}"
        )
    return module


def _limit(name: str, config: ConstraintConfig, quantities: Quantities) -> Limit:
    if config.success is not None:
        return Limit(name, "success", "success", config.success)
    assert config.most is not None
    if config.keep is not None:
        return Limit(name, "share", config.keep, config.most)
    assert config.term is not None
    return Limit(name, "mean", config.term, config.most, quantities.units.get(config.term) or "")
