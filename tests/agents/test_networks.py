"""Networks, the tanh-Gaussian and Adam, against independent computations."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from robo_rl.agents.parts.adam import TrainState, adam_step, bias_corrections
from robo_rl.agents.parts.networks import (
    actor_distribution,
    apply_network,
    initialise_network,
    sample_action,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def randomised(parameters, seed=1):
    source = generator(seed)
    return {name: torch.randn(tensor.shape, generator=source) * 0.3 for name, tensor in parameters.items()}


@pytest.mark.parametrize("activation", ["relu", "silu", "tanh"])
@pytest.mark.parametrize("layer_norm", [True, False])
def test_an_ensemble_computes_what_its_members_compute(activation, layer_norm):
    sizes = (5, 16, 8, 2)
    shapes = initialise_network("n", sizes, generator(), layer_norm=layer_norm, output_gain=1.0, ensemble=3)
    parameters = randomised(shapes)
    x = np.random.default_rng(0).normal(size=(7, 5))
    found = apply_network(parameters, "n", torch.tensor(x, dtype=torch.float32), activation).numpy()

    functions = {
        "relu": lambda v: np.maximum(v, 0),
        "tanh": np.tanh,
        "silu": lambda v: v / (1 + np.exp(-v)),
    }
    for member in range(3):
        p = {name: tensor[member].double().numpy() for name, tensor in parameters.items()}
        h = x
        for layer in ("0", "1"):
            h = h @ p[f"n/{layer}/weight"] + p[f"n/{layer}/bias"]
            if layer_norm:
                h = (h - h.mean(1, keepdims=True)) / np.sqrt(h.var(1, keepdims=True) + 1e-6)
                h = h * p[f"n/{layer}/scale"] + p[f"n/{layer}/shift"]
            h = functions[activation](h)
        expected = h @ p["n/output/weight"] + p["n/output/bias"]
        np.testing.assert_allclose(found[member], expected, rtol=1e-4, atol=1e-5)


def test_initial_weights_are_orthogonal_seeded_and_differ_between_members():
    parameters = initialise_network("n", (8, 8, 3), generator(3), layer_norm=True, output_gain=0.01, ensemble=2)
    for member in range(2):
        weight = parameters["n/0/weight"][member].numpy()
        np.testing.assert_allclose(weight @ weight.T, 2 * np.eye(8), atol=1e-5)
        output = parameters["n/output/weight"][member].numpy()
        np.testing.assert_allclose(output.T @ output, 1e-4 * np.eye(3), atol=1e-8)
    assert not torch.equal(parameters["n/0/weight"][0], parameters["n/0/weight"][1])
    assert not parameters["n/0/bias"].any() and (parameters["n/0/scale"] == 1).all()
    again = initialise_network("n", (8, 8, 3), generator(3), layer_norm=True, output_gain=0.01, ensemble=2)
    assert all(torch.equal(again[name], parameters[name]) for name in parameters)


def test_bfloat16_products_stay_close_to_float32_and_keep_its_dtype():
    parameters = randomised(initialise_network("n", (6, 32, 2), generator(), layer_norm=True, output_gain=1.0))
    x = torch.randn(4, 6, generator=generator(5))
    exact = apply_network(parameters, "n", x, "relu")
    rounded = apply_network(parameters, "n", x, "relu", "bfloat16")
    assert rounded.dtype == torch.float32
    assert not torch.equal(exact, rounded)
    torch.testing.assert_close(exact, rounded, rtol=0.05, atol=0.05)


def test_log_probability_is_that_of_a_density_on_the_interval():
    # The density of a = tanh(u) from the log probability at many u; it must integrate to one over a.
    mean, log_std = torch.tensor([[0.7]], dtype=torch.float64), torch.tensor([[-0.4]], dtype=torch.float64)

    def density(action):
        u = np.arctanh(action)
        noise = torch.tensor([[(u - 0.7) / np.exp(-0.4)]])
        sampled, log_prob = sample_action(mean, log_std, noise)
        assert sampled.item() == pytest.approx(action)
        # Closed form: Gaussian density of u times |du/da|.
        assert log_prob.exp().item() == pytest.approx(stats.norm.pdf(u, 0.7, np.exp(-0.4)) / (1 - action**2), rel=1e-9)
        return log_prob.exp().item()

    total, _ = integrate.quad(density, -1 + 1e-12, 1 - 1e-12, limit=400)
    assert total == pytest.approx(1, abs=1e-6)


def test_log_probability_sums_dimensions_and_is_finite_where_tanh_is_one():
    mean = torch.tensor([[30.0, -40.0]])
    action, log_prob = sample_action(mean, torch.zeros(1, 2), torch.zeros(1, 2))
    assert action.tolist() == [[1.0, -1.0]]
    # log(1 - tanh(u)^2) -> log 4 - 2 |u| for large |u|.
    expected = 2 * stats.norm.logpdf(0) - (2 * np.log(4) - 2 * 30 - 2 * 40)
    assert log_prob.item() == pytest.approx(expected, rel=1e-6)


def test_log_standard_deviation_is_limited():
    parameters = initialise_network("actor", (2, 4, 2), generator(), layer_norm=False, output_gain=1.0)
    parameters["actor/output/bias"] = torch.tensor([0.0, 100.0])
    _, log_std = actor_distribution(parameters, torch.zeros(1, 2), "relu")
    assert log_std.item() == 2
    parameters["actor/output/bias"] = torch.tensor([0.0, -100.0])
    _, log_std = actor_distribution(parameters, torch.zeros(1, 2), "relu")
    assert log_std.item() == -20


def test_adam_moves_as_torch_does():
    source = generator(7)
    ours = {"w": torch.randn(3, 4, generator=source), "b": torch.randn(4, generator=source)}
    theirs = {name: tensor.clone().requires_grad_() for name, tensor in ours.items()}
    state = TrainState.of(ours)
    optimiser = torch.optim.Adam(theirs.values(), lr=0.01)
    for step in range(1, 6):
        gradients = {name: torch.randn(tensor.shape, generator=source) for name, tensor in ours.items()}
        adam_step(state, gradients, 0.01, bias_corrections(step))
        for name, tensor in theirs.items():
            tensor.grad = gradients[name]
        optimiser.step()
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor.detach())
        torch.testing.assert_close(state.first[name], optimiser.state[tensor]["exp_avg"])
        torch.testing.assert_close(state.second[name], optimiser.state[tensor]["exp_avg_sq"])


def test_adam_leaves_parameters_without_gradient_alone():
    parameters = {"w": torch.ones(2), "frozen": torch.ones(2)}
    state = TrainState.of(parameters, lambda name: name == "w")
    adam_step(state, {"w": torch.ones(2)}, 0.1, bias_corrections(1))
    assert parameters["frozen"].tolist() == [1, 1]
    # The first step of Adam is the learning rate, whatever the gradient's size.
    torch.testing.assert_close(parameters["w"], torch.full((2,), 0.9))
