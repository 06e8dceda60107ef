"""Networks as functions of flat named parameters.

Parameters live in one ``dict[str, Tensor]``. A network called ``name`` with L hidden layers owns::

    <name>/<l>/weight       (in, out)    l = 0 ... L-1
    <name>/<l>/bias         (out,)
    <name>/<l>/scale        (out,)       only with LayerNorm
    <name>/<l>/shift        (out,)       only with LayerNorm
    <name>/output/weight    (width, out)
    <name>/output/bias      (out,)

and computes dense -> LayerNorm -> activation in each hidden layer. An ensemble of E networks has the same names and one
more leading axis of length E, so that one batched product computes all of them.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from robo_rl.core import claim_parameters

Parameters = dict[str, Tensor]

LAYER_NORM_EPSILON = 1e-6
LOG_STD_MIN = -20.0
LOG_STD_MAX = 2.0

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": partial(functional.gelu, approximate="tanh"),
    "relu": torch.relu,
    "silu": functional.silu,
    "tanh": torch.tanh,
}


def initialise_network(
    name: str,
    sizes: Sequence[int],
    generator: torch.Generator,
    *,
    layer_norm: bool,
    output_gain: float,
    ensemble: int | None = None,
) -> Parameters:
    """Return new float32 parameters: orthogonal weights (gain sqrt 2 in hidden layers), biases of zero.

    Args:
        name: prefix of the names.
        sizes: input, hidden and output widths.
        generator: source of the random weights.
        layer_norm: whether hidden layers have LayerNorm.
        output_gain: gain of the output layer.
        ensemble: number of networks to stack; None: a single network without the leading axis.
    """
    parameters: Parameters = {}
    lead = () if ensemble is None else (ensemble,)

    def add_dense(layer: str, fan_in: int, fan_out: int, gain: float) -> None:
        claim_parameters(fan_in * fan_out, name, ensemble or 1)
        weight = torch.empty(*lead, fan_in, fan_out)
        for matrix in weight.view(-1, fan_in, fan_out):
            torch.nn.init.orthogonal_(matrix, gain, generator)
        parameters[f"{name}/{layer}/weight"] = weight
        parameters[f"{name}/{layer}/bias"] = torch.zeros(*lead, fan_out)

    *inner, outputs = sizes
    for layer, (fan_in, fan_out) in enumerate(pairwise(inner)):
        add_dense(f"{layer}", fan_in, fan_out, math.sqrt(2))
        if layer_norm:
            parameters[f"{name}/{layer}/scale"] = torch.ones(*lead, fan_out)
            parameters[f"{name}/{layer}/shift"] = torch.zeros(*lead, fan_out)
    add_dense("output", inner[-1], outputs, output_gain)
    return parameters


def apply_network(parameters: Parameters, name: str, x: Tensor, activation: str, precision: str = "float32") -> Tensor:
    """Compute the network ``name`` on rows ``x`` (B, in).

    Returns:
        (B, out), or (E, B, out) for an ensemble.
    """
    activate, layers = _ACTIVATIONS[activation], 0
    while (layer := f"{name}/{layers}") + "/weight" in parameters:
        x = _dense(parameters, layer, x, precision)
        if f"{layer}/scale" in parameters:
            x = _layer_norm(parameters, layer, x)
        x = activate(x)
        layers += 1
    return _dense(parameters, f"{name}/output", x, precision)


def _layer_norm(parameters: Parameters, layer: str, x: Tensor) -> Tensor:
    x = functional.layer_norm(x, x.shape[-1:], eps=LAYER_NORM_EPSILON)
    return x * parameters[f"{layer}/scale"].unsqueeze(-2) + parameters[f"{layer}/shift"].unsqueeze(-2)


def _dense(parameters: Parameters, layer: str, x: Tensor, precision: str) -> Tensor:
    weight, bias = parameters[f"{layer}/weight"], parameters[f"{layer}/bias"].unsqueeze(-2)
    if weight.ndim == 3:
        x = x.expand(weight.shape[0], -1, -1)
    if precision == "bfloat16":
        return torch.matmul(x.bfloat16(), weight.bfloat16()).to(bias.dtype) + bias
    return torch.baddbmm(bias, x, weight) if weight.ndim == 3 else torch.addmm(bias, x, weight)


def actor_distribution(
    parameters: Parameters, observation: Tensor, activation: str, precision: str = "float32"
) -> tuple[Tensor, Tensor]:
    """Return mean and log standard deviation (B, A) of the Gaussian whose tanh is the action."""
    output = apply_network(parameters, "actor", observation, activation, precision)
    mean, log_std = output.chunk(2, dim=-1)
    return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)


def actor_mode(parameters: Parameters, observation: Tensor, activation: str) -> Tensor:
    """Return the action (B, A) of the deterministic policy: tanh of the mean."""
    mean, _ = actor_distribution(parameters, observation, activation)
    return mean.tanh()


def sample_action(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return the action tanh(mean + std * noise) (B, A) and the logarithm of its density (B,).

    The density of a tanh-Gaussian has the factor 1 / (1 - tanh(u)^2) in each dimension; its logarithm is written
    so that it is exact for large |u|: log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)).
    """
    pre_tanh = mean + log_std.exp() * noise
    gaussian = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    correction = 2 * (math.log(2) - pre_tanh - functional.softplus(-2 * pre_tanh))
    return pre_tanh.tanh(), (gaussian - correction).sum(-1)


def critic_values(
    parameters: Parameters, name: str, observation: Tensor, action: Tensor, activation: str, precision: str = "float32"
) -> Tensor:
    """Return the values (E, B) of the ensemble ``name`` (``critic`` or ``target_critic``) for the rows."""
    joint = torch.cat((observation, action), dim=-1)
    return apply_network(parameters, name, joint, activation, precision).squeeze(-1)


def track(target: Parameters, parameters: Parameters, tau: float) -> None:
    """Move a target network in place by the share ``tau`` towards the ``parameters`` with its names (Polyak)."""
    torch._foreach_lerp_(list(target.values()), [parameters[name] for name in target], tau)
