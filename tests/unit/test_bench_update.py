"""The benchmark of full iterations: what it runs, counts and refuses."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from robo_rl.agents.sac import SACConfig
from robo_rl.agents.sac.networks import initialise_network
from robo_rl.agents.sac.update import Minibatches, TorchUpdate, draw_noise

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
SIZES = {"critics": 3, "observation": 5, "action": 2, "hidden": (16, 12), "batch": 8, "updates": 4}


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch):
    """Make the scripts of the benchmark importable."""
    monkeypatch.syspath_prepend(BENCHMARKS)


def torch_state(sizes: dict) -> tuple[dict[str, torch.Tensor], ...]:
    """Parameters of all networks, not one of them zero, and Adam's moments."""
    generator = torch.Generator().manual_seed(0)
    inputs, hidden = sizes["observation"] + sizes["action"], sizes["hidden"]
    critic = initialise_network(
        "critic", [inputs, *hidden, 1], generator, layer_norm=True, output_gain=1, ensemble=sizes["critics"]
    )
    actor_sizes = [sizes["observation"], *hidden, 2 * sizes["action"]]
    actor = initialise_network("actor", actor_sizes, generator, layer_norm=False, output_gain=1)
    trained = {**critic, **actor, "temperature/log_alpha": torch.tensor(-1.0)}
    for value in trained.values():
        value += 0.1 * torch.randn(value.shape, generator=generator)
    zeros = [{name: torch.zeros_like(value) for name, value in trained.items()} for _ in range(2)]
    targets = {f"target_{name}": value + 0.01 for name, value in critic.items()}
    return {**trained, **targets}, *zeros


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
        demonstration=torch.zeros(lead),
        proposed_action=torch.zeros(*lead, sizes["action"]),
    )


def sac_config(sizes: dict) -> SACConfig:
    return SACConfig(
        ensemble_size=sizes["critics"],
        hidden=sizes["hidden"],
        batch_size=sizes["batch"],
        update_to_data=sizes["updates"],
        cloning_weight=0,
    )


def test_ours_alone_in_a_tiny_run(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    command = [sys.executable, str(BENCHMARKS / "bench_update.py"), "--only", "native float32", "torch eager"]
    sizes = "--critics 2 --hidden 16 8 --batch 4 --updates 3 --rounds 2 --iterations 2 --threads 1"
    command += [*sizes.split(), "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    native, eager = json.loads(file.read_text())["results"]
    rows = [eager] if "unavailable" in native else [native, eager]
    for row in rows:
        assert row["implementation"] in done.stdout
        assert row["best_per_s"] >= row["median_per_s"] > 0
        assert (row["critic_steps"], row["actor_steps"], row["temperature_steps"]) == (3, 1, 1)
        assert row["first_s"] > 0 and row["import_s"] > 0 and row["memory_peak_mb"] >= row["memory_mb"] > 10
    if "unavailable" not in native:
        assert all(0 < row["share_by_clock"] < 1 for row in rows)


def test_a_missing_package_says_how_to_install_it(benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    import update_implementations
    import update_problem
    import update_worker

    kind = update_implementations.Kind(("robo_rl_no_such_package",), update_implementations.RLPD)
    monkeypatch.setitem(update_implementations.IMPLEMENTATIONS, "absent", kind)
    worker = update_worker.Worker("absent", update_problem.Problem(), 0.0)
    with pytest.raises(update_problem.UnavailableError, match=r"robo_rl_no_such_package is not installed: pip install"):
        worker.start()


def test_a_worker_that_dies_leaves_a_row_that_says_so(benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    import bench_update

    monkeypatch.setattr(bench_update.sys, "executable", "/bin/false")
    problem = bench_update.Problem(critics=1)
    (row,) = bench_update.compare(problem, ["SBX"], rounds=1, iterations=1)
    assert row["unavailable"] == "failed: its process ended with exit code 1"
    assert row["unavailable"] in bench_update.line_of(row)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.ones(3, np.float32)}, "critic: expected .* parameters, got 3"),
        ({"values": None}, "critic: did not change in 4 iterations"),
        ({"values": np.nan}, "critic: not finite after 5 iterations"),
        ({"steps": 19}, "critic: expected 4 steps an iteration, got 19 in all"),
    ],
)
def test_work_that_was_not_done_is_refused(benchmark, change: dict, message: str) -> None:
    from update_problem import Problem, Trained, check

    problem = Problem(**SIZES)
    before = {name: Trained(np.zeros(size, np.float32), 0) for name, size in problem.parameters.items()}
    after = {
        name: Trained(np.ones(size, np.float32), 20 if name == "critic" else 5)
        for name, size in problem.parameters.items()
    }
    assert check(problem, before, after, 5) == {"critic_steps": 4, "actor_steps": 1, "temperature_steps": 1}
    if "values" in change and not isinstance(change["values"], np.ndarray):
        wrong = before["critic"].values if change["values"] is None else np.full_like(after["critic"].values, np.nan)
        change = {"values": wrong}
    with pytest.raises(ValueError, match=message):
        check(problem, before, after | {"critic": after["critic"]._replace(**change)}, 5)


def test_operations_are_those_that_torch_counts(benchmark) -> None:
    from update_problem import Problem

    problem = Problem(**SIZES)
    config = sac_config(SIZES)
    update = TorchUpdate(config, *torch_state(SIZES))
    with FlopCounterMode(display=False) as counter:
        update(torch_batch(SIZES), draw_noise(config, problem.action, torch.Generator().manual_seed(2)), 0)
    # Autograd also makes the gradient on the observations in the actor's step, which nothing needs.
    waste = 2 * problem.observation * problem.hidden[0] * problem.critics * problem.batch
    assert counter.get_total_flops() == problem.operations + waste


def test_all_networks_have_the_parameters_that_a_problem_says(benchmark) -> None:
    from update_problem import Problem

    parameters, *_ = torch_state(SIZES)
    problem = Problem(**SIZES)
    for network, size in problem.parameters.items():
        assert sum(value.numel() for name, value in parameters.items() if name.startswith(f"{network}/")) == size
    assert Problem.from_json(problem.to_json()) == problem
    assert dataclasses.asdict(problem)["hidden"] == (16, 12)


def test_rlpd_in_jax_does_what_ours_does(benchmark) -> None:
    """Equal parameters, rows and noise give equal parameters after two iterations."""
    jax = pytest.importorskip("jax", reason="the extra 'bench' is not installed")
    pytest.importorskip("optax", reason="the extra 'bench' is not installed")
    import rlpd_jax

    config, batch = sac_config(SIZES), torch_batch(SIZES)
    parameters, *moments = torch_state(SIZES)

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
    update, generator = TorchUpdate(config, parameters, *moments), torch.Generator().manual_seed(2)
    for iteration in range(2):
        noise = draw_noise(config, SIZES["action"], generator)
        update(batch, noise, iteration)
        state = rlpd_jax.iterate(state, rows, rlpd_jax.Noise(*(field.numpy() for field in noise)))
    for name in names:
        for key, expected in network(name).items():
            # Adam divides by the root of a square: where a gradient is nearly zero its rounding shows.
            np.testing.assert_allclose(getattr(state, name)[key], expected, atol=2e-5, err_msg=f"{name}/{key}")
