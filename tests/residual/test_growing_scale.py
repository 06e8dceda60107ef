"""A scale of residuals that grows: what acts, what is learned, its state, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robo_rl.agents.sac import make_sac
from robo_rl.core import CheckpointError, ConfigError
from robo_rl.residual import BASE_ACTION, BASE_POLICY, BaseConfig, ResidualAgent

from .test_residual_agent import FEW, SCALE, SPEC, Recorder, make, observation, rows

START, STEPS, DELAY = 0.05, 4, 2
GROWING = replace(
    SPEC, extra={BASE_POLICY: {"residual_scale": SCALE, "residual_start": START, "residual_steps": STEPS}}
)
SCALES = [START, START, START, 0.1, 0.15, 0.2, SCALE, SCALE]
"""Before each update: it waits for the actor, grows, and stays at its bound."""


def growing(**options: Any) -> ResidualAgent:
    return ResidualAgent(make_sac(spec=GROWING, seed=0, **(FEW | {"actor_delay": DELAY} | options)), GROWING)


def largest(agent: ResidualAgent) -> float:
    """Return the largest correction of a policy with much noise."""
    actions = np.stack([agent.act(observation((0.0, 0.0)), explore=True) for _ in range(200)])
    return float(np.abs(actions).max())


def test_the_scale_grows_from_the_first_step_of_the_actor_to_its_bound() -> None:
    agent = growing(initial_log_std=2.0)
    for scale in SCALES:
        assert 0.9 * scale < largest(agent) <= scale + 1e-6
        assert agent.update(rows(8))["residual_scale"] == pytest.approx(scale)
    assert "residual_scale" not in make().update(rows(8))


def test_it_learns_from_residuals_of_the_present_scale() -> None:
    inner, batch = Recorder(make_sac(spec=GROWING, seed=0, **(FEW | {"actor_delay": DELAY}))), rows(8)
    agent: Any = ResidualAgent(inner, GROWING)
    for scale in SCALES:
        agent.update(batch)
        learned = inner.batches[-1]
        corrections = batch["action"] - batch[f"observation/{BASE_ACTION}"]
        np.testing.assert_allclose(learned["action"], corrections / scale, rtol=1e-5)
        assert np.abs(learned["proposed_action"]).max() == 1


def test_actors_and_resumed_runs_have_the_scale_of_the_learner() -> None:
    agent, actor, resumed = (growing(initial_log_std=2.0) for _ in range(3))
    for _ in range(4):
        agent.update(rows(8))
    actor.load_policy(agent.policy_state())
    resumed.load(agent.state())
    for each in (agent, actor, resumed):
        assert 0.9 * 0.15 < largest(each) <= 0.15 + 1e-6
    for _ in range(3):
        assert agent.update(rows(8)) == resumed.update(rows(8))
    first, second = agent.state(), resumed.state()
    assert all(np.array_equal(first[name], second[name]) for name in first if name != "generator/exploration")
    decided = agent.decision()
    assert decided.compute is not None and agent.value(observation((0, 0)), np.zeros(2, np.float32)) < 10


def test_an_agent_that_starts_from_another_has_its_scale() -> None:
    agent, other = growing(), growing()
    for _ in range(4):
        other.update(rows(8))
    agent.start_from(other, critics=True)
    assert agent.update(rows(8))["residual_scale"] == pytest.approx(0.15)


def test_what_is_refused() -> None:
    with pytest.raises(CheckpointError, match="the scale of residuals grows, unlike in the state"):
        growing().load(make().state())
    with pytest.raises(CheckpointError, match="the scale of residuals is constant, unlike in the state"):
        make().load_policy(growing().policy_state())
    agent = growing()
    for wrong in (np.array([-1]), np.array([0.5]), np.array([1, 2])):
        with pytest.raises(CheckpointError, match="'residual_updates' in the state is damaged"):
            agent.load(agent.state() | {"residual_updates": wrong})
    with pytest.raises(ConfigError, match=r"base.residual_start must be below base.residual_scale=0.2, got 0.3"):
        BaseConfig(residual_start=0.3)
    with pytest.raises(ConfigError, match=r"base.residual_steps must be given only where base.residual_start is given"):
        BaseConfig(residual_steps=10)


@pytest.mark.parametrize("facts", [{"residual_start": 0.3, "residual_steps": 4}, {"residual_steps": 4}])
def test_facts_of_a_file_are_checked(facts: dict[str, Any]) -> None:
    spec = replace(SPEC, extra={BASE_POLICY: {"residual_scale": SCALE} | facts})
    with pytest.raises(ConfigError, match=r"expected a residual_start in \(0, 0.25\) and residual_steps of 1 or more"):
        ResidualAgent(make_sac(spec=spec, seed=0, **FEW), spec)
