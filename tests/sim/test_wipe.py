"""wipe: where the line begins, what wipes and what scratches in physics, the expert."""

import mujoco
import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.sim import ArmBackend, make_backend
from robo_rl.sim.tasks import wipe_model
from robo_rl.sim.tasks.wipe import Wipe

from ..rigs.experts import play_expert

UP = np.array([0.0, 0.0, 1.0])


def wipe(**values) -> tuple[ArmBackend, Wipe]:
    backend = make_backend("wipe", **values)
    assert isinstance(backend.task, Wipe)
    return backend, backend.task


def press_on(backend: ArmBackend, task: Wipe, number: int) -> None:
    """Have the expert press on the board, then lay spot ``number`` below the pad."""
    expert = backend.expert(0)
    step = backend.reset(0)
    while task.force(backend.data, UP) < task.config.force_low:
        step = backend.step(expert.act(step.observation))
    spot = backend.model.body(wipe_model.spot_name(number)).mocapid[0]
    backend.data.mocap_pos[spot] = backend.data.site("pad_face").xpos


def push(backend: ArmBackend, x: float, force: float):
    """Take a step that moves the pad along x and pushes it down with a force [N]."""
    return backend.step(np.array([x, 0.0, -force / 40.0], np.float32))


def test_lines_begin_on_the_board_and_repeat_with_the_seed():
    backend, task = wipe()
    config, places, heights = task.config, [], []
    for seed in range(30):
        backend.reset(seed)
        spots, normal = task.board.spots(backend.data), task.board.normal(backend.data)
        middle = backend.data.body("board").xpos
        np.testing.assert_allclose((spots - middle) @ normal, 0.0, atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(np.diff(spots[:, :2], axis=0), axis=1), config.spacing)
        assert (np.abs(spots - middle)[:, :2] < np.array(wipe_model.BOARD_HALF[:2]) - 0.015).all()
        assert (np.abs(spots[:, :2].mean(axis=0) - (0.5, 0.0)) <= np.array(config.area_size) / 2).all()
        assert spots[0, 0] <= spots[-1, 0]
        assert np.arccos(normal[2]) <= config.tilt_range + 1e-6
        assert not task.board.wiped(backend.data).any() and not task.board.scratched(backend.data)
        places.append(spots)
        heights.append(middle[2] - wipe_model.BOARD_HEIGHT)
    assert np.ptp(heights) > config.height_range and np.abs(heights).max() <= config.height_range
    backend.reset(29)
    np.testing.assert_array_equal(task.board.spots(backend.data), places[29])


def test_a_moving_pad_with_enough_force_wipes_what_is_below_it():
    for x, force, wiped in ((0.5, 8.0, True), (0.0, 8.0, False), (0.5, -10.0, False)):
        backend, task = wipe(terminate_on_success=False)
        press_on(backend, task, 5)
        for _ in range(2):
            push(backend, x, force)
        assert task.board.wiped(backend.data)[5] == wiped, (x, force)
        assert not task.board.wiped(backend.data)[6:].any()  # they are elsewhere
        assert not task.board.scratched(backend.data)


def test_a_moving_pad_that_presses_too_little_does_not_wipe():
    backend, task = wipe(force_low=8.0, force_high=30.0, terminate_on_success=False)
    press_on(backend, task, 5)
    for _ in range(4):
        push(backend, 0.3, 4.0)
        assert 0.5 < task.force(backend.data, UP) < 8.0
    assert not task.board.wiped(backend.data)[5]


def test_pressing_too_hard_scratches_and_ends_the_episode():
    backend, task = wipe()
    press_on(backend, task, 5)
    step = push(backend, 0.5, 30.0)
    assert task.force(backend.data, task.board.normal(backend.data)) > task.config.force_high
    assert step.terminated and not step.success and step.rewards["intact"] == 0 and step.rewards["wiped"] == 0
    assert step.observation["object"][-1] == 1.0
    scratch = backend.data.body("scratch").xpos  # where the pad is, on the surface, at once
    np.testing.assert_allclose(scratch, backend.data.site("pad_face").xpos, atol=0.015)
    # All spots wiped do not make up for it.
    task.board.wipe(backend.data, np.ones(task.config.spots, bool))
    assert not task.success(backend.data)


def test_wiped_spots_are_hidden_and_come_back_in_the_next_episode():
    backend, task = wipe(tilt_range=0.05)
    steps = play_expert(backend, 4)
    assert steps[-1].success and steps[-1].terminated
    wiped = np.array([step.rewards["wiped"] for step in steps])
    assert (np.diff(wiped) >= 0).all() and wiped[-1] == 1
    normal, middle = task.board.normal(backend.data), backend.data.body("board").xpos
    names = [wipe_model.spot_name(number) for number in range(task.config.spots)]
    # As images show them: positions that are computed, not those that are set.
    assert all((backend.data.body(name).xpos - middle) @ normal < -0.01 for name in names)
    step = backend.reset()
    assert not step.success and not task.board.wiped(backend.data).any()
    heights = (task.board.spots(backend.data) - middle) @ normal
    np.testing.assert_allclose(heights, 0.0, atol=1e-6)


def test_the_expert_wipes_within_the_forces():
    backend, task = wipe()
    for seed in range(6):
        expert, step, most, count = backend.expert(0), backend.reset(seed), 0.0, 0
        while not step.ended:
            step = backend.step(expert.act(step.observation))
            most, count = max(most, task.force(backend.data, UP)), count + 1
        assert step.success and count < 100 and most < task.config.force_high


def test_the_expert_does_not_know_height_and_tilt():
    """Its action in the air is the same whatever they are."""
    actions = []
    for height, tilt in ((0.04, 0.0), (0.06, 0.04)):
        backend, task = wipe()
        backend.reset(1)
        spots = task.board.spots(backend.data)[:, :2]
        task.board.place(backend.data, height, tilt, 0.7, spots)
        mujoco.mj_forward(backend.model, backend.data)
        actions.append((backend.expert(0).act({}), task.object_state(backend.data)["to_next_spot"]))
    for first, second in zip(*actions, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-9)


def test_the_observation_leads_to_the_next_spot():
    backend, task = wipe()
    names = backend.spec.observation["object"].names
    assert names[:5] == ("to_next_spot_x", "to_next_spot_y", "to_next_spot_z", "line_direction_0", "line_direction_1")
    assert names[5:] == (*(f"wiped_{number}" for number in range(8)), "scratched")
    backend.reset(2)
    for wiped, number in (((), 0), ((0, 1, 4), 2), (range(8), 7)):
        task.board.wipe(backend.data, np.isin(np.arange(8), wiped))
        state = task.object_state(backend.data)
        place = backend.data.site("pad_face").xpos + state["to_next_spot"]
        np.testing.assert_allclose(place[:2], task.board.spots(backend.data)[number, :2], atol=1e-9)
        assert place[2] == pytest.approx(wipe_model.BOARD_HEIGHT)
        assert np.flatnonzero(state["wiped"]).tolist() == sorted(wiped)


def test_a_robot_that_runs_continuously_wipes_too():
    backend, task = wipe()
    press_on(backend, task, 5)
    robot = backend.as_robot()
    backend.controller.command(backend.data, np.array([0.5, 0.0, -0.2], np.float32))
    for _ in range(20):
        robot.advance(5)
    assert task.board.wiped(backend.data)[5]


def test_random_actions_keep_physics_stable():
    backend, task = wipe(terminate_on_success=False, force_high=200.0)
    rng = np.random.default_rng(0)
    for seed in range(2):
        step = backend.reset(seed)
        for _ in range(60):
            action = rng.uniform(-1, 1, 3) - (0.0, 0.0, 0.5)
            step = backend.step(np.clip(action, -1, 1).astype(np.float32))
            assert abs(task.force(backend.data, UP)) < 120
    assert not backend.data.warning.number.any() and not step.terminated


def test_configuration_is_checked():
    for values, message in (
        ({"spots": 1}, "spots must be in"),
        ({"force_low": 0.0}, "force_low must be"),
        ({"force_high": 4.0}, "force_high must be above force_low=4.0"),
        ({"area_size": (0.1,)}, "area_size must be 2 values"),
        ({"area_size": (0.2, 0.1)}, "spacing must be at most"),
        ({"spots": 12, "spacing": 0.03}, "spacing must be at most"),
        ({"tilt_range": 0.2}, "tilt_range must be in"),
    ):
        with pytest.raises(ConfigError, match=message):
            make_backend("wipe", **values)
