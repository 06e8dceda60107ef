"""The DrQ agent, which learns from images."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from robo_rl.core import Batch, ConfigError, EnvSpec, Observation

from ..parts.features import FrozenFeatures
from ..parts.observations import ObservationVector
from ..parts.reference import ReferenceRows
from ..parts.slots import prefixed
from ..sac.agent import SAC
from ..sac.implementation import describe_torch
from ..sac.ranks import several_ranks
from ..sac.update import draw_noise
from .config import DrQConfig
from .policy import PixelPolicy
from .update import DrQUpdate, PixelMinibatches


class DrQ(SAC):
    """Soft actor-critic on images; see :class:`DrQConfig`.

    Behaviour cloning trains actor and encoder. Reinforcement learning trains the encoder by the critics' loss alone, or
    by the actor's loss alone if the critics do not use images (``critic_keys``).
    """

    config: DrQConfig
    _computed: DrQConfig
    _policy: PixelPolicy

    def __init__(self, config: DrQConfig, spec: EnvSpec, seed: int) -> None:
        keys = config.critic_keys
        normalise = config.normalise_observations
        self._critic_observations = None if keys is None else ObservationVector(spec, keys, normalise, "critic_keys")
        super().__init__(config, spec, seed)
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
        return slots

    def _make_update(self) -> tuple[Callable[[Batch, int, ReferenceRows | None], Tensor], str]:
        config = self._computed
        if several_ranks():
            raise ConfigError("agents that learn from images run in one process: start this one without torchrun")
        self._policy.encoder.precision = config.precision
        compiled = config.implementation == "compile"
        compute = DrQUpdate(config, self._policy.inputs, self._state, compiled=compiled)

        def update(batch: Batch, updates: int, reference: ReferenceRows | None) -> Tensor:
            noise = draw_noise(config, self._policy.action_size, self._noise)
            return compute(self._pixel_minibatches(batch), noise, updates, reference)

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
