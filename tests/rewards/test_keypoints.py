"""Waypoints in a picture: the reward by hand, the cameras of the simulation, the grid, the gate."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from hydra import compose, initialize_config_module

from robo_rl.app import build, build_reward, register_all_configs
from robo_rl.core import ArraySpec, ConfigError
from robo_rl.rewards.asking.endpoint import EndpointConfig
from robo_rl.rewards.modules.keypoints import (
    FRONT,
    KeypointsConfig,
    projected,
    read_cells,
    under_grid,
    waypoint_rewards,
)

from ..rigs.composition import composed_config
from ..rigs.specs import joint_spec
from ..rigs.vlm_server import requests, vlm_server

SPEC = joint_spec({"state": ArraySpec((3,), names=("x", "y", "z")), "images/front": ArraySpec((40, 60, 3), "uint8")})
FLAT = ((1.0, 0, 0, 0), (0, 1.0, 0, 0), (0, 0, 0, 1.0))
"""A camera that sees x and y as they are."""
SIMPLE = {"position": ("x", "y", "z"), "projection": FLAT}


def episode(places, success=None):
    n = len(places)
    state = np.concatenate([np.array(places, np.float32), np.zeros((n, 1), np.float32)], axis=1)
    images = np.zeros((n, 40, 60, 3), np.uint8)
    return {
        "action": np.zeros((n, 1), np.float32),
        "observation/state": state,
        "next_observation/state": state,
        "observation/images/front": images,
        "next_observation/images/front": images,
        "term/success": np.zeros(n, np.float32) if success is None else np.array(success, np.float32),
    }


def test_the_reward_by_hand():
    waypoints = np.array([[0.2, 0.5], [0.6, 0.5], [0.6, 0.2]])
    places = np.array([[0.0, 0.5], [0.1, 0.5], [0.16, 0.5], [0.5, 0.5], [0.2, 0.5], [0.6, 0.46], [0.6, 0.2], [0.9, 1]])
    found = waypoint_rewards(places, waypoints, radius=0.05)
    # Half way to the first; past it, at three quarters of the way to the second, and back again; past that; all passed.
    np.testing.assert_allclose(3 * found, [0.5, 1, 1.75, 1, 2 + 0.04 / 0.3, 3, 3], atol=1e-6)


def test_to_pass_a_waypoint_costs_nothing_however_far_the_next_one_is():
    waypoints = np.array([[0.2, 0.5], [0.95, 0.5], [0.95, 0.1]])
    across = np.stack([np.linspace(0, 0.95, 96), np.full(96, 0.5)], axis=1)
    up = np.stack([np.full(41, 0.95), np.linspace(0.5, 0.1, 41)], axis=1)
    found = waypoint_rewards(np.concatenate((across, up)), waypoints, radius=0.05)
    assert (np.diff(found) >= 0).all() and found[0] < 0.02 and found[-1] == 1


def test_one_step_may_pass_several_and_what_is_out_of_view_is_far():
    near = np.array([[0.5, 0.5], [0.51, 0.5]])
    np.testing.assert_allclose(waypoint_rewards(np.array([[0.1, 0.5], [0.5, 0.5]]), near, 0.05), [1])
    behind = projected(np.array([[0.5, 0.1, 1.0], [0.0, 0.0, -1.0]]), np.eye(3, 4))
    assert not np.isfinite(behind[1]).any()
    np.testing.assert_allclose(waypoint_rewards(behind, near, 0.05), [0])


@pytest.mark.parametrize("task", FRONT)
def test_the_cameras_are_those_of_the_simulation(task):
    backend = build(composed_config("train", f"task={task}").task)
    backend.reset(0)
    camera = backend.model.camera("front").id
    rotation, origin = backend.data.cam_xmat[camera].reshape(3, 3), backend.data.cam_xpos[camera]
    focal = 0.5 / np.tan(np.radians(backend.model.cam_fovy[camera]) / 2)
    backend.close()
    for position in np.random.default_rng(0).uniform((0.3, -0.2, 0), (0.6, 0.2, 0.3), (20, 3)):
        x, y, z = rotation.T @ (position - origin)  # looks along -z, y upwards
        expected = (0.5 - focal * x / z / 1.5, 0.5 + focal * y / z)
        np.testing.assert_allclose(projected(position[None], FRONT[task].projection(1.5))[0], expected, atol=1e-6)


def test_where_there_is_success_it_counts_alone():
    register_all_configs()
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        override = "reward.modules.keypoints.waypoints=[[0.5,0.5]]"
        names = "reward.modules.keypoints.position=[x,y,z]"
        matrix = "reward.modules.keypoints.projection=[[1,0,0,0],[0,1,0,0],[0,0,0,1]]"
        node = compose("train", overrides=["task=reach", "reward=keypoints", override, names, matrix]).reward
    reward = build_reward(node, SPEC, 0)
    steps = episode([[0.1, 0.5], [0.4, 0.5], [0.3, 0.5]], success=[0, 0, 1])
    scores = reward.scorer.score(steps, online=True)["keypoints"]
    np.testing.assert_allclose(scores, [0, 0.75, 0.5], atol=1e-6)
    values = np.stack([steps["term/success"], scores], axis=1)
    np.testing.assert_allclose(reward.combine(("success", "keypoints"), values, 0.99), [-1, -0.625, 0], atol=1e-6)


def test_waypoints_are_asked_for_once_an_episode_on_a_grid(tmp_path, capsys):
    folder = tmp_path / "server"
    with vlm_server(folder) as url:
        endpoint = EndpointConfig(url=url, model="cells", cache=str(tmp_path / "cache"), retries=0)
        module = KeypointsConfig(goal="go right", grid=10, endpoint=endpoint, **SIMPLE).make("points", SPEC, 0)
        (folder / "cells.txt").write_text("It begins at the left.\n[[3, 5], [8, 5]]")
        rewards = module(episode([[0.25, 0.45], [0.5, 0.45], [0.75, 0.45]]))
        np.testing.assert_allclose(rewards, [0.5, 0.75, 1], atol=1e-6)
        rewards = module(episode([[0.25, 0.25], [0.25, 0.35]]))  # the same first picture
        np.testing.assert_allclose(rewards, [0, 0.25], atol=1e-6)
        (request,) = requests(folder)
        assert "go right" in request["text"]
        assert module.update(None) == {"requests": 1, "input_tokens": 100, "output_tokens": 20}
        assert module.update(None) == {}, "it is told once"
        assert module.state()["usage"][0] == 1
        other = episode([[0.25, 0.45]])
        other["observation/images/front"] = np.ones((1, 40, 60, 3), np.uint8)
        for unreadable in ("I cannot tell.", "[" * 100_000):
            (folder / "cells.txt").write_text(unreadable)
            assert not module(other).any()
        (folder / "cells.txt").write_text("[[3, 5]]")
        assert module(other) == [1]
    other["observation/images/front"] = np.full((1, 40, 60, 3), 2, np.uint8)
    assert not module(other).any()
    assert "ConnectError" in capsys.readouterr().err


def test_whether_an_answer_is_there_is_known_without_waiting_for_it(tmp_path):
    folder = tmp_path / "server"
    with vlm_server(folder) as url:
        endpoint = EndpointConfig(url=url, model="waiting")
        module = KeypointsConfig(goal="go right", grid=10, endpoint=endpoint, **SIMPLE).make("points", SPEC, 0)
        (folder / "waiting.txt").write_text("[[3, 5]]")
        rows = episode([[0.25, 0.45], [0.5, 0.45]])
        assert not module.ready(rows)
        assert not module.ready({key: array[:1] for key, array in rows.items()})
        assert module.waiting
        (folder / "go").touch()
        while module.waiting:
            time.sleep(0.02)
        assert module.ready(rows)
        np.testing.assert_allclose(module(rows), [1, 1])
        assert len(requests(folder)) == 1


@pytest.mark.parametrize(
    ("answer", "cells"),
    [
        ("[[1, 2]]", [[1, 2]]),
        ("because\n`[[1, 2], [12, 12]]`", [[1, 2], [12, 12]]),
        ("[[0, 2]]", None),
        ("[[1, 13]]", None),
        ("[[1.5, 2]]", None),
        ("[[true, 2]]", None),
        ("[]", None),
        ('{"a": 1}', None),
        ("[[1, 2]]\nor so", None),
        ("[" * 100_000, None),
    ],
)
def test_cells(answer, cells):
    assert read_cells(answer, 12) == cells


def test_the_grid_lies_where_its_numbers_say():
    picture = under_grid(np.zeros((40, 60, 3), np.uint8), 4)
    assert picture.shape == (640, 960, 3)
    for line in range(5):
        assert (picture[:, round(line * 959 / 4)] == 255).all()
        assert (picture[round(line * 639 / 4)] == 255).all()
    assert not picture[300:310, 500:600].any()


def test_what_is_missing_is_named():
    with pytest.raises(ConfigError, match="goal must be a text if waypoints is empty"):
        KeypointsConfig()
    with pytest.raises(ConfigError, match=r"points.position: the observation has no element 'end_effector_x'"):
        KeypointsConfig(waypoints=((0.5, 0.5),)).make("points", SPEC, 0)
    with pytest.raises(ConfigError, match="projects positions in the base frame"):
        KeypointsConfig(waypoints=((0.5, 0.5),), **SIMPLE).make(
            "points", replace(SPEC, extra={"observation_frame": "first_pose"}), 0
        )
    with pytest.raises(ConfigError, match=r"points.projection: set the matrix of the camera 'front' of 'test'"):
        KeypointsConfig(waypoints=((0.5, 0.5),), position=("x", "y", "z")).make("points", SPEC, 0)
    with pytest.raises(ConfigError, match="waypoints must be pairs"):
        KeypointsConfig(waypoints=((50, 60),))
    assert json.dumps(KeypointsConfig(waypoints=[[0, 1]]).waypoints) == "[[0.0, 1.0]]"
