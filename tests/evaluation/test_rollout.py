"""Roll-outs on a toy backend whose returns are known in closed form."""

import dataclasses
import json

import numpy as np
import pytest

from robo_rl.core import (
    PASSED,
    ArraySpec,
    ConfigError,
    EnvSpec,
    RenderingError,
    RoboRLError,
    SafetyStop,
    Step,
    Verdict,
    derive_seed,
)
from robo_rl.evaluation import evaluate, video
from robo_rl.training.results import evaluation_lines

from ..rigs.videos import read_video


class Line:
    """A point on a line: start in [0, 1) from the seed; the action moves it by 0.1; solved beyond 1."""

    def __init__(self, limit=20, solvable=True, reports_success=True):
        self.solvable, self.reports_success = solvable, reports_success
        self.seeds, self.closed, self.rendered = [], False, 0
        self.spec = EnvSpec(
            task="line",
            observation={"state": ArraySpec((1,), names=("x",))},
            action=ArraySpec((1,), low=-1, high=1),
            action_space="end_effector_delta",
            action_frame="base",
            control_rate=10.0,
            max_episode_steps=limit,
            reward_terms=("success", "effort"),
            reports_success=reports_success,
        )

    def reset(self, seed=None):
        self.seeds.append(seed)
        self.x, self.t = float(np.random.default_rng(seed).random()), 0
        return self._step(0.0)

    def step(self, action):
        self.x += 0.1 * float(action[0])
        self.t += 1
        return self._step(float(action[0] ** 2))

    def _step(self, effort):
        solved = self.solvable and self.x > 1
        rewards = {"success": float(solved), "effort": effort if self.t else 0.0}
        observation = {"state": np.array([self.x], dtype=np.float32)}
        limit = self.spec.max_episode_steps
        return Step(
            observation=observation,
            rewards=rewards,
            terminated=solved,
            truncated=limit is not None and self.t >= limit and not solved,
            stamp_ns=self.t,
            success=solved if self.reports_success else None,
        )

    def render(self):
        self.rendered += 1
        return np.full((32, 48, 3), min(255, int(100 * self.x)), dtype=np.uint8)

    def expert(self, seed):
        raise ConfigError("none")

    def stop(self, reason):
        raise AssertionError("evaluation does not stop the robot")

    def close(self):
        self.closed = True


class Push:
    """Moves right with a fixed action and notes whether it was asked to explore."""

    def __init__(self, action=0.5):
        self.action, self.explored = action, []

    def act(self, observation, *, explore):
        self.explored.append(explore)
        return np.array([self.action], dtype=np.float32)

    def forget_plan(self, *, explore):
        self.explored.append(explore)


def start(seed, index):
    return float(np.random.default_rng(derive_seed(seed, "evaluation", index)).random())


def test_outcomes_equal_the_closed_form():
    policy = Push()
    result = evaluate(Line(), policy, 6, seed=4, reward_weights={"success": 10.0, "effort": -1.0}, reward_offset=-0.5)
    assert [outcome.index for outcome in result.episodes] == list(range(6))
    for index, outcome in enumerate(result.episodes):
        expected = int(np.floor((1 - start(4, index)) / 0.05)) + 1
        solved = expected <= 20
        length = expected if solved else 20
        assert outcome.length == length
        assert outcome.success is solved and outcome.terminated is solved
        assert outcome.total_reward == pytest.approx(10.0 * solved - length * (0.25 + 0.5))
    assert set(policy.explored) == {False}
    rate = result.success_rate
    assert rate is not None and rate.episodes == 6
    assert rate.value == np.mean([outcome.success for outcome in result.episodes])
    assert result.return_mean == pytest.approx(np.mean([outcome.total_reward for outcome in result.episodes]))
    assert result.seconds_median == result.length_median / 10


def test_every_evaluation_meets_the_same_starts():
    backend = Line()
    evaluate(backend, Push(), 3, seed=9)
    evaluate(backend, Push(-1.0), 5, seed=9)
    assert backend.seeds[:3] == backend.seeds[3:6]
    assert len(set(backend.seeds[3:])) == 5
    evaluate(backend, Push(), 3, seed=10)
    assert not set(backend.seeds[8:]) & set(backend.seeds[:8])
    assert not backend.closed


@pytest.mark.parametrize("episodes", [1, 3])
@pytest.mark.parametrize("how", ["a guard", "a filter", "nothing"])
def test_episodes_that_safety_stopped_are_counted_with_the_reason(how, episodes, monkeypatch):
    """A guard raises, and a filter marks the last step."""

    def step(self, action, plain=Line.step):
        step = plain(self, action)
        if self.t == 2 and how == "a guard":
            raise SafetyStop("joints_jump", "joint 3 jumped")
        stops = self.t == 2 and how == "a filter"
        verdict = Verdict(True, True, ("contact_stop",), "40 N at the wrist") if stops else PASSED
        return dataclasses.replace(step, verdict=verdict, truncated=step.truncated or stops)

    monkeypatch.setattr(Line, "step", step)
    result = evaluate(Line(solvable=False), Push(), episodes, seed=0)
    expected = {"a guard": "joint 3 jumped", "a filter": "40 N at the wrist", "nothing": ""}[how]
    assert [episode["stopped"] for episode in result.to_json()["episodes"]] == [expected] * episodes
    count = (
        f"The robot was stopped in {episodes} of {episodes} episode{'s' * (episodes > 1)}; the last time: {expected}"
    )
    assert result.stops == (count if expected else "")
    assert (count in evaluation_lines(result, None)) == bool(expected)


def test_an_episode_can_be_repeated_from_its_start_state():
    backend = Line()
    episodes = evaluate(backend, Push(), 4, seed=3).episodes
    assert len({episode.start["x"] for episode in episodes}) == 4
    repeated = evaluate(Line(), Push(), 1, seed=3, first=2).episodes
    assert repeated == episodes[2:3] and repeated[0].index == 2


@pytest.mark.parametrize("explore", [False, True])
def test_a_policy_explores_only_on_request(explore):
    policy = Push()
    evaluate(Line(), policy, 2, seed=0, explore=explore)
    assert set(policy.explored) == {explore}


def test_unknown_success_is_not_failure():
    result = evaluate(Line(reports_success=False), Push(), 4, seed=0)
    assert result.success_rate is None
    assert all(outcome.success is None for outcome in result.episodes)


def test_all_terms_count_one_by_default_and_json_holds_everything():
    result = evaluate(Line(limit=4, solvable=False), Push(), 2, seed=0)
    assert result.return_mean == pytest.approx(4 * 0.25)
    data = json.loads(json.dumps(result.to_json()))
    assert data["success_rate"]["value"] == 0 and data["success_rate"]["episodes"] == 2
    assert data["episodes"][1]["length"] == 4 and data["task"] == "line" and data["video"] is None


def test_a_task_without_a_limit_needs_one():
    endless = Line(limit=None, solvable=False)
    with pytest.raises(ConfigError, match=r"task 'line' has no time limit, .* set task.max_episode_steps"):
        evaluate(endless, Push(), 1, seed=0)
    result = evaluate(endless, Push(), 1, seed=0, max_episode_steps=7)
    assert result.episodes[0].length == 7 and not result.episodes[0].terminated
    assert evaluate(Line(limit=5, solvable=False), Push(), 1, 0, max_episode_steps=7).episodes[0].length == 5


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="episodes must be positive, got 0"):
        evaluate(Line(), Push(), 0, seed=0)
    with pytest.raises(ConfigError, match="did you mean 'success'"):
        evaluate(Line(), Push(), 1, seed=0, reward_weights={"sucess": 1.0})


def test_video_shows_the_first_episodes_and_changes_nothing(tmp_path):
    backend, seen = Line(), []
    path = tmp_path / "videos" / "evaluation.mp4"
    filmed = evaluate(backend, Push(), 4, 2, video=path, video_episodes=2, on_episode=seen.append)
    plain = evaluate(Line(), Push(), 4, 2)
    assert filmed.episodes == plain.episodes == tuple(seen)
    lengths = [outcome.length for outcome in filmed.episodes[:2]]
    # One picture before each action and one at the end, which is held for half a second.
    assert backend.rendered == sum(lengths) + 2
    assert len(list(read_video(path))) == sum(lengths) + 2 * 5
    assert filmed.video == path


class Full:
    """An encoder on a disk that is full."""

    height, width = 32, 48

    def add(self, frame):
        pass

    def close(self):
        raise OSError(28, "No space left on device")


class Broken:
    """An encoder that takes one frame."""

    height, width = 32, 48

    def __init__(self, *_):
        self.count = 0

    def add(self, frame):
        self.count += 1
        if self.count > 1:
            raise ValueError("a test")

    def close(self):
        pass


def small(line):
    return np.zeros((32 - 2 * (line.t > 3), 48, 3), np.uint8)


def no_picture(line):
    if line.t > 3:
        raise RenderingError("the window is closed")
    return np.zeros((32, 48, 3), np.uint8)


@pytest.mark.parametrize(
    ("frame", "encoder", "message"),
    [
        (small, None, "expected every frame in 48 x 32 pixels"),
        (no_picture, None, "the window is closed"),
        (lambda line: np.zeros((32, 48, 3), np.uint8 if line.t < 4 else np.float32), None, "expected a uint8 picture"),
        (lambda line: np.zeros((32, 48, 3), np.uint8), lambda *_: Full(), "OSError: [Errno 28] No space left"),
        (lambda line: np.zeros((32, 48, 3), np.uint8), Broken, "ValueError: a test"),
    ],
)
def test_a_video_that_fails_later_costs_no_result(tmp_path, monkeypatch, frame, encoder, message):
    if encoder is not None:
        monkeypatch.setattr(video, "_encoder", encoder)
    monkeypatch.setattr(Line, "render", frame)
    result = evaluate(Line(), Push(), 3, 2, video=tmp_path / "clip.mp4")
    assert result.video is None and message in result.video_problem
    assert result.episodes == evaluate(Line(), Push(), 3, 2).episodes
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("frame", [lambda line: None, lambda line: 1 / 0, lambda line: np.zeros((2, 2, 3))])
def test_a_video_without_a_first_frame_is_an_error_at_once(tmp_path, monkeypatch, frame):
    monkeypatch.setattr(Line, "render", frame)
    backend = Line()
    with pytest.raises(RoboRLError):
        evaluate(backend, Push(), 3, 2, video=tmp_path / "clip.mp4")
    assert len(backend.seeds) == 1


def test_an_episode_of_which_nobody_knows_is_no_success_beside_others(monkeypatch):
    line, true = Line(), Line.reset

    def reset(self, seed=None):
        self.reports_success = len(self.seeds) % 2 == 0
        return true(self, seed)

    monkeypatch.setattr(Line, "reset", reset)
    rate = evaluate(line, Push(), 4, seed=0).success_rate
    assert (rate.value, rate.episodes) == (0.5, 4)
