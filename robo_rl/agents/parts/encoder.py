"""Encoders of the images of the cameras into one vector.

Parameters are flat and named like those of the networks (``robo_rl.agents.parts.networks``). Camera c owns::

    encoder/<c>/conv<l>/weight     (out, in, 3, 3)                  unless there is a checkpoint
    encoder/<c>/conv<l>/bias       (out,)
    encoder/<c>/resnet/...         see .resnet                      only with a checkpoint that is not frozen
    encoder/<c>/spatial            (channels, places, embeddings)   only with spatial embeddings
    encoder/<c>/dense/weight       (in, latent)
    encoder/<c>/dense/bias         (latent,)
    encoder/<c>/dense/scale        (latent,)
    encoder/<c>/dense/shift        (latent,)
"""

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.init import orthogonal_

from robo_rl.core import ConfigError, EnvSpec, claim_parameters, nearest

from .encoder_config import EncoderConfig
from .networks import LAYER_NORM_EPSILON, Parameters
from .resnet import apply_resnet, load_resnet, output_shape

PREFIX = "images/"


class ImageEncoder:
    """One convolutional network per camera; their output vectors are concatenated.

    Images of several frames, (H, W, 3 * frames), are processed jointly by the convolutions of this class, and one frame
    at a time by a network from a checkpoint, which has only three input channels.

    Attributes:
        keys: observation keys of the images, in the order of the arguments and of the vectors.
        shapes: shapes of the images (H, W, C), by key.
        size: width of the concatenated vector.
        frozen: parameters of the frozen network; empty if there is none.
        precision: of the factors of convolutions. An agent that cannot compute in the requested one sets another.
        fingerprint: of the frozen network and its use, including the requested precision; empty if there is none.

    Args:
        config: configuration of each network.
        spec: spec of the environment.
        keys: observation keys of images; None: all images.
        precision: requested precision, ``float32`` or ``bfloat16``.

    Raises:
        ConfigError: if a key is unknown or not an image, there are no images, or the checkpoint cannot be used.
    """

    def __init__(self, config: EncoderConfig, spec: EnvSpec, keys: tuple[str, ...] | None, precision: str) -> None:
        valid = [key for key in spec.observation if key.startswith(PREFIX)]
        if not valid:
            raise ConfigError(
                f"task {spec.task!r} has no images, which this agent needs. In simulation: "
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
        self.shapes = {key: spec.observation[key].shape for key in self.keys}
        self._names = [f"encoder/{key.removeprefix(PREFIX)}" for key in self.keys]
        self.precision = precision
        self._resnet: Parameters = {}
        self.frozen: Parameters = {}
        self.fingerprint = ""
        if config.checkpoint is not None:
            self._resnet, digest = load_resnet(Path(config.checkpoint), config.stages)
            for key, shape in self.shapes.items():
                if shape[2] % 3:
                    raise ConfigError(
                        f"agent.encoder.checkpoint: these networks expect three colour channels, {key!r} has {shape[2]}"
                    )
            if config.frozen:
                self.frozen = self._resnet
                self.fingerprint = f"{digest}-{config.stages}-{precision}"

    def move(self, device: torch.device) -> None:
        """Move the frozen network to ``device``."""
        self.frozen = {name: tensor.to(device) for name, tensor in self.frozen.items()}

    def initialise(self, generator: torch.Generator) -> Parameters:
        """Return new float32 parameters: orthogonal weights (gain sqrt 2 in convolutions), biases of zero."""
        parameters: Parameters = {}
        for name, shape in zip(self._names, self.shapes.values(), strict=True):
            if self._resnet:
                if not self._config.frozen:
                    parameters |= {f"{name}/resnet/{key}": tensor.clone() for key, tensor in self._resnet.items()}
            else:
                channels = shape[2]
                for layer, width in enumerate(self._config.channels):
                    claim_parameters(width * channels * 9, name)
                    weight = torch.empty(width, channels, 3, 3)
                    parameters[f"{name}/conv{layer}/weight"] = orthogonal_(weight, math.sqrt(2), generator)
                    parameters[f"{name}/conv{layer}/bias"] = torch.zeros(width)
                    channels = width
            parameters |= self._initialise_head(name, *self.map_shape(shape), generator)
        return parameters

    def map_shape(self, image: tuple[int, ...]) -> tuple[int, int]:
        """Return channels and places of the last maps for images of shape ``image`` (H, W, C)."""
        height, width, colours = image
        if self._resnet:
            channels, places = output_shape(self._resnet, height, width)
            return channels * (colours // 3), places
        for _ in self._config.channels:
            height, width = -(-height // 2), -(-width // 2)
        return self._config.channels[-1], height * width

    def _initialise_head(self, name: str, channels: int, places: int, generator: torch.Generator) -> Parameters:
        config = self._config
        parameters: Parameters = {}
        inputs = channels * places
        if config.head == "spatial_embeddings":
            # Variance of one over the number of summands, as in LeCun et al. 1998.
            claim_parameters(channels * places * config.embeddings, name)
            spatial = torch.randn(channels, places, config.embeddings, generator=generator) / math.sqrt(places)
            parameters[f"{name}/spatial"] = spatial
            inputs = channels * config.embeddings
        claim_parameters(inputs * config.latent, name)
        weight = torch.empty(inputs, config.latent)
        return parameters | {
            f"{name}/dense/weight": orthogonal_(weight, 1.0, generator),
            f"{name}/dense/bias": torch.zeros(config.latent),
            f"{name}/dense/scale": torch.ones(config.latent),
            f"{name}/dense/shift": torch.zeros(config.latent),
        }

    def __call__(self, parameters: Parameters, images: Sequence[Tensor]) -> Tensor:
        """Return the concatenated vectors (B, size).

        Args:
            parameters: ``encoder/...``; may include others.
            images: for each of ``keys``, (B, H, W, C) uint8, or the frozen network's maps (B, channels * places).
        """
        parts = []
        for name, shape, x in zip(self._names, self.shapes.values(), images, strict=True):
            if x.dtype == torch.uint8:
                maps = self.maps(parameters, name, x)
            else:
                maps = x.to(parameters[f"{name}/dense/weight"].dtype).view(len(x), *self.map_shape(shape))
            parts.append(self._head(parameters, name, maps))
        return torch.cat(parts, -1)

    def maps(self, parameters: Parameters, name: str, images: Tensor) -> Tensor:
        """Return the last maps (B, channels, places) of the camera whose parameters begin with ``name``."""
        full = parameters[f"{name}/dense/weight"].dtype
        dtype = torch.bfloat16 if self.precision == "bfloat16" else full
        if self.frozen:
            return self.frozen_maps(images).to(full)
        if self._resnet:
            return _apply_to_frames(parameters, f"{name}/resnet/", images, dtype).to(full)
        # On the CPU, convolutions are fastest in the memory format of a view (B, C, H, W) of (B, H, W, C).
        x = images.permute(0, 3, 1, 2).to(dtype) / 255 - 0.5
        for layer in range(len(self._config.channels)):
            weight, bias = (parameters[f"{name}/conv{layer}/{part}"].to(dtype) for part in ("weight", "bias"))
            x = torch.relu(functional.conv2d(x, weight, bias, stride=2, padding=1))
        return x.flatten(2).to(full)

    def frozen_maps(self, images: Tensor) -> Tensor:
        """Return the frozen network's maps of images of any camera: (B, channels, places) float32.

        The images must be on the device of the network (:meth:`move`).
        """
        dtype = torch.bfloat16 if self.precision == "bfloat16" else torch.float32
        return _apply_to_frames(self.frozen, "", images, dtype).float()

    def _head(self, parameters: Parameters, name: str, maps: Tensor) -> Tensor:
        """Return the vector (B, latent) of one camera."""
        spatial = parameters.get(f"{name}/spatial")
        if spatial is not None:
            maps = torch.einsum("bcp,cpe->bce", maps, spatial)
        x = torch.addmm(parameters[f"{name}/dense/bias"], maps.flatten(1), parameters[f"{name}/dense/weight"])
        x = functional.layer_norm(x, x.shape[-1:], eps=LAYER_NORM_EPSILON)
        return torch.tanh(x * parameters[f"{name}/dense/scale"] + parameters[f"{name}/dense/shift"])


def _apply_to_frames(parameters: Parameters, prefix: str, images: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the maps of all frames of ``images``, computed separately and concatenated along the channels."""
    count = images.shape[3] // 3
    frames = torch.cat(images.chunk(count, dim=3))
    return torch.cat(apply_resnet(parameters, prefix, frames, dtype).chunk(count), 1)
