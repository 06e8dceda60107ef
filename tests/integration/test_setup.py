"""robo-rl setup: the checks of simulated robots over DDS and on a serial bus, and the report."""

import io
import json
import shutil
import signal
import sys
from pathlib import Path

import pytest

from robo_rl.commands.setup import judge_directions

from ..rigs.command_line import Forked, finish, refusal, robo_rl

SHORT = (
    "listen=0.5",
    "seconds=0.5",
    "exercise=2",
    "resets=1",
    "ask=false",
    "robot.real_time_priority=0",
    "robot.overruns=1000",
)
ARM = Path(__file__).parents[2] / "examples" / "six_joint_arm"
SWAPPED = (
    *("robot.command.kind=joint_trajectory", "robot.command.topic=joint_trajectory_controller/joint_trajectory"),
    *("robot.controllers.active=[joint_trajectory_controller]",),
    "robot.command.joints=[lift,pan,elbow,wrist1,wrist2,wrist3]",
)


def results(folder: Path) -> dict[str, str]:
    """Return the outcomes in a report's folder by the names of the checks."""
    written = json.loads((folder / "checks.json").read_text())
    assert written["versions"] and written["task"]
    page = (folder / "report.html").read_text()
    assert all(check["name"] in page for check in written["checks"])
    return {check["name"]: check["outcome"] for check in written["checks"]}


def test_servos_on_a_bus_are_checked_until_a_signal(tmp_path: Path) -> None:
    pytest.importorskip("serial", reason="the extra 'servos' is not installed")
    words = ("task=reach_so101", "robot=so101", "robot.port=virtual", "robot.max_age=5", "robot.answer_timeout=0.1")
    folder = tmp_path / "setup"
    process = Forked("setup", *words, *SHORT, "exercise=600", f"output={folder}")
    announced = []
    for line in process.stdout:
        announced.append(line.strip())
        if announced[-1].startswith("All axes move slowly"):
            break
    process.send_signal(signal.SIGTERM)  # a shell may let programs in the background ignore SIGINT
    finish(process, 143)
    outcomes = results(folder)
    assert {"source servos", "reset", "rest", "axis x", "axis y", "axis z"} <= set(outcomes)
    assert [name for name, outcome in outcomes.items() if outcome == "fail"] == ["interrupted"], announced
    assert "x: the end effector moves 2.0 cm forwards (+x), and back" in announced
    assert "already exists" in robo_rl("setup", *words, f"output={folder}", code=2)


@pytest.fixture
def six_joint_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, domain: dict[str, str]) -> Path:
    """The example of an arm over ROS 2, in a folder of its own, which is the working folder."""
    shutil.copytree(ARM, tmp_path / "arm")
    monkeypatch.chdir(tmp_path / "arm")
    for name, value in {**domain, "ROBO_RL_CONFIG_PATH": str(tmp_path / "arm")}.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_exchanged_joints_of_a_robot_over_ros_are_found(six_joint_arm: Path) -> None:
    ages = [f"robot.sources.{name}.max_age=5" for name in ("joints", "object", "rewards")]
    words = ("task=reach_six", "robot=six_joint_arm", "robot.start_timeout=60", *ages, *SHORT)
    watchdog = ("virtual.watchdog.hold_after=2", "virtual.watchdog.stop_after=60")
    robot = Forked("robot", "task=reach_six", *watchdog, errors=False)
    try:
        assert "Ctrl-C ends it" in robot.stdout.readline()
        output = robo_rl("setup", *words, "output=healthy")
        outcomes = results(Path("healthy"))
        assert outcomes["source joints"] == "pass" and outcomes["wrist"] == "skip"
        assert (
            outcomes["directions"] == "skip"
            and outcomes["exercise"] in ("pass", "warn")
            and "control periods" in outcomes
        )
        axes = {name: outcomes.get(f"axis {name}") for name in ("pan", "lift", "elbow", "wrist1", "wrist2", "wrist3")}
        assert set(axes.values()) <= {"pass", "warn"}, output

        output = robo_rl("setup", *words, *SWAPPED, "output=swapped", code=1)
        assert "fail" in results(Path("swapped")).values(), output
        assert "far more than was commanded" in output or "but others move, too" in output
    finally:
        robot.kill()
        robot.wait()
        robot.stdout.close()


def test_a_robot_that_is_away_fails(six_joint_arm: Path) -> None:
    words = ("task=reach_six", "robot=six_joint_arm", *SHORT)
    output = robo_rl("setup", *words, "robot.start_timeout=1", "output=away", code=1)
    assert results(Path("away")) == {"connection": "fail", "motion": "skip"}
    assert "is not all there after 1 s" in output


def test_a_robot_and_an_operator_are_needed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "choose one, such as robot=virtual" in refusal(capsys, "setup", "task=reach")
    words = ("setup", "task=reach_so101", "robot=so101", "robot.port=virtual", f"output={tmp_path / 'setup'}")
    for terminal in (None, io.StringIO()):
        monkeypatch.setattr(sys, "stdin", terminal)
        assert "without a terminal, ask=false lets it" in refusal(capsys, *words)
    assert not (tmp_path / "setup").exists()


@pytest.mark.parametrize(
    ("answer", "outcome", "text"),
    [
        ("", "pass", "as announced"),
        (" None ", "pass", "as announced"),
        ("lift, pan", "fail", "moved differently: lift, pan"),
        (None, "skip", "nobody has compared"),
    ],
)
def test_the_operator_judges_the_directions(answer: str | None, outcome: str, text: str) -> None:
    check = judge_directions(answer)
    assert check.outcome == outcome and text in check.text
