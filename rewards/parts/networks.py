"""Small networks with their optimisers, initialised from a seed, and saved and loaded as arrays."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from robo_rl.core import CheckpointError, State, claim_parameters

from .arrays import take_over

FEATURES = 64
"""Number of features of a picture."""
ROWS = 256
"""Number of inputs in one forward pass of :meth:`TrainedNetwork.evaluate`."""


class PictureEncoder(nn.Module):
    """Convolutional networks in front of a multilayer perceptron, one for each picture at the end of the inputs.

    Args:
        inputs: F, number of elements, including the elements of pictures.
        pictures: shapes (h, w, C) of the pictures, which are the last elements.

    Attributes:
        size: number of elements of the output, in which each picture is replaced by its features.
    """

    def __init__(self, inputs: int, pictures: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self._shapes = [tuple(shape) for shape in pictures]
        self._plain = inputs - sum(map(math.prod, self._shapes))
        self.size = self._plain + FEATURES * len(self._shapes)
        self._towers = nn.ModuleList(_tower(*shape) for shape in self._shapes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return vectors (..., size) for inputs (..., F)."""
        plain, *pictures = torch.split(inputs, [self._plain, *map(math.prod, self._shapes)], dim=-1)
        picture_features = [
            tower(picture.reshape(-1, *shape).permute(0, 3, 1, 2)).reshape(*plain.shape[:-1], FEATURES)
            for tower, picture, shape in zip(self._towers, pictures, self._shapes, strict=True)
        ]
        return torch.cat((plain, *picture_features), dim=-1)


def _tower(height: int, width: int, channels: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for filters in (16, 32, 32):
        layers += [nn.Conv2d(channels, filters, 3, stride=2, padding=1), nn.ReLU()]
        height, width, channels = -(-height // 2), -(-width // 2), filters
    claim_parameters(height * width * channels * FEATURES, "pictures")
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(height * width * channels, FEATURES), nn.LayerNorm(FEATURES))


class TrainedNetwork:
    """Multilayer perceptron (LayerNorm and ReLU between its layers) and Adam on its parameters.

    A call returns the outputs (..., O) for inputs (..., F). A :class:`PictureEncoder` encodes pictures first.

    Args:
        inputs: F.
        hidden: widths of the hidden layers.
        outputs: O.
        learning_rate: learning rate of Adam.
        seed: seed of the initial weights.
        name: name of the module that the network belongs to, for messages.
        pictures: shapes (h, w, C) of the pictures at the end of the inputs.
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        *,
        learning_rate: float,
        seed: int,
        name: str,
        pictures: Sequence[Sequence[int]] = (),
    ) -> None:
        layers: list[nn.Module] = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._encoder = PictureEncoder(inputs, pictures) if pictures else None
            inputs = inputs if self._encoder is None else self._encoder.size
            for width in hidden:
                claim_parameters(inputs * width, name)
                layers += [nn.Linear(inputs, width), nn.LayerNorm(width), nn.ReLU()]
                inputs = width
            claim_parameters(inputs * outputs, name)
            self._network = nn.Sequential(*layers, nn.Linear(inputs, outputs))
        self._parameters = dict(self._network.named_parameters())
        if self._encoder is not None:
            self._parameters |= {f"encoder.{key}": value for key, value in self._encoder.named_parameters()}
        self._optimiser = torch.optim.Adam(self._parameters.values(), learning_rate)
        self._name = name
        self._steps = 0

    def __call__(self, inputs: Tensor) -> Tensor:
        return self.judge(self.embed(inputs))

    def embed(self, inputs: Tensor) -> Tensor:
        """Return the inputs of the perceptron: ``inputs`` with pictures replaced by their features."""
        embedded: Tensor = inputs if self._encoder is None else self._encoder(inputs)
        return embedded

    def judge(self, embedded: Tensor) -> Tensor:
        """Return the outputs (..., O) of the perceptron."""
        outputs: Tensor = self._network(embedded)
        return outputs

    @torch.no_grad()
    def evaluate(self, inputs: Tensor) -> Tensor:
        """Return the outputs (n, O) for any number of inputs (n, F), without gradients."""
        return torch.cat([self(chunk) for chunk in torch.split(inputs, ROWS)])

    def descend(self, loss: Tensor) -> float:
        """Take one step of Adam on ``loss``, a scalar; return its value."""
        self._optimiser.zero_grad()
        torch.autograd.backward(loss)
        self._optimiser.step()
        self._steps += 1
        return float(loss.detach())

    def state(self) -> State:
        """Return the parameters, Adam's running means and its number of steps."""
        state: State = {"steps": np.array([self._steps], dtype=np.int64)}
        for key, parameter in self._parameters.items():
            moments = self._optimiser.state.get(parameter, {})
            state[key] = parameter.detach().numpy().copy()
            for moment in ("exp_avg", "exp_avg_sq"):
                state[f"{key}/{moment}"] = moments.get(moment, torch.zeros_like(parameter)).numpy().copy()
        return state

    def load(self, state: State) -> None:
        """Restore ``state``.

        Raises:
            CheckpointError: if it belongs to another network.
        """
        arrays = self.state()
        take_over(arrays, state, self._name)
        self._steps = int(arrays["steps"][0])
        if self._steps < 0:
            raise CheckpointError(f"reward module {self._name!r}: {self._steps} steps of its optimiser")
        for key, parameter in self._parameters.items():
            with torch.no_grad():
                parameter.copy_(torch.from_numpy(arrays[key]))
            self._optimiser.state[parameter] = {
                "step": torch.tensor(float(self._steps)),
                **{name: torch.from_numpy(arrays[f"{key}/{name}"]) for name in ("exp_avg", "exp_avg_sq")},
            }
