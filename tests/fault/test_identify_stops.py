"""Identification that is interrupted or stopped: the arm holds, and what was recorded until then is kept."""

import os
import signal
from pathlib import Path

import pytest

from robo_rl.app import build
from robo_rl.core import EmergencyStop
from robo_rl.drivers.servos.virtual_arm import VirtualServoArm
from robo_rl.replay import EpisodeStore
from tests.rigs.command_line import Forked
from tests.rigs.servo_rig import composed, eventually

pytest.importorskip("serial", reason="the extra 'servos' is not installed")

MOVED = 40
"""Motion of a servo that only the excitation causes [ticks]."""
NEAR = 100
"""Distance at which a held goal is near the measured position: the loop's own limit, 0.1 rad, and a half [ticks]."""


@pytest.mark.parametrize(
    ("stop", "code", "printed"),
    [("ctrl_c", 128 + signal.SIGINT, "1/3 stored: ended"), ("emergency", 1, "The robot was stopped: emergency stop")],
)
def test_arm_holds_and_the_log_is_kept(tmp_path: Path, stop: str, code: int, printed: str) -> None:
    port = tmp_path / "bus"
    config = composed(f"robot.port={port}", "task.observation.object=false")
    arm: VirtualServoArm = build(config.robot, simulation=build(config.task), serve=True)
    variables = {"XDG_STATE_HOME": str(tmp_path)}
    options = ("robot.real_time_priority=0", "robot.max_age=1", "robot.answer_timeout=0.1", "robot.overruns=200")
    process = Forked(
        *("identify", "task=reach_so101", "robot=so101", f"robot.port={port}", "robot.relax_on_close=false"),
        *("episodes=3", "excitation.seconds=60", f"output={tmp_path / 'out'}", *options),
        environment=variables,
    )
    try:
        assert "moves its joints around home" in process.stdout.readline()
        servos = arm.chain.servos[:5]
        assert eventually(lambda: all(servo.is_driven for servo in servos) and not servos[0].get("moving"))
        home = servos[0].get("present_position")
        assert eventually(lambda: abs(servos[0].get("present_position") - home) > MOVED)
        if stop == "ctrl_c":
            os.kill(process.pid, signal.SIGINT)
        else:
            with pytest.MonkeyPatch.context() as patched:
                patched.setenv("XDG_STATE_HOME", variables["XDG_STATE_HOME"])
                EmergencyStop(robot="so101").press("a test")
        rest = process.stdout.read()
        assert process.wait() == code, rest
        assert printed in rest and "Delay:" not in rest
        goals = [servo.get("goal_position") for servo in servos]
        assert all(servo.is_driven for servo in servos), "they hold"
        assert eventually(
            lambda: all(abs(servo.get("present_position") - servo.get("goal_position")) < NEAR for servo in servos)
        )
        assert goals == [servo.get("goal_position") for servo in servos]
        with EpisodeStore.open(tmp_path / "out" / "log") as store:
            assert len(store) == 1 and 0 < store.records[0].steps < 1500
            assert store.arrays(0, ("state", "times")).observation["times"][-1, 0] > 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        arm.close()
