"""Reward for satisfying a specification in signal temporal logic."""

from dataclasses import dataclass

import numpy as np

from robo_rl.core import Batch, ConfigError, EnvSpec, ObservationSignals, Options, option, parse_specification

from ..parts.module import Floats, Module


@dataclass(frozen=True)
class SpecificationConfig(Options):
    """Reward at the end of an episode: its robustness with respect to a specification, between -1 and 1.

    Attributes:
        formula: formula of elements of observations by name, ``force``, ``torque``, ``speed`` and reward terms of the
            task.
        scale: robustness that gives a reward of 1; truth values, such as ``success``, have a robustness of one half.
    """

    formula: str = "always (force < 60 N) and eventually success"
    scale: float = option(0.5, above=0)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "SpecificationReward":
        """Return the module of term ``name``.

        Raises:
            ConfigError: if the formula cannot be parsed, or does not suit the environment.
        """
        return SpecificationReward(self, name, spec)


class SpecificationReward(Module):
    """Reward of whole episodes by their robustness; see :class:`SpecificationConfig`.

    The signals of an episode begin with its first observation.
    """

    whole_episodes = True
    judges_state = False

    def __init__(self, config: SpecificationConfig, name: str, spec: EnvSpec) -> None:
        super().__init__()
        self._scale = config.scale
        self._period = 1.0 / spec.control_rate
        self._signals = ObservationSignals(spec)
        self._formula = parse_specification(config.formula)
        terms = dict.fromkeys(spec.reward_terms)
        try:
            self._names = self._formula.check({**self._signals.units, **terms})
        except ConfigError as error:
            raise ConfigError(f"reward.modules.{name}.formula: {error}") from error

    def __call__(self, batch: Batch) -> Floats:
        """Return the rewards (n,) of the n steps of one episode, in order: all except the last are 0."""
        first, following = (
            {key.removeprefix(prefix): value for key, value in batch.items() if key.startswith(prefix)}
            for prefix in ("observation/", "next_observation/")
        )
        observed = {key: np.concatenate([first[key][:1], value]) for key, value in following.items()}
        signals = {
            name: self._signals.values(name, observed)
            if name in self._signals.units
            else np.append(0.0, batch[f"term/{name}"])  # terms have no value before the first step
            for name in self._names
        }
        rewards = np.zeros(len(batch["action"]), dtype=np.float32)
        rewards[-1] = np.clip(self._formula.robustness(signals, self._period) / self._scale, -1.0, 1.0)
        return rewards
