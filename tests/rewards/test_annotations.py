"""Rewards distilled from late scores of pictures: the loss, and agreement on states that nobody scored."""

import time

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from robo_rl.core import ArraySpec, ConfigError
from robo_rl.rewards.asking.endpoint import EndpointConfig
from robo_rl.rewards.asking.oracles import read_number
from robo_rl.rewards.modules.annotations import AnnotationsConfig

from ..rigs.specs import joint_spec
from ..rigs.vlm_server import requests, vlm_server

SPEC = joint_spec({"state": ArraySpec((2,)), "images/front": ArraySpec((8, 8, 3), "uint8")})


class World:
    """Experience: states in a square, and pictures that are the brighter the larger the first element."""

    def __len__(self):
        return 1000

    def sample_segments(self, n, length, rng, *, newest=None):
        state = rng.uniform(0, 1, (n, length, 2)).astype(np.float32)
        shade = np.round(255 * state[..., :1]).astype(np.uint8)[..., None, None]
        pictures = np.broadcast_to(shade, (n, length, 8, 8, 3))
        action = np.zeros((n, length, 1), np.float32)
        return {"action": action, "next_observation/state": state, "next_observation/images/front": pictures}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with vlm_server(folder) as url:
        yield folder, url


@pytest.fixture
def make(server, tmp_path):
    def module(model, **options):
        endpoint = EndpointConfig(url=server[1], model=model, cache=str(tmp_path), retries=0, parallel=20)
        settings = {"interval": 5, "queries": 40, "epochs": 60, "hidden": (32,), "most_queries": 160, **options}
        return AnnotationsConfig(goal="it is bright", endpoint=endpoint, **settings).make("bright", SPEC, 0)

    return module


def run(module, rounds):
    """Let a module ask and learn while answers arrive; return the metrics of each round."""
    found = []
    while len(found) < rounds:
        if metrics := module.update(World()):
            found.append(metrics)
        time.sleep(0.002)
    return found


def test_late_scores_are_learned_and_hold_where_nobody_was_asked(make, server):
    """Answers take 0.1 s; what was learned agrees with the annotator's rule on other states."""
    module = make("scores")
    states = np.random.default_rng(5).uniform(0, 1, (300, 2)).astype(np.float32)
    rows = {"action": states[:, :1], "next_observation/state": states}
    assert not module(rows).any()
    metrics = run(module, 4)
    assert [each["queries"] for each in metrics] == [40, 80, 120, 160]
    assert metrics[-1]["answers"] == 160
    sent = requests(server[0])
    assert 100 < len(sent) <= 160  # the same picture costs nothing
    assert all("it is bright" in each["text"] and "to 10" in each["text"] for each in sent)
    truth = np.round(10 * states[:, 0]) / 10
    assert np.abs(module(rows) - truth).mean() < 0.08
    assert spearmanr(module(rows), states[:, 0]).statistic > 0.95
    # The error that is told of answers before they were learned from is that of states that nobody had scored.
    assert "held_out_error" not in metrics[0]
    assert metrics[-1]["held_out_error"] == pytest.approx(np.abs(module(rows) - truth).mean(), abs=0.05)
    assert metrics[-1]["error"] < 0.08


def test_the_loss_is_least_where_the_reward_is_the_mean_answer(make):
    """Against the logistic loss in float64, and an annotator who contradicts himself."""
    module = make("scores")
    outputs, answers = np.linspace(-3, 3, 7), np.array([0, 0.1, 0.5, 0.5, 0.7, 1, 1])
    predicted = 1 / (1 + np.exp(-outputs))
    expected = -np.mean(answers * np.log(predicted) + (1 - answers) * np.log(1 - predicted))
    found = module._loss(torch.from_numpy(outputs)[:, None, None], torch.from_numpy(answers))
    assert float(found) == pytest.approx(expected, rel=1e-12)
    candidates = torch.linspace(-4, 4, 801, dtype=torch.float64)
    contradicting = torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    losses = [float(module._loss(each.repeat(4)[:, None, None], contradicting)) for each in candidates]
    best = candidates[int(np.argmin(losses))]
    assert float(module._rewards(best)) == pytest.approx(0.75, abs=0.01)


def test_state_goes_on_bit_for_bit(make):
    """From the answers on the disk, which cost nothing: the same rounds, one broken off between two."""
    module = make("scores", epochs=2, most_queries=120)
    run(module, 2)
    other = make("scores", epochs=2, most_queries=120)
    other.load({key: value.copy() for key, value in module.state().items()})
    for each in (module, other):
        run(each, 1)
    state, other_state = module.state(), other.state()
    for key in state.keys() - {"oracle/usage", "counters"}:
        np.testing.assert_array_equal(state[key], other_state[key], err_msg=key)
    assert 60 < state["oracle/usage"][0] <= 120


@pytest.mark.parametrize(
    ("answer", "number"),
    [("7", 7), ("It is near.\n\n**Score: 10**", 10), ("0.", 0), ("11", None), ("-1", None), ("7/10", None), ("", None)],
)
def test_scores_are_read(answer, number):
    assert read_number(answer, 0, 10) == number


def test_what_is_missing_is_named():
    with pytest.raises(ConfigError, match="goal must be the goal in words"):
        AnnotationsConfig()
    with pytest.raises(ConfigError, match="levels must be 1 or more"):
        AnnotationsConfig(goal="it", levels=0)
    with pytest.raises(ConfigError, match=r"reward.modules.liked.camera: this task has no camera 'frnt': did you"):
        AnnotationsConfig(goal="it", camera="frnt").make("liked", SPEC, 0)
