"""The guide page on the SO-101, as a reader follows it."""

import signal
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_module

from robo_rl.app import build, register_all_configs
from robo_rl.drivers.servos.bus import ServoBus

from ..rigs.command_line import Forked
from ..rigs.guide import SMALL, Reader, command

pytest.importorskip("serial", reason="the extra 'servos' is not installed")

PAGE = "so101.md"


def test_virtual_servos_are_trained(tmp_path: Path) -> None:
    reader = Reader(PAGE, tmp_path)
    shorter = [
        "run.final_evaluation_episodes=1",
        "run.env_steps=15",
        "task.max_episode_steps=10",
        "robot.max_age=3",
        "robot.retries=5",
    ]
    printed = reader.follow("robo-rl train task=reach_so101 robot=so101", *SMALL, *shorter)
    assert "15/15 steps" in printed, printed
    assert (tmp_path / "runs" / "servos" / "summary.json").is_file()


def test_virtual_arm_is_a_serial_port(tmp_path: Path) -> None:
    words = command(PAGE, "robo-rl robot")
    assert words[-1] == "robot.port=/tmp/so101"
    port = tmp_path / "so101"
    reader = Reader(PAGE, tmp_path)
    process = Forked(*words[1:-1], f"robot.port={port}", errors=False, folder=tmp_path, environment=reader.environment)
    try:
        assert process.stdout.readline() == f"so101 on {port} runs reach; Ctrl-C ends it\n"
        bus = ServoBus(str(port), timeout=0.5)
        bus.open()
        assert [bus.read(servo, "model_number") for servo in range(1, 7)] == [777] * 6
        bus.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        process.stdout.close()
    assert not port.is_symlink()


def composed(beginning: str) -> Any:
    """Return the configuration of the command of the page that begins so."""
    register_all_configs()
    name, *overrides = command(PAGE, beginning)[1:]
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        return compose(name, overrides=overrides)


def test_command_for_the_simulated_arm_trains_from_its_expert() -> None:
    config = composed("robo-rl train task=pick_cube_so101 demonstrations.source=expert")
    assert config.get("robot") is None and config.task.arm.model == "so101" and config.demonstrations.source == "expert"


def test_commands_for_the_real_arm_observe_joints_and_cameras() -> None:
    config = composed("robo-rl train task=pick_cube_so101 robot=so101")
    recording = composed("robo-rl record task=pick_cube_so101 robot=so101")
    assert recording.robot.cameras == config.robot.cameras and recording.task.observation == config.task.observation
    assert recording.record.output == config.demonstrations.path
    backend = build(config.robot, simulation=build(config.task))
    assert set(backend.spec.observation) == {"state", "images/front", "images/wrist"}
    assert not backend.spec.reports_success
    backend.close()
