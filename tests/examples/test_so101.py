"""The guide page on the SO-101, as a reader follows it."""

import signal
from pathlib import Path

import pytest
from hydra import compose, initialize_config_module

from robo_rl.app import build, register_all_configs
from robo_rl.drivers.servos.bus import ServoBus

from ..rigs.command_line import SMALL_AGENT, Forked
from ..rigs.guide import SMALL, Reader, command

pytest.importorskip("serial", reason="the extra 'servos' is not installed")

PAGE = "so101.md"


def test_simulated_arm_and_virtual_servos_are_trained(tmp_path: Path) -> None:
    reader = Reader(PAGE, tmp_path)
    reader.follow("robo-rl train task=pick_cube_so101 demonstrations.source", *SMALL[:-1], "run.env_steps=60")
    assert (tmp_path / "runs" / "pick" / "config.yaml").is_file()
    small = [*SMALL_AGENT, "demonstrations.episodes=2", "run.evaluation_interval=0", "run.video_episodes=0"]
    shorter = ["run.final_evaluation_episodes=1", "run.env_steps=30", "robot.max_age=1", "robot.retries=5"]
    printed = reader.follow("robo-rl train task=reach_so101 robot=so101", *small, *shorter)
    assert "30/30 steps" in printed or "Robot so101: " in printed, printed


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


def test_commands_for_the_real_arm_compose(tmp_path: Path) -> None:
    """Without an arm, the command ends with the message that the port is absent."""
    words = command(PAGE, "robo-rl train task=pick_cube_so101 robot=so101")
    register_all_configs()
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        config = compose("train", overrides=words[2:])
    backend = build(config.robot, simulation=build(config.task))
    assert set(backend.spec.observation) == {"state", "images/front", "images/wrist"}
    assert not backend.spec.reports_success
    backend.close()
