"""Networks as functions of flat named parameters.

Parameters live in one ``dict[str, Tensor]``. A network called ``name`` with L hidden layers owns::

    <name>/<l>/weight       (in, out)    l = 0 ... L-1
    <name>/<l>/bias         (out,)
    <name>/<l>/scale        (out,)       only with LayerNorm
    <name>/<l>/shift        (out,)       only with LayerNorm
    <name>/output/weight    (width, out)
    <name>/output/bias      (out,)

and computes dense -> LayerNorm -> activation in each hidden layer. A residual network with N blocks of width d owns::

    <name>/embedding/weight     (in, d)      and bias (d,)
    <name>/<n>/scale, shift     (d,)         n = 0 ... N-1
    <name>/<n>/expand/weight    (d, 4 d)     and bias (4 d,)
    <name>/<n>/project/weight   (4 d, d)     and bias (d,)
    <name>/norm/scale, shift    (d,)
    <name>/output/weight        (d, out)     and bias (out,)

and computes x + project(activation(expand(LayerNorm(x)))) in each block, then LayerNorm (SimBa, Lee et al. 2024). An
ensemble of E networks has the same names and one more leading axis of length E, so that one batched product computes
all of them.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from robo_rl.core import claim_parameters

from .categorical import expected_value

Parameters = dict[str, Tensor]

LAYER_NORM_EPSILON = 1e-6
EXPANSION = 4
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
    network: str = "mlp",
) -> Parameters:
    """Return new float32 parameters: orthogonal weights (gain sqrt 2 in hidden layers), biases of zero.

    In a residual network the embedding is orthogonal with gain 1, and the weights of the blocks are normal with
    variance 2 / inputs (He et al. 2015).

    Args:
        name: prefix of the names.
        sizes: input, hidden and output widths; the hidden widths of a residual network are equal, one for each block.
        generator: source of the random weights.
        layer_norm: whether hidden layers have LayerNorm; a residual network always has its own.
        output_gain: gain of the output layer.
        ensemble: number of networks to stack; None: a single network without the leading axis.
        network: ``mlp``, or ``simba``: a residual network.
    """
    parameters: Parameters = {}
    lead = () if ensemble is None else (ensemble,)

    def add_dense(layer: str, fan_in: int, fan_out: int, gain: float | None) -> None:
        """Add a layer with orthogonal weights, or with those of He et al. if there is no gain."""
        claim_parameters(fan_in * fan_out, name, ensemble or 1)
        weight = torch.empty(*lead, fan_in, fan_out)
        for matrix in weight.view(-1, fan_in, fan_out):
            if gain is None:
                matrix.normal_(0, math.sqrt(2 / fan_in), generator=generator)
            else:
                torch.nn.init.orthogonal_(matrix, gain, generator)
        parameters[f"{name}/{layer}/weight"] = weight
        parameters[f"{name}/{layer}/bias"] = torch.zeros(*lead, fan_out)

    def add_norm(layer: str, width: int) -> None:
        parameters[f"{name}/{layer}/scale"] = torch.ones(*lead, width)
        parameters[f"{name}/{layer}/shift"] = torch.zeros(*lead, width)

    *inner, outputs = sizes
    if network == "simba":
        inputs, width = inner[:2]
        add_dense("embedding", inputs, width, 1.0)
        for block in range(len(inner) - 1):
            add_norm(f"{block}", width)
            add_dense(f"{block}/expand", width, EXPANSION * width, None)
            add_dense(f"{block}/project", EXPANSION * width, width, None)
        add_norm("norm", width)
    else:
        for layer, (fan_in, fan_out) in enumerate(pairwise(inner)):
            add_dense(f"{layer}", fan_in, fan_out, math.sqrt(2))
            if layer_norm:
                add_norm(f"{layer}", fan_out)
    add_dense("output", inner[-1], outputs, output_gain)
    return parameters


def input_size(parameters: Parameters, name: str) -> int:
    """Return the input width of the network ``name``."""
    first = "embedding" if _is_residual(parameters, name) else "0"
    return parameters[f"{name}/{first}/weight"].shape[-2]


def apply_network(parameters: Parameters, name: str, x: Tensor, activation: str, precision: str = "float32") -> Tensor:
    """Compute the network ``name`` on rows ``x`` (B, in).

    Returns:
        (B, out), or (E, B, out) for an ensemble.
    """
    features, _ = _hidden(parameters, name, x, activation, precision)
    return _dense(parameters, f"{name}/output", features, precision)


def hidden_outputs(
    parameters: Parameters, name: str, x: Tensor, activation: str, precision: str = "float32"
) -> list[Tensor]:
    """Return the outputs of the neurons in each hidden layer of the network ``name`` for rows ``x`` (B, in).

    Returns:
        For each layer, or block, the output of its activation: (B, width), or (E, B, width) for an ensemble.
    """
    return _hidden(parameters, name, x, activation, precision)[1]


def _hidden(
    parameters: Parameters, name: str, x: Tensor, activation: str, precision: str
) -> tuple[Tensor, list[Tensor]]:
    """Return the input of the output layer, and the result of :func:`hidden_outputs`."""
    activate = _ACTIVATIONS[activation]
    outputs: list[Tensor] = []
    if _is_residual(parameters, name):
        x = _dense(parameters, f"{name}/embedding", x, precision)
        while (block := f"{name}/{len(outputs)}") + "/expand/weight" in parameters:
            expanded = _dense(parameters, f"{block}/expand", _layer_norm(parameters, block, x), precision)
            outputs.append(activate(expanded))
            x = x + _dense(parameters, f"{block}/project", outputs[-1], precision)
        return _layer_norm(parameters, f"{name}/norm", x), outputs
    while (layer := f"{name}/{len(outputs)}") + "/weight" in parameters:
        x = _dense(parameters, layer, x, precision)
        if f"{layer}/scale" in parameters:
            x = _layer_norm(parameters, layer, x)
        x = activate(x)
        outputs.append(x)
    return x, outputs


def _is_residual(parameters: Parameters, name: str) -> bool:
    return f"{name}/embedding/weight" in parameters


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


def critic_outputs(
    parameters: Parameters, name: str, observation: Tensor, action: Tensor, activation: str, precision: str = "float32"
) -> Tensor:
    """Return the outputs of the ensemble ``name`` (``critic`` or ``target_critic``) for the rows: (E, B, 1) values, or
    (E, B, K) logits of K bins."""
    return apply_network(parameters, name, torch.cat((observation, action), dim=-1), activation, precision)


def critic_values(
    parameters: Parameters,
    name: str,
    observation: Tensor,
    action: Tensor,
    activation: str,
    precision: str = "float32",
    value_range: tuple[float, float] | None = None,
) -> Tensor:
    """Return the values (E, B) of the rows; ``value_range`` is the range of the bins of critics with bins."""
    return output_values(critic_outputs(parameters, name, observation, action, activation, precision), value_range)


def output_values(outputs: Tensor, value_range: tuple[float, float] | None) -> Tensor:
    """Return the values (...,) of :func:`critic_outputs` (..., 1), or of logits (..., K) over ``value_range``."""
    return outputs.squeeze(-1) if value_range is None else expected_value(outputs, value_range)


def track(target: Parameters, parameters: Parameters, tau: float) -> None:
    """Move a target network in place by the share ``tau`` towards the ``parameters`` with its names (Polyak)."""
    torch._foreach_lerp_(list(target.values()), [parameters[name] for name in target], tau)
