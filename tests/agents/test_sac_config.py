"""Configuration of the agent: ranges, presets, the implementation of the update, names of metrics."""

import pytest
import torch
from hydra import compose, initialize_config_module
from hydra.utils import instantiate

from robo_rl.agents.parts.native import available as native_available
from robo_rl.agents.registration import register_configs
from robo_rl.agents.sac.update import METRICS
from robo_rl.core import ConfigError

from .test_sac import SPEC, make, make_batch, same


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"target_subset": 4}, "agent.target_subset must be at most agent.ensemble_size = 3, got 4"),
        ({"gamma": 1.5}, r"agent.gamma must be in \[0, 1\], got 1.5"),
        ({"tau": 0.0}, r"agent.tau must be in \(0, 1\], got 0.0"),
        ({"hidden": []}, r"agent.hidden must be one or more widths of 1 or more, got \[\]"),
        (
            {"activation": "rellu"},
            "unknown agent.activation 'rellu'; did you mean 'relu'. Valid: gelu, relu, silu, tanh",
        ),
        ({"implementation": "gpu"}, "unknown agent.implementation 'gpu'; Valid: auto, compile, native, torch"),
        ({"demonstration_ratio": 2}, r"agent.demonstration_ratio must be in \[0, 1\], got 2"),
    ],
)
def test_values_out_of_range_are_named(fields, message):
    with pytest.raises(ConfigError, match=message):
        make(**fields)


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("rlpd", {"ensemble_size": 5, "target_subset": 2, "layer_norm": True, "update_to_data": 20}),
        ("rlpd_published", {"ensemble_size": 10, "batch_size": 256, "cloning_weight": 0.0, "pretrain_steps": 0}),
        ("sac", {"ensemble_size": 2, "layer_norm": False, "update_to_data": 1, "demonstration_ratio": 0.0}),
        ("rlpd_without_demonstrations", {"demonstration_ratio": 0.0, "cloning_weight": 0.0, "ensemble_size": 2}),
        ("bc", {"demonstration_ratio": 1.0, "learns_online": False}),
        ("hg_dagger", {"demonstration_ratio": 1.0, "learns_online": True, "update_to_data": 4}),
        ("cpl", {"demonstration_ratio": 1.0, "learns_online": False, "conservative_weight": 0.5}),
        ("iql", {"demonstration_ratio": 1.0, "learns_online": False, "expectile": 0.7}),
    ],
)
def test_presets_make_agents(preset, expected):
    register_configs()
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        node = compose(overrides=[f"+agent={preset}", "agent.hidden=[8]", "agent.observation_keys=[state]"]).agent
    agent = instantiate(node, _partial_=True, _convert_="object")(spec=SPEC, seed=0)
    assert agent.config.hidden == (8,)
    assert {key: getattr(agent.config, key) for key in expected} == expected
    assert agent.policy_state()["actor/0/weight"].shape == (3, 8)


def test_without_a_compiler_torch_stands_in_or_the_reason_is_given(monkeypatch):
    monkeypatch.setattr("robo_rl.agents.parts.native.available", lambda precision: (False, f"no {precision} here"))
    agent = make(implementation="auto")
    assert agent.implementation == "torch (native is not available: no float32 here)"
    agent.update(make_batch(agent.update_rows))
    with pytest.raises(ConfigError, match=r"agent\.implementation=native is not available: no bfloat16 here\. Use"):
        make(implementation="native", precision="bfloat16")


@pytest.mark.skipif(not native_available("float32")[0], reason=native_available("float32")[1])
def test_without_products_of_bfloat16_float32_stands_in(monkeypatch):
    """Else PyTorch would emulate them."""

    def available(precision):
        return (False, "no products") if precision == "bfloat16" else native_available(precision)

    monkeypatch.setattr("robo_rl.agents.parts.native.multiplies_bfloat16", lambda: True)
    monkeypatch.setattr("robo_rl.agents.parts.native.available", available)
    agent, exact = make(implementation="auto", precision="bfloat16"), make(implementation="native", precision="float32")
    assert agent.implementation == "native, in float32 (no products)"
    for each in (agent, exact):
        each.update(make_batch(each.update_rows))
    assert same(agent.policy_state(), exact.policy_state())


@pytest.mark.parametrize("compiler", [True, False])
def test_a_processor_that_would_emulate_products_of_bfloat16_computes_in_float32(monkeypatch, compiler):
    monkeypatch.setattr("robo_rl.agents.parts.native.multiplies_bfloat16", lambda: False)
    if not compiler:
        monkeypatch.setattr("robo_rl.agents.parts.native.available", lambda precision: (False, "no compiler"))
    agents = [make(implementation="auto", precision=precision) for precision in ("bfloat16", "float32")]
    assert agents[0].implementation == (
        f"{agents[1].implementation}, in float32: this processor has no products of bfloat16 (AVX512_BF16)"
    )
    for agent in agents:
        agent.update(make_batch(agent.update_rows))
    assert same(agents[0].state(), agents[1].state())
    assert make(implementation="torch", precision="bfloat16").implementation == "torch", "who asks for it gets it"


def test_what_the_native_update_lacks_torch_computes():
    fields, lacking = {"cloning_filter": True}, "it has no filter of cloned actions"
    assert make(implementation="auto", **fields).implementation == f"torch (native is not available: {lacking})"
    with pytest.raises(
        ConfigError, match=f"agent.implementation=native is not available: {lacking}. Use agent.implementation=auto"
    ):
        make(implementation="native", **fields)


def test_the_weight_of_cloning_halves_its_way_to_the_last_one_and_that_of_own_examples_stays():
    """Demonstrations weigh 3 at first, 2 after a half-life, 1 + 2 / 4 after two; own examples 0.7 beside it."""
    agent = make(cloning_weight=3.0, final_cloning_weight=1.0, cloning_half_life=2, online_cloning_weight=0.7)
    batch = make_batch(agent.update_rows)
    shown, own = (
        torch.from_numpy(batch[name]).view(agent.config.update_to_data, -1)
        for name in ("demonstration", "online_example")
    )
    seen = []
    for _ in range(5):
        seen.append(agent._minibatches(batch).cloning)
        agent.update(batch)
    for cloning, weight in zip(seen, [3.0, 1 + 2**0.5, 2.0, 1 + 0.5**0.5, 1.5], strict=True):
        torch.testing.assert_close(cloning, weight * shown + 0.7 * own)


def test_metrics_have_their_names():
    agent = make()
    metrics = agent.update(make_batch(agent.update_rows))
    assert tuple(metrics) == METRICS and all(isinstance(value, float) for value in metrics.values())
