"""The native update against the definition (TorchUpdate) computed in float64."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from robo_rl.agents.parts.adam import TrainState
from robo_rl.agents.parts.choices import ACTIVATIONS
from robo_rl.agents.parts.native import available
from robo_rl.agents.parts.networks import initialise_network
from robo_rl.agents.sac.config import SACConfig
from robo_rl.agents.sac.critics import train_state
from robo_rl.agents.sac.native_update import NativeUpdate
from robo_rl.agents.sac.update import METRICS, Minibatches, Noise, TorchUpdate, draw_noise

needs_compiler = pytest.mark.skipif(not available()[0], reason=available()[1])
needs_bfloat16 = pytest.mark.skipif(not available("bfloat16")[0], reason=available("bfloat16")[1])

# Smooth, so that rounding stays small: a ReLU close to zero may be on in one precision and off in the other.
SMALL = SACConfig(
    ensemble_size=3,
    hidden=(64, 100),
    activation="tanh",
    batch_size=30,
    update_to_data=4,
    critic_learning_rate=1e-3,
    target_entropy=-5.0,  # far from the policy's, or the temperature's gradient would be all rounding
)
KINKED = {"activation": "relu"}
OBSERVATION, ACTION = 17, 3


def native_update(config: SACConfig, state: TrainState, threads: int = 2) -> NativeUpdate:
    """Return an update with so many threads; PyTorch keeps its own, which on tensors this small only wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return NativeUpdate(config, state)
    finally:
        torch.set_num_threads(before)


def initial_state(config: SACConfig, observation: int = OBSERVATION, action: int = ACTION) -> TrainState:
    """Random parameters, LayerNorms and biases too, so that no gradient is zero by chance; zero moments."""
    generator = torch.Generator().manual_seed(0)
    critic = initialise_network(
        "critic",
        [observation + action, *config.hidden, 1],
        generator,
        layer_norm=config.layer_norm,
        output_gain=1.0,
        ensemble=config.ensemble_size,
    )
    actor = initialise_network(
        "actor", [observation, *config.hidden, 2 * action], generator, layer_norm=config.actor_layer_norm, output_gain=1
    )
    temperature = {"temperature/log_alpha": torch.tensor(-1.0)}
    trained = {**critic, **actor, **temperature}
    targets = {f"target_{name}": value.clone() for name, value in critic.items()}
    parameters = {
        name: value + 0.1 * torch.randn(value.shape, generator=generator) if value.ndim else value
        for name, value in {**trained, **targets}.items()
    }
    return train_state(parameters)


def random_inputs(
    config: SACConfig, seed: int, observation: int = OBSERVATION, action: int = ACTION
) -> tuple[Minibatches, Noise]:
    generator = torch.Generator().manual_seed(seed)
    lead = (config.update_to_data, config.batch_size)
    batch = Minibatches(
        observation=torch.randn(*lead, observation, generator=generator),
        action=torch.randn(*lead, action, generator=generator).tanh(),
        reward=torch.randn(lead, generator=generator),
        discount=0.99 * (torch.rand(lead, generator=generator) > 0.2),
        next_observation=torch.randn(*lead, observation, generator=generator),
        cloning=2.0 * torch.rand(lead, generator=generator) * (torch.rand(lead, generator=generator) > 0.5),
        proposed_action=torch.randn(*lead, action, generator=generator).tanh(),
    )
    return batch, draw_noise(config, action, generator)


def copy(state: TrainState, dtype: torch.dtype = torch.float32) -> TrainState:
    return TrainState(*({name: x.to(dtype, copy=True) for name, x in tensors.items()} for tensors in state))


def doubled(batch: Minibatches, noise: Noise) -> tuple[Minibatches, Noise]:
    return Minibatches(*(x.double() for x in batch)), Noise(
        noise.next_action.double(), noise.subset, noise.action.double()
    )


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got.double() - expected).norm() / expected.norm().clamp(min=1e-12))


def check_against_float64(
    config: SACConfig,
    sizes: tuple[int, int] = (OBSERVATION, ACTION),
    *,
    calls: int = 3,
    metrics: float = 1e-5,
    moments: float = 2e-5,
    moved: float = 5e-3,
) -> None:
    """Compare some updates within relative tolerances.

    Moments are linear or quadratic in the gradients. Adam's steps magnify the rounding of gradients near zero, so
    that they are compared as a whole and not element by element.
    """
    start = initial_state(config, *sizes)
    native_state, exact_state = copy(start), copy(start, torch.float64)
    native = native_update(config, native_state)
    exact = TorchUpdate(dataclasses.replace(config, precision="float32"), exact_state)
    for index in range(calls):
        batch, noise = random_inputs(config, 10 + index, *sizes)
        got, expected = native(batch, noise, index), exact(*doubled(batch, noise), index)
        for name, value, wanted in zip(METRICS, got.tolist(), expected.tolist(), strict=True):
            assert value == pytest.approx(wanted, rel=metrics, abs=metrics), name
    for name in start[1]:
        assert relative_error(native_state[1][name], exact_state[1][name]) < moments, f"first {name}"
        assert relative_error(native_state[2][name], exact_state[2][name]) < moments, f"second {name}"
    for name, value in start[0].items():
        change = exact_state[0][name] - value
        assert change.norm() > 0, name
        assert relative_error(native_state[0][name] - value, change) < moved, name


@needs_compiler
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ensemble_size": 1, "target_subset": 1},
        {"ensemble_size": 2, "target_subset": 2},
        {"batch_size": 256, "update_to_data": 2, "hidden": (256, 256)},
        {"ensemble_size": 10},
        {"hidden": (64,)},
        {"hidden": (100, 64, 37)},
        {"hidden": (5, 3)},
        {"batch_size": 1},
        {"batch_size": 29},
        {"update_to_data": 1},
        {"layer_norm": False},
        {"actor_layer_norm": True},
        {"activation": "silu"},
        {"activation": "silu", "actor_layer_norm": True},
        {"activation": "silu", "layer_norm": False},
        {"activation": "gelu"},
        {"activation": "gelu", "actor_layer_norm": True, "layer_norm": False},
        {"entropy_backup": True},
        {"target_subset": 3},
        {"actor_q": "min"},
        {"actor_layer_norm": True, "batch_size": 29},
        {"actor_q": "min", "entropy_backup": True, "target_subset": 1},
        {"tau": 1.0},
        {"target_entropy": -7.0, "temperature_learning_rate": 0.01, "actor_learning_rate": 0.003},
    ],
    ids=lambda changes: ",".join(f"{key}={value}" for key, value in changes.items()) or "default",
)
def test_agrees_with_the_definition_in_float64(changes):
    check_against_float64(dataclasses.replace(SMALL, **changes))


@needs_compiler
@pytest.mark.parametrize("changes", [{}, {"layer_norm": False}, {"actor_layer_norm": True}])
def test_relu_agrees_but_for_units_next_to_zero(changes):
    check_against_float64(dataclasses.replace(SMALL, **KINKED, **changes), metrics=1e-3, moments=2e-2, moved=5e-2)


@needs_compiler
@pytest.mark.parametrize("sizes", [(1, 1), (3, 16), (40, 7), (64, 33)])
def test_agrees_for_other_sizes_of_observation_and_action(sizes):
    check_against_float64(SMALL, sizes)


@needs_bfloat16
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"batch_size": 256, "update_to_data": 2, "hidden": (256, 256)},
        {"batch_size": 29, "hidden": (100, 64, 37)},
        {"layer_norm": False, "entropy_backup": True},
        {"actor_layer_norm": True, "activation": "silu"},
    ],
    ids=lambda changes: ",".join(f"{key}={value}" for key, value in changes.items()) or "default",
)
def test_bfloat16_agrees_within_its_rounding(changes):
    """A bfloat16 has 8 bits: 0.4 % for each factor of a product. Over many steps the parameters drift apart."""
    config = dataclasses.replace(SMALL, precision="bfloat16", **changes)
    one_step = dataclasses.replace(config, update_to_data=1)
    check_against_float64(one_step, calls=1, metrics=1e-2, moments=2e-2, moved=0.4)
    check_against_float64(config, metrics=2e-2, moments=0.1, moved=0.4)


@needs_compiler
def test_clipped_log_std_has_no_gradient():
    config = dataclasses.replace(SMALL, ensemble_size=2)
    start = initial_state(config)
    start[0]["actor/output/bias"][ACTION] = 10.0  # far above the limit of 2
    native_state, exact_state = copy(start), copy(start, torch.float64)
    batch, noise = random_inputs(config, 0)
    native_update(config, native_state)(batch, noise, 0)
    TorchUpdate(config, exact_state)(*doubled(batch, noise), 0)
    assert native_state[1]["actor/output/bias"][ACTION] == 0
    assert relative_error(native_state[1]["actor/output/weight"], exact_state[1]["actor/output/weight"]) < 1e-3


@needs_compiler
@pytest.mark.parametrize("precision", ["float32", pytest.param("bfloat16", marks=needs_bfloat16)])
@pytest.mark.parametrize("ensemble", [1, 3, 10])
def test_the_number_of_threads_changes_no_bit(ensemble, precision):
    config = dataclasses.replace(SMALL, ensemble_size=ensemble, target_subset=1, precision=precision)
    start, results = initial_state(config), []
    for threads in (1, 2, 3, 4, 6):
        state = copy(start)
        update = native_update(config, state, threads=threads)
        metrics = [update(*random_inputs(config, index), index) for index in range(2)]
        results.append([*metrics, *(tensor for tensors in state for tensor in tensors.values())])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@needs_compiler
@pytest.mark.parametrize("field", ["observation", "action", "reward", "discount", "next_observation"])
def test_nan_in_a_batch_shows_in_the_metrics(field):
    config = SMALL
    batch, noise = random_inputs(config, 0)
    getattr(batch, field)[1, 7] = float("nan")
    metrics = native_update(config, initial_state(config))(batch, noise, 0)
    assert metrics[METRICS.index("critic_loss")].isnan()
    assert metrics[METRICS.index("q_abs_max")].isnan() or field not in ("observation", "action")


@needs_compiler
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", ["critic/0/weight", "target_critic/output/weight", "actor/1/bias"])
def test_nan_in_a_parameter_shows_in_the_metrics(activation, name):
    config = dataclasses.replace(SMALL, activation=activation, layer_norm=False, ensemble_size=2)
    state = initial_state(config)
    state[0][name].view(-1)[0] = float("nan")
    metrics = native_update(config, state)(*random_inputs(config, 0), 0)
    assert metrics[METRICS.index("critic_loss")].isnan()


@needs_compiler
@pytest.mark.parametrize("member", range(SMALL.ensemble_size))
def test_nan_of_any_critic_is_the_smallest_value_that_the_actor_climbs(member):
    """As in PyTorch, whose smallest of values with a NaN is NaN, wherever it stands."""
    config = dataclasses.replace(SMALL, actor_q="min", update_to_data=1)
    start = initial_state(config)
    start[0]["critic/output/bias"][member, -1] = float("nan")
    for make in (native_update, TorchUpdate):
        state = copy(start)
        metrics = make(config, state)(*random_inputs(config, 0), 0)
        assert metrics[METRICS.index("actor_loss")].isnan(), make
        assert state[0]["actor/output/weight"].isnan().any(), make


_TOO_MANY_THREADS = """
import resource
import torch
from test_native_update import SMALL, NativeUpdate, initial_state

state = initial_state(SMALL)
torch.get_num_threads = lambda: 4000  # with stacks of several MB each: some, but not all, fit below
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**30,) * 2)
try:
    NativeUpdate(SMALL, state)
except MemoryError as error:
    print(error)
"""


@needs_compiler
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_says_so_where_threads_run_out():
    done = subprocess.run(
        [sys.executable, "-c", _TOO_MANY_THREADS],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the native update needs more memory, or 4000 threads: ")


@needs_compiler
def test_refuses_tensors_that_it_cannot_read():
    state = initial_state(SMALL)
    batch, noise = random_inputs(SMALL, 0)
    update = native_update(SMALL, state)
    with pytest.raises(ValueError, match=r"reward: expected torch.float32 \(4, 30\) on cpu, got torch.float64"):
        update(batch._replace(reward=batch.reward.double()), noise, 0)
    with pytest.raises(ValueError, match="action: expected a contiguous tensor"):
        update(batch._replace(action=batch.action.transpose(0, 1).contiguous().transpose(0, 1)), noise, 0)
    with pytest.raises(ValueError, match="expected indices below 3"):
        update(batch, noise._replace(subset=noise.subset + 2), 0)
    state[1]["critic/0/weight"] = state[1]["critic/0/weight"][:2]
    with pytest.raises(ValueError, match=r"critic/0/weight: expected torch.float32 \(3, 20, 64\)"):
        native_update(SMALL, state)


@needs_bfloat16
def test_bfloat16_learns_the_same_on_a_fixed_problem():
    """The critics learn the reward from some hundred updates on the same rows, in both precisions."""
    results = {}
    for precision in ("float32", "bfloat16"):
        config = dataclasses.replace(SMALL, **KINKED, precision=precision, batch_size=64)
        update = native_update(config, initial_state(config))
        batch, noise = random_inputs(config, 0)
        batch = batch._replace(reward=batch.observation[..., 0].tanh(), discount=torch.zeros_like(batch.discount))
        results[precision] = torch.stack([update(batch, noise, index) for index in range(300)])
    losses = {name: metrics[:, METRICS.index("critic_loss")] for name, metrics in results.items()}
    for loss in losses.values():
        assert loss[-1] < 0.01 * loss[0]
    for name in ("critic_loss", "q_mean", "q_abs_max", "target_mean", "entropy", "temperature"):
        exact, rounded = (results[precision][:100, METRICS.index(name)] for precision in ("float32", "bfloat16"))
        torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.02, msg=lambda text, name=name: f"{name}: {text}")
