"""The policy that a run begins with as a reference: the divergence from it, its weight, its checkpoints, refusals."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Normal, TransformedDistribution, kl_divergence
from torch.distributions.transforms import TanhTransform

from robo_rl.agents.drq import make_drq
from robo_rl.agents.parts.native import available
from robo_rl.agents.parts.reference import SMALLEST_LOG_STD, ReferenceRows, divergence, reference_weight
from robo_rl.agents.sac import SACConfig
from robo_rl.agents.sac.update import METRICS, TorchUpdate
from robo_rl.agents.xqc import XQCConfig, make_xqc
from robo_rl.core import ArraySpec, CheckpointError, ConfigError

from ..rigs.specs import toy_spec
from .test_native_update import ACTION, SMALL, copy, doubled, initial_state, native_update, random_inputs
from .test_sac import make, make_batch, observation_of, same
from .test_xqc import SMALL as SMALL_XQC
from .test_xqc import rows

CLOSE = {"reference_weight": 1.0, "reference_steps": 100}
VECTORS = toy_spec({"state": ArraySpec((3,))}, 2)
IMAGES = toy_spec({"state": ArraySpec((3,)), "images/front": ArraySpec((32, 32, 3), "uint8")}, 2)


def random_rows(seed: int, count: int = 30, weight: float = 0.7, dtype: torch.dtype = torch.float32) -> ReferenceRows:
    source = torch.Generator().manual_seed(seed)
    mean, log_std = (torch.randn(count, ACTION, generator=source) for _ in range(2))
    return ReferenceRows(mean.to(dtype), (0.5 * log_std - 1).to(dtype), torch.tensor(weight, dtype=dtype))


def test_divergence_and_its_gradient_are_those_of_torch_distributions() -> None:
    reference, policy = random_rows(0, dtype=torch.float64), random_rows(1, dtype=torch.float64)
    mean, log_std = policy.mean.requires_grad_(), policy.log_std.requires_grad_()
    expected = kl_divergence(Normal(mean, log_std.exp()), Normal(reference.mean, reference.log_std.exp())).sum(-1)
    got = divergence(mean, log_std, reference)
    torch.testing.assert_close(got, expected)
    gradients = [torch.autograd.grad(value.sum(), (mean, log_std)) for value in (got, expected)]
    torch.testing.assert_close(gradients[0], gradients[1])
    same_policy = divergence(reference.mean, reference.log_std, reference)
    torch.testing.assert_close(same_policy, torch.zeros_like(same_policy))


def test_it_is_also_that_of_the_actions_after_tanh() -> None:
    reference = ReferenceRows(torch.tensor([[0.3]]), torch.tensor([[-1.0]]), torch.tensor(1.0))
    mean, log_std = torch.tensor([[0.1]]), torch.tensor([[-1.5]])
    one, other = (
        TransformedDistribution(Normal(m, s.exp()), TanhTransform(cache_size=1))
        for m, s in ((mean, log_std), (reference.mean, reference.log_std))
    )
    torch.manual_seed(0)
    actions = one.sample((100_000,))
    sampled = (one.log_prob(actions) - other.log_prob(actions)).mean()
    torch.testing.assert_close(divergence(mean, log_std, reference)[0], sampled, rtol=0.02, atol=0.0)


@pytest.mark.skipif(not available()[0], reason=available()[1])
@pytest.mark.parametrize("action", [3, 17])
def test_the_native_update_agrees_with_the_definition(action: int) -> None:
    start, source = initial_state(SMALL, action=action), torch.Generator().manual_seed(5)
    native_state, exact_state = copy(start), copy(start, torch.float64)
    native, exact = native_update(SMALL, native_state), TorchUpdate(SMALL, exact_state)
    mean, log_std = (torch.randn(SMALL.batch_size, action, generator=source) for _ in range(2))
    for step in range(3):
        batch, noise = random_inputs(SMALL, step, action=action)
        reference = ReferenceRows(mean, 0.5 * log_std - 1, torch.tensor(0.7 - 0.1 * step))
        double = ReferenceRows(*(tensor.double() for tensor in reference))
        got, expected = native(batch, noise, step, reference), exact(*doubled(batch, noise), step, double)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    for name in start.first:
        for kind in (1, 2):
            error = (native_state[kind][name].double() - exact_state[kind][name]).norm()
            assert error <= 2e-5 * exact_state[kind][name].norm(), name


def test_the_term_changes_the_actors_step_alone() -> None:
    states = []
    for reference in (None, random_rows(0, SMALL.batch_size, weight=0.0), random_rows(0, SMALL.batch_size)):
        state = initial_state(SMALL)
        TorchUpdate(SMALL, state)(*random_inputs(SMALL, 0), 0, reference)
        states.append(state.parameters)
    without, faded, close = states
    for name in without:
        torch.testing.assert_close(faded[name], without[name])
        assert torch.equal(close[name], faded[name]) != name.startswith("actor/"), name


def test_the_weight_falls_linearly_to_zero_from_the_first_step_of_the_actor_on() -> None:
    config = SACConfig(reference_weight=2.0, reference_steps=10, actor_delay=100)
    assert [reference_weight(config, n) for n in (0, 100, 105, 110, 500)] == [2.0, 2.0, 1.0, 0.0, 0.0]


def agents(**fields: Any) -> dict[str, Any]:
    """Return one agent of each kind, with equal seeds."""
    small = {"hidden": (8,), "device": "cpu", "batch_size": 8}
    made = {
        "sac": make(actor_learning_rate=1e-2, **fields),
        "native": make(actor_learning_rate=1e-2, implementation="auto", **fields),
        "drq": make_drq(spec=IMAGES, seed=0, ensemble_size=2, shift=1, **small, **fields),
        "drq_critic_keys": make_drq(spec=IMAGES, seed=0, ensemble_size=2, critic_keys=("state",), **small, **fields),
    }
    xqc = SMALL_XQC | {"learning_rate": 1e-2, "final_learning_rate": 1e-2, "batch_size": 64, "policy_delay": 1}
    for network in ("xqc", "crossq", "simbav2"):
        made[network] = make_xqc(spec=VECTORS, seed=0, **(xqc | {"network": network, "hidden": (6,)} | fields))
    return made


def batch_for(agent: Any, name: str, seed: int) -> Any:
    if not name.startswith("drq"):
        return (make_batch if name in ("sac", "native") else rows)(agent.update_rows, seed)
    batch = make_batch(agent.update_rows, seed)
    rng = np.random.default_rng(seed)
    for group in ("observation", "next_observation"):
        batch[f"{group}/images/front"] = rng.integers(0, 256, (agent.update_rows, 32, 32, 3), np.uint8)
    return batch


KINDS = list(agents())


@pytest.mark.parametrize("name", KINDS)
def test_the_policy_stays_closer_with_it_and_is_free_once_it_has_faded(name: str) -> None:
    kept, faded, free = agents(**CLOSE)[name], agents(reference_weight=1.0, reference_steps=1)[name], agents()[name]
    distances: dict[str, float] = {}
    start = agents()[name]
    for step in range(150 if name in ("xqc", "crossq") else 3):  # so that running statistics settle
        start.update(batch_for(start, name, step))
    for key, agent in (("kept", kept), ("faded", faded), ("free", free)):
        agent.start_from(start, critics=False)
        metrics: dict[str, float] = {}
        for step in range(30):
            metrics = metrics | agent.update(batch_for(agent, name, step))
        if key != "free":
            distances[key] = metrics["reference_kl"]
    assert "reference_kl" not in free.update(batch_for(free, name, 0))
    assert not any(each.startswith("reference/") for each in free.state())
    assert 0 < distances["kept"] < 0.5 * distances["faded"], distances


def test_the_reference_is_the_policy_before_the_first_update() -> None:
    agent, other = make(1, **CLOSE), make(0)
    for step in range(3):
        other.update(make_batch(other.update_rows, step))
    agent.start_from(other, critics=False)
    before = other.state()
    first = agent.update(make_batch(agent.update_rows, 1))
    for step in range(3):
        agent.update(make_batch(agent.update_rows, step))
    after = agent.state()
    names = [name for name in before if name.startswith("averaged/actor/")]
    assert names
    for name in names:
        np.testing.assert_array_equal(after[name.replace("averaged", "reference")], before[name])
    # The first divergence is that between the newest parameters and their average.
    assert 0 <= first["reference_kl"] < 0.05


@pytest.mark.parametrize("name", KINDS)
def test_an_agent_goes_on_from_its_state_bit_for_bit(name: str) -> None:
    unbroken, resumed = agents(**CLOSE)[name], agents(**CLOSE)[name]
    for step in range(3):
        unbroken.update(batch_for(unbroken, name, step))
    resumed.load(unbroken.state())
    for step in range(3, 6):
        batch = batch_for(unbroken, name, step)
        assert unbroken.update(batch) == resumed.update(batch)
    assert same(unbroken.state(), resumed.state())


def test_a_reference_with_hardly_any_noise_counts_as_one_with_some() -> None:
    agent = make(**CLOSE)
    state = agent.state()
    for actor in ("actor", "averaged/actor"):
        state[f"{actor}/output/bias"] = np.array([0, 0, -20, -20], np.float32)
    agent.load(state)
    distance = agent.update(make_batch(agent.update_rows, 0))["reference_kl"]
    assert distance == pytest.approx(2 * (SMALLEST_LOG_STD + 20 - 0.5), rel=0.01)


def test_actions_do_not_need_the_reference() -> None:
    agent, plain = make(**CLOSE), make(1)
    agent.update(make_batch(agent.update_rows, 0))
    plain.load_policy(agent.policy_state())
    observation = observation_of(make_batch(1))
    np.testing.assert_array_equal(agent.act(observation, explore=False), plain.act(observation, explore=False))


def test_what_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"agent.reference_steps must be given only where agent.reference_weight is"):
        SACConfig(reference_steps=10)
    with pytest.raises(ConfigError, match=r"agent.reference_weight must be 0 or more, got -1"):
        XQCConfig(reference_weight=-1.0)
    with pytest.raises(CheckpointError, match=r"the agent needs 'reference/actor/0/bias', which the state lacks"):
        make(**CLOSE).load(make().state())
    state = agents(**CLOSE)["xqc"].state()
    name = next(name for name in state if name.startswith("reference/") and name.endswith("/variance"))
    with pytest.raises(CheckpointError, match="expected none below 0"):
        agents(**CLOSE)["xqc"].load(state | {name: state[name] - 2})


def test_metrics_of_updates_are_the_same_with_and_without() -> None:
    agent = make(**CLOSE)
    assert set(agent.update(make_batch(agent.update_rows, 0))) == {*METRICS, "reference_kl"}
    assert dataclasses.asdict(agent.config)["reference_steps"] == 100
