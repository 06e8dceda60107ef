"""Observations relative to the first pose of an episode: what they depend on, and what they must not be mixed with."""

from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from hydra import compose, initialize_config_module
from numpy.typing import NDArray

from robo_rl.actor import ActionChoice, Actor
from robo_rl.app import Components, register_all_configs
from robo_rl.core import ConfigError, DataError, RelativeBackend, Source
from robo_rl.replay import EpisodeStore
from robo_rl.sim import make_backend
from robo_rl.sim.config import ArmConfig, ControllerConfig, ObservationConfig

HOME = ArmConfig().home
ACTIONS = np.random.default_rng(4).uniform(-0.3, 0.3, (6, 7)).astype(np.float32)  # the controller clips larger errors


def relative(turn: float = 0.0, **controller: str) -> RelativeBackend:
    """Return an arm in an empty scene, whose first joint is turned by ``turn`` [rad]."""
    arm = ArmConfig(home=(HOME[0] + turn, *HOME[1:]), home_noise=0.0)
    options = ControllerConfig(**{"action_frame": "end_effector"} | controller)  # type: ignore[arg-type]
    observed = ObservationConfig(object=False)
    return RelativeBackend(make_backend("reach", arm=arm, controller=options, observation=observed))


def rolled_out(backend: RelativeBackend) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the relative and the measured states of an episode of ``ACTIONS``."""
    first = backend.reset(0)
    states, measured = [first.observation["state"]], [backend.measured["state"]]
    for action in ACTIONS:
        states.append(backend.step(action).observation["state"])
        measured.append(backend.measured["state"])
    return np.stack(states), np.stack(measured)


def test_the_same_motion_is_observed_wherever_the_arm_points() -> None:
    straight, turned = relative(), relative(0.5)
    (states, measured), (others, other_measured) = rolled_out(straight), rolled_out(turned)
    assert np.abs(measured - other_measured).max() > 0.2
    np.testing.assert_allclose(states, others, atol=2e-3)


def test_pose_and_velocity_are_in_the_frames_of_the_first_and_the_current_pose() -> None:
    backend = relative()
    states, _ = rolled_out(backend)
    names = backend.spec.observation["state"].names
    assert not any(name.startswith("joint") for name in names)
    positions = states[:, [names.index(f"end_effector_{axis}") for axis in "xyz"]]
    columns = states[:, [names.index(f"end_effector_r{row}{column}") for column in (1, 2) for row in (1, 2, 3)]]
    np.testing.assert_allclose(positions[0], 0, atol=1e-6)
    np.testing.assert_allclose(columns[0], [1, 0, 0, 0, 1, 0], atol=1e-6)
    arm, data = backend.inner.arm, backend.inner.data  # type: ignore[attr-defined]
    rotation, position = arm.rotation(data), arm.position(data)
    speed = arm.read(data)[arm.names.index("end_effector_vx") :][:3]
    backend.reset(0)
    first, origin = arm.rotation(data), arm.position(data)
    np.testing.assert_allclose(positions[-1], first.T @ (position - origin), atol=1e-6)
    np.testing.assert_allclose(columns[-1], (first.T @ rotation)[:, :2].T.ravel(), atol=1e-6)
    velocity = states[-1, [names.index(f"end_effector_v{axis}") for axis in "xyz"]]
    np.testing.assert_allclose(velocity, rotation.T @ speed, atol=1e-6)


def test_an_interrupted_episode_is_repeated_exactly() -> None:
    def choose(_: object) -> ActionChoice:
        return ActionChoice(ACTIONS[1], Source.POLICY)

    actor, other = Actor(relative(), seed=1), Actor(relative(), seed=1)
    for _ in range(3):
        actor.take_step(choose)
    other.load(actor.state())
    expected, found = actor.take_step(choose).next_observation, other.take_step(choose).next_observation
    np.testing.assert_array_equal(found["state"], expected["state"])


def test_data_of_another_frame_are_refused(tmp_path: Path) -> None:
    backend = relative()
    with EpisodeStore.create(tmp_path / "data", backend.spec, {}) as store:
        store.check_against(backend.spec)
        with pytest.raises(DataError, match="observation_frame: expected base, found first_pose"):
            store.check_against(backend.inner.spec)
        facts = {key: value for key, value in backend.spec.extra.items() if key != "observation_frame"}
        with pytest.raises(DataError, match="observation_frame: expected base, found first_pose"):
            store.check_against(replace(backend.spec, extra=facts))  # although the elements have the same names


@pytest.mark.parametrize(
    ("task", "options", "expected"),
    [
        ("reach", {"controller": ControllerConfig(action_space="joint_delta")}, "end_effector_delta, got joint_delta"),
        ("drive", {}, "the pose of an end effector"),
    ],
)
def test_it_is_for_actions_of_an_end_effector(task: str, options: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        RelativeBackend(make_backend(task, **options))


def test_every_command_and_gymnasium_obey_the_option() -> None:
    register_all_configs()
    small = ["task=reach", "task.observation.relative=true", "agent.hidden=[8]", "agent.ensemble_size=2"]
    with initialize_config_module("robo_rl.configs", version_base=None):
        config, homing = (
            compose("train", [*small, "run.dir=x"]),
            compose("train", [*small, "run.dir=x", "reset=homing"]),
        )
    components = Components(config)
    spec, evaluation = components.backend.spec, components.evaluation_backend().spec
    components.close()
    assert spec.extra["observation_frame"] == "first_pose" and not spec.differences(evaluation)
    with pytest.raises(ConfigError, match="choose reset=seeded"):
        Components(homing)
    with gymnasium.make("robo_rl/Reach-v0", observation={"relative": True}) as env:
        assert env.observation_space["state"].shape == spec.observation["state"].shape  # type: ignore[index]
