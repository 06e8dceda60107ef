"""Which stops a run obeys, what robo-rl stop and rearm reach, and what they say they cannot."""

import subprocess
import sys

import pytest
from omegaconf import DictConfig

from robo_rl.app import find_emergency_stop
from robo_rl.app.stops import find_stop_button
from robo_rl.commands import stop
from robo_rl.core import DeadmanSwitch, DriverError, EmergencyStop, GuardBeat, OwnStop, ResetLatch
from robo_rl.core.emergency import default_file

from ..rigs.command_line import exit_code
from ..rigs.composition import composed_config


def compose(command: str, words: list[str]) -> DictConfig:
    return composed_config(command, *words)


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Somebody at the terminal who confirms; returns what they were asked."""
    requests: list[str] = []

    def answer(question: str) -> str:
        requests.append(question)
        return "rearm"

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(stop._rearm, "__defaults__", ((), answer))
    return requests


@pytest.mark.parametrize(
    ("words", "obeys"),
    [
        (["task=reach"], None),
        (["task=drive"], None),
        (["task=reach", "safety=none"], None),
        (["task=reach", "safety.emergency_stop.simulation=true"], "emergency_stop"),
        (["task=fake_arm"], "emergency_stop"),
        (["task=gymnasium", "task.env_id=Pendulum-v1"], "emergency_stop"),
        (["task=reach", "robot=virtual"], "emergency_stop.virtual"),
        (["task=reach", "robot=franka", "robot.name=left"], "emergency_stop.left"),
        (["task=reach", "robot=virtual", "safety.emergency_stop.file=/tmp/x/stop"], "stop"),
        (["task=reach", "safety.emergency_stop.file=/tmp/x/stop"], "stop"),
    ],
)
def test_each_robot_has_a_latch_and_simulations_have_none_unless_asked(words: list[str], obeys: str | None) -> None:
    button = find_emergency_stop(compose("train", words))
    assert (None if button is None else button.file.name) == obeys
    if "robot=virtual" in words:
        simulated = find_emergency_stop(compose("train", words), simulated=True)
        assert simulated is None, "an evaluation in the simulation beside it"


def test_a_stop_of_one_robot_leaves_others_alone_and_one_of_all_stops_all(
    capsys: pytest.CaptureFixture[str], person: list[str]
) -> None:
    left, right = EmergencyStop(robot="left"), EmergencyStop(robot="right")
    assert exit_code("stop", "robot=left", "reason=smoke") == 0
    assert "Robot left is stopped. When all is safe: robo-rl rearm robot=left" in capsys.readouterr().out
    assert left.pressed() == "smoke" and right.pressed() is None
    assert exit_code("stop") == 0
    assert right.pressed() == "robo-rl stop"
    assert exit_code("rearm", "robot=left") == 0
    output = capsys.readouterr().out
    assert "Re-armed: robot left" in output and "Still stopped: all robots: robo-rl stop" in output
    assert left.pressed() == "robo-rl stop", "that of all holds it still"
    assert exit_code("rearm") == 0
    assert left.pressed() is None and right.pressed() is None
    assert exit_code("rearm") == 0 and "No emergency stop is pressed" in capsys.readouterr().out


def test_rearm_takes_back_all_that_it_can_and_says_what_not(
    capsys: pytest.CaptureFixture[str], person: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    EmergencyStop().press("all")
    EmergencyStop(robot="left").press("the guard")
    OwnStop("left").note({"service": "/left/rearm", "name": "left"})
    OwnStop("old").note({"service": "", "name": "old"})
    assert ResetLatch("left").take() is None
    ResetLatch("left").give_up()
    assert ResetLatch("busy").take() is None
    GuardBeat("killed").beat()
    monkeypatch.setattr("robo_rl.core.emergency.GUARD_SECONDS", -1.0)
    requests, pressed = [], []

    def rearm_robot(**facts: str) -> tuple[bool, str]:
        requests.append(facts)
        pressed.append(EmergencyStop(robot="left").pressed())
        return (len(requests) > 1, "the enabling switch is open")

    monkeypatch.setattr("robo_rl.drivers.robot.own_stop.rearm_robot", rearm_robot)
    assert exit_code("rearm") == 2
    output = capsys.readouterr()
    alone = "on this machine alone: its own controller is still stopped, and a run ends after three episodes"
    for line in ("Re-armed: all robots\n", f"Re-armed: robot left, {alone}", "Re-armed: robot killed\n"):
        assert line in output.out
    for line in (
        "NOT re-armed: robot left, its own controller: /left/rearm refused: the enabling switch is open",
        "NOT re-armed: robot old, its own controller: it names no service for that (robot.rearm_service)",
        "NOT re-armed: robot busy: the reset is still waiting for its answer",
    ):
        assert line in output.err
    assert "has not answered: it may still be running" in person[0], "a person reads it before they confirm"
    ResetLatch("busy").release()
    OwnStop("old").clear()
    assert exit_code("rearm") == 0 and requests == [{"service": "/left/rearm", "name": "left"}] * 2
    assert pressed == ["the guard", None], "a run waits until its robot's own controller has answered"
    assert OwnStop("left").facts() is None and exit_code("rearm") == 0
    assert "No emergency stop is pressed" in capsys.readouterr().out


def test_a_stop_of_which_only_the_copy_is_left_is_on_the_list(
    capsys: pytest.CaptureFixture[str], person: list[str]
) -> None:
    EmergencyStop(robot="left.1").press("a test")
    default_file("left.1").unlink()
    assert exit_code("rearm") == 0 and "Re-armed: robot left.1" in capsys.readouterr().out
    assert exit_code("rearm") == 0 and "No emergency stop is pressed" in capsys.readouterr().out


def test_a_robot_that_does_not_answer_stays_on_the_list(
    capsys: pytest.CaptureFixture[str], person: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rearm_robot(**_: str) -> tuple[bool, str]:
        raise DriverError("no server of /rearm")

    monkeypatch.setattr("robo_rl.drivers.robot.own_stop.rearm_robot", rearm_robot)
    OwnStop("arm").note({"service": "/rearm", "name": "arm"})
    assert exit_code("rearm", "robot=arm") == 2
    assert "no server of /rearm. Release its stop at the robot" in capsys.readouterr().err
    assert OwnStop("arm").facts() is not None


def test_only_a_person_rearms_whatever_it_is(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    for make in (
        lambda: EmergencyStop(robot="arm").press("x"),
        lambda: ResetLatch("arm").take(),
        lambda: OwnStop("arm").note({}),
    ):
        make()
        assert exit_code("rearm") == 2 and "only a person re-arms" in capsys.readouterr().err


def test_options_that_exclude_each_other_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("stop", "robot=left", "file=/tmp/x") == 2
    assert "give file or robot, not both" in capsys.readouterr().err


def test_a_simulation_that_is_asked_heeds_the_deadman_switch() -> None:
    words = ["task=reach", "safety.emergency_stop.deadman=true"]
    button = find_stop_button(compose("train", words))
    assert button.reason() is not None
    DeadmanSwitch(default_file().with_name("deadman"), 1.0).beat()
    assert button.reason() is None


def test_a_robot_that_is_to_be_guarded_waits_for_its_guard() -> None:
    button = find_stop_button(compose("train", ["task=reach", "robot=virtual", "safety.emergency_stop.guard=true"]))
    reason = button.reason()
    assert reason is not None and reason[0] == "guard_silent"
    GuardBeat("virtual").beat()
    assert button.reason() is None


def test_a_latch_of_a_reset_outlives_its_process() -> None:
    latch = ResetLatch("arm")
    code = "import os; from robo_rl.core import ResetLatch; print(ResetLatch('arm').take()); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE).returncode == -9
    reason = latch.take()
    assert reason is not None and "has not answered: it may still be running" in reason and not latch.is_under_way()
    latch.release()
    assert latch.take() is None and latch.is_under_way()
    reason = latch.take()
    assert reason is not None and reason.endswith("is under way")
    latch.release()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": "x"}', '{"pid": 1, "started": 3}', "\x00", "9" * 9999])
def test_a_damaged_latch_of_a_reset_is_held(content: str) -> None:
    latch = ResetLatch("arm")
    latch.file.parent.mkdir(parents=True, exist_ok=True)
    latch.file.write_text(content)
    reason = latch.take()
    assert reason is not None and "robo-rl rearm robot=arm" in reason
