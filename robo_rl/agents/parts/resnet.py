"""Residual networks (He et al. 2016) with basic blocks, from a local file: ResNet-10, -18, -34.

The file is safetensors with the names of torchvision, which timm uses too (``conv1.weight``, ``bn1.running_var``,
``layer1.0.conv1.weight``, ``layer2.0.downsample.0.weight``, ...). Batch normalisation uses the statistics of the file
and is folded into the convolutions, each of which then has a weight and a bias.
"""

import hashlib
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor
from torch.nn import functional

from robo_rl.core import ConfigError, DataError, read_bytes

from .encoder_config import STAGES
from .networks import Parameters

BATCH_NORM_EPSILON = 1e-5
MEAN = (0.485, 0.456, 0.406)
"""Mean of the colours of ImageNet, in [0, 1]; such networks were trained on images normalised by it."""
DEVIATION = (0.229, 0.224, 0.225)
MOST_BYTES = 1 << 30


def load_resnet(file: Path, stages: int) -> tuple[Parameters, str]:
    """Return the first ``stages`` stages as ``<convolution>/weight`` and ``/bias``, and the SHA-256 of the file.

    Raises:
        ConfigError: if the file cannot be read, or does not hold a residual network with basic blocks.
    """
    try:
        data = read_bytes(file, MOST_BYTES)
        tensors = load(data)
    # The last three: types and shapes that PyTorch does not support.
    except (DataError, OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"agent.encoder.checkpoint: {file} cannot be read as safetensors ({error}). docs/reference/pixels.md shows "
            "how to make such a file from torchvision or timm"
        ) from error
    parameters = _fold(file, tensors, "conv1", "bn1")
    for stage in range(1, stages + 1):
        block = 0
        while f"layer{stage}.{block}.conv1.weight" in tensors or block == 0:
            name = f"layer{stage}.{block}"
            if f"{name}.conv3.weight" in tensors:
                raise ConfigError(
                    f"agent.encoder.checkpoint: {file} has bottleneck blocks (ResNet-50 and larger); expected the "
                    "basic blocks of ResNet-10, -18 or -34"
                )
            parameters |= _fold(file, tensors, f"{name}.conv1", f"{name}.bn1")
            parameters |= _fold(file, tensors, f"{name}.conv2", f"{name}.bn2")
            if f"{name}.downsample.0.weight" in tensors:
                parameters |= _fold(file, tensors, f"{name}.downsample.0", f"{name}.downsample.1")
            block += 1
    return parameters, hashlib.sha256(data).hexdigest()


def _fold(file: Path, tensors: dict[str, Tensor], convolution: str, norm: str) -> Parameters:
    """Return a convolution with the batch normalisation after it folded in."""
    names = [f"{convolution}.weight", *(f"{norm}.{part}" for part in ("weight", "bias", "running_mean", "running_var"))]
    for name in names:
        if name not in tensors:
            raise ConfigError(
                f"agent.encoder.checkpoint: {file} lacks {name!r}; expected a ResNet with the names of torchvision"
            )
    weight, scale, shift, mean, variance = (tensors[name].float() for name in names)
    factor = scale / torch.sqrt(variance + BATCH_NORM_EPSILON)
    return {f"{convolution}/weight": weight * factor.view(-1, 1, 1, 1), f"{convolution}/bias": shift - mean * factor}


def _colours(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return colour values (3, 1, 1), created on ``device``: a CUDA graph cannot contain a copy from the host."""
    return torch.cat([torch.full((1, 1, 1), value, dtype=dtype, device=device) for value in values])


def output_shape(parameters: Parameters, height: int, width: int) -> tuple[int, int]:
    """Return channels and places (height times width) of the last maps, for images of this size."""
    # The first convolution, the pooling after it, and every stage but the first halve the size.
    for _ in range(1 + max(int(name[5]) for name in parameters if name.startswith("layer"))):
        height, width = -(-height // 2), -(-width // 2)
    last = next(reversed([name for name in parameters if name.endswith("conv2/bias")]))
    return len(parameters[last]), height * width


def apply_resnet(parameters: Parameters, prefix: str, images: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the last maps (B, channels, places).

    Args:
        parameters: result of :func:`load_resnet`, with names that begin with ``prefix``.
        prefix: prefix of the names.
        images: (B, H, W, 3) uint8.
        dtype: dtype of the computation.
    """
    mean, deviation = (_colours(values, dtype, images.device) for values in (MEAN, DEVIATION))
    x = (images.permute(0, 3, 1, 2).to(dtype) / 255 - mean) / deviation

    def convolve(name: str, x: Tensor, stride: int = 1) -> Tensor:
        weight, bias = parameters[f"{prefix}{name}/weight"].to(dtype), parameters[f"{prefix}{name}/bias"].to(dtype)
        return functional.conv2d(x, weight, bias, stride, padding=weight.shape[-1] // 2)

    x = functional.max_pool2d(torch.relu(convolve("conv1", x, 2)), 3, 2, 1)
    for stage in range(1, STAGES + 1):
        block = 0
        while f"{prefix}layer{stage}.{block}.conv1/weight" in parameters:
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            residual = convolve(f"{name}.conv2", torch.relu(convolve(f"{name}.conv1", x, stride)))
            if f"{prefix}{name}.downsample.0/weight" in parameters:
                x = convolve(f"{name}.downsample.0", x, stride)
            x = torch.relu(x + residual)
            block += 1
    return x.flatten(2)
