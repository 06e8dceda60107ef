"""Arms that bring themselves and their objects back: bounded, counted, and never a transition."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import yaml

from robo_rl.actor import ActionChoice, Actor, EpisodeRefusedError
from robo_rl.core import (
    ConfigError,
    DriverError,
    ManualClock,
    Observation,
    SafetyStop,
    Source,
    Transition,
    generator,
)
from robo_rl.operators.panel import Panel
from robo_rl.operators.takeover import Takeover
from robo_rl.replay import ReplayRing
from robo_rl.reset.config import HomingConfig, ScriptConfig, WaypointConfig
from robo_rl.reset.homing import HomingReset
from robo_rl.reset.states import PracticeState
from robo_rl.safety import make_safe_backend
from robo_rl.sim import ArmBackend, make_backend
from robo_rl.sim.tasks.bin_relocate import BIN_X, BIN_Y

from ..operators.test_takeover import Steering

FILE = Path(__file__).parents[2] / "configs" / "reset" / "homing.yaml"


def script(task: str) -> ScriptConfig:
    """The script of ``task`` as configs/reset/homing.yaml has it."""
    fields: dict[str, Any] = yaml.safe_load(FILE.read_text())["scripts"][task]
    parts = {key: [WaypointConfig(**waypoint) for waypoint in fields.pop(key)] for key in ("grasp", "put")}
    return ScriptConfig(**fields, **parts)


class Rig:
    """An actor whose episodes are by turns the expert's and random, with resets by the arm itself."""

    def __init__(self, task: str, random_every: int = 2, **options: Any) -> None:
        self.sim = make_backend(task)
        assert isinstance(self.sim, ArmBackend)
        self.backend = make_safe_backend(self.sim)
        config = HomingConfig(scripts={task: script(task)}, **options)
        self.resets = HomingReset(config, self.backend.spec, self.backend.robot, seed=0)
        self.actor = Actor(self.backend, 0, resets=self.resets)
        self._expert = self.sim.expert(0)
        self._random_every = random_every
        self.steps = 0

    def act(self, steps: int) -> list[Transition]:
        transitions = []
        for _ in range(steps):
            transitions.append(self.actor.take_step(self._choose))
            self.resets.note(transitions[-1])
            self.steps += 1
        return transitions

    def episodes(self, count: int) -> list[list[Transition]]:
        """Act until ``count`` episodes have ended."""
        found: list[list[Transition]] = [[]]
        while len(found) <= count:
            found[-1] += self.act(1)
            if found[-1][-1].terminated or found[-1][-1].truncated:
                found.append([])
        return found[:-1]

    def put_object(self, position: tuple[float, float, float], yaw: float = 0.0) -> None:
        address = self.sim.model.joint("cube").qposadr[0]
        half = yaw / 2
        self.sim.data.qpos[address : address + 7] = (*position, np.cos(half), 0.0, 0.0, np.sin(half))
        mujoco.mj_forward(self.sim.model, self.sim.data)

    def _choose(self, observation: Observation) -> ActionChoice:
        if self._random_every and self.actor.episode % self._random_every == 1:
            action = generator(self.steps).uniform(-1, 1, 4).astype(np.float32)
            return ActionChoice(action, Source.RANDOM)
        return ActionChoice(self._expert.act(observation), Source.SCRIPT)


def named(rig: Rig, observation: Observation) -> dict[str, float]:
    spec = rig.backend.spec.observation
    return {name: float(value) for key in spec for name, value in zip(spec[key].names, observation[key], strict=True)}


def test_the_arm_goes_home_and_puts_the_cube_back_by_itself():
    rig = Rig("pick_cube")
    home = np.array(rig.backend.robot.home)
    episodes = rig.episodes(7)
    assert [episode[-1].success for episode in episodes[::2]] == [True] * 4
    places = []
    for episode in episodes[1:]:
        first = named(rig, episode[0].observation)
        assert abs(first["cube_x"] - 0.5) <= 0.12
        assert abs(first["cube_y"]) <= 0.12
        assert first["cube_z"] == pytest.approx(0.0225, abs=0.003)
        assert first["gripper_opening"] > 0.95
        np.testing.assert_allclose(episode[0].observation["state"][:7], home, atol=0.06)
        assert np.abs(episode[0].observation["state"][7:14]).max() < 0.2, "at rest"
        places.append((first["cube_x"], first["cube_y"]))
    assert len(set(places)) == 6, "each episode has another place"
    metrics = rig.resets.metrics()
    assert metrics["practice/resets"] == 6
    assert metrics["practice/reset_success_rate"] == 1.0
    assert metrics["practice/manual_resets"] == 0
    assert metrics["practice/learning_seconds"] == pytest.approx(rig.steps / 10)
    assert metrics["practice/recovery_seconds"] > 6


def test_no_transition_is_made_of_a_reset_and_the_simulator_is_reset_once():
    rig = Rig("pick_cube")
    seeds = []
    reset = rig.sim.reset
    rig.sim.reset = lambda seed=None: (seeds.append(seed), reset(seed))[1]  # type: ignore[method-assign]
    transitions = [transition for episode in rig.episodes(4) for transition in episode]
    assert [seed is None for seed in seeds].count(False) == 1
    assert seeds[0] is not None
    assert [transition.sequence for transition in transitions] == list(range(len(transitions)))
    ring = ReplayRing(500, rig.backend.spec)
    ring.append(transitions)
    assert len(ring) == len(transitions)
    for before, after in itertools.pairwise(transitions):
        ended = before.terminated or before.truncated
        assert after.follows(before) is not ended
        assert np.array_equal(after.observation["state"], before.next_observation["state"]) is not ended


def test_the_bins_are_emptied_both_ways_by_turns():
    rig = Rig("bin_relocate", random_every=0)
    episodes = rig.episodes(5)
    directions = [named(rig, episode[0].observation)["direction"] for episode in episodes]
    assert all(episode[-1].success for episode in episodes)
    assert directions == [directions[0] * sign for sign in (1, -1, 1, -1, 1)]
    for episode in episodes:
        assert {named(rig, each.next_observation)["direction"] for each in episode} == {
            named(rig, episode[0].observation)["direction"]
        }, "a direction is that of a whole episode"
    ring = ReplayRing(500, rig.backend.spec)
    transitions = [transition for episode in episodes for transition in episode]
    ring.append(transitions)
    at = rig.backend.spec.observation["object"].names.index("direction")
    batch = ring.rows.sample_rows(2000, np.random.default_rng(0))
    np.testing.assert_array_equal(batch["observation/object"][:, at], batch["next_observation/object"][:, at])
    assert set(batch["observation/object"][:, at]) == {-1.0, 1.0}
    assert rig.resets.metrics()["practice/manual_resets"] == 0


def test_after_a_failure_the_same_direction_is_tried_again():
    rig = Rig("bin_relocate", random_every=0)
    rig.actor.take_step(rig._choose)
    rig.actor.abandon_episode()
    first = named(rig, rig.act(1)[0].observation)
    rig.actor.abandon_episode()
    assert named(rig, rig.act(1)[0].observation)["direction"] == first["direction"]
    assert rig.resets.practice_state is PracticeState.LEARNING


@pytest.mark.parametrize("place", [(0.5, 0.0, 0.03), (0.36, 0.3, 0.0225), (0.62, -0.27, 0.0225)])
def test_a_cube_beside_the_bins_is_put_into_the_nearer_one(place):
    rig = Rig("bin_relocate", random_every=0)
    rig.act(1)
    rig.put_object(place)
    rig.actor.abandon_episode()
    first = named(rig, rig.act(1)[0].observation)
    assert rig.resets.metrics()["practice/reset_success_rate"] == 1.0
    y = first["end_effector_y"] + first["to_cube_y"]
    assert 0.04 < abs(y) < 0.21
    assert first["direction"] == -np.sign(y)


def test_attempts_are_bounded_and_then_the_simulator_helps_and_is_counted():
    rig = Rig("pick_cube", random_every=0, attempts=2, seconds=1.0)
    rig.act(1)
    rig.put_object((1.5, 0.0, 0.02))  # beyond the table
    rig.actor.abandon_episode()
    messages: list[str] = []
    reports: list[str] = []
    rig.resets.watch(messages.append, reports.append)
    first = named(rig, rig.act(1)[0].observation)
    assert abs(first["cube_x"] - 0.5) <= 0.1
    assert messages == ["LEARNING", "RECOVERY", "TELEOP", "LEARNING"]
    assert len(reports) == 1 and reports[0].startswith("Reset failed in 2 attempts: after 1 s the end effector is")
    metrics = rig.resets.metrics()
    assert metrics["practice/reset_attempts"] == 2
    assert metrics["practice/manual_resets"] == 1
    assert metrics["practice/reset_success_rate"] == 0.0


def test_a_person_is_asked_as_the_last_resort():
    rig = Rig("pick_cube", random_every=0, attempts=1, seconds=1.0, ask=True)
    questions: list[str] = []

    def help_it(text: str) -> None:
        questions.append(text)
        rig.put_object((0.45, 0.05, 0.0225))

    rig.resets._ask = help_it
    rig.act(1)
    rig.put_object((1.5, 0.0, 0.02))
    outcome = rig.resets.run(rig.backend)
    assert outcome.step is not None
    assert outcome.attempts == 1
    assert "the end effector is" in outcome.reason
    assert named(rig, outcome.step.observation)["cube_x"] == pytest.approx(0.45, abs=1e-3)
    assert len(questions) == 1
    assert "press Enter" in questions[0]
    assert rig.resets.practice_state is PracticeState.TELEOP


def test_where_nobody_can_be_asked_the_robot_is_parked():
    rig = Rig("pick_cube", random_every=0, attempts=1, seconds=1.0, ask=True)
    rig.act(1)
    rig.put_object((1.5, 0.0, 0.02))
    with pytest.raises(DriverError, match=r"1 attempts .* failed.*reset.ask=true needs a terminal"):
        rig.resets.run(rig.backend)
    with pytest.raises(RuntimeError, match="call reset"):
        rig.backend.step(np.zeros(4, np.float32))


@pytest.mark.parametrize(("x", "y", "degrees"), [(-0.011, 0.071, -18), (-0.036, -0.07, 26), (0.069, -0.016, 33)])
@pytest.mark.parametrize("middle", BIN_Y)
def test_a_cube_at_a_wall_is_brought_back_to_the_middle_of_its_bin(middle, x, y, degrees):
    # A finger that goes down behind the wall holds cube and wall, and lifts neither.
    rig = Rig("bin_relocate", random_every=0)
    rig.act(1)
    rig.put_object((BIN_X + x, middle + y, 0.0225), np.radians(degrees))
    rig.actor.abandon_episode()
    first = named(rig, rig.act(1)[0].observation)
    assert rig.resets.metrics()["practice/reset_success_rate"] == 1.0
    assert abs(first["end_effector_y"] + first["to_cube_y"] - middle) < 0.065


@pytest.mark.parametrize(("x", "y"), [(0.302, 0.017), (0.3, -0.07), (0.32, 0.35)])
def test_a_cube_at_the_end_of_the_reach_is_grasped_from_as_near_as_the_arm_comes(x, y):
    # The fourth joint's limit keeps the hand 2 cm away from over the first; fingers of 2 cm close on it all the same.
    rig = Rig("pick_cube", random_every=0)
    rig.act(1)
    rig.put_object((x, y, 0.0225))
    assert rig.resets.run(rig.backend).step is not None


@pytest.mark.parametrize(("x", "y"), [(0.33, 0.0), (0.6, 0.34), (0.73, -0.1)])
def test_an_episode_ends_before_the_object_is_out_of_reach(x, y):
    rig = Rig("pick_cube", random_every=0)
    rig.act(2)
    rig.put_object((x, y, 0.0225))
    rig.act(1)  # it is seen only now
    with pytest.raises(EpisodeRefusedError, match=rf"the object is at \({x:.2f}, {y:.2f}\) m: beyond that"):
        rig.act(1)
    (after,) = rig.act(1)
    assert (after.episode, after.sequence) == (1, 3), "the action that was refused is no step"
    metrics = rig.resets.metrics()
    assert (metrics["practice/refused_actions"], metrics["practice/reset_success_rate"]) == (1, 1.0)
    rig.act(3)


def test_an_object_that_no_reset_brings_back_ends_the_run():
    rig = Rig("pick_cube", random_every=0, attempts=1)
    rig.act(1)
    reset = rig.sim.reset
    rig.sim.reset = lambda seed=None: reset()  # type: ignore[method-assign]  # as a robot's, which moves no object
    rig.put_object((0.6, 0.34, 0.0225))
    rig.act(1)  # it is seen only now
    with pytest.raises(EpisodeRefusedError):
        rig.act(1)
    rig.act(1)  # fetched
    rig.put_object((1.0, 0.0, 0.0225))  # beyond the arm's reach
    rig.act(1)
    for _ in range(2):
        with pytest.raises(EpisodeRefusedError):
            rig.act(1)
    with pytest.raises(DriverError, match=r"and 2 resets in a row have not brought it back. A person has to"):
        rig.act(1)


def test_further_attempts_reach_elsewhere_and_go_higher():
    rig = Rig("pick_cube", random_every=0)
    heights: list[float] = []
    way_home = rig.resets._paths.home
    rig.resets._paths.home = lambda *arguments: (  # type: ignore[method-assign]
        heights.append(arguments[2]) or (way_home(*arguments) if len(heights) == 3 else None)
    )
    rig.act(1)
    assert rig.resets.run(rig.backend).attempts == 3
    assert heights[0] == 0.15
    assert 0.15 < heights[1] <= 0.3
    assert heights[1] != heights[2]


def test_an_emergency_stop_is_heard_while_the_arm_brings_itself_back():
    """Within a step of the reset; what is pressed beside it is not about the next episode."""
    rig, steering, pressed = Rig("pick_cube"), Steering(), 5
    takeover = Takeover(Panel(rig.backend, None, steering, clock=ManualClock()))
    heard = []

    def heed() -> None:
        heard.append(rig.resets.practice_state)
        steering.buttons = {"success"} if len(heard) < pressed else {"emergency_stop"}
        takeover.heed()

    rig.resets.watch(lambda state: None, print, heed)
    with pytest.raises(SafetyStop) as stop:
        rig.episodes(2)
    assert (stop.value.reason, stop.value.waits, len(heard)) == ("emergency_stop", True, pressed)
    assert set(heard) == {PracticeState.RECOVERY} and takeover.paused


def test_a_run_that_is_stopped_goes_on_bit_for_bit():
    steps = 75
    unbroken = Rig("pick_cube").act(steps)
    ends = [number for number, each in enumerate(unbroken, 1) if each.terminated or each.truncated]
    assert len(ends) >= 2
    for stop in (5, ends[0], ends[0] + 1, ends[1] + 3):
        first = Rig("pick_cube")
        first.act(stop)
        state, saved = first.actor.state(), first.resets.state()
        second = Rig("pick_cube")
        second.actor.load(state)
        second.resets.load(saved)
        second.steps = stop
        for expected, got in zip(unbroken[stop:], second.act(steps - stop), strict=True):
            assert (got.episode, got.sequence) == (expected.episode, expected.sequence)
            for key, value in expected.next_observation.items():
                np.testing.assert_array_equal(got.next_observation[key], value)


def test_a_task_that_stays_solved_needs_a_script():
    backend = make_backend("reach")
    resets = HomingReset(HomingConfig(attempts=1), backend.spec, backend.robot, seed=0)
    expert, step = backend.expert(0), backend.reset(0)
    assert resets.run(backend).step is not None, "without a script it goes home alone"
    while not step.ended:
        step = backend.step(expert.act(step.observation))
    assert step.success
    home = resets._home_position
    goal = backend.model.body("goal").mocapid[0]
    backend.data.mocap_pos[goal] = home
    outcome = resets.run(backend)
    assert outcome.step is None
    assert "needs a script that undoes it" in outcome.reason


def test_what_cannot_be_led_is_refused_by_name():
    car, arm = make_backend("drive"), make_backend("pick_cube")
    with pytest.raises(ConfigError, match="needs the kinematics of an arm, which task 'drive' does not have"):
        HomingReset(HomingConfig(), car.spec, car.robot, seed=0)
    spec = dataclasses.replace(arm.spec, action_space="joint_delta")
    with pytest.raises(ConfigError, match="reset=homing leads arms by end_effector_delta actions"):
        HomingReset(HomingConfig(), spec, arm.robot, seed=0)
    blind = dataclasses.replace(arm.spec, observation={"state": arm.spec.observation["state"]})
    with pytest.raises(ConfigError, match="have no element 'to_cube_x'"):
        HomingReset(HomingConfig(scripts={"pick_cube": script("pick_cube")}), blind, arm.robot, seed=0)
    with pytest.raises(ConfigError, match=r"reset.home must be 7 joint positions, got 2"):
        HomingReset(HomingConfig(home=(0.0, 1.0)), arm.spec, arm.robot, seed=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HomingConfig(attempts=0), "reset.attempts must be 1 or more"),
        (lambda: HomingConfig(tolerance=0), "reset.tolerance must be above 0"),
        (lambda: WaypointConfig(at="there"), "reset waypoint at must be object, place, here"),
        (
            lambda: dataclasses.replace(script("pick_cube"), within=[[1, 0], [0, 1]]),
            r"reset.scripts.\*.within must be \[\] or",
        ),
        (lambda: ScriptConfig(), r"reset.scripts.\*.places must be one or more of 3 values"),
    ],
)
def test_wrong_values_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
