"""Files that hold a policy, compared with PyTorch."""

import re

import numpy as np
import onnx
import pytest
import torch

from robo_rl.core import ConfigError, DataError
from robo_rl.deployment.c_policy import CPolicy, c_compiler
from robo_rl.deployment.onnx_policy import OnnxPolicy
from robo_rl.deployment.tracing import trace
from robo_rl.deployment.verification import TOLERANCES

from ..rigs.deployed import GAUSSIAN, OF_IMAGES, SAMPLING, VECTORS, describe, make_agent, write

OBSERVATIONS = {"sac": 10_000, "xqc": 10_000}
"""Number of random observations by agent; fewer for the others, as PyTorch takes most of the time."""
TOLERANCE = TOLERANCES["float32"]


@pytest.mark.parametrize("name", GAUSSIAN)
@pytest.mark.parametrize("suffix", [".onnx", ".h"])
def test_deterministic_policies_agree(name, suffix, tmp_path):
    file, count = tmp_path / f"policy{suffix}", OBSERVATIONS.get(name, 500)
    outcome = write(make_agent(name), name, file, count)
    assert outcome.observations == count and 0 <= outcome.difference <= TOLERANCE
    assert file.is_file()


@pytest.mark.parametrize("name", SAMPLING)
@pytest.mark.parametrize("suffix", [".onnx", ".h"])
def test_policies_that_sample_agree_for_equal_noise(name, suffix, tmp_path):
    outcome = write(make_agent(name), name, tmp_path / f"policy{suffix}", 50)
    assert outcome.difference <= TOLERANCE


@pytest.mark.parametrize("name", ["sac", "xqc", "simbav2", "flow", "qc"])
def test_weights_in_int8_take_a_quarter_of_the_memory_and_formats_agree(name, tmp_path):
    files = {}
    for weights in TOLERANCES:
        for suffix in (".onnx", ".h"):
            files[weights, suffix] = file = tmp_path / f"{weights}{suffix}"
            outcome = write(make_agent(name), name, file, 50, weights=weights)
            assert (outcome.difference > TOLERANCE) == (weights == "int8") and outcome.difference <= TOLERANCES[weights]
    if c_compiler() is None:
        pytest.skip("no C compiler")
    agent, rng = make_agent(name), np.random.default_rng(1)
    decision, compiled = agent.decision(), CPolicy(files["int8", ".h"], describe(agent, name), c_compiler())
    runtime = OnnxPolicy.load(files["int8", ".onnx"])
    for _ in range(20):
        observation = decision.example(rng)
        if not decision.noise_size:
            np.testing.assert_allclose(compiled.decide(observation), runtime.decide(observation), atol=TOLERANCE)
    elements = dict.fromkeys(TOLERANCES, 0)
    for weights in TOLERANCES:
        for tensor in onnx.load(files[weights, ".onnx"]).graph.initializer:
            elements[weights] += len(tensor.raw_data)
    assert elements["int8"] < elements["float32"] * 0.6  # networks of 8 units, whose biases and scales count
    text = files["int8", ".h"].read_text()
    numbers = [int(n) for body in re.findall(r"signed char \w+\[\d+\] = {([^}]*)}", text) for n in body.split(",")]
    assert numbers and min(numbers) >= -127 and max(numbers) <= 127 and 127 in map(abs, numbers)


def test_weights_in_int8_that_change_actions_too_much_are_not_written(tmp_path):
    agent = make_agent("sac")
    state = agent.state()
    for name in [name for name in state if name.startswith(("actor/", "averaged/")) and name.endswith("weight")]:
        state[name] = state[name] * 3.0
    agent.load(state)
    with pytest.raises(DataError, match=r"its actions differ from those of PyTorch by .*, more than 0\.1"):
        write(agent, "sac", tmp_path / "policy.h", 200, weights="int8")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("head", ["dense", "spatial_embeddings"])
def test_policies_of_images_agree_in_onnx_and_are_refused_in_c(head, tmp_path):
    from robo_rl.agents.parts.encoder_config import EncoderConfig

    agent = make_agent("drq", encoder=EncoderConfig(head=head))
    assert write(agent, "drq", tmp_path / "policy.onnx", 200).difference <= TOLERANCE
    with pytest.raises(ConfigError, match=r"agent drq: its policy acts on 'images/front' \(images\).*output=NAME.onnx"):
        write(agent, "drq", tmp_path / "policy.h")
    assert [path.name for path in tmp_path.iterdir()] == ["policy.onnx"]


@pytest.mark.parametrize("name", VECTORS | OF_IMAGES)
def test_the_decision_is_what_the_agent_does(name):
    """The function of tensors, which is traced, and the path from NumPy, by which the agent acts."""
    agent = make_agent(name)
    decision = agent.decision()
    noise = torch.Generator().manual_seed(decision.noise_seed)
    rng = np.random.default_rng(0)
    for _ in range(3):
        observation = decision.example(rng)
        tensors = {key: torch.from_numpy(value) for key, value in observation.items()}
        chunk = decision.compute(tensors, torch.randn(decision.noise_size, generator=noise))
        agent.forget_plan(explore=False)
        acted = np.stack([agent.act(observation, explore=False) for _ in range(agent.config.action_chunk)])
        np.testing.assert_allclose(chunk.numpy(), acted, atol=1e-6)


def test_a_chunk_is_acted_out_and_forgotten(tmp_path):
    agent = make_agent("sac_chunk")
    write(agent, "sac_chunk", tmp_path / "policy.onnx")
    policy, rng = OnnxPolicy.load(tmp_path / "policy.onnx"), np.random.default_rng(0)
    for length in (6, 3, 5):  # not multiples of the chunk of 4
        policy.forget_plan(explore=False)
        agent.forget_plan(explore=False)
        for _ in range(length):
            observation = agent.decision().example(rng)
            acted = policy.act(observation, explore=False)
            np.testing.assert_allclose(acted, agent.act(observation, explore=False), atol=TOLERANCE)


def test_a_file_that_differs_is_not_written(tmp_path, monkeypatch):
    """One weight of the file is another; an earlier file stays."""
    agent = make_agent("sac")

    def falsified(*arguments):
        graph = trace(*arguments)
        name = next(name for name, array in graph.constants.items() if array.ndim == 2)
        graph.constants[name][0, 0] += 0.5
        return graph

    monkeypatch.setattr("robo_rl.deployment.writing.trace", falsified)
    for file in (tmp_path / "policy.onnx", tmp_path / "policy.h"):
        with pytest.raises(DataError, match=f"{file.name} was not written: its actions differ from those of PyTorch"):
            write(agent, "sac", file, 200)
        assert not list(tmp_path.iterdir())
        file.write_text("earlier")
        with pytest.raises(DataError, match="was not written"):
            write(agent, "sac", file, 200)
        assert file.read_text() == "earlier"
        file.unlink()


def test_an_operation_that_files_cannot_hold_is_named(tmp_path):
    agent = make_agent("sac")
    mode = agent._policy.mode
    agent._policy.mode = lambda row, noise: mode(row, noise).cumsum(-1)
    with pytest.raises(ConfigError, match="agent sac: its policy uses the PyTorch operation aten::cumsum"):
        write(agent, "sac", tmp_path / "policy.onnx")


def test_a_parameter_that_is_not_finite_is_refused(tmp_path):
    agent = make_agent("bc")
    next(iter(agent._policy.averaged.values()))[0] = float("nan")
    with pytest.raises(ConfigError, match="agent bc: a parameter of its policy is not finite"):
        write(agent, "bc", tmp_path / "policy.h")


@pytest.mark.parametrize("name", ["policy", "policy.txt", "policy.ONNX", "policy.hpp"])
def test_other_suffixes_are_refused(name, tmp_path):
    with pytest.raises(ConfigError, match=r"output: expected NAME.onnx \(ONNX\) or NAME.h"):
        write(make_agent("bc"), "bc", tmp_path / name)
