"""The guide page on identification, as a reader follows it."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from robo_rl.recording.excitation import TIMES
from robo_rl.replay import EpisodeStore

from ..rigs.command_line import Forked
from ..rigs.guide import SMALL, Reader, command

PAGE = "identify.md"
SHORT = ("episodes=2", "excitation.seconds=6")
PATIENT = ("robot.real_time_priority=0", "robot.overruns=200")
"""The arms share a busy machine with the tests."""
BUS_FACTOR = 0.3
"""Speed of the time of the arm on the bus."""


def test_an_unknown_arm_is_identified_and_used(tmp_path: Path) -> None:
    reader = Reader(PAGE, tmp_path)
    printed = reader.follow("robo-rl identify task=reach_so101 fit=false", *SHORT)
    assert "moves its joints around home by up to" in printed and "2/2 stored" in printed
    assert "robo-rl identify path=unknown/log" in printed
    printed = reader.follow("robo-rl identify task=reach_so101 path=")
    assert "Predictions over one second that were not fitted err by" in printed
    report = json.loads((tmp_path / "identified" / "identified.json").read_text())
    assert report["ratio"] < 0.2
    dynamics = yaml.safe_load((tmp_path / "identified" / "arm" / "identified.yaml").read_text())["arm"]["dynamics"]
    assert abs(dynamics["delay"] - 0.03) < 0.005
    assert (tmp_path / "identified" / "curves.png").exists()
    train = command(PAGE, "robo-rl train")
    reader.run([*train, *SMALL])
    run = yaml.safe_load((tmp_path / "runs" / "identified" / "config.yaml").read_text())
    assert run["task"]["arm"]["dynamics"]["delay"] == dynamics["delay"]
    randomised = [word.replace("=identified", "=identified_randomised") for word in train if "run.dir" not in word]
    shown = reader.run([*randomised, "--cfg", "job"])
    assert yaml.safe_load(shown)["task"]["randomisation"]["dynamics"] > 0


def check_fit(folder: Path, recorded: Path, printed: str, factor: float) -> None:
    """Check that a fit predicts better than the model, and says what the delay contains and what it cannot tell.

    ``factor`` is the speed of the robot's time.
    """
    report = json.loads((folder / "identified.json").read_text())
    assert report["error"] < 0.6 * report["nominal_error"], report
    assert 0 < report["age"] < 0.1 and "old (median) when the next command went out" in printed
    assert "Positions do not determine forces" in printed
    delay = next(each for each in report["parameters"] if each["name"] == "delay")
    assert 0.025 < delay["value"] < 0.15  # of the arm, 30 ms, and of the driver
    with EpisodeStore.open(recorded / "log") as store:
        for number in range(len(store)):
            episode = store.arrays(number, (TIMES,))
            measured, commanded = episode.observation[TIMES].T
            assert (np.diff(measured) >= 0).all() and (np.diff(commanded[1:]) > 0).all()
            assert (commanded[1:] >= measured[:-1]).all(), "a command follows from what was measured before it"
            if factor == BUS_FACTOR:  # a bus has one source; over ROS 2 others may be older than the joints
                oldest = 1e-9 * factor * np.diff(episode.stamp_ns)
                np.testing.assert_allclose(np.diff(measured[:-1]), oldest, atol=1e-5)


def test_arm_on_a_serial_bus_is_identified(tmp_path: Path) -> None:
    pytest.importorskip("serial", reason="the extra 'servos' is not installed")
    reader = Reader(PAGE, tmp_path)
    late = ("robot.max_age=3", "robot.answer_timeout=0.1", f"robot.real_time_factor={BUS_FACTOR}")
    reader.follow("robo-rl identify task=reach_so101 robot=so101 robot.port", *SHORT, *PATIENT, *late)
    printed = reader.follow("robo-rl identify task=reach_so101 path=bus")
    check_fit(tmp_path / "bus_identified", tmp_path / "bus_unknown", printed, factor=BUS_FACTOR)


def test_robot_over_ros_2_is_identified(tmp_path: Path, domain: dict[str, str]) -> None:
    reader = Reader(PAGE, tmp_path, **domain)
    patience = ("virtual.watchdog.hold_after=2", "virtual.watchdog.stop_after=20", "virtual.real_time_factor=0.5")
    words = command(PAGE, "robo-rl robot task=reach_so101")[1:]
    robot = Forked(*words, *patience, errors=False, folder=tmp_path, environment=reader.environment)
    try:
        assert "Ctrl-C ends it" in robot.stdout.readline()
        late = [f"robot.sources.{name}.max_age=3" for name in ("joints", "wrench", "gripper", "rewards")]
        late += ["~robot.sources.pose", "~robot.sources.twist", "robot.start_timeout=60", "robot.real_time_factor=0.5"]
        printed = reader.follow("robo-rl identify task=reach_so101 robot=virtual", *SHORT, *PATIENT, *late)
    finally:
        robot.kill()
        robot.wait()
        robot.stdout.close()
    check_fit(tmp_path / "ros_identified", tmp_path / "ros_identified", printed, factor=0.5)
