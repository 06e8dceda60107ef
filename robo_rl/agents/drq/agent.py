"""The agent that learns from images."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from robo_rl.core import Batch, EnvSpec

from ..sac.agent import SAC
from ..sac.update import draw_noise
from .config import DrQConfig
from .policy import PixelPolicy
from .update import DrQUpdate, PixelMinibatches


class DrQ(SAC):
    """Soft actor-critic on images; see :class:`DrQConfig`.

    Behaviour cloning trains actor and encoder, reinforcement learning the encoder by the critics alone.

    Args:
        config: of the agent.
        spec: of the environment.
        seed: of the run.

    Raises:
        ConfigError: if the configuration does not fit the spec.
    """

    config: DrQConfig
    _policy: PixelPolicy

    def __init__(self, config: DrQConfig, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, spec, seed)
        self._generators["augmentation"] = self._policy.augmentation

    def _make_policy(self, spec: EnvSpec, seed: int) -> PixelPolicy:
        return PixelPolicy(self.config, spec, seed)

    def _make_update(self) -> tuple[Callable[[Batch, int], Tensor], str]:
        config, policy = self.config, self._policy
        compiled = config.backend == "compile"
        compute = DrQUpdate(config, policy.inputs, self._parameters, self._first, self._second, compiled=compiled)

        def update(batch: Batch, updates: int) -> Tensor:
            lead = (config.update_to_data, config.batch_size)
            images, following = (
                [rows.view(*lead, *rows.shape[1:]) for rows in policy.images(batch, group)]
                for group in ("observation", "next_observation")
            )
            rows = PixelMinibatches(
                self._minibatches(batch), images, following, policy.draw_shifts(*lead), policy.draw_shifts(*lead)
            )
            return compute(rows, draw_noise(config, policy.action_size, self._noise), updates)

        return update, "torch.compile" if compiled else "torch"


def make_drq(*, spec: EnvSpec, seed: int, **fields: Any) -> DrQ:
    """Make the agent from the fields of :class:`DrQConfig`."""
    return DrQ(DrQConfig(**fields), spec, seed)
