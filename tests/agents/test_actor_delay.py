"""Updates of the critics alone: the actor does not move, and takes its first step as if nothing had come before."""

import dataclasses
import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from robo_rl.agents.parts.device import CapturedFunction
from robo_rl.agents.parts.native import available
from robo_rl.agents.sac import SACConfig
from robo_rl.agents.sac.update import ACTOR_METRICS, METRICS, TorchUpdate, adam_corrections
from robo_rl.agents.xqc import make_xqc
from robo_rl.core import ArraySpec, ConfigError

from ..rigs.specs import toy_spec
from .test_native_update import SMALL, copy, initial_state, native_update, random_inputs
from .test_sac import make, make_batch
from .test_xqc import rows

DELAYED = dataclasses.replace(SMALL, actor_delay=2)
IMPLEMENTATIONS = ["torch", pytest.param("native", marks=pytest.mark.skipif(not available()[0], reason=available()[1]))]


def moved(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> set[str]:
    """Return the first parts of the names of tensors that differ."""
    return {name.partition("/")[0] for name in before if not np.array_equal(before[name], after[name])}


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_actor_average_and_temperature_rest_while_the_critics_learn(implementation: str) -> None:
    agent = make(implementation=implementation, actor_delay=2, actor_tau=0.5)
    states = [agent.state()]
    for step in range(4):
        metrics = agent.update(make_batch(agent.update_rows, step))
        states.append(agent.state())
        assert set(metrics) == set(METRICS) - (set(ACTOR_METRICS) if step < 2 else set())
        assert all(map(math.isfinite, metrics.values()))
    critics = {"critic", "target_critic", "adam_first", "adam_second", "generator", "updates"}
    for before, after in pairwise(states[:3]):
        assert moved(before, after) == critics
        assert not any(
            before[name].any() for name in after if name.startswith(("adam_first/actor", "adam_second/temp"))
        )
    assert moved(*states[2:4]) == critics | {"actor", "averaged", "temperature"}


def test_the_native_update_rests_and_continues_as_the_definition_does() -> None:
    if not available()[0]:
        pytest.skip(available()[1])
    start = initial_state(DELAYED)
    native_state = copy(start)
    native = native_update(DELAYED, native_state)
    result = native(*random_inputs(DELAYED, 10), 1)
    assert [math.isnan(value) for value in result.tolist()] == [name in ACTOR_METRICS for name in METRICS]
    for name, value in start.parameters.items():
        assert torch.equal(native_state.parameters[name], value) == name.startswith(("actor/", "temperature/")), name


@pytest.mark.skipif(not available()[0], reason=available()[1])
@pytest.mark.parametrize("threads", [1, 2])
def test_after_the_delay_both_agree(threads: int) -> None:
    start = initial_state(DELAYED)
    native_state, torch_state = copy(start), copy(start)
    native, definition = native_update(DELAYED, native_state, threads), TorchUpdate(DELAYED, torch_state)
    for step in range(4):
        batch, noise = random_inputs(DELAYED, 10 + step)
        got, expected = native(batch, noise, step), definition(batch, noise, step)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    for name, value in torch_state.parameters.items():
        assert (native_state.parameters[name] - value).norm() <= 5e-3 * (value - start.parameters[name]).norm(), name


def test_the_first_step_of_the_actor_has_the_corrections_of_a_first_step() -> None:
    """With the number of updates instead, Adam's first step would be three times the learning rate."""
    config = SACConfig(actor_delay=5, update_to_data=2)
    assert adam_corrections(config, 4, torch.float64).actor is None
    actor = adam_corrections(config, 5, torch.float64).actor
    assert actor is not None and torch.allclose(actor, torch.tensor([0.1, 0.001], dtype=torch.float64))
    agent = make(actor_delay=3, actor_learning_rate=1e-3)
    before = agent.state()["actor/output/bias"]
    for step in range(4):
        agent.update(make_batch(agent.update_rows, step))
    step = np.abs(agent.state()["actor/output/bias"] - before)
    assert 0.5e-3 < step.max() <= 1.001e-3


def test_the_weight_of_cloning_falls_from_the_first_step_of_the_actor_on() -> None:
    config = SACConfig(cloning_weight=2.0, final_cloning_weight=0.0, cloning_half_life=10, actor_delay=100)
    assert [config.cloning_weight_after(updates) for updates in (0, 100, 110)] == [2.0, 2.0, 1.0]


@pytest.mark.parametrize("delay", [1, 3])
def test_networks_with_normalisation_wait_too(delay: int) -> None:
    spec = toy_spec({"state": ArraySpec((3,))}, 2)
    fields = {"hidden": (6,), "critic_hidden": (5,), "batch_size": 8, "value_bins": 7, "device": "cpu"}
    agent = make_xqc(spec=spec, seed=0, update_to_data=2, policy_delay=2, actor_delay=delay, **fields)
    states = [agent.state()]
    for step in range(delay + 1):
        metrics = agent.update(rows(agent.update_rows, step))
        assert ("actor_loss" in metrics) == (step >= delay)
        states.append(agent.state())
    for name in states[0]:
        if name.startswith(("actor", "temperature")):
            assert np.array_equal(states[0][name], states[delay][name]), name
    assert {"actor", "actor_statistics", "temperature"} <= moved(*states[-2:])
    first = states[-1]["actor/output/bias"] - states[-2]["actor/output/bias"]
    assert np.abs(first).max() <= 1.001 * agent.config.learning_rate


def test_recorded_programs_are_those_with_and_without_a_step_of_the_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    """With recordings that run the function again, as CUDA graphs would."""

    def record(self: CapturedFunction) -> SimpleNamespace:
        self._result = torch.empty(len(METRICS))
        return SimpleNamespace(replay=lambda: self._result.copy_(self._function(*self._arguments)))

    monkeypatch.setattr(CapturedFunction, "_capture", record)
    ends = []
    for recorded in (False, True):
        state = initial_state(DELAYED)
        update = TorchUpdate(DELAYED, state)
        if recorded:
            changed = list(state.parameters.values())
            update._steps, update._critic_steps = (CapturedFunction(update._all_steps, changed) for _ in range(2))
        metrics = [update(*random_inputs(DELAYED, step), step).clone() for step in range(4)]
        ends.append((torch.stack(metrics), state.parameters))
    torch.testing.assert_close(ends[1], ends[0], rtol=0, atol=0, equal_nan=True)


def test_an_agent_of_images_has_no_delay() -> None:
    from robo_rl.agents.drq.config import DrQConfig

    with pytest.raises(ConfigError, match=r"agent.actor_delay must be 0 for an agent that learns from images.*got 3"):
        DrQConfig(actor_delay=3)
