"""An agent that starts from another: equal parameters, initial state otherwise, refusals that name the difference."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from robo_rl.agents import bc, fql, qc, sac, xqc
from robo_rl.agents.drq import make_drq
from robo_rl.core import ArraySpec, ConfigError, WarmStartLearner

from ..rigs.specs import toy_spec
from .test_sac import SPEC, make, make_batch
from .test_xqc import SMALL as SMALL_XQC
from .test_xqc import rows

VECTORS = toy_spec({"state": ArraySpec((3,))}, 2)


def learned(agent: Any, batch: Callable[[int, int], Any] = make_batch) -> Any:
    """Train an agent, so that nothing has its initial value."""
    agent.fit_normaliser(batch(20, 9))
    for step in range(3):
        agent.update(batch(agent.update_rows, step))
    return agent


def equal(one: Any, other: Any, *prefixes: str) -> bool:
    first, second = one.state(), other.state()
    names = [name for name in first if name.startswith(prefixes)]
    assert names
    return all(np.array_equal(first[name], second[name]) for name in names)


POLICY = ("actor/", "averaged/", "normaliser/")
CRITICS = ("critic/", "target_critic/", "temperature/")


@pytest.mark.parametrize("critics", [False, True])
def test_policy_and_normalisation_are_taken_over_and_critics_on_request(critics: bool) -> None:
    fields = {"normalise_observations": True, "action_chunk": 1}
    other, agent, fresh = learned(make(0, **fields)), make(1, **fields), make(1, **fields)
    parts = agent.start_from(other, critics=critics)
    assert parts == ("policy", "normalisation", "critics")[: 3 if critics else 2]
    assert equal(agent, other, *POLICY)
    assert equal(agent, other if critics else fresh, *CRITICS)
    initial = ("adam_", "updates", "cloning_", "generator/", "generator/exploration")
    assert equal(agent, fresh, *initial)
    observation = {"state": np.ones(3, np.float32), "object": np.ones(2, np.float32)}
    np.testing.assert_array_equal(
        agent.act(observation, explore=False), other.act(observation, explore=False), strict=True
    )


def test_the_native_update_learns_from_the_parameters_that_were_taken_over() -> None:
    agents = [make(1, implementation=name) for name in ("auto", "torch")]
    for agent in agents:
        agent.start_from(learned(make(0)), critics=True)
        agent.update(make_batch(agent.update_rows, 5))
    first, second = (agent.state() for agent in agents)
    for name in first:
        if name.startswith(("actor/", "critic/")):
            np.testing.assert_allclose(first[name], second[name], rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    ("other", "own", "message"),
    [
        ({}, {"hidden": [8, 8]}, r"agent.hidden: expected \[16, 16\], found \[8, 8\]"),
        ({}, {"activation": "tanh"}, "agent.activation: expected relu, found tanh"),
        ({"action_chunk": 2}, {}, "agent.action_chunk: expected 2, found 1"),
        ({"observation_keys": ["state"]}, {}, "observations: expected state, found object, state"),
    ],
)
def test_policies_that_do_not_fit_are_refused(other: dict[str, Any], own: dict[str, Any], message: str) -> None:
    agent = make(**own)
    before = agent.state()
    with pytest.raises(ConfigError, match=message):
        agent.start_from(make(**other), critics=False)
    assert all(np.array_equal(before[name], value) for name, value in agent.state().items())


def test_critics_that_do_not_fit_are_refused_where_they_are_taken_over() -> None:
    agent, other = make(ensemble_size=4, gamma=0.9), make()
    with pytest.raises(ConfigError, match=r"ensemble_size: expected 3, found 4; agent.gamma: expected 0.97, found 0.9"):
        agent.start_from(other, critics=True)
    assert agent.start_from(other, critics=False) == ("policy",)


def test_another_class_of_agent_is_refused() -> None:
    other = qc.make_qc(spec=SPEC, seed=0, hidden=(8,))
    with pytest.raises(ConfigError, match="expected agent QC, found SAC: an agent can start only from one of the same"):
        make().start_from(other, critics=False)
    cloning = [bc.make_bc(spec=SPEC, seed=seed, hidden=(8,), learns_online=True) for seed in (0, 1)]
    with pytest.raises(ConfigError, match="agent BC has no critics to start from"):
        cloning[0].start_from(cloning[1], critics=True)
    assert cloning[0].start_from(cloning[1], critics=False) == ("policy",)


@pytest.mark.parametrize("network", ["xqc", "crossq", "simbav2"])
def test_normalised_networks_take_their_statistics_along(network: str) -> None:
    def make_one(seed: int) -> xqc.XQC:
        return xqc.make_xqc(spec=VECTORS, seed=seed, **(SMALL_XQC | {"network": network, "hidden": (6,)}))

    other, agent, fresh = make_one(0), make_one(1), make_one(1)
    for step in range(6):
        other.update(rows(other.update_rows, step))
    other.note_returns([3.0, -5.0])
    assert agent.start_from(other, critics=False) == ("policy",)
    assert equal(agent, other, "actor/", "actor_statistics/") and equal(agent, fresh, "critic", "returns", "updates")
    assert agent.start_from(other, critics=True) == ("policy", "critics")
    assert equal(agent, other, "critic/", "critic_statistics/", "returns", "temperature/")


def test_policies_that_consult_their_critics_or_a_flow_take_these_along() -> None:
    for make_one, parts in ((qc.make_qc, ("policy", "critics")), (fql.make_fql, ("policy",))):
        other, agent = (make_one(spec=SPEC, seed=seed, hidden=(8,)) for seed in (0, 1))
        assert agent.start_from(other, critics=False) == parts
        assert equal(agent, other, "flow/")
        assert equal(agent, other, "critic/") == ("critics" in parts)


def test_an_encoder_of_images_is_part_of_the_policy() -> None:
    def make_one(seed: int, **fields: Any) -> Any:
        spec = toy_spec({"state": ArraySpec((3,)), "images/front": ArraySpec((32, 32, 3), "uint8")}, 2)
        return make_drq(spec=spec, seed=seed, hidden=(8,), device="cpu", **fields)

    other, agent = make_one(0), make_one(1)
    agent.start_from(other, critics=False)
    assert equal(agent, other, "actor/", "encoder/") and not equal(agent, other, "critic/")
    with pytest.raises(ConfigError, match=r"agent.critic_keys: expected None, found \['state'\]"):
        make_one(1, critic_keys=("state",)).start_from(other, critics=False)


def test_agents_have_the_ability() -> None:
    assert isinstance(sac.make_sac(spec=SPEC, seed=0, hidden=(8,)), WarmStartLearner)
