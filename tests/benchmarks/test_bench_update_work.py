"""The work that the benchmark of full iterations counts, and that of its peer in JAX, are those of our update."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from robo_rl.agents.parts.adam import TrainState
from robo_rl.agents.parts.networks import initialise_network
from robo_rl.agents.sac import SACConfig
from robo_rl.agents.sac.critics import train_state
from robo_rl.agents.sac.update import Minibatches, TorchUpdate, draw_noise

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SIZES = {"critics": 3, "observation": 5, "action": 2, "hidden": (16, 12), "batch": 8, "updates": 4}


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch):
    """Make the scripts of the benchmark importable."""
    monkeypatch.syspath_prepend(BENCHMARKS)


def torch_state(sizes: dict) -> TrainState:
    """Parameters of all networks, not one of them zero, and Adam's moments."""
    generator = torch.Generator().manual_seed(0)
    inputs, hidden = sizes["observation"] + sizes["action"], sizes["hidden"]
    critic = initialise_network(
        "critic",
        [inputs, *hidden, 1],
        generator,
        layer_norm=True,
        output_gain=1,
        ensemble=sizes["critics"],
    )
    actor_sizes = [sizes["observation"], *hidden, 2 * sizes["action"]]
    actor = initialise_network("actor", actor_sizes, generator, layer_norm=False, output_gain=1)
    trained = {**critic, **actor, "temperature/log_alpha": torch.tensor(-1.0)}
    for value in trained.values():
        value += 0.1 * torch.randn(value.shape, generator=generator)
    targets = {f"target_{name}": value + 0.01 for name, value in critic.items()}
    return train_state({**trained, **targets})


def torch_batch(sizes: dict) -> Minibatches:
    generator = torch.Generator().manual_seed(1)
    lead = (sizes["updates"], sizes["batch"])
    terminated = (torch.rand(lead, generator=generator) < 0.2).float()
    return Minibatches(
        observation=torch.randn(*lead, sizes["observation"], generator=generator),
        action=torch.rand(*lead, sizes["action"], generator=generator) * 2 - 1,
        reward=torch.rand(lead, generator=generator),
        discount=0.99 * (1 - terminated),
        next_observation=torch.randn(*lead, sizes["observation"], generator=generator),
        cloning=torch.zeros(lead),
        proposed_action=torch.zeros(*lead, sizes["action"]),
    )


def sac_config(sizes: dict) -> SACConfig:
    return SACConfig(
        ensemble_size=sizes["critics"],
        hidden=sizes["hidden"],
        batch_size=sizes["batch"],
        update_to_data=sizes["updates"],
        actor_q="mean",  # as RLPD
    )


def test_operations_are_those_that_torch_counts(benchmark) -> None:
    from update_problem import Problem

    sizes = SIZES
    problem = Problem(**sizes)
    config = sac_config(sizes)
    update = TorchUpdate(config, torch_state(sizes))
    with FlopCounterMode(display=False) as counter:
        update(torch_batch(sizes), draw_noise(config, problem.action, torch.Generator().manual_seed(2)), 0)
    # Autograd also makes the gradient on the observations in the actor's step, which nothing needs.
    waste = 2 * problem.observation * problem.hidden[0] * problem.critics * problem.batch
    assert counter.get_total_flops() == problem.operations + waste


def test_all_networks_have_the_parameters_that_a_problem_says(benchmark) -> None:
    from update_problem import Problem

    sizes = SIZES
    parameters = torch_state(sizes).parameters
    problem = Problem(**sizes)
    for network, size in problem.parameters.items():
        assert sum(value.numel() for name, value in parameters.items() if name.startswith(f"{network}/")) == size
    assert Problem.from_json(problem.to_json()) == problem


def test_rlpd_in_jax_does_what_ours_does(benchmark) -> None:
    """Equal parameters, rows and noise give equal parameters after two iterations."""
    jax = pytest.importorskip("jax", reason="the extra 'bench' is not installed")
    pytest.importorskip("optax", reason="the extra 'bench' is not installed")
    import rlpd_jax

    config, batch = sac_config(SIZES), torch_batch(SIZES)
    own_state = torch_state(SIZES)
    parameters = own_state.parameters

    def network(name: str) -> dict:
        return {key[len(name) + 1 :]: value.numpy().copy() for key, value in parameters.items() if key.startswith(name)}

    names = ("critic", "target_critic", "actor", "temperature")
    networks = jax.tree.map(jax.numpy.asarray, {name: network(name) for name in names})
    optimisers = tuple(rlpd_jax.ADAM.init(networks[name]) for name in ("critic", "actor", "temperature"))
    state = rlpd_jax.State(**networks, optimisers=optimisers)
    rows = rlpd_jax.Rows(
        *(field.numpy() for field in (batch.observation, batch.action, batch.reward)),
        terminated=(batch.discount == 0).float().numpy(),
        next_observation=batch.next_observation.numpy(),
    )
    update, generator = TorchUpdate(config, own_state), torch.Generator().manual_seed(2)
    for iteration in range(2):
        noise = draw_noise(config, SIZES["action"], generator)
        update(batch, noise, iteration)
        state = rlpd_jax.iterate(state, rows, rlpd_jax.Noise(*(field.numpy() for field in noise)))
    for name in names:
        for key, expected in network(name).items():
            # Adam divides by the root of a square: where a gradient is nearly zero its rounding shows.
            np.testing.assert_allclose(getattr(state, name)[key], expected, atol=2e-5, err_msg=f"{name}/{key}")
