"""The policy that acts on images."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Batch, Decision, EnvSpec, Observation, derive_seed

from ..parts.augmentation import draw_shifts, shift_images
from ..parts.encoder import ImageEncoder
from ..parts.networks import Parameters, actor_distribution
from ..parts.policy import TanhGaussianPolicy
from .config import DrQConfig


class PixelPolicy(TanhGaussianPolicy):
    """A tanh-Gaussian policy whose input is the encoded images and the vector of the other observations.

    Attributes:
        encoder: encoder of the images; its parameters are in ``parameters``.
        augmentation: generator of the random shifts.
    """

    def __init__(self, config: DrQConfig, spec: EnvSpec, seed: int) -> None:
        self.encoder = ImageEncoder(config.encoder, spec, config.image_keys, config.precision)
        super().__init__(config, spec, seed, further_inputs=self.encoder.size)
        source = torch.Generator().manual_seed(derive_seed(seed, "agent", "encoder"))
        self.encoder.move(self.device)
        encoder = {name: tensor.to(self.device) for name, tensor in self.encoder.initialise(source).items()}
        self.parameters |= encoder
        self.averaged |= {name: tensor.clone() for name, tensor in encoder.items()}
        self.augmentation = torch.Generator().manual_seed(derive_seed(seed, "agent", "augmentation"))
        self._shift = config.shift

    def inputs(self, parameters: Parameters, images: Sequence[Tensor], vector: Tensor) -> Tensor:
        """Return the actor's input (B, input_size).

        Args:
            parameters: ``encoder/...``; may include others.
            images: for each camera (B, H, W, C) uint8, already shifted, or the features cached for them.
            vector: (B, V).
        """
        return torch.cat((self.encoder(parameters, images), vector), -1)

    def training_images(self, batch: Batch, group: str = "observation") -> list[Tensor]:
        """Return for each camera the shifted images (n, H, W, C) of a batch, or the features that it holds instead.

        ``group`` is ``observation`` or ``next_observation``.
        """
        images = [torch.from_numpy(batch[f"{group}/{key}"]).to(self.device) for key in self.encoder.keys]
        if images[0].dtype != torch.uint8:
            return images
        shifts = [draw_shifts((len(x),), self._shift, self.augmentation).to(self.device) for x in images]
        return [shift_images(x, shift) for x, shift in zip(images, shifts, strict=True)]

    def row(self, parameters: Parameters, observation: Observation) -> Tensor:
        """Return the network's input (1, input_size) for one observation, whose images are not shifted."""
        images: list[NDArray[np.uint8]] = [observation[key] for key in self.encoder.keys]
        rows = [torch.from_numpy(image).unsqueeze(0).to(self.device) for image in images]
        return self.inputs(parameters, rows, super().row(parameters, observation))

    def tensor_row(self, parameters: Parameters, observation: Mapping[str, Tensor]) -> Tensor:
        """Return the same as :meth:`row`, computed from tensors by tensor operations."""
        images = [observation[key].unsqueeze(0) for key in self.encoder.keys]
        return self.inputs(parameters, images, super().tensor_row(parameters, observation))

    def decision(self) -> Decision:
        """Return the decision without exploration as a function of tensors, among them the images."""
        keys = tuple(sorted((*self.observations.keys, *self.encoder.keys)))
        return replace(super().decision(), observed=keys, example=self._draw)

    def _draw(self, rng: np.random.Generator) -> Observation:
        """Return a random observation, with random pixels."""
        images = {key: rng.integers(0, 256, shape, np.uint8) for key, shape in self.encoder.shapes.items()}
        return images | self.observations.draw(rng)

    def distribution(self, batch: Batch) -> Callable[[Parameters], tuple[Tensor, Tensor]]:
        """Return the function from parameters to mean and log deviation (B, A), for shifted images of ``batch``."""
        shifted = self.training_images(batch)
        vector = torch.from_numpy(self.observations.rows(batch)).to(self.device)
        activation = self.config.activation
        return lambda parameters: actor_distribution(parameters, self.inputs(parameters, shifted, vector), activation)

    def slots(self) -> dict[str, Tensor]:
        """Return the tensors of the policy; a frozen network is represented by its fingerprint, in a name."""
        slots = super().slots()
        if self.encoder.fingerprint:
            slots[f"frozen_encoder/{self.encoder.fingerprint}"] = torch.zeros(())
        return slots
