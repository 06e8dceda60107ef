"""The native updates of Q-chunking and flow Q-learning against those by PyTorch."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from robo_rl.agents.fql import FQLConfig, make_fql
from robo_rl.agents.parts.flow_precision import TIMER
from robo_rl.agents.parts.native import available
from robo_rl.agents.parts.native_flow_agent import NativeFlowAgent
from robo_rl.agents.qc import QCConfig, make_qc
from robo_rl.core import ArraySpec, Batch, ConfigError, DivergenceError, State

from ..rigs.chunk_rows import assert_equal_states
from ..rigs.specs import toy_spec

needs_native = pytest.mark.skipif(not available()[0], reason=available()[1])
needs_bfloat16 = pytest.mark.skipif(not available("bfloat16")[0], reason=available("bfloat16")[1])

OBSERVATION, ACTION, CHUNK = 7, 3, 3
SPEC = toy_spec({"state": ArraySpec((OBSERVATION,))}, ACTION)
SMALL = {"hidden": [40, 24], "action_chunk": CHUNK, "batch_size": 30, "flow_steps": 4, "learning_rate": 1e-3}
MAKE = {"qc": make_qc, "fql": make_fql}


def make(agent: str, implementation: str, threads: int = 2, **fields: Any) -> NativeFlowAgent:
    """Return an agent that has made the given number of threads, if its updates are native."""
    candidates = {"candidates": 5} if agent == "qc" else {}
    made = MAKE[agent](spec=SPEC, seed=0, implementation=implementation, **(SMALL | candidates | fields))
    made.fit_normaliser(rows_of(100, 0))
    # The first step is the same for all, so that no gradient is zero by chance.
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        made.pretrain(rows_of(made.config.batch_size, 1))
    finally:
        torch.set_num_threads(before)
    return made


def rows_of(count: int, seed: int) -> Batch:
    rng = np.random.default_rng(seed)
    action, proposed = np.tanh(rng.normal(size=(2, count, CHUNK * ACTION))).astype(np.float32)
    observation, following = rng.normal(size=(2, count, OBSERVATION)).astype(np.float32)
    return {
        "observation/state": observation,
        "next_observation/state": following,
        "action": action,
        "proposed_action": proposed,
        "reward": rng.normal(size=count).astype(np.float32),
        "discount": (0.9 * (rng.random(count) > 0.2)).astype(np.float32),
        "demonstration": (rng.random(count) > 0.5).astype(np.float32),
        "online_example": (rng.random(count) > 0.8).astype(np.float32),
    }


def with_larger_outputs(agent: NativeFlowAgent, factor: float = 4.0) -> State:
    """Return the agent's state with larger outputs of the networks that decide, so that many elements are clipped."""
    state = agent.state()
    for name, array in state.items():
        if name.removeprefix("averaged/") in ("flow/output/weight", "actor/output/weight"):
            array *= np.float32(factor)
    return state


def compare(agent: str, *, steps: int = 4, metrics: float = 1e-4, moments: float = 1e-3, **fields: Any) -> None:
    """Compare some steps within relative tolerances; ``precision`` is that of the native update."""
    precision = fields.pop("precision", "float32")
    exact, native = make(agent, "torch", **fields), make(agent, "native", precision=precision, **fields)
    start = with_larger_outputs(exact)
    for each in (exact, native):
        each.load(start)
    for step in range(steps):
        for act in ("pretrain", "update", "pretrain_critics"):
            rows = rows_of(exact.config.batch_size * (exact.config.update_to_data if act == "update" else 1), step)
            wanted, got = (getattr(each, act)(rows) for each in (exact, native))
            assert list(got) == list(wanted)
            for name, value in got.items():
                assert value == pytest.approx(wanted[name], rel=metrics, abs=metrics), f"{name} of {act} {step}"
    wanted, got = exact.state(), native.state()
    assert list(got) == list(wanted)
    for name, array in wanted.items():
        if name.startswith(("generator/", "normaliser/")) or array.dtype.kind != "f":
            np.testing.assert_array_equal(got[name], array, err_msg=name)
        elif name.startswith("adam_"):
            assert np.linalg.norm(got[name] - array) <= moments * np.linalg.norm(array), name
        else:
            change = np.linalg.norm(array - start[name])
            assert change > 0 or "/shift" in name or "plan/" in name, name
            # Adam's steps magnify the rounding of gradients near zero.
            assert np.linalg.norm(got[name] - array) <= 20 * moments * change, name


@needs_native
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"target_q": "min"},
        {"ensemble_size": 5},
        {"ensemble_size": 5, "target_q": "min", "tau": 0.3},
        {"ensemble_size": 1, "candidates": 1},
        {"layer_norm": False},
        {"actor_layer_norm": True, "activation": "silu"},
        {"batch_size": 1},
        {"batch_size": 17, "candidates": 7},
        {"batch_size": 16, "update_to_data": 3},
        {"flow_steps": 1, "hidden": [16]},
        {"hidden": [37, 5, 50], "activation": "tanh"},
    ],
    ids=str,
)
def test_a_step_of_q_chunking_is_that_of_torch(fields: dict[str, Any]) -> None:
    compare("qc", **fields)


@needs_native
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"normalise_q": False},
        {"normalise_q": False, "distillation_weight": 10.0, "ensemble_size": 5},
        {"target_q": "min", "layer_norm": False},
        {"actor_layer_norm": True, "activation": "tanh"},
        {"batch_size": 1},
        {"batch_size": 29, "hidden": [37, 5, 50]},
    ],
    ids=str,
)
def test_a_step_of_flow_q_learning_is_that_of_torch(fields: dict[str, Any]) -> None:
    compare("fql", **fields)


@needs_bfloat16
@pytest.mark.parametrize("agent", MAKE)
def test_bfloat16_agrees_within_its_rounding(agent: str) -> None:
    """One candidate, since rounding may change the choice of several with almost equal values."""
    fields = {"candidates": 1} if agent == "qc" else {}
    compare(agent, steps=1, precision="bfloat16", metrics=0.05, moments=0.1, **fields)


@needs_native
@pytest.mark.parametrize("agent", MAKE)
@pytest.mark.parametrize("precision", ["float32", pytest.param("bfloat16", marks=needs_bfloat16)])
def test_the_number_of_threads_changes_no_bit(agent: str, precision: str) -> None:
    results = []
    for threads in (1, 2, 3, 5):
        each = make(agent, "native", threads, precision=precision, ensemble_size=3)
        metrics = [each.update(rows_of(30, step)) for step in range(2)]
        results.append((metrics, each.state()))
    for metrics, state in results[1:]:
        assert metrics == results[0][0]
        assert_equal_states(state, results[0][1])


@needs_native
@pytest.mark.parametrize("agent", MAKE)
def test_a_run_continues_bit_for_bit_in_another_process_and_with_another_size_of_minibatches(agent: str) -> None:
    unbroken, resumed = make(agent, "native"), make(agent, "native")
    unbroken.update(rows_of(30, 0))
    resumed.load(unbroken.state())
    for rows in (12, 30, 12):
        assert unbroken.pretrain(rows_of(rows, rows)) == resumed.pretrain(rows_of(rows, rows))
        assert unbroken.update(rows_of(30, rows)) == resumed.update(rows_of(30, rows))
    assert_equal_states(unbroken.state(), resumed.state())


@needs_native
@pytest.mark.parametrize("agent", MAKE)
@pytest.mark.parametrize("field", ["observation/state", "action", "reward", "discount", "next_observation/state"])
def test_nan_in_a_row_ends_the_run(agent: str, field: str) -> None:
    rows = rows_of(30, 0)
    rows[field][7] = np.nan
    with pytest.raises(DivergenceError, match="critic_loss is nan at update 1"):
        make(agent, "native").update(rows)


@needs_native
@pytest.mark.parametrize("agent", MAKE)
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_nan_in_a_parameter_ends_the_run(agent: str, activation: str) -> None:
    for name in ("flow/0/weight", "critic/1/bias", "critic/output/weight", "averaged/critic/0/bias"):
        each = make(agent, "native", activation=activation, layer_norm=False)
        state = each._slots()
        state[name].view(-1)[0] = math.nan
        with pytest.raises(DivergenceError, match="training diverged"):
            each.update(rows_of(30, 0))
    rows = rows_of(30, 0)
    rows["proposed_action"][:] = np.nan
    with pytest.raises(DivergenceError, match="flow_loss is nan at update 2"):
        make(agent, "native").pretrain(rows)


@needs_native
@pytest.mark.parametrize("member", range(3))
def test_a_candidate_of_unknown_value_is_chosen_as_in_torch(member: int) -> None:
    for implementation in ("native", "torch"):
        agent = make("qc", implementation, ensemble_size=3, target_q="min")
        agent._slots()["critic/output/bias"][member] = math.inf * 0
        with pytest.raises(DivergenceError, match="critic_loss is nan"):
            agent.update(rows_of(30, 0))


@needs_native
def test_states_are_those_of_agents_without_the_options() -> None:
    """A checkpoint of either implementation is continued by the other one."""
    for agent in MAKE:
        old, new = make(agent, "torch"), make(agent, "auto")
        old.update(rows_of(30, 0))
        new.load(old.state())
        assert_equal_states(new.state(), old.state())
        assert new.update(rows_of(30, 1)) == pytest.approx(old.update(rows_of(30, 1)), rel=1e-4, abs=1e-4)


def test_an_agent_says_how_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robo_rl.agents.parts.native.available", lambda precision: (False, f"no {precision} here"))
    monkeypatch.setattr("robo_rl.agents.parts.native.multiplies_bfloat16", lambda: True)
    assert make("qc", "torch").implementation == "torch"
    for precision in ("auto", "float32"):
        agent = make("fql", "auto", precision=precision)
        assert agent.implementation == "torch (native is not available: no float32 here)"
        agent.update(rows_of(30, 0))
    with pytest.raises(ConfigError, match=r"agent\.implementation=native is not available: no bfloat16 here\. Use"):
        make("qc", "native", precision="bfloat16")
    monkeypatch.setattr("robo_rl.agents.parts.native.available", lambda precision: (True, "compiled"))
    monkeypatch.setattr(TIMER, "fastest", lambda: "bfloat16")
    agent = MAKE["qc"](spec=SPEC, seed=0, precision="auto", **SMALL)
    assert agent.implementation == "native (compiled), in bfloat16, the faster precision here"


def test_refuses_invalid_options() -> None:
    for config in (QCConfig, FQLConfig):
        for name in ("implementation", "precision"):
            with pytest.raises(ConfigError, match=rf"agent\.{name}"):
                config(**{name: "compile"})
        with pytest.raises(
            ConfigError, match=r"agent\.precision must be auto or float32 for agent\.implementation=torch"
        ):
            config(implementation="torch", precision="bfloat16")


@needs_native
@pytest.mark.parametrize("precision", ["float32", pytest.param("bfloat16", marks=needs_bfloat16)])
def test_auto_measures_updates(precision: str) -> None:
    (seconds,) = TIMER.measure((precision,))
    assert 1e-5 < seconds < 10


@pytest.mark.parametrize("implementation", ["torch", pytest.param("native", marks=needs_native)])
def test_failures_and_other_online_rows_are_not_imitated(implementation: str) -> None:
    agent, other = make("qc", implementation), make("qc", implementation)
    batch = rows_of(30, 2)
    left_out = (batch["demonstration"] + batch["online_example"]) == 0
    assert 0 < left_out.sum() < 30
    for each, chunk in ((agent, 0.9), (other, -0.9)):
        each.pretrain(batch | {"action": np.where(left_out[:, np.newaxis], np.float32(chunk), batch["action"])})
    assert_equal_states(agent.state(), other.state())


@pytest.mark.parametrize("implementation", ["torch", pytest.param("native", marks=needs_native)])
def test_the_critics_choose_after_they_have_learned(implementation: str) -> None:
    agent = make("qc", implementation, selection_starts=3)
    samples = []
    for step in range(4):
        samples.append(agent._policy.samples)
        (agent.pretrain_critics if step == 0 else agent.update)(rows_of(30, step))
    assert samples == [1, 1, 1, 5]
    state = agent.state()
    del state["value_steps"]  # as saved by versions in which the critics chose from the start
    earlier = make("qc", implementation, selection_starts=3)
    earlier.load(state)
    assert earlier._policy.samples == 5
