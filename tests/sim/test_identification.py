"""Identification of arms: prediction, excitation, and the fit of an arm with hidden dynamics."""

import json
import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.identification import hidden_dynamics, identified, summarised
from robo_rl.app import build, build_backend, register_all_configs
from robo_rl.app.identified import write_identified
from robo_rl.command_line.usage import composed
from robo_rl.commands import identify
from robo_rl.core import ConfigError, DataError, SafetyStop
from robo_rl.replay import EpisodeStore
from robo_rl.sim import make_backend
from robo_rl.sim.backend import ArmBackend
from robo_rl.sim.config import ArmConfig, ArmDynamics, ControllerConfig, RandomisationConfig
from robo_rl.sim.identification.fitting import Estimate
from robo_rl.sim.identification.identification import ArmIdentification, Identification
from robo_rl.sim.identification.parameters import Parameter
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
    excitation = identification.excitation(**EXCITATION)
    actions = excitation.actions(excitation.positions(np.random.default_rng(0)))[:steps]
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


@pytest.mark.parametrize(
    ("options", "arm", "limit"),
    [
        ({"workspace_margin": 0.3}, {}, "leaves controller.workspace_low"),
        ({}, {"speed_limit": 0.001}, "larger excitation.speed"),
        ({"amplitude": 0.01}, {}, "excitation.amplitude, excitation.speed or"),
    ],
)
def test_excitation_names_the_limit_that_leaves_no_motion(
    options: dict[str, float], arm: dict[str, float], limit: str
) -> None:
    identification = ArmIdentification(replace(panda(ArmDynamics()).config, arm=ArmConfig(**arm)))
    with pytest.raises(ConfigError, match=limit):
        identification.excitation(**{**EXCITATION, **options}).positions(np.random.default_rng(0))


def test_other_recordings_are_refused() -> None:
    backend = panda(ArmDynamics())
    identification = backend.as_identification()
    with pytest.raises(DataError, match="lacks joint1_position"):
        identification.recording(("elbow_position",), np.zeros((3, 1)), np.zeros((2, 7)))
    names = backend.simulation.state_names
    for times in (np.zeros((3, 2)), np.zeros((3, 1)), np.zeros((2, 2))):  # no time passes, or the shape is another
        with pytest.raises(DataError, match="the data set's times: expected two for each of 3 states"):
            identification.recording(names, np.zeros((3, len(names))), np.zeros((2, 7)), times)
    for column, name in enumerate(("measurements", "commands")):
        times = np.arange(6.0).reshape(3, 2) / 10
        times[1, column] = 9  # by a clock that jumps
        with pytest.raises(DataError, match=f"times of {name} are"):
            identification.recording(names, np.zeros((3, len(names))), np.zeros((2, 7)), times)
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


def estimated(key: str, value: float, half_width: float, high: float = np.inf, identified: bool = True) -> Estimate:
    joint = None if key in ("delay", "payload") else 0
    return Estimate(Parameter(key, joint, 1.0, 0.0, high), value, 0.0, half_width, identified)


def result_of(*estimates: Estimate) -> Identification:
    return Identification(("joint1",), ArmDynamics(), estimates, 1e-3, 0.0, 5e-4, 0.0, np.zeros(1), {})


def test_randomisation_is_the_median_of_the_intervals() -> None:
    known = [estimated("friction", 2.0, 0.2), estimated("viscosity", 1.0, 0.2), estimated("armature", 1.0, 0.3)]
    unsure = [estimated("payload", 0.01, 0.05), estimated("armature", 1.0, 5.0, identified=False)]
    result = result_of(*known, *unsure, estimated("delay", 0.002, 0.003), estimated("stiffness", 1.0, 0.9))
    changes = result.randomisation()
    assert changes["randomisation"]["dynamics"] == pytest.approx(0.25)  # of 0.1, 0.2, 0.3 and 5
    assert changes["arm"]["dynamics"]["delay"] == 0.0
    assert changes["randomisation"]["latency"] == pytest.approx(0.005)


def test_intervals_end_at_the_bounds() -> None:
    payload, delay = result_of(estimated("payload", 0.009, 0.012), estimated("delay", 0.29, 0.02, 0.3)).parameters()
    assert payload["interval"] == [0.0, 0.021] and delay["interval"] == [0.27, 0.3]


def test_files_are_written_without_an_error_before(tmp_path: Path) -> None:
    result = replace(
        result_of(estimated("payload", 1.0, 0.1)), times=np.zeros(2), curves={"measured": np.zeros((2, 1))}
    )
    write_identified(result, tmp_path, "arm1", Path("log"), 1)
    assert (tmp_path / "arm" / "arm1.yaml").read_text().startswith("# Identified from log.\narm:")


def identify_so101(folder: Path, *options: str) -> int:
    register_all_configs()
    return identify.run(
        composed("identify", ["task=reach_so101", "excitation.seconds=4", f"output={folder / 'out'}", *options])
    )


def test_no_joint_moves_further_than_announced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert identify_so101(tmp_path, "episodes=3", "fit=false") == 0
    announced = re.findall(r"(\w+) (\d\.\d\d)", capsys.readouterr().out.splitlines()[0])
    config = composed("identify", ["task=reach_so101", "task.controller.action_space=joint_position"])
    backend: Any = build(config.task)
    lower, upper = backend.controller.lower, backend.controller.upper
    with EpisodeStore.open(tmp_path / "out" / "log") as store:
        actions = np.array([store.arrays(number, ("state",)).executed_action for number in range(3)])
    positions = lower + (actions[..., : len(lower)] + 1) / 2 * (upper - lower)
    moved = np.abs(positions - backend.config.arm.home).max((0, 1))
    assert [name for name, _ in announced] == list(backend.config.arm.joints)
    sizes = np.array([float(size) for _, size in announced])
    assert (moved <= sizes + 1e-6).all() and (moved > sizes - 0.011).all()
    assert len({episode.tobytes() for episode in actions}) == 3


@pytest.mark.parametrize(
    ("steps", "stop", "code", "printed"),
    [
        (1, "workspace", 1, "Nothing was recorded"),
        (50, "emergency_stop", 1, "One episode is too few to fit"),
        (250, "workspace", 1, "in the way. Nothing is fitted; 3 of 4 episodes are kept, the last one up to the stop"),
        (250, "emergency_stop", 1, "holds 3 episodes, 0 successful: 249 steps"),
        (250, "workspace", 1, "log output=FOLDER held_out=1, and the same task"),
        (0, "signal", 128 + signal.SIGINT, "Nothing was recorded"),
        (250, "signal", 128 + signal.SIGINT, "log output=FOLDER, and the same task"),
    ],
)
def test_a_recording_that_ends_early_is_not_fitted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    steps: int,
    stop: str,
    code: int,
    printed: str,
) -> None:
    """Episodes have 100 steps; the robot stops, or Ctrl-C is pressed, after ``steps``, 0 being the first reset."""

    def stopping_backend(config: Any) -> Any:
        backend: Any = build_backend(config)
        step, reset, count = backend.step, backend.reset, 0

        def press() -> None:
            if stop != "signal":
                raise SafetyStop(stop, "in the way")
            os.kill(os.getpid(), signal.SIGINT)

        def counting_step(action: Any) -> Any:
            nonlocal count
            count += 1
            if count == steps:
                press()
            return step(action)

        def interrupted_reset(*arguments: Any, **options: Any) -> Any:
            if steps == count == 0:
                press()
            return reset(*arguments, **options)

        backend.step, backend.reset = counting_step, interrupted_reset
        return backend

    monkeypatch.setattr(identify, "build_backend", stopping_backend)
    held_out = "held_out=3" if "held_out" in printed else "held_out=1"
    assert identify_so101(tmp_path, "episodes=4", held_out) == code
    out = capsys.readouterr().out
    assert printed in out
    assert "Delay:" not in out and not (tmp_path / "out" / "identified.json").exists()
    assert (tmp_path / "out" / "log").exists() == ("Nothing was recorded" not in out)
