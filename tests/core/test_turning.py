"""Endless joints observed by sine and cosine: no jump at half a turn, in simulation, resets and exported bags."""

import math
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from robo_rl.app import build_backend
from robo_rl.core import EnvBackend, PersistentWorld, RelativeBackend, TurningBackend, TurningState, turning_positions
from robo_rl.reset.arm import joint_reader
from robo_rl.safety.backend import SafeBackend
from robo_rl.safety.feasibility import FeasibilityModel
from robo_rl.safety.feasibility_filter import save_model, state_keys

from ..rigs.composition import composed_config

ARMS = Path(__file__).parents[1] / "data" / "arms"
HOME = [0.0, 0.3, 1.4, 1.2, 0.3]


def arm_file(folder: Path, *endless: str) -> Path:
    """Write the six-joint arm with joints that turn without end."""
    text = (ARMS / "six_joints.xml").read_text()
    for joint in endless:
        start = text.index(f'name="{joint}"')
        limits = text.index('range="', start)
        text = text[:limits] + text[text.index('"', limits + len('range="')) + 1 :]
    file = folder / "arm.xml"
    file.write_text(text)
    return file


def backend_of(file: Path, roll: float, *words: str, safety: str = "none") -> EnvBackend:
    """Return the backend of a run in which the wrist's roll begins at ``roll`` [rad]."""
    arm = [
        f"task.arm.model={file}",
        "task.arm.joints=[pan,lift,elbow,wrist_pitch,wrist_yaw,wrist_roll]",
        "task.arm.end_effector=tip",
        f"task.arm.home={[*HOME, roll]}",
        "task.arm.home_noise=0",
        "task.arm.torque_limits=[50,50,50,50,50,50]",
        "task.arm.velocity_limits=[2,2,2,2,2,2]",
        "task.arm.gripper_actuator=null",
        "task.arm.gripper_joints=[]",
        "task.arm.wrist_sensor_site=null",
        "task.controller.action_space=joint_delta",
        "task.controller.joint_scale=0.1",
    ]
    config = composed_config("train", "task=reach", f"safety={safety}", *arm, *words)
    return build_backend(config)


def rolled(backend: EnvBackend) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """Return the names of ``state`` and its values while the roll turns on by 20 steps of about 0.1 rad."""
    action = np.array([0, 0, 0, 0, 0, 1], np.float32)
    states = [backend.reset(0).observation["state"]]
    states += [backend.step(action).observation["state"] for _ in range(20)]
    return backend.spec.observation["state"].names, np.stack(states)


@pytest.mark.parametrize("roll", [2.9, -3.4, 9.0])
@pytest.mark.parametrize("safety", ["none", "default"])
def test_a_roll_over_half_a_turn_does_not_jump(tmp_path: Path, roll: float, safety: str) -> None:
    backend = backend_of(arm_file(tmp_path, "wrist_roll"), roll, safety=safety)
    assert isinstance(backend, TurningBackend) and (safety == "none" or isinstance(backend.inner, SafeBackend))
    names, states = rolled(backend)
    assert "wrist_roll_position" not in names and "wrist_yaw_position" in names
    sine, cosine = (states[:, names.index(f"wrist_roll_{part}")] for part in ("sin", "cos"))
    np.testing.assert_allclose(np.hypot(sine, cosine), 1, atol=1e-6)
    assert math.atan2(sine[0], cosine[0]) == pytest.approx(math.remainder(roll, math.tau), abs=0.01)
    turned = np.unwrap(np.arctan2(sine, cosine))
    assert turned[-1] - turned[0] > 1.0
    assert (
        np.abs(np.diff(states[:, [names.index("wrist_roll_sin"), names.index("wrist_roll_cos")]], axis=0)).max() < 0.2
    )


def test_other_elements_are_those_of_the_backend_inside(tmp_path: Path) -> None:
    backend = backend_of(arm_file(tmp_path, "pan", "wrist_roll"), 3.0)
    assert isinstance(backend, TurningBackend)
    names, inner = backend.spec.observation["state"].names, backend.inner.spec.observation["state"].names
    turning = turning_positions(backend.inner.spec, backend.robot)
    assert turning == {"pan_position", "wrist_roll_position"}
    observation = backend.inner.reset(0).observation
    converted = TurningState(backend.inner.spec, backend.robot).convert(observation)
    kept = [name for name in inner if name not in turning]
    assert [name for name in names if name[-4:] not in ("_sin", "_cos")] == kept
    for name in kept:
        assert converted["state"][names.index(name)] == observation["state"][inner.index(name)]
    assert set(converted) == set(observation) and names[:2] == ("pan_sin", "pan_cos")


def test_joints_with_limits_and_relative_observations_stay_as_they_are(tmp_path: Path) -> None:
    limited = backend_of(ARMS / "six_joints.xml", 1.0)
    assert not isinstance(limited, TurningBackend) and not turning_positions(limited.spec, limited.robot)
    words = ["task.controller.action_space=end_effector_delta", "task.observation.relative=true"]
    assert isinstance(backend_of(arm_file(tmp_path, "wrist_roll"), 3.0, *words), RelativeBackend)


def test_reset_controllers_read_positions(tmp_path: Path) -> None:
    backend = backend_of(arm_file(tmp_path, "wrist_roll"), 3.0)
    observation = backend.reset(0).observation
    assert joint_reader(backend.spec, "wrist_roll")(observation) == pytest.approx(3.0, abs=0.01)
    assert joint_reader(backend.spec, "elbow")(observation) == pytest.approx(1.4, abs=0.01)


@pytest.mark.parametrize("safety", ["none", "default"])
def test_the_world_is_restored_with_sine_and_cosine(tmp_path: Path, safety: str) -> None:
    """Runs whose reset controller begins episodes where the arm is save the world, so that they can be resumed."""
    backend = backend_of(arm_file(tmp_path, "wrist_roll"), 3.0, safety=safety)
    assert isinstance(backend, PersistentWorld)
    names, states = rolled(backend)
    world = backend.world()
    assert world is not None
    backend.reset(1)
    restored = backend.restore(world).observation["state"]
    sine, cosine = (names.index(f"wrist_roll_{part}") for part in ("sin", "cos"))
    assert states[-1, sine] < -0.9  # the roll has passed half a turn
    np.testing.assert_allclose(restored[[sine, cosine]], states[-1, [sine, cosine]], atol=1e-6)


def test_gymnasium_environments_observe_what_policies_of_runs_do(tmp_path: Path) -> None:
    file = arm_file(tmp_path, "wrist_roll")
    backend = backend_of(file, 3.0)
    arm = {
        "model": str(file),
        "joints": ("pan", "lift", "elbow", "wrist_pitch", "wrist_yaw", "wrist_roll"),
        "end_effector": "tip",
        "home": (*HOME, 3.0),
        "home_noise": 0.0,
        "torque_limits": (50.0,) * 6,
        "velocity_limits": (2.0,) * 6,
        "gripper_actuator": None,
        "gripper_joints": (),
        "wrist_sensor_site": None,
    }
    env = gymnasium.make("robo_rl/Reach-v0", arm=arm, controller={"action_space": "joint_delta"})
    observation, _ = env.reset(seed=0)
    np.testing.assert_allclose(observation["state"], backend.reset(0).observation["state"], atol=1e-6)
    env.close()


def test_filters_learned_from_recorded_episodes_observe_what_these_do(tmp_path: Path) -> None:
    file = arm_file(tmp_path, "wrist_roll")
    spec = backend_of(file, 3.0).spec
    size = sum(spec.observation[key].shape[0] for key in state_keys(spec))
    save_model(tmp_path / "model", FeasibilityModel(size, 6, (8,)), spec, (8,), {})
    words = [f"safety.feasibility.model={tmp_path / 'model'}", "safety.feasibility.margin=1000"]
    backend = backend_of(file, 3.0, *words, safety="default")
    backend.reset(0)
    assert "feasibility" in backend.step(np.full(6, 0.5, np.float32)).verdict.reasons


def test_data_with_positions_are_refused_with_the_names_of_the_elements(tmp_path: Path) -> None:
    backend = backend_of(arm_file(tmp_path, "wrist_roll"), 3.0)
    assert isinstance(backend, TurningBackend)
    (line,) = backend.spec.differences(backend.inner.spec)
    assert line.endswith(
        "expected float32 (34,), found float32 (33,) without wrist_roll_sin, wrist_roll_cos and with "
        "wrist_roll_position"
    )
