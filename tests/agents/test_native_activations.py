"""Native activations and their slopes against autograd in float64."""

import ctypes
import math

import pytest
import torch

from robo_rl.agents.parts.choices import ACTIVATIONS
from robo_rl.agents.parts.native import available
from robo_rl.agents.parts.native.library import ACTIVATION_NUMBERS, library
from robo_rl.agents.parts.networks import apply_network

pytestmark = pytest.mark.skipif(not available()[0], reason=available()[1])


def native(activation: str, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y, slope = torch.empty_like(x), torch.empty_like(x)
    library().robo_rl_activations(ACTIVATION_NUMBERS[activation], len(x), *(pointer(each) for each in (x, y, slope)))
    return y, slope


def pointer(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def exact(activation: str, x: torch.Tensor) -> torch.Tensor:
    """The activation of a network with one unit that passes on its input."""
    ones, zeros = torch.ones(1, 1, dtype=x.dtype), torch.zeros(1, dtype=x.dtype)
    network = {"n/0/weight": ones, "n/0/bias": zeros, "n/output/weight": ones, "n/output/bias": zeros}
    return apply_network(network, "n", x.unsqueeze(1), activation).squeeze(1)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_values_and_slopes_are_those_of_torch(activation: str) -> None:
    x = torch.cat((torch.linspace(-12, 12, 20_003), torch.tensor([1e-30, -1e-30, 100.0, -100.0, 1e6, -1e6, 0.0])))
    y, slope = native(activation, x)
    precise = x.double().requires_grad_()
    wanted = exact(activation, precise)
    (wanted_slope,) = torch.autograd.grad(wanted.sum(), precise)
    assert ((y - wanted).abs() / x.abs().clamp(min=1)).max() < 1e-6
    assert (slope - wanted_slope).abs().max() < 1e-6


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_unknown_values_are_kept(activation: str) -> None:
    y, slope = native(activation, torch.tensor([1.0, math.nan, 2.0]))
    assert y.isnan().tolist() == [False, True, False]
    assert not slope[::2].isnan().any()
    y, _ = native(activation, torch.tensor([math.inf, 1e20]))
    assert y.isfinite().all() == (activation == "tanh") or (y > 1e19).all()
