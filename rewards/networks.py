"""Small networks with their optimiser: made from a seed, saved and loaded as arrays."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from robo_rl.core import CheckpointError, State

from .module import take_over


class TrainedNetwork:
    """A multilayer perceptron (LayerNorm and ReLU between its layers) and Adam on its parameters.

    Calling it gives the outputs (..., O) for inputs (..., F).

    Args:
        inputs: F.
        hidden: widths of the hidden layers.
        outputs: O.
        learning_rate: of Adam.
        seed: of the initial weights.
        name: of the module that it belongs to, for messages.
    """

    def __init__(
        self, inputs: int, hidden: Sequence[int], outputs: int, *, learning_rate: float, seed: int, name: str
    ) -> None:
        layers: list[nn.Module] = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for width in hidden:
                layers += [nn.Linear(inputs, width), nn.LayerNorm(width), nn.ReLU()]
                inputs = width
            self._network = nn.Sequential(*layers, nn.Linear(inputs, outputs))
        self._parameters = dict(self._network.named_parameters())
        self._optimiser = torch.optim.Adam(self._parameters.values(), learning_rate)
        self._name = name
        self._steps = 0

    def __call__(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self._network(inputs)
        return outputs

    def descend(self, loss: Tensor) -> float:
        """Take one step of Adam down ``loss``, a scalar; return its value."""
        self._optimiser.zero_grad()
        torch.autograd.backward(loss)
        self._optimiser.step()
        self._steps += 1
        return float(loss.detach())

    def state(self) -> State:
        """Return parameters, Adam's running means and its number of steps."""
        state: State = {"steps": np.array([self._steps], dtype=np.int64)}
        for key, parameter in self._parameters.items():
            moments = self._optimiser.state.get(parameter, {})
            state[key] = parameter.detach().numpy().copy()
            for moment in ("exp_avg", "exp_avg_sq"):
                state[f"{key}/{moment}"] = moments.get(moment, torch.zeros_like(parameter)).numpy().copy()
        return state

    def load(self, state: State) -> None:
        """Go on from ``state``.

        Raises:
            CheckpointError: if it is of another network.
        """
        found = self.state()
        take_over(found, state, self._name)
        self._steps = int(found["steps"][0])
        if self._steps < 0:
            raise CheckpointError(f"reward module {self._name!r}: {self._steps} steps of its optimiser")
        for key, parameter in self._parameters.items():
            with torch.no_grad():
                parameter.copy_(torch.from_numpy(found[key]))
            self._optimiser.state[parameter] = {
                "step": torch.tensor(float(self._steps)),
                **{name: torch.from_numpy(found[f"{key}/{name}"]) for name in ("exp_avg", "exp_avg_sq")},
            }
