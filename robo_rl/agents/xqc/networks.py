"""Networks with normalised features, as functions of flat named parameters.

As in :mod:`robo_rl.agents.parts.networks`, parameters live in one ``dict[str, Tensor]``, weights are (in, out), and an
ensemble of E networks has one more leading axis of length E. A network called ``name`` owns trained parameters
``<name>/...`` and running statistics ``<name>_statistics/...``, which are means and variances of rows.

``xqc`` (Palenicek et al. 2026): batch normalisation of the input; in each hidden layer dense without bias -> batch
normalisation -> ReLU; a dense output. ``crossq`` (Bhatt et al. 2024): the same with dense -> ReLU -> batch
normalisation. ``simbav2`` (Lee et al. 2025): observations normalised by their running statistics; a constant appended;
then all features and the weights of all units are vectors of length 1, in residual blocks.
"""

import math
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from robo_rl.core import claim_parameters

from ..parts.networks import LOG_STD_MAX, LOG_STD_MIN, Parameters

PROJECTED = ("xqc", "simbav2")
"""Networks whose weight vectors have length 1."""
SHARE = 0.01
"""Share of a batch's means and variances that goes into the running statistics."""
EPSILON = 1e-3
"""Added to variances, as in the published networks."""
EXPANSION = 4
INPUT_CONSTANT = 3.0
"""Appended to the input of ``simbav2`` before it is scaled to length 1, so that its magnitude is not lost."""
SMALLEST_LENGTH = 1e-8


class Initialiser:
    """Adds layers of one network to named parameters.

    Args:
        name: prefix of the names.
        ensemble: number of networks to stack; None: a single network without the leading axis.
        generator: source of the random weights.

    Attributes:
        parameters: the parameters so far.
    """

    def __init__(self, name: str, ensemble: int | None, generator: torch.Generator) -> None:
        self.parameters: Parameters = {}
        self._name, self._lead, self._generator = name, () if ensemble is None else (ensemble,), generator

    def dense(self, layer: str, fan_in: int, fan_out: int, gain: float, *, bias: bool) -> None:
        """Add orthogonal weights, and biases of zero if ``bias``."""
        claim_parameters(fan_in * fan_out, self._name, *self._lead)
        weight = torch.empty(*self._lead, fan_in, fan_out)
        for matrix in weight.view(-1, fan_in, fan_out):
            torch.nn.init.orthogonal_(matrix, gain, self._generator)
        self.parameters[f"{self._name}/{layer}/weight"] = weight
        if bias:
            self.constant(f"{layer}/bias", fan_out, 0.0)

    def constant(self, name: str, width: int, value: float) -> None:
        """Add a vector of equal elements."""
        self.parameters[f"{self._name}/{name}"] = torch.full((*self._lead, width), value)

    def statistics(self, layer: str, width: int) -> None:
        """Add running statistics."""
        self.parameters[f"{self._name}_statistics/{layer}/mean"] = torch.zeros(*self._lead, width)
        self.parameters[f"{self._name}_statistics/{layer}/variance"] = torch.ones(*self._lead, width)

    def batch_norm(self, layer: str, width: int) -> None:
        """Add scale, shift and running statistics of a batch normalisation."""
        self.constant(f"{layer}/scale", width, 1.0)
        self.constant(f"{layer}/shift", width, 0.0)
        self.statistics(layer, width)


def initialise_network(
    network: str,
    name: str,
    inputs: tuple[int, int],
    hidden: tuple[int, ...],
    outputs: tuple[int, ...],
    generator: torch.Generator,
    ensemble: int | None = None,
) -> Parameters:
    """Return new float32 parameters and running statistics.

    Args:
        network: one of ``NETWORKS``.
        name: prefix of the names.
        inputs: widths of the observation and of the action in the input.
        hidden: widths of the hidden layers, or of the blocks.
        outputs: widths of the outputs, which have heads of their own in ``simbav2``.
        generator: source of the random weights.
        ensemble: number of networks to stack; None: a single network without the leading axis.
    """
    initialiser = Initialiser(name, ensemble, generator)
    if network == "simbav2":
        _initialise_spherical(initialiser, inputs, hidden, outputs)
    else:
        initialiser.batch_norm("input", sum(inputs))
        for layer, (fan_in, fan_out) in enumerate(pairwise((sum(inputs), *hidden))):
            initialiser.dense(f"{layer}", fan_in, fan_out, math.sqrt(2), bias=network == "crossq")
            initialiser.batch_norm(f"{layer}", fan_out)
        initialiser.dense("output", hidden[-1], sum(outputs), 1.0, bias=True)
    if network in PROJECTED:
        project_weights(initialiser.parameters)
    return initialiser.parameters


def _initialise_spherical(
    initialiser: Initialiser, inputs: tuple[int, int], hidden: tuple[int, ...], outputs: tuple[int, ...]
) -> None:
    width = hidden[0]
    initialiser.statistics("input", inputs[0])
    initialiser.dense("embedding", sum(inputs) + 1, width, 1.0, bias=False)
    initialiser.constant("embedding/scale", width, math.sqrt(2 / width))
    for block in range(len(hidden)):
        initialiser.dense(f"{block}/expand", width, EXPANSION * width, 1.0, bias=False)
        initialiser.constant(f"{block}/expand/scale", EXPANSION * width, math.sqrt(2 / (EXPANSION * width)))
        initialiser.dense(f"{block}/project", EXPANSION * width, width, 1.0, bias=False)
        # The published scale of a parameter decides how fast Adam moves it.
        initialiser.constant(f"{block}/step", width, 1 / math.sqrt(width))
    for head, size in enumerate(outputs):
        initialiser.dense(f"head{head}/hidden", width, width, 1.0, bias=False)
        initialiser.constant(f"head{head}/hidden/scale", width, 1.0)
        initialiser.dense(f"head{head}/output", width, size, 1.0, bias=True)


@torch.no_grad()
def project_weights(parameters: Parameters) -> None:
    """Divide the weights of each unit, in place, by the length of their vector. Biases remain unchanged."""
    weights = [tensor for name, tensor in parameters.items() if name.endswith("/weight")]
    for weight in weights:
        weight /= torch.linalg.vector_norm(weight, dim=-2, keepdim=True).clamp_(min=SMALLEST_LENGTH)


def apply_network(
    network: str, parameters: Parameters, name: str, x: Tensor, moments: Parameters | None = None
) -> Tensor:
    """Compute the network ``name`` on rows ``x`` (B, in).

    Args:
        network: one of ``NETWORKS``.
        parameters: parameters and, where they are used, running statistics.
        name: name of the network.
        x: rows.
        moments: None to normalise by the running statistics. A dictionary: batch normalisation uses the means and
            variances of these rows, and the dictionary receives them, for :func:`follow_moments`.

    Returns:
        (B, out), or (E, B, out) for an ensemble.
    """
    if network == "simbav2":
        return _spherical(parameters, name, x, moments)
    x = _batch_norm(parameters, name, "input", _per_member(parameters, name, x), moments)
    layer = 0
    while f"{name}/{layer}/weight" in parameters:
        x = _dense(parameters, f"{name}/{layer}", x)
        if network == "crossq":
            x = _batch_norm(parameters, name, f"{layer}", torch.relu(x), moments)
        else:
            x = torch.relu(_batch_norm(parameters, name, f"{layer}", x, moments))
        layer += 1
    return _dense(parameters, f"{name}/output", x)


def follow_moments(parameters: Parameters, moments: Parameters) -> None:
    """Move the running statistics in place towards the ``moments`` of a batch."""
    torch._foreach_lerp_([parameters[name] for name in moments], list(moments.values()), SHARE)


def actor_distribution(
    network: str, parameters: Parameters, observation: Tensor, moments: Parameters | None = None
) -> tuple[Tensor, Tensor]:
    """Return mean and log standard deviation (B, A) of the Gaussian whose tanh is the action; see
    :func:`apply_network`."""
    mean, log_std = apply_network(network, parameters, "actor", observation, moments).chunk(2, dim=-1)
    if network == "simbav2":
        return mean, -10 + 6 * (1 + log_std.tanh())
    return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)


def _spherical(parameters: Parameters, name: str, x: Tensor, moments: Parameters | None) -> Tensor:
    """Compute a network ``simbav2``, whose observations lead the rows ``x``."""
    x = _per_member(parameters, name, x)
    x = functional.pad(_running_norm(parameters, name, x, moments), (0, 1), value=INPUT_CONSTANT)
    x = _unit(_scaled_dense(parameters, f"{name}/embedding", _unit(x)))
    blocks = 0
    while f"{name}/{blocks}/step" in parameters:
        blocks += 1
    for block in range(blocks):
        step = parameters[f"{name}/{block}/step"].unsqueeze(-2)
        expanded = torch.relu(_scaled_dense(parameters, f"{name}/{block}/expand", x)) + SMALLEST_LENGTH
        direction = _unit(_dense(parameters, f"{name}/{block}/project", expanded))
        x = _unit(x + step * (math.sqrt(step.shape[-1]) / (blocks + 1)) * (direction - x))
    outputs: list[Tensor] = []
    while (head := f"{name}/head{len(outputs)}") + "/output/weight" in parameters:
        outputs.append(_dense(parameters, f"{head}/output", _scaled_dense(parameters, f"{head}/hidden", x)))
    return torch.cat(outputs, dim=-1)


def _per_member(parameters: Parameters, name: str, x: Tensor) -> Tensor:
    """Return rows (B, in) with the leading axis of the network."""
    first = parameters.get(f"{name}/input/scale", parameters.get(f"{name}/embedding/scale"))
    assert first is not None
    return x if first.ndim == 1 else x.expand(first.shape[0], -1, -1)


def _unit(x: Tensor) -> Tensor:
    return functional.normalize(x, dim=-1, eps=SMALLEST_LENGTH)


def _scaled_dense(parameters: Parameters, layer: str, x: Tensor) -> Tensor:
    return _dense(parameters, layer, x) * parameters[f"{layer}/scale"].unsqueeze(-2)


def _dense(parameters: Parameters, layer: str, x: Tensor) -> Tensor:
    weight, bias = parameters[f"{layer}/weight"], parameters.get(f"{layer}/bias")
    if bias is None:
        return x @ weight
    bias = bias.unsqueeze(-2)
    return torch.baddbmm(bias, x, weight) if weight.ndim == 3 else torch.addmm(bias, x, weight)


def _running_norm(parameters: Parameters, name: str, x: Tensor, moments: Parameters | None) -> Tensor:
    """Return ``x`` with its leading elements, the observation, normalised by their running statistics."""
    layer = f"{name}_statistics/input"
    mean, variance = parameters[f"{layer}/mean"].unsqueeze(-2), parameters[f"{layer}/variance"].unsqueeze(-2)
    size = mean.shape[-1]
    observation = x[..., :size]
    if moments is not None:
        batch_variance, batch_mean = torch.var_mean(observation, dim=-2, correction=0)
        moments |= {f"{layer}/mean": batch_mean, f"{layer}/variance": batch_variance}
    return torch.cat(((observation - mean) * (variance + EPSILON).rsqrt(), x[..., size:]), dim=-1)


def _batch_norm(parameters: Parameters, name: str, layer: str, x: Tensor, moments: Parameters | None) -> Tensor:
    """Return ``x`` (..., B, D) normalised by its moments over B, which are added to ``moments``.

    If ``moments`` is None, return it normalised by the running statistics.
    """
    scale, shift = parameters[f"{name}/{layer}/scale"], parameters[f"{name}/{layer}/shift"]
    statistics = f"{name}_statistics/{layer}"
    if moments is None:
        factor = scale * (parameters[f"{statistics}/variance"] + EPSILON).rsqrt()
        offset = shift - parameters[f"{statistics}/mean"] * factor
        return torch.addcmul(offset.unsqueeze(-2), x, factor.unsqueeze(-2))
    # One call with a column for each unit of each member: several times as fast as the formula written out.
    rows = x if x.ndim == 2 else x.transpose(0, 1).flatten(1)
    y, mean, inverse = torch.native_batch_norm(rows, scale.flatten(), shift.flatten(), None, None, True, 0.0, EPSILON)
    moments[f"{statistics}/mean"] = mean.view_as(scale)
    moments[f"{statistics}/variance"] = inverse.square().reciprocal().view_as(scale) - EPSILON
    return y if x.ndim == 2 else y.view(x.shape[1], x.shape[0], x.shape[2]).transpose(0, 1)
