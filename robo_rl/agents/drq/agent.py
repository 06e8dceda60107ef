"""The DrQ agent, which learns from images."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from robo_rl.core import Batch, ConfigError, EnvSpec, Metrics, Observation, derive_seed

from ..parts.features import FrozenFeatures
from ..parts.observations import ObservationVector
from ..parts.slots import prefixed
from ..sac.agent import SAC
from ..sac.critics import initial_critics
from ..sac.implementation import describe_torch
from ..sac.ranks import several_ranks
from ..sac.update import draw_noise
from .config import DrQConfig
from .dormancy import dormant_ratio, perturb, perturbation_factor
from .policy import PixelPolicy
from .update import DrQUpdate, PixelMinibatches


class DrQ(SAC):
    """Soft actor-critic on images; see :class:`DrQConfig`.

    Behaviour cloning trains actor and encoder. Reinforcement learning trains the encoder by the critics' loss alone, or
    by the actor's loss alone if the critics do not use images (``critic_keys``).

    Args:
        config: configuration of the agent.
        spec: spec of the environment.
        seed: seed of the run.

    Raises:
        ConfigError: if the configuration does not fit the spec.
    """

    config: DrQConfig
    _computed: DrQConfig
    _policy: PixelPolicy

    def __init__(self, config: DrQConfig, spec: EnvSpec, seed: int) -> None:
        keys = config.critic_keys
        normalise = config.normalise_observations
        self._critic_observations = None if keys is None else ObservationVector(spec, keys, normalise, "critic_keys")
        # The ratio last measured, and the number of the update after which networks were last perturbed.
        self._dormant_ratio, self._perturbed = torch.zeros(()), torch.zeros((), dtype=torch.int64)
        super().__init__(config, spec, seed)
        if config.dormancy.perturb_interval:
            source = torch.Generator().manual_seed(derive_seed(seed, "agent", "perturbation"))
            self._generators["perturbation"] = source
        self._generators["augmentation"] = self._policy.augmentation
        if config.encoder.cached_views:
            shapes = {key: spec.observation[key].shape for key in self._policy.encoder.keys}
            views, shift = config.encoder.cached_views, config.shift
            self.features = FrozenFeatures(self._policy.encoder, shapes, views, shift, seed)

    @property
    def observed(self) -> tuple[str, ...]:
        """Observation keys as in :class:`SAC`, with the images and the keys that the critics use."""
        critics = () if self._critic_observations is None else self._critic_observations.keys
        return tuple(dict.fromkeys((*super().observed, *self._policy.encoder.keys, *critics)))

    def fit_normaliser(self, batch: Batch) -> None:
        """Do the same as :meth:`SAC.fit_normaliser`, also for the observations of the critics."""
        super().fit_normaliser(batch)
        if self._critic_observations is not None:
            self._critic_observations.fit(batch)

    def _make_policy(self, spec: EnvSpec, seed: int) -> PixelPolicy:
        return PixelPolicy(self.config, spec, seed)

    def _critic_inputs(self) -> int:
        return super()._critic_inputs() if self._critic_observations is None else self._critic_observations.size

    def _critic_row(self, observation: Observation) -> Tensor:
        if self._critic_observations is None:
            return super()._critic_row(observation)
        return torch.from_numpy(self._critic_observations.one(observation)).unsqueeze(0).to(self._policy.device)

    def _slots(self) -> dict[str, Tensor]:
        slots = super()._slots()
        if self._critic_observations is not None:
            slots |= prefixed("critic_normaliser", self._critic_observations.slots())
        if self.config.dormancy.interval:
            slots |= {"dormancy/ratio": self._dormant_ratio, "dormancy/perturbed": self._perturbed}
        return slots

    def update(self, batch: Batch) -> Metrics:
        """Do the same as :meth:`SAC.update`; if dormant neurons are counted, also return their last share."""
        metrics = super().update(batch)
        config, updates = self.config.dormancy, int(self._updates)
        if not config.interval:
            return metrics
        perturbs = config.perturb_interval > 0 and updates % config.perturb_interval == 0
        if perturbs or (updates - 1) % config.interval == 0:
            self._dormant_ratio.fill_(self._measure_dormancy(batch))
        if perturbs:
            self._perturb()
        return metrics | {"dormant_ratio": float(self._dormant_ratio)}

    @torch.no_grad()
    def _measure_dormancy(self, batch: Batch) -> float:
        """Return the actor's share of dormant neurons, on the first minibatch without random shifts."""
        policy, rows = self._policy, self.config.batch_size
        images = [torch.from_numpy(batch[f"observation/{key}"][:rows]) for key in policy.encoder.keys]
        vector = torch.from_numpy(policy.observations.rows(batch)[:rows]).to(policy.device)
        encoded = policy.inputs(policy.parameters, [image.to(policy.device) for image in images], vector)
        threshold = self.config.dormancy.threshold
        return dormant_ratio(policy.parameters, "actor", encoded, self.config.activation, threshold)

    def _perturb(self) -> None:
        """Perturb the networks and reset Adam. The averaged policy, which acts in evaluations, follows slowly."""
        source = self._generators["perturbation"]
        policy = self._policy
        inputs = self._critic_inputs() + policy.action_size
        fresh = (
            initial_critics(self.config, inputs, source)
            | policy.initial_actor(source)
            | policy.encoder.initialise(source)
        )
        perturb(self._parameters, fresh, perturbation_factor(float(self._dormant_ratio), self.config.dormancy))
        self._state.restart()
        self._perturbed.copy_(self._updates)

    def _make_update(self) -> tuple[Callable[[Batch, int], Tensor], str]:
        config = self._computed
        if several_ranks():
            raise ConfigError("agents that learn from images compute in one process: start this one without torchrun")
        self._policy.encoder.precision = config.precision
        compiled = config.implementation == "compile"
        compute = DrQUpdate(config, self._policy.inputs, self._state, compiled=compiled)

        def update(batch: Batch, updates: int) -> Tensor:
            noise = draw_noise(config, self._policy.action_size, self._noise)
            return compute(self._pixel_minibatches(batch), noise, updates - int(self._perturbed))

        return update, describe_torch(self._policy.device, compiled)

    def _pixel_minibatches(self, batch: Batch) -> PixelMinibatches:
        def shaped(rows: Tensor) -> Tensor:
            return rows.view(self.config.update_to_data, self.config.batch_size, *rows.shape[1:])

        groups = ("observation", "next_observation")
        images, next_images = ([shaped(x) for x in self._policy.training_images(batch, group)] for group in groups)
        critic = None
        if self._critic_observations is not None:
            vectors = [torch.from_numpy(self._critic_observations.rows(batch, group)) for group in groups]
            critic = (shaped(vectors[0]), shaped(vectors[1]))
        return PixelMinibatches(self._minibatches(batch), images, next_images, critic)


def make_drq(*, spec: EnvSpec, seed: int, **fields: Any) -> DrQ:
    """Make the agent from the fields of :class:`DrQConfig`."""
    return DrQ(DrQConfig(**fields), spec, seed)
