"""The agent that clones by flow matching: two modes, resuming bit for bit, and learning while it acts."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from robo_rl.agents.bc import make_bc
from robo_rl.agents.flow import FlowCloning, FlowCloningConfig, make_flow
from robo_rl.core import Batch, ConfigError, DivergenceError

from ..rigs import chunk_rows
from ..rigs.chunk_rows import ORIGIN, SPEC, assert_continues_in_mid_chunk, assert_equal_states, sampled_chunks


def two_ways(rows: int, seed: int) -> Batch:
    """Rows whose executed actions are others than those that were proposed."""
    executed = np.random.default_rng(seed).uniform(-1, 1, (rows, 2)).astype(np.float32)
    return chunk_rows.two_ways(rows, seed) | {"action": executed}


def make(seed: int = 0, **fields: object) -> FlowCloning:
    return make_flow(spec=SPEC, seed=seed, **({"hidden": [8], "action_chunk": 2, "batch_size": 16} | fields))


def test_cloning_takes_the_mean_of_two_ways_and_flow_keeps_both() -> None:
    fields = {"hidden": [64, 64], "action_chunk": 2, "learning_rate": 3e-3, "batch_size": 128}
    agents = [make_bc(spec=SPEC, seed=0, **fields), make_flow(spec=SPEC, seed=0, actor_tau=0.05, **fields)]
    for agent in agents:
        for step in range(400):
            agent.pretrain(two_ways(128, step))
    mean = sampled_chunks(lambda: agents[0].act(ORIGIN, explore=False))
    assert np.abs(mean).max() < 0.25
    for explore in (False, True):
        kept = sampled_chunks(lambda explore=explore: agents[1].act(ORIGIN, explore=explore))
        assert 25 < np.count_nonzero(kept[:, 0] > 0) < 75
        together = (kept * np.sign(kept[:, :1]) > 0.25).all(1)
        assert np.count_nonzero(together) > 75, "few samples lie between the ways, and chunks do not mix them"
    for way in (-0.6, 0.6):
        source = torch.Generator().manual_seed(0)
        kept = np.array([_continued(agents[1], way, torch.randn(2, generator=source)) for _ in range(100)])
        assert np.count_nonzero(kept * np.sign(way) > 0.25, axis=0).min() > 70


def _continued(agent: FlowCloning, action: float, noise: torch.Tensor) -> NDArray[np.float32]:
    """Return the chunk (2,) from ``noise`` that is to begin with ``action``."""
    inpaint = agent.decision().inpaint
    assert inpaint is not None
    known, weights = torch.tensor([[action], [0.0]]), torch.tensor([1.0, 0.0])
    chunk = inpaint({"state": torch.zeros(2)}, noise, known, weights)
    assert chunk.shape == (2, 1)
    continued: NDArray[np.float32] = chunk[:, 0].numpy()
    return continued


def test_a_run_goes_on_bit_for_bit_in_mid_chunk() -> None:
    unbroken, resumed = make(), make(seed=1)
    unbroken.fit_normaliser(two_ways(50, 0))
    assert_continues_in_mid_chunk(unbroken, resumed, lambda seed: two_ways(16, seed))


def test_a_saved_policy_acts_the_same_whenever_it_is_evaluated() -> None:
    agent = make()
    agent.update(two_ways(16, 0))
    pupils = [make(), make()]
    for pupil in pupils:
        pupil.load_policy(agent.policy_state())
    pupils[0].act(ORIGIN, explore=True)  # exploration has noise of its own
    acted = [[pupil.act(ORIGIN, explore=False) for _ in range(6)] for pupil in pupils]
    np.testing.assert_array_equal(*acted)
    assert len(np.unique(acted[0])) > 3, "every decision is a sample"


def test_the_average_is_that_of_all_steps_until_they_are_many() -> None:
    agent, names = make(), ("flow/0/weight", "averaged/flow/0/weight")
    seen = []
    for step in range(3):
        agent.update(two_ways(16, step))
        seen.append(agent.state())
    np.testing.assert_allclose(seen[-1][names[1]], np.mean([state[names[0]] for state in seen], 0), atol=1e-6)


def test_online_it_learns_only_from_what_others_did() -> None:
    agent, other = make(learns_online=True, update_to_data=2), make()
    batch = two_ways(32, 0)
    before = agent.state()
    assert agent.update_rows == 32
    assert agent.update(batch | {"demonstration": np.zeros(32, np.float32)}) == {}
    assert_equal_states(agent.state(), before)
    agent.update(batch | {"demonstration": np.ones(32, np.float32)})
    for first in (0, 16):
        other.pretrain({key: value[first : first + 16] for key, value in batch.items()})
    assert_equal_states(agent.state(), other.state())


def test_refuses_what_makes_no_sense() -> None:
    for name, value in (("flow_steps", 0), ("actor_tau", 0), ("action_chunk", 0), ("activation", "elu")):
        with pytest.raises(ConfigError, match=rf"agent\.{name}"):
            FlowCloningConfig(**{name: value})
    batch = two_ways(16, 0)
    batch["proposed_action"][0, 0] = np.nan
    with pytest.raises(DivergenceError, match="flow_loss is nan at update 1"):
        make().update(batch)
