"""Identification of arms: prediction, excitation, and the fit of an arm with hidden dynamics."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.identification import hidden_dynamics, identified, summarised
from robo_rl.core import ConfigError, DataError
from robo_rl.sim import make_backend
from robo_rl.sim.backend import ArmBackend
from robo_rl.sim.config import ArmConfig, ArmDynamics, ControllerConfig, RandomisationConfig
from robo_rl.sim.identification.prediction import Predictor, Recording

EXCITATION = {"seconds": 4.0, "amplitude": 0.3, "highest_frequency": 3.0, "speed": 0.4, "workspace_margin": 0.01}
DYNAMICS = ArmDynamics(
    delay=0.034,
    stiffness=(300.0,) * 7,
    damping=(45.0,) * 7,
    friction=(0.4,) * 7,
    viscosity=(0.8,) * 7,
    armature=(0.15,) * 7,
    torque_offset=(0.5,) * 7,
    payload=1.2,
    gravity=0.1,
)


def panda(dynamics: ArmDynamics, **values: Any) -> ArmBackend:
    backend = make_backend(
        "reach",
        arm=ArmConfig(dynamics=dynamics),
        controller=ControllerConfig(action_space="joint_position", action_axes="xyz"),
        control_rate=50.0,
        max_episode_steps=1000,
        terminate_on_success=False,
        **values,
    )
    assert isinstance(backend, ArmBackend)
    return backend


def recorded(backend: ArmBackend, steps: int = 100) -> Recording:
    identification = backend.as_identification()
    actions = identification.excitation(**EXCITATION).actions(np.random.default_rng(0))[:steps]
    states = [backend.reset(0).observation["state"]]
    states += [backend.step(action).observation["state"] for action in actions]
    return identification.recording(backend.simulation.state_names, np.array(states), actions)


@pytest.mark.parametrize("in_python", [False, True])
def test_prediction_is_the_simulation(in_python: bool) -> None:
    backend = panda(DYNAMICS)
    recording = recorded(backend)
    predictor = Predictor(backend.config)
    if in_python:
        predictor.native = None
    predicted = predictor.predict(predictor.nominal, predictor.stretch(recording))
    # Observations are float32, and the simulation limits the rate of torques, too.
    np.testing.assert_allclose(predicted, recording.positions, atol=2e-4)
    other = predictor.predict(replace(predictor.nominal, payload=0.0), predictor.stretch(recording))
    assert np.abs(other - recording.positions).max() > 5e-3


def test_delay_is_that_of_the_option() -> None:
    late, prompt = (recorded(panda(ArmDynamics(delay=delay))).positions for delay in (0.04, 0.0))
    np.testing.assert_allclose(late[3:], prompt[1:-2], atol=1e-3)
    assert np.abs(late - prompt).max() > 5e-3


def test_unknown_payload_pulls_the_arm_down() -> None:
    heights = []
    for payload in (0.0, 1.0):
        backend = panda(ArmDynamics(payload=payload))
        backend.reset(0)
        hold = 2 * (np.array(backend.config.arm.home) - backend.controller.lower)
        hold = hold / (backend.controller.upper - backend.controller.lower) - 1
        for _ in range(60):
            backend.step(hold.astype(np.float32))
        heights.append(backend.arm.position(backend.data)[2])
    assert heights[1] < heights[0] - 0.005


def test_randomisation_changes_friction_within_its_range() -> None:
    backend = panda(DYNAMICS, randomisation=RandomisationConfig(dynamics=0.2))
    drawn = []
    for seed in range(20):
        backend.reset(seed)
        drawn.append(backend.model.dof_frictionloss[:7].copy())
    assert 0.32 <= np.min(drawn) < 0.35 and 0.45 < np.max(drawn) <= 0.48


def test_excitation_stays_within_limits() -> None:
    backend = panda(ArmDynamics())
    excitation = backend.as_identification().excitation(**EXCITATION)
    positions = excitation.positions(np.random.default_rng(1))
    assert np.abs(positions - backend.config.arm.home).max() <= 0.3 + 1e-9
    speed = np.abs(np.diff(positions, axis=0)).max(axis=0) * 50
    assert (speed <= 0.41 * np.array(backend.config.arm.velocity_limits)).all()
    places = np.array([backend.as_model().pose(position).position for position in positions[::5]])
    low, high = backend.config.controller.workspace_low, backend.config.controller.workspace_high
    assert (places > np.array(low)).all() and (places < np.array(high)).all()
    with pytest.raises(ConfigError, match="at most a fifth of the control rate"):
        backend.as_identification().excitation(**{**EXCITATION, "highest_frequency": 20.0})
    with pytest.raises(ConfigError, match="no motion keeps the end effector"):
        backend.as_identification().excitation(**{**EXCITATION, "workspace_margin": 0.3}).actions(
            np.random.default_rng(0)
        )


def test_other_recordings_are_refused() -> None:
    backend = panda(ArmDynamics())
    identification = backend.as_identification()
    with pytest.raises(DataError, match="lacks joint1_position"):
        identification.recording(("elbow_position",), np.zeros((3, 1)), np.zeros((2, 7)))
    with pytest.raises(DataError, match="record more"):
        identification.fit([recorded(backend)], 1)
    with pytest.raises(ConfigError, match="needs commands of joints"):
        make_backend("reach").as_identification()  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"arm\.dynamics\.friction must be no value or 7"):
        ArmConfig(dynamics=ArmDynamics(friction=(1.0,)))


def test_hidden_dynamics_are_found(tmp_path: Path) -> None:
    """One of the arms of benchmarks/identification.py, from a shorter recording."""
    short = ("episodes=2", "excitation.seconds=6")
    report = identified("reach_so101", hidden_dynamics("reach_so101", 1), tmp_path, *short)
    row = summarised("reach_so101", 1, report)
    assert row["ratio"] < 0.2
    assert abs(row["delay_error"]) < 0.005
    assert row["inside_interval"] >= 0.85 * row["identified"] > 5
    kept = [each for each in report["parameters"] if not each["identified"]]
    assert all(each["value"] == each["nominal"] and each["interval"] is None for each in kept)
    assert json.loads((tmp_path / "result" / "identified.json").read_text())["ratio"] == row["ratio"]
    assert (tmp_path / "result" / "curves.png").stat().st_size > 10_000
