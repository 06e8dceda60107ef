"""What the reward node makes of what it sees; tests/integration/test_reward_node.py has it on a robot."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from robo_rl.core import ConfigError, SpecError
from robo_rl.drivers.robot.watch import Seen
from robo_rl.monitoring.reward_node import PublishConfig, RewardNode, rows_of
from robo_rl.rewards import ComposedRewardConfig, Module
from robo_rl.sim import make_backend

from ..rigs.command_line import exit_code

BACKEND = make_backend("reach")
SPEC = BACKEND.spec
SETTINGS = PublishConfig(rate=20.0, topic="reward", success=None, threshold=0.5)


class Height(Module):
    """The end effector's height."""

    def __call__(self, batch: Any) -> Any:
        state = batch["next_observation/state"]
        assert state.shape == (1, len(SPEC.observation["state"].names))
        return state[:, SPEC.observation["state"].names.index("end_effector_z")]


class HeightConfig:
    def make(self, name: str, spec: Any, seed: int) -> Height:
        return Height()


class Episodic(Height):
    judges_state = False


class EpisodicConfig:
    def make(self, name: str, spec: Any, seed: int) -> Episodic:
        return Episodic()


class Robot:
    def __init__(self) -> None:
        self.seen: Seen | SpecError = Seen(None, 0, {"/joint_states": float("inf")})
        self.published: list[tuple[dict[str, float], bool]] = []

    def look(self) -> Seen:
        if isinstance(self.seen, SpecError):
            raise self.seen
        return self.seen

    def publish(self, terms: Mapping[str, float], success: bool) -> None:
        self.published.append((dict(terms), success))


class Steering:
    def __init__(self) -> None:
        self.buttons: frozenset[str] = frozenset()
        self.status: tuple[str, bool, bool] = ("", False, False)
        self.facts: Mapping[str, str] = {}
        self.offered: dict[str, tuple[Any, Any]] = {}

    def take_buttons(self) -> frozenset[str]:
        buttons, self.buttons = self.buttons, frozenset()
        return buttons

    def report(self, state: str, paused: bool, alarm: bool, facts: Mapping[str, str]) -> None:
        self.status, self.facts = (state, paused, alarm), facts

    def offer(self, name: str, value: Any, change: Any = None) -> None:
        self.offered[name] = value, change

    def close(self) -> None: ...


def node(settings: PublishConfig = SETTINGS, **modules: Any) -> tuple[RewardNode, Robot, Steering]:
    scorer = ComposedRewardConfig(modules=modules or {"height": HeightConfig()}).make(SPEC, 0).scorer
    assert scorer is not None
    robot, steering = Robot(), Steering()
    return RewardNode(settings, robot, scorer, SPEC, steering), robot, steering


def at(height: float) -> Seen:
    observation = BACKEND.reset(0).observation
    observation["state"][SPEC.observation["state"].names.index("end_effector_z")] = height
    return Seen(observation, 1, {})


def test_it_publishes_what_it_sees_and_nothing_else():
    reward, robot, steering = node()
    reward.turn()
    assert steering.status == ("waits for /joint_states", True, False)
    robot.seen = at(0.25)
    reward.turn()
    assert robot.published == [({"height": 0.25, "success": 0.0}, False)]
    assert steering.status == ("scores", False, False)
    assert dict(steering.facts) == {"looks": "1", "height": "0.25", "success": "0"}
    robot.seen = at(0.75)
    reward.turn()
    assert robot.published[-1] == ({"height": 0.75, "success": 1.0}, True)
    robot.seen = SpecError("/pose: expected finite values")
    reward.turn()
    assert steering.status == ("/pose: expected finite values", True, True)
    robot.seen, steering.buttons = at(0.75), frozenset({"pause"})
    reward.turn()
    assert steering.status == ("paused", True, False)
    assert len(robot.published) == 2
    steering.buttons = frozenset({"pause"})
    reward.turn()
    assert len(robot.published) == 3


def test_people_change_the_threshold_while_it_runs_within_what_is_allowed():
    reward, robot, steering = node()
    robot.seen = at(0.25)
    value, change = steering.offered["publish.threshold"]
    assert value == 0.5
    change(0.2)
    reward.turn()
    assert robot.published[-1][1]
    with pytest.raises(ConfigError, match="threshold must be finite"):
        change(float("nan"))
    with pytest.raises(ConfigError, match=r"rate must be in \(0, 1000\], got 0"):
        steering.offered["publish.rate"][1](0)
    assert (reward.settings.rate, reward.settings.threshold) == (20.0, 0.2)
    assert steering.offered["publish.success"] == ("height", None)


def test_several_modules_need_one_that_decides():
    two = {"low": HeightConfig(), "high": HeightConfig()}
    with pytest.raises(ConfigError, match="which module decides about success\\? One of low, high"):
        node(**two)
    with pytest.raises(ConfigError, match=r"there is no module 'hihg'.*high"):
        node(PublishConfig(20.0, "reward", "hihg", 0.5), **two)
    reward, robot, _ = node(PublishConfig(20.0, "reward", "high", 0.5), **two)
    robot.seen = at(1.0)
    reward.turn()
    assert robot.published == [({"low": 1.0, "high": 1.0, "success": 1.0}, True)]


def test_modules_that_need_more_than_a_state_are_refused():
    with pytest.raises(ConfigError, match="whole: reward modules that need more than a state"):
        node(whole=EpisodicConfig(), height=HeightConfig())


def test_a_state_is_a_row_as_modules_know_them():
    rows = rows_of(BACKEND.reset(0).observation, SPEC)
    assert {len(column) for column in rows.values()} == {1}
    assert rows["success"].tolist() == [-1]
    assert rows["action"].shape == (1, *SPEC.action.shape)
    np.testing.assert_array_equal(rows["observation/state"], rows["next_observation/state"])
    assert {key for key in rows if key.startswith("term/")} == {f"term/{name}" for name in SPEC.reward_terms}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "choose one, such as robot=virtual"),
        (["robot=virtual"], "choose a reward with modules, such as reward=classifier"),
        (["robot=virtual", "reward=classifier"], "needs demonstrations, and there are none"),
        (["robot=virtual", "publish.rate=0"], "publish.rate must be in (0, 1000], got 0"),
    ],
)
def test_mistakes_are_told_before_anything_is_published(words, message, capsys):
    assert exit_code("reward", "publish", "task=reach", *words) == 2
    assert message in capsys.readouterr().err
