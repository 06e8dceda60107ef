"""Adam on named tensors (Kingma and Ba 2015)."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Self, cast

import torch
from torch import Tensor

from .networks import Parameters
from .slots import prefixed

BETA_FIRST = 0.9
BETA_SECOND = 0.999
EPSILON = 1e-8


class TrainState(NamedTuple):
    """Networks and the moments of the optimiser that trains them. All tensors are written in place, never replaced.

    Attributes:
        parameters: parameters of all networks; may include some that are not trained.
        first: Adam's running means of the gradients, by the names of the parameters that are trained.
        second: Adam's running means of the squared gradients, by the same names.
    """

    parameters: Parameters
    first: Parameters
    second: Parameters

    @classmethod
    def of(cls, parameters: Parameters, trained: Callable[[str], bool] = lambda name: True) -> Self:
        """Return ``parameters`` with moments of zero for the names that ``trained`` accepts."""
        selected = {name: tensor for name, tensor in parameters.items() if trained(name)}
        first, second = ({name: torch.zeros_like(tensor) for name, tensor in selected.items()} for _ in range(2))
        return cls(parameters, first, second)

    def restart(self) -> None:
        """Set the moments to zero."""
        for moment in (*self.first.values(), *self.second.values()):
            moment.zero_()

    def moments(self, prefix: str = "adam") -> dict[str, Tensor]:
        """Return the tensors of the moments, under names that begin with ``prefix``."""
        return prefixed(f"{prefix}_first", self.first) | prefixed(f"{prefix}_second", self.second)


def bias_corrections(step: int, beta_first: float = BETA_FIRST) -> tuple[float, float]:
    """Return 1 - beta^step for both moments; the first step is number 1."""
    return 1 - beta_first**step, 1 - BETA_SECOND**step


def adam_step(
    state: TrainState,
    gradients: Mapping[str, Tensor],
    learning_rate: float | Tensor,
    corrections: tuple[float, float] | Tensor,
    beta_first: float = BETA_FIRST,
) -> None:
    """Update the parameters that have a gradient, and their moments, in place.

    Args:
        state: may hold parameters without a gradient.
        gradients: gradients of the loss, by the names of the parameters.
        learning_rate: step length, a number or a tensor ().
        corrections: result of :func:`bias_corrections`, or the same as a tensor (2,).
        beta_first: decay of the running means of the gradients.
    """
    parameters, first, second = state
    if torch.compiler.is_compiling():  # the compiler fuses these itself
        for name, gradient in gradients.items():
            mean = first[name].lerp_(gradient, 1 - beta_first)
            square = second[name].mul_(BETA_SECOND).addcmul_(gradient, gradient, value=1 - BETA_SECOND)
            denominator = (square / corrections[1]).sqrt_().add_(EPSILON)
            parameters[name].sub_(learning_rate * (mean / corrections[0]) / denominator)
        return
    # The same for all tensors at once: on a GPU one kernel per operation, instead of one per operation and tensor.
    changes = list(gradients.values())
    means, squares, values = ([named[name] for name in gradients] for named in (first, second, parameters))
    torch._foreach_lerp_(means, changes, 1 - beta_first)
    torch._foreach_mul_(squares, BETA_SECOND)
    torch._foreach_addcmul_(squares, changes, changes, value=1 - BETA_SECOND)
    denominators = torch._foreach_div(squares, corrections[1])
    torch._foreach_sqrt_(denominators)
    torch._foreach_add_(denominators, EPSILON)
    steps = torch._foreach_div(means, corrections[0])
    torch._foreach_mul_(steps, learning_rate)
    torch._foreach_div_(steps, denominators)
    torch._foreach_sub_(values, steps)


class Adam:
    """The optimiser of an agent's networks, which share a dictionary of parameters and may have separate losses.

    Args:
        parameters: updated in place; may belong to several networks, see :mod:`.networks`.
        learning_rate: step length.
    """

    def __init__(self, parameters: Parameters, learning_rate: float) -> None:
        self._state = TrainState.of(parameters)
        self._learning_rate = learning_rate

    def descend(self, network: str, loss: Callable[[Parameters], Tensor], step: int) -> Tensor:
        """Take one gradient step of a network; return the loss before it.

        Args:
            network: name of the network, such as ``critic``.
            loss: function of the network's parameters alone.
            step: number of steps of this network, including this one: 1 for the first.
        """
        gradients, value = torch.func.grad_and_value(loss)(self.network(network))
        self.move(gradients, step)
        return cast(Tensor, value)

    def move(self, gradients: Mapping[str, Tensor], step: int) -> None:
        """Update the parameters that have a gradient; for ``step`` see :meth:`descend`."""
        adam_step(self._state, gradients, self._learning_rate, bias_corrections(step))

    def network(self, name: str) -> Parameters:
        """Return the parameters of one network."""
        return {key: tensor for key, tensor in self._state.parameters.items() if key.startswith(f"{name}/")}

    @property
    def state(self) -> TrainState:
        """The parameters and their moments."""
        return self._state

    def restart(self) -> None:
        """Reset the moments, before another loss replaces the current one."""
        self._state.restart()

    def slots(self) -> dict[str, Tensor]:
        """Return the tensors of the moments."""
        return self._state.moments()
