"""Adam on named tensors (Kingma and Ba 2015)."""

from collections.abc import Mapping

import torch
from torch import Tensor

from .networks import Parameters

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
