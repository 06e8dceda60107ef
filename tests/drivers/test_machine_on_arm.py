"""A reward machine on an arm of servos: its state follows what is measured, and it refuses what is not."""

from pathlib import Path

import numpy as np
import pytest

from robo_rl.app import build_backend
from robo_rl.core import MACHINE, ConfigError, find_machine

from ..rigs.servo_rig import composed

STAGES = "states: {{start: [{{when: {condition}, to: turned}}]}}\nsuccess: [turned]"


def machine(folder: Path, condition: str) -> str:
    (folder / "stages.yaml").write_text(STAGES.format(condition=condition))
    return f"task.machine={folder / 'stages.yaml'}"


def test_an_episode_on_the_arm_ends_with_the_machine(tmp_path: Path) -> None:
    backend = build_backend(composed(machine(tmp_path, "end_effector_y > 2 cm or end_effector_y < -2 cm")))
    try:
        step = backend.reset(0)
        assert step.success is False and step.observation[MACHINE].tolist() == [1, 0]
        action = np.zeros(backend.spec.action.shape, np.float32)
        action[1] = 1.0
        while not step.ended:
            step = backend.step(action)
        assert step.terminated and step.success and step.observation[MACHINE].tolist() == [0, 1]
        assert backend.reset(1).observation[MACHINE].tolist() == [1, 0]
    finally:
        backend.close()


def test_a_real_arm_has_no_reward_terms_for_conditions(tmp_path: Path) -> None:
    words = ["robot.port=/dev/no_port", "robot.calibration=null", "task.observation.object=false"]
    with pytest.raises(ConfigError, match="'near' exists only in simulation: no source of this robot gives it"):
        build_backend(composed(*words, machine(tmp_path, "near > 0.5")))
    with pytest.raises(ConfigError, match="'force' exists only in simulation"):
        build_backend(composed(*words, machine(tmp_path, "force > 5 N")))
    backend = build_backend(composed(*words, machine(tmp_path, "shoulder_pan_position > 3 deg")))
    assert find_machine(backend) is not None and backend.spec.reports_success
    backend.close()
