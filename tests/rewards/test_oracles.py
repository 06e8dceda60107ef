"""Preferences asked of a model that sees pictures: two questions, labels, ties, and nobody who waits."""

import time

import numpy as np
import pytest
from scipy.stats import spearmanr

from robo_rl.core import ArraySpec, ConfigError, DataError
from robo_rl.rewards.asking.endpoint import EndpointConfig
from robo_rl.rewards.asking.oracles import read_number, strip
from robo_rl.rewards.modules.preferences import PreferencesConfig

from ..rigs.specs import joint_spec
from ..rigs.vlm_server import requests, vlm_server

SPEC = joint_spec({"state": ArraySpec((1,)), "images/front": ArraySpec((8, 8, 3), "uint8")})


class World:
    """Experience: states from 0 to 1, and pictures that are the brighter the larger the state."""

    def __len__(self):
        return 1000

    def sample_segments(self, n, length, rng, *, newest=None):
        state = rng.uniform(0, 1, (n, length, 1)).astype(np.float32)
        state[1::8] = state[::8]  # every fourth pair is of two equal pictures
        shade = (255 * state).astype(np.uint8)[..., None, None]
        pictures = np.broadcast_to(shade, (n, length, 8, 8, 3))
        zero = np.zeros((n, length), np.float32)
        segments = {"next_observation/state": state, "next_observation/images/front": pictures}
        return {"action": zero[..., None], "term/success": zero, **segments}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with vlm_server(folder) as url:
        yield folder, url


@pytest.fixture
def make(server, tmp_path):
    def module(model, most_requests=1000, **options):
        endpoint = EndpointConfig(
            url=server[1], model=model, cache=str(tmp_path), retries=0, most_requests=most_requests
        )
        settings = {"length": 1, "interval": 1, "queries": 20, "epochs": 10, "hidden": (16,), **options}
        config = PreferencesConfig(oracle="endpoint", goal="it is bright", endpoint=endpoint, **settings)
        return config.make("liked", SPEC, 0)

    return module


def rounds(module, n):
    """Let a module ask and learn ``n`` times, waiting for answers; return the last metrics."""
    found = []
    while len(found) < n:
        if metrics := module.update(World()):
            found.append(metrics)
        while module.waiting:
            time.sleep(0.002)
    return found[-1]


def test_what_a_model_sees_is_learned(make, server):
    module = make("brightness")
    metrics = rounds(module, 2)
    assert metrics["queries"] == 40
    assert metrics["answers"] + metrics["equal"] == 40
    assert 10 <= metrics["equal"] < 16  # a quarter looks the same, a few more nearly so
    assert metrics["requests"] == 2 * 30  # none for those; two questions for all others
    texts = [each["text"] for each in requests(server[0])]
    assert all("it is bright" in text for text in texts)
    states = np.random.default_rng(5).uniform(0, 1, (200, 1)).astype(np.float32)
    rewards = module({"action": states, "next_observation/state": states})
    assert spearmanr(rewards, states[:, 0]).statistic > 0.8


def test_nobody_waits_for_late_answers(make, server):
    module = make("waiting", analysis=False, queries=4)
    assert [module.update(World()) for _ in range(50)] == [{}] * 50
    assert module.waiting and module.version == 0
    (server[0] / "go").touch()
    while module.waiting:
        time.sleep(0.01)
    # The model says "answer 1", which is no label, and so on for each call.
    assert module.update(World())["unreadable"] + 1 == 4


def test_unreadable_answers_and_failures_are_left_out(make, capsys):
    metrics = rounds(make("puzzled", queries=8), 1)
    assert (metrics["answers"], metrics["unreadable"], metrics["equal"]) == (0, 6, 2)
    assert rounds(make("puzzled", queries=8), 1)["requests"] == 6  # for labels again; what was described is known
    metrics = rounds(make("failing", queries=8), 1)
    assert (metrics["answers"], metrics["failed"]) == (0, 6)
    assert "out of memory" in capsys.readouterr().err


def test_demonstrations_that_nobody_answers_about_are_named(make):
    """Training would go on from a reward that is 0 everywhere."""
    episodes = [{key: value[:, 0] for key, value in World().sample_segments(40, 1, np.random.default_rng(0)).items()}]
    reason = r"none of 6 questions about the demonstrations was answered: .*"
    with pytest.raises(DataError, match=reason + r"out of memory.*reward\.modules\.liked\.demonstration_queries=0"):
        make("failing", demonstration_queries=6).fit(episodes)
    with pytest.raises(DataError, match=reason + "no answer could be read"):
        make("puzzled", demonstration_queries=6).fit(episodes)


def test_questions_that_fail_or_are_lost_are_given_back(make):
    """An outage as long as ``most_queries`` would silence the module for good."""
    module = make("failing", queries=8, most_queries=40)
    metrics = rounds(module, 4)
    assert metrics["failed"] == 4 * 6
    assert metrics["queries"] == 4 * 2  # pairs that look the same, which asking again would not change
    assert rounds(make("puzzled", queries=8, most_queries=40), 2)["queries"] == 16
    module = make("slow", analysis=False, queries=8, most_queries=40)
    module.update(World())
    assert module.waiting
    other = make("brightness", queries=8, most_queries=40)
    other.load(module.state())
    assert rounds(other, 2)["queries"] == 16


def test_a_spent_budget_is_said_once_and_nothing_more_is_asked(make, capsys):
    module = make("brightness", most_requests=9, analysis=True)
    rounds(module, 1)
    assert [module.update(World()) for _ in range(5)] == [{}] * 5
    output = capsys.readouterr().err
    assert output.count("the budget is spent: 9 requests") == 1


def test_the_budget_and_answers_are_in_the_state(make):
    module = make("brightness")
    rounds(module, 2)
    other = make("brightness")
    other.load(module.state())
    for key, value in other.state().items():
        np.testing.assert_array_equal(value, module.state()[key], err_msg=key)
    assert other.state()["oracle/usage"][0] > 0


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("1", 1),
        ("0.", 0),
        ("-1", -1),
        ("Picture 1 is closer.\n\n**Answer: 1**\n", 1),
        ("`-1`", -1),
        ("My final answer: 0", 0),
        ("0 or 1", None),
        ("10", None),
        ("1\nI am not sure.", None),
        ("", None),
        ("2", None),
        ("- 1", None),
        ("-2", None),
    ],
)
def test_labels(answer, label):
    assert read_number(answer, -1, 1) == label


def test_a_strip_shows_moments_from_left_to_right():
    pictures = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), dtype=np.uint8)
    joined = strip(pictures)
    assert joined.shape == (4, 15, 3)
    np.testing.assert_array_equal(joined[:, 5:10], pictures[1])


def test_what_is_missing_is_named():
    with pytest.raises(ConfigError, match="goal must be the goal in words"):
        PreferencesConfig(oracle="endpoint")
    with pytest.raises(ConfigError, match=r"reward.modules.liked.camera: this task has no camera 'frnt': did you"):
        PreferencesConfig(oracle="endpoint", goal="it", camera="frnt").make("liked", SPEC, 0)
