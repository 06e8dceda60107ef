"""The agent that corrects a base policy: its actions, what it learns from, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.agents.bc import make_bc
from robo_rl.agents.cpl import make_cpl
from robo_rl.agents.drq import make_drq
from robo_rl.agents.sac import make_sac
from robo_rl.agents.xqc import make_xqc
from robo_rl.core import ArraySpec, Batch, ConfigError, Metrics
from robo_rl.deployment import PolicyDescription, write_policy
from robo_rl.deployment.onnx_policy import OnnxPolicy
from robo_rl.residual import BASE_ACTION, BASE_POLICY, BaseActionBackend, BasePolicy, ResidualAgent
from robo_rl.sim import make_backend

from ..rigs.specs import toy_spec

SCALE = 0.25
ACTION = ArraySpec((2,), low=-1, high=1)
SPEC = toy_spec({"state": ArraySpec((3,)), BASE_ACTION: ACTION}, 2, extra={BASE_POLICY: {"residual_scale": SCALE}})
SMALL: dict[str, Any] = {"hidden": (16,), "batch_size": 4, "pretrain_steps": 5}
FEW: dict[str, Any] = {**SMALL, "ensemble_size": 2, "update_to_data": 2}


def make(**options: Any) -> ResidualAgent:
    return ResidualAgent(make_sac(spec=SPEC, seed=0, **(FEW | options)), SPEC)


def rows(n: int, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    batch: Batch = {name: rng.uniform(-1, 1, (n, 2)).astype(np.float32) for name in ("action", "proposed_action")}
    for group in ("observation", "next_observation"):
        batch[f"{group}/state"] = rng.normal(size=(n, 3)).astype(np.float32)
        batch[f"{group}/{BASE_ACTION}"] = rng.uniform(-1, 1, (n, 2)).astype(np.float32)
    ones, half = np.ones(n, np.float32), (np.arange(n) % 2).astype(np.float32)
    return batch | {"reward": half, "discount": ones, "demonstration": half, "online_example": 0 * ones}


def observation(base: tuple[float, float]) -> dict[str, np.ndarray]:
    return {"state": np.zeros(3, np.float32), BASE_ACTION: np.array(base, np.float32)}


def test_actions_are_near_the_base_at_the_start_and_never_beyond_reach_or_range() -> None:
    agent = make(initial_log_std=2.0)
    at_start = agent.act(observation((0.3, -0.6)), explore=False)
    np.testing.assert_allclose(at_start, [0.3, -0.6], atol=0.01)
    explored = np.stack([agent.act(observation((0.9, -0.2)), explore=True) for _ in range(100)])
    assert explored.dtype == np.float32 and explored.max() == 1.0
    assert np.abs(explored[:, 1] + 0.2).max() <= SCALE + 1e-6 and explored[:, 0].min() >= 0.9 - SCALE - 1e-6
    assert explored[:, 1].std() > 0.1


class Recorder:
    """Stands in for the agent inside, and keeps the batches that it gets."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.batches = inner, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def start_from(self) -> None: ...

    def update(self, batch: Batch) -> Metrics:
        self.batches.append(batch)
        return {}

    pretrain = pretrain_critics = update
    offline_steps = 3


def test_it_learns_from_residuals() -> None:
    inner = Recorder(make_sac(spec=SPEC, seed=0, **FEW))
    agent, batch = ResidualAgent(inner, SPEC), rows(8)
    agent.update(batch)
    agent.pretrain(batch)
    agent.pretrain_critics(batch)
    assert len(inner.batches) == 3
    expected = (batch["action"] - batch[f"observation/{BASE_ACTION}"]) / SCALE
    for learned in inner.batches:
        np.testing.assert_allclose(learned["action"], expected, rtol=1e-6)
        assert np.abs(learned["action"]).max() > 1, "the values of actions out of reach are theirs alone"
        assert np.abs(learned["proposed_action"]).max() == 1
        assert learned["action"].dtype == np.float32 and learned["action"].flags.c_contiguous
        assert learned["reward"] is batch["reward"]
    np.testing.assert_array_equal(batch["action"], rows(8)["action"])


def test_updates_are_those_of_the_agent_on_residuals_and_its_state_round_trips() -> None:
    agent, plain, batch = make(), make_sac(spec=SPEC, seed=0, **FEW), rows(8)
    base = batch[f"observation/{BASE_ACTION}"]
    converted = {**batch, "action": ((batch["action"] - base) / np.float32(SCALE)).astype(np.float32)}
    converted["proposed_action"] = ((batch["proposed_action"] - base) / np.float32(SCALE)).clip(-1, 1)
    for _ in range(3):
        metrics, expected = agent.update(batch), plain.update(converted)
        assert metrics == pytest.approx(expected, rel=1e-5)
    again = make()
    again.load(agent.state())
    one, two = agent.update(batch), again.update(batch)
    assert one == two
    np.testing.assert_array_equal(
        agent.act(observation((0, 0)), explore=True), again.act(observation((0, 0)), explore=True)
    )
    value = agent.value(observation((0.5, 0.5)), np.array([0.75, 0.25], np.float32))
    inner: Any = again._residual
    assert value == pytest.approx(inner.value(observation((0.5, 0.5)), np.array([1, -1], np.float32)), rel=1e-5)


def test_it_pretrains_critics_for_as_long_as_the_agent_requests() -> None:
    inner: Any = Recorder(make_sac(spec=SPEC, seed=0, **FEW))
    assert ResidualAgent(inner, SPEC).offline_steps == 3 and make().offline_steps == 0


def test_it_starts_from_another_residual_agent_alone() -> None:
    one, two = make(), make()
    one.update(rows(8))
    assert two.start_from(one, critics=True) == ("policy", "critics")
    np.testing.assert_array_equal(two.state()["critic/output/bias"], one.state()["critic/output/bias"])
    with pytest.raises(ConfigError, match="found one without"):
        two.start_from(make_sac(spec=SPEC, seed=0, **FEW), critics=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"action_chunk": 4}, "agent.action_chunk must be 1 on a base policy"),
        ({"random_steps": 3}, "agent.random_steps must be 0 on a base policy"),
        ({"observation_keys": ("state",)}, "agent.observation_keys: expected 'base_action' among them, got state"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(**options)


def test_agents_that_cannot_be_converted_are_refused() -> None:
    for agent in (
        make_xqc(spec=SPEC, seed=0, hidden=(16,), network="xqc", random_steps=0),
        make_cpl(spec=SPEC, seed=0, hidden=(16,)),
    ):
        with pytest.raises(ConfigError, match="this agent cannot correct a base policy: choose agent=residual"):
            ResidualAgent(agent, SPEC)
    assert ResidualAgent(make_bc(spec=SPEC, seed=0, hidden=(16,)), SPEC).offline_steps == 0


@pytest.mark.parametrize("facts", [None, 3, {}, {"residual_scale": True}, {"residual_scale": 0}, {"residual_scale": 2}])
def test_facts_of_a_damaged_file_are_refused(facts: Any) -> None:
    with pytest.raises(ConfigError, match=r"base_policy: expected a residual_scale in \(0, 1\]"):
        ResidualAgent(make_sac(spec=SPEC, seed=0, **FEW), replace(SPEC, extra={BASE_POLICY: facts}))


def test_a_file_holds_the_correction_of_an_observed_base_action(tmp_path: Path) -> None:
    agent = make()
    decision = agent.decision()
    assert decision.observed == (BASE_ACTION, "state")
    description = PolicyDescription(SPEC, "residual", 0, 1, decision.observed, 0, 0, "0.1")
    for name in ("policy.onnx", "policy.h"):
        write_policy(tmp_path / name, agent, decision, description, 20, 0)
    policy = OnnxPolicy.load(tmp_path / "policy.onnx")
    observed = observation((0.3, -0.99))
    np.testing.assert_allclose(policy.act(observed), agent.act(observed, explore=False), atol=1e-5)


def test_images_beside_the_base_action() -> None:
    images = {**SPEC.observation, "images/front": ArraySpec((32, 32, 3), "uint8")}
    spec = replace(SPEC, observation=images)
    agent = ResidualAgent(make_drq(spec=spec, seed=0, hidden=(16,)), spec)
    observed = observation((0.3, -0.6)) | {"images/front": np.zeros((32, 32, 3), np.uint8)}
    np.testing.assert_allclose(agent.act(observed, explore=False), [0.3, -0.6], atol=0.02)


def test_a_function_in_python_is_improved() -> None:
    """The loop of docs/guide/improve_a_policy.md: a few steps, whose actions stay near those of the function."""
    task = make_backend("reach")
    base = BasePolicy.of_function(lambda observed: np.tanh(observed["state"][:3]).astype(np.float32), "mine")
    backend = BaseActionBackend(task, base, SCALE)
    agent = ResidualAgent(make_sac(spec=backend.spec, seed=0, **FEW), backend.spec)
    step = backend.reset(0)
    for _ in range(3):
        action = agent.act(step.observation, explore=True)
        assert np.abs(action - step.observation[BASE_ACTION]).max() <= SCALE + 1e-6
        step = backend.step(action)
    backend.close()
