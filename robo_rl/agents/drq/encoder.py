"""Encoders: from the images of the cameras to one vector.

Parameters are flat and named like those of the networks (``robo_rl.agents.sac.networks``). The camera c owns::

    encoder/<c>/conv<l>/weight     (out, in, 3, 3)
    encoder/<c>/conv<l>/bias       (out,)
    encoder/<c>/spatial            (channels, places, embeddings)   only with spatial embeddings
    encoder/<c>/dense/weight       (in, latent)
    encoder/<c>/dense/bias         (latent,)
    encoder/<c>/dense/scale        (latent,)
    encoder/<c>/dense/shift        (latent,)
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.init import orthogonal_

from robo_rl.core import ConfigError, EnvSpec, nearest

from ..sac.networks import LAYER_NORM_EPSILON, Parameters
from .config import EncoderConfig

PREFIX = "images/"


class ImageEncoder:
    """One convolutional network a camera; what they return is joined.

    Attributes:
        keys: observation keys of the images, in the order in which images are given and vectors joined.
        size: width of the joined vector.

    Args:
        config: of each network.
        spec: of the environment.
        keys: observation keys of images; None: all.
        precision: of the factors of convolutions, ``float32`` or ``bfloat16``.

    Raises:
        ConfigError: if a key is unknown or no image, or there is none.
    """

    def __init__(self, config: EncoderConfig, spec: EnvSpec, keys: tuple[str, ...] | None, precision: str) -> None:
        valid = [key for key in spec.observation if key.startswith(PREFIX)]
        if not valid:
            raise ConfigError(
                f"task {spec.task!r} has no images, from which this agent learns. In simulation: "
                "task.observation.cameras=[front,wrist]"
            )
        for key in keys or ():
            if key not in valid:
                raise ConfigError(f"agent.image_keys: unknown image {key!r}; {nearest(key, valid)}")
        self.keys = tuple(sorted(valid if keys is None else set(keys)))
        if not self.keys:
            raise ConfigError("agent.image_keys is empty; leave it null for all images, or use agent=rlpd for none")
        self.size = config.latent * len(self.keys)
        self._config = config
        self._shapes = [spec.observation[key].shape for key in self.keys]
        self._names = [f"encoder/{key.removeprefix(PREFIX)}" for key in self.keys]
        self._low_precision = precision == "bfloat16"

    def initialise(self, generator: torch.Generator) -> Parameters:
        """Return new float32 parameters: orthogonal weights (gain sqrt 2 in convolutions), biases of zero."""
        parameters: Parameters = {}
        for name, (height, width, channels) in zip(self._names, self._shapes, strict=True):
            for layer, wide in enumerate(self._config.channels):
                weight = torch.empty(wide, channels, 3, 3)
                parameters[f"{name}/conv{layer}/weight"] = orthogonal_(weight, math.sqrt(2), generator)
                parameters[f"{name}/conv{layer}/bias"] = torch.zeros(wide)
                channels, height, width = wide, -(-height // 2), -(-width // 2)
            parameters |= self._initialise_head(name, channels, height * width, generator)
        return parameters

    def _initialise_head(self, name: str, channels: int, places: int, generator: torch.Generator) -> Parameters:
        config, parameters = self._config, {}
        inputs = channels * places
        if config.head == "spatial_embeddings":
            # Variance one over the number of summands, as LeCun et al. 1998.
            spatial = torch.randn(channels, places, config.embeddings, generator=generator) / math.sqrt(places)
            parameters[f"{name}/spatial"] = spatial
            inputs = channels * config.embeddings
        weight = torch.empty(inputs, config.latent)
        return parameters | {
            f"{name}/dense/weight": orthogonal_(weight, 1.0, generator),
            f"{name}/dense/bias": torch.zeros(config.latent),
            f"{name}/dense/scale": torch.ones(config.latent),
            f"{name}/dense/shift": torch.zeros(config.latent),
        }

    def __call__(self, parameters: Parameters, images: Sequence[Tensor]) -> Tensor:
        """Return the joined vectors (B, size).

        Args:
            parameters: ``encoder/...``, and others.
            images: for each of ``keys``, (B, H, W, C) uint8.
        """
        pairs = zip(self._names, images, strict=True)
        return torch.cat([self._head(parameters, name, self._convolve(parameters, name, x)) for name, x in pairs], -1)

    def _convolve(self, parameters: Parameters, name: str, images: Tensor) -> Tensor:
        """Return the last maps (B, channels, places)."""
        full = parameters[f"{name}/conv0/weight"].dtype
        dtype = torch.bfloat16 if self._low_precision else full
        # A view as (B, C, H, W) of (B, H, W, C) is the memory format that convolutions on the CPU like best.
        x = images.permute(0, 3, 1, 2).to(dtype) / 255 - 0.5
        for layer in range(len(self._config.channels)):
            weight, bias = (parameters[f"{name}/conv{layer}/{part}"].to(dtype) for part in ("weight", "bias"))
            x = torch.relu(functional.conv2d(x, weight, bias, stride=2, padding=1))
        return x.flatten(2).to(full)

    def _head(self, parameters: Parameters, name: str, maps: Tensor) -> Tensor:
        """Return the vector (B, latent) of one camera."""
        spatial = parameters.get(f"{name}/spatial")
        if spatial is not None:
            maps = torch.einsum("bcp,cpe->bce", maps, spatial)
        x = torch.addmm(parameters[f"{name}/dense/bias"], maps.flatten(1), parameters[f"{name}/dense/weight"])
        x = functional.layer_norm(x, x.shape[-1:], eps=LAYER_NORM_EPSILON)
        return torch.tanh(x * parameters[f"{name}/dense/scale"] + parameters[f"{name}/dense/shift"])
