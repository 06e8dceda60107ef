"""The example of an agent in a package of its own: its size and page, its update, and a run from another folder."""

import copy
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from torch import nn

from robo_rl.core import ArraySpec, ConfigError, DivergenceError
from robo_rl.learner import CheckpointFolder

from ..rigs.specs import toy_spec

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "td3_bc"
FILES = ("td3_bc.py", "pyproject.toml")
LARGEST_LINES = 90
SPEC = toy_spec({"state": ArraySpec((2,))}, 1)
SMALL = ["agent.hidden=[16]", "agent.batch_size=16", "agent.pretrain_steps=20", "demonstrations.episodes=2"]
SHORT = ["run.final_evaluation_episodes=1", "run.video_episodes=0"]
COMMANDS = """
import json, sys
from robo_rl.cli import main
*commands, last = json.loads(sys.argv[1])
for words in commands:
    try:
        main(words)
    except SystemExit as end:
        assert not end.code, words
main(last)
"""
"""Runs commands in one process, which imports once; the last one's exit code is that of the process."""


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("td3_bc", EXAMPLE / "td3_bc.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["td3_bc"] = module
    yield (spec.loader.exec_module(module), module)[1]
    del sys.modules["td3_bc"]


def test_it_is_small_and_the_page_shows_all_of_it():
    tracked = subprocess.run(["git", "ls-files", EXAMPLE], cwd=ROOT, capture_output=True, text=True).stdout.split()
    assert {Path(file).name for file in tracked} in (set(), {*FILES, "test_td3_bc.py"})
    assert len((EXAMPLE / "td3_bc.py").read_text().splitlines()) <= LARGEST_LINES
    blocks = re.findall(r"```(?:python|toml)\n(.*?)```", (ROOT / "docs/guide/agent.md").read_text(), re.DOTALL)
    for file in FILES:
        assert (EXAMPLE / file).read_text() in blocks, f"docs/guide/agent.md does not show {file} as it is"


def best(state):
    return 0.6 * np.tanh(2 * state[:, :1] - state[:, 1:])


def data(rows, seed, discount=0.0):
    """Random actions; the reward says how near they are to the best."""
    rng = np.random.default_rng(seed)
    state, action = (rng.uniform(-1, 1, (rows, size)).astype(np.float32) for size in (2, 1))
    return {
        "observation/state": state,
        "next_observation/state": rng.uniform(-1, 1, (rows, 2)).astype(np.float32),
        "action": action,
        "reward": -np.abs(action - best(state))[:, 0].astype(np.float32),
        "discount": np.full(rows, discount, np.float32),
    }


def as_module(arrays, name, member=None):
    """Return a network of a saved state as torch modules in float64."""
    layers = []
    for layer in ("0", "output"):
        weight, bias = (arrays[f"{name}/{layer}/{part}"].astype(np.float64) for part in ("weight", "bias"))
        if member is not None:
            weight, bias = weight[member], bias[member]
        linear = nn.Linear(*weight.shape).double()
        linear.weight.data, linear.bias.data = torch.from_numpy(weight.T.copy()), torch.from_numpy(bias.copy())
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def test_updates_are_what_the_paper_says(example):
    """Both losses and Adam once more, by autograd in float64, for four updates, two of them of the actor."""
    options = {"hidden": [16], "normalise_observations": False, "learning_rate": 1e-2, "tau": 0.25}
    agent = example.make_td3_bc(spec=SPEC, seed=0, **options, gamma=0.9, target_noise=0.4)
    start = agent.state()
    noise = torch.Generator()
    noise.set_state(torch.from_numpy(start["generator/noise"]))
    actor, critics = as_module(start, "actor"), [as_module(start, "critic", member) for member in range(2)]
    nets = (actor, *critics)
    targets = copy.deepcopy(nets)
    adam = [torch.optim.Adam(net.parameters(), 1e-2) for net in nets]

    def act(net, state):
        return torch.tanh(net(state)[:, :1])

    for update in range(1, 5):
        batch = data(32, update, discount=0.9)
        rows = {key: torch.from_numpy(array.astype(np.float64)) for key, array in batch.items()}
        state, following, action = (rows[key] for key in ("observation/state", "next_observation/state", "action"))
        with torch.no_grad():
            drawn = (0.4 * torch.randn(32, 1, generator=noise).double()).clamp(-0.5, 0.5)
            pair = torch.cat((following, (act(targets[0], following) + drawn).clamp(-1, 1)), 1)
            wanted = rows["reward"] + 0.9 * torch.minimum(*(net(pair)[:, 0] for net in targets[1:]))
        losses = [(net(torch.cat((state, action), 1))[:, 0] - wanted).square().mean() for net in critics]
        for optimiser, loss in zip(adam[1:], losses, strict=True):
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        if update % 2 == 0:
            chosen = act(actor, state)
            value = critics[0](torch.cat((state, chosen), 1))[:, 0]
            adam[0].zero_grad()
            ((chosen - action).square().mean() - 2.5 / value.abs().mean().detach() * value.mean()).backward()
            adam[0].step()
            for net, target in zip(nets, targets, strict=True):
                for actual, reference in zip(target.parameters(), net.parameters(), strict=True):
                    actual.data += 0.25 * (reference.data - actual.data)
        assert agent.update(batch)["critic_loss"] == pytest.approx(sum(losses).item(), rel=1e-4)
    found = agent.state()
    for prefix, expected in (("", nets), ("target_", targets)):
        pairs = [(as_module(found, f"{prefix}actor"), expected[0])]
        pairs += [(as_module(found, f"{prefix}critic", member), expected[1 + member]) for member in range(2)]
        for actual, reference in pairs:
            for found_values, wanted_values in zip(actual.parameters(), reference.parameters(), strict=True):
                torch.testing.assert_close(found_values, wanted_values, rtol=1e-3, atol=1e-5)


def test_it_acts_better_than_its_data_where_imitation_does_not(example):
    unseen = data(500, 99)["observation/state"]
    errors = {}
    for alpha in (0.0, 2.5):
        agent = example.make_td3_bc(spec=SPEC, seed=0, hidden=[64], learning_rate=3e-3, alpha=alpha)
        agent.fit_normaliser(data(500, 0))
        for seed in range(400):
            agent.pretrain(data(256, seed))
        acted = np.stack([agent.act({"state": row}, explore=True) for row in unseen])
        errors[alpha] = np.abs(acted - best(unseen)).mean()
    assert errors[0.0] > 0.2
    assert errors[2.5] < 0.1


def test_state_goes_on_bit_for_bit(example):
    first, second = (example.make_td3_bc(spec=SPEC, seed=seed, hidden=[8]) for seed in (0, 1))
    first.update(data(32, 0))
    second.load(first.state())
    assert first.update(data(32, 1)) == second.update(data(32, 1))
    assert all(np.array_equal(array, second.state()[name]) for name, array in first.state().items())
    observation = {"state": np.array([0.3, -0.2], np.float32)}
    second.load_policy(first.policy_state())
    np.testing.assert_array_equal(first.act(observation, explore=False), second.act(observation, explore=True))


def test_refuses_what_makes_no_sense(example):
    for key, value in (("alpha", -1.0), ("gamma", 1.1), ("actor_interval", 0), ("hidden", ())):
        with pytest.raises(ConfigError, match=key):
            example.TD3BCConfig(**{key: value})
    agent = example.make_td3_bc(spec=SPEC, seed=0, hidden=[8])
    with pytest.raises(DivergenceError, match="critic_loss is nan at update 1"):
        agent.update(data(8, 0) | {"reward": np.full(8, np.nan, np.float32)})


def test_it_trains_resumes_and_is_evaluated_from_another_folder(tmp_path):
    source, site, work = tmp_path / "source", tmp_path / "site", tmp_path / "work"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    work.mkdir()
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*install, "--target", site, source], check=True)
    environment = os.environ | {"PYTHONPATH": f"{site}{os.pathsep}{work}"}

    def robo_rl(*commands, code=0):
        """Run commands in a process of their own."""
        command = [sys.executable, "-c", COMMANDS, json.dumps(commands)]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    robo_rl(["train", "task=reach", "agent=td3_bc", "run.dir=run", *SMALL, *SHORT])
    trained = CheckpointFolder(work / "run" / "checkpoints").load_newest().parts["agent"]
    assert trained["updates"] == [20]
    assert "1 episode" in robo_rl(["train", "resume=run"], ["eval", "run=run", "episodes=1"])
    resumed = CheckpointFolder(work / "run" / "checkpoints").load_newest().parts["agent"]
    assert all(np.array_equal(array, resumed[name]) for name, array in trained.items())

    # Code of a package that registers nothing is run where the user allows it.
    (work / "variant.py").write_text("from td3_bc import TD3BC, TD3BCConfig\n\n\ndef make(*, spec, seed, **fields):\n"
                                     "    return TD3BC(TD3BCConfig(**fields), spec, seed)\n")  # fmt: skip
    file = work / "run" / "config.yaml"
    saved = yaml.safe_load(file.read_text())
    assert saved["agent"]["_target_"] == "td3_bc.make_td3_bc"
    file.write_text(yaml.safe_dump(saved | {"agent": saved["agent"] | {"_target_": "variant.make"}}))
    assert "allow=[variant]" in robo_rl(["eval", "run=run", "episodes=1"], code=2)
    robo_rl(["eval", "run=run", "episodes=1", "allow=[variant]"])
