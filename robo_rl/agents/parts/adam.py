"""Adam on named tensors (Kingma and Ba 2015)."""

from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import Tensor

from .networks import Parameters
from .slots import prefixed

BETA_FIRST = 0.9
BETA_SECOND = 0.999
EPSILON = 1e-8


def bias_corrections(step: int) -> tuple[float, float]:
    """Return 1 - beta^step for both moments; the first step is number 1."""
    return 1 - BETA_FIRST**step, 1 - BETA_SECOND**step


def adam_step(
    parameters: Parameters,
    gradients: Mapping[str, Tensor],
    first: Parameters,
    second: Parameters,
    learning_rate: float,
    corrections: tuple[float, float] | Tensor,
) -> None:
    """Move the parameters that have a gradient, and their moments of the same names, in place.

    Args:
        parameters: may hold more than is moved.
        gradients: of the loss, by the names of the parameters.
        first: running means of the gradients.
        second: running means of their squares.
        learning_rate: step length.
        corrections: of :func:`bias_corrections`, also as a tensor (2,).
    """
    if torch.compiler.is_compiling():  # which fuses these by itself
        for name, gradient in gradients.items():
            mean = first[name].lerp_(gradient, 1 - BETA_FIRST)
            square = second[name].mul_(BETA_SECOND).addcmul_(gradient, gradient, value=1 - BETA_SECOND)
            denominator = (square / corrections[1]).sqrt_().add_(EPSILON)
            parameters[name].sub_(learning_rate * (mean / corrections[0]) / denominator)
        return
    # The same for all tensors at once: on a GPU a kernel for each operation, not for each operation and tensor.
    changes = list(gradients.values())
    means, squares, moved = ([each[name] for name in gradients] for each in (first, second, parameters))
    torch._foreach_lerp_(means, changes, 1 - BETA_FIRST)
    torch._foreach_mul_(squares, BETA_SECOND)
    torch._foreach_addcmul_(squares, changes, changes, value=1 - BETA_SECOND)
    denominators = torch._foreach_div(squares, corrections[1])
    torch._foreach_sqrt_(denominators)
    torch._foreach_add_(denominators, EPSILON)
    steps = torch._foreach_div(means, corrections[0])
    torch._foreach_mul_(steps, learning_rate)
    torch._foreach_div_(steps, denominators)
    torch._foreach_sub_(moved, steps)


class Adam:
    """The optimiser of an agent's networks, which share a dictionary of parameters and may have losses of their own.

    Args:
        parameters: moved in place, and may hold several networks; see :mod:`.networks`.
        learning_rate: step length.
    """

    def __init__(self, parameters: Parameters, learning_rate: float) -> None:
        self._parameters = parameters
        self._learning_rate = learning_rate
        self._first = {name: torch.zeros_like(tensor) for name, tensor in parameters.items()}
        self._second = {name: torch.zeros_like(tensor) for name, tensor in parameters.items()}

    def descend(self, network: str, loss: Callable[[Parameters], Tensor], step: int) -> Tensor:
        """Move one network a step down its loss; return the loss before it.

        Args:
            network: name of the network, such as ``critic``.
            loss: function of the network's parameters alone.
            step: number of steps of this network, this one included: the first is number 1.
        """
        gradients, value = torch.func.grad_and_value(loss)(self.network(network))
        self.move(gradients, step)
        return cast(Tensor, value)

    def move(self, gradients: Mapping[str, Tensor], step: int) -> None:
        """Move the parameters that have a gradient; ``step`` as in :meth:`descend`."""
        corrections = bias_corrections(step)
        adam_step(self._parameters, gradients, self._first, self._second, self._learning_rate, corrections)

    def network(self, name: str) -> Parameters:
        """Return the parameters of one network."""
        return {key: tensor for key, tensor in self._parameters.items() if key.startswith(f"{name}/")}

    def restart(self) -> None:
        """Forget the moments, before the loss is replaced by another."""
        for moment in (*self._first.values(), *self._second.values()):
            moment.zero_()

    def slots(self) -> dict[str, Tensor]:
        """Return the tensors of the moments."""
        return prefixed("adam_first", self._first) | prefixed("adam_second", self._second)
