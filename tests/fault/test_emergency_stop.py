"""Fault case 10: the emergency stop acts within one control period, is latched, and only a person re-arms."""

import io
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf

from robo_rl.actor import ActionChoice, Actor
from robo_rl.app import emergency_stop
from robo_rl.cli import main
from robo_rl.core import (
    ConfigError,
    DeadmanSwitch,
    EmergencyStop,
    Interruption,
    ManualClock,
    SafetyStop,
    Source,
    deadman_file,
    heartbeat,
    latch,
)
from robo_rl.core.emergency import default_file
from robo_rl.safety import make_safe_backend
from robo_rl.safety.config import EmergencyStopConfig

from ..rigs.command_line import exit_code
from ..rigs.safety_arms import arm

ACTION = np.array([1, 0, 0, 0], np.float32)


@pytest.fixture
def file(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return default_file()


def test_it_stops_before_the_next_step_and_stays_latched(file):
    inner = arm()
    backend = make_safe_backend(inner)
    backend.reset(0)
    backend.step(ACTION)
    before = inner.data.time
    EmergencyStop().press("a test")
    with pytest.raises(SafetyStop, match=r"emergency stop \(a test\); .* robo-rl rearm") as caught:
        backend.step(ACTION)
    assert caught.value.reason == "emergency_stop"
    assert inner.data.time == before, "not one control period more"
    for _ in range(3):
        with pytest.raises(SafetyStop):
            backend.reset(1)
    with pytest.raises(SafetyStop):
        make_safe_backend(arm()).reset(0)  # another process begins later
    assert EmergencyStop().rearm()
    backend.reset(1)
    backend.step(ACTION)


def test_the_actor_waits_without_using_up_episodes(file):
    actor = Actor(make_safe_backend(arm()), seed=0)

    def choose(_):
        return ActionChoice(ACTION, Source.POLICY)

    first = actor.take_step(choose)
    EmergencyStop().press("a test")
    for _ in range(4):
        with pytest.raises(SafetyStop):
            actor.take_step(choose)
    EmergencyStop().rearm()
    second = actor.take_step(choose)
    assert (first.episode, second.episode, second.sequence) == (0, 1, 1)


def test_a_user_without_a_home_is_told_where_the_file_is_set(monkeypatch, tmp_path, capsys):
    """Containers may run under a user ID that has no entry in /etc/passwd."""
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does where there is no home
    with pytest.raises(ConfigError, match=r"no place for the emergency stop \(.*\): set XDG_STATE_HOME"):
        EmergencyStop()
    assert EmergencyStop(tmp_path / "stop").pressed() is None
    with pytest.raises(SystemExit) as ended:
        main(["stop"])
    assert ended.value.code == 2 and "set XDG_STATE_HOME" in capsys.readouterr().err
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert EmergencyStop().file == tmp_path / "robo_rl" / "emergency_stop"


def test_a_file_in_the_home_folder_is_the_same_for_a_run_and_for_a_shell(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    EmergencyStop(tmp_path / "stop").press("a test")
    assert EmergencyStop(Path("~/stop")).pressed() == "a test"


def test_where_the_file_cannot_be_written_this_process_stays_stopped(tmp_path):
    folder = tmp_path / "state"
    stop = EmergencyStop(folder / "emergency_stop")
    folder.rmdir()
    folder.touch()  # no folder can be made there
    assert not stop.press("no disk")
    assert stop.pressed() == "no disk"
    folder.unlink()
    folder.mkdir()
    backend = make_safe_backend(arm(), emergency_stop=EmergencyStopConfig(file=str(folder / "emergency_stop")))
    with pytest.raises(SafetyStop, match="no disk"):
        backend.reset(0)  # it has an object of its own, as the key in the terminal has
    assert stop.rearm()
    backend.reset(0)


def test_a_folder_is_no_emergency_stop(tmp_path, capsys):
    """It would be there for ever."""
    with pytest.raises(ConfigError, match=r"safety\.emergency_stop\.file must be a file, not a folder, got '.+'"):
        make_safe_backend(arm(), emergency_stop=EmergencyStopConfig(file=str(tmp_path)))
    with pytest.raises(SystemExit):
        main(["stop", f"file={tmp_path}"])
    assert "must be a file, not a folder" in capsys.readouterr().err


def test_the_command_does_not_claim_what_it_could_not_do(tmp_path, capsys, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(latch, "_write", refuse)
    assert exit_code("stop", f"file={tmp_path}/emergency_stop") == 2
    output = capsys.readouterr()
    assert "ROBOTS ARE NOT STOPPED" in output.err
    assert "are stopped" not in output.out


def test_nobody_claims_what_it_could_not_do(tmp_path, capfd):
    """Ctrl-\\ tells people, and services and pages, which get the text, do not say that robots are stopped."""
    folder = tmp_path / "state"
    stop = {"file": str(folder / "emergency_stop"), "simulation": False}
    config = OmegaConf.create({"task": {}, "safety": {"emergency_stop": stop}})
    press = emergency_stop(config, "a test")
    folder.rmdir()
    folder.touch()
    with Interruption(press):
        os.kill(os.getpid(), signal.SIGQUIT)
        time.sleep(0.01)
    message = f"{folder}/emergency_stop CANNOT BE WRITTEN, so the program that drives the robot does not stop it"
    assert message in capfd.readouterr().err
    assert press().startswith(message)
    folder.unlink()
    folder.mkdir()
    assert press() == ""
    assert (folder / "emergency_stop").read_text() == "a test\n"


def test_pressing_it_loads_little(file):
    """A person waits for it: libraries of learning and simulation take seconds to load."""
    code = """if True:
        import sys
        from robo_rl.cli import main
        try:
            main(["stop"])
        except SystemExit as ended:
            print(ended.code, sorted({"hydra", "mujoco", "torch", "zarr"} & set(sys.modules)))
    """
    output = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True).stdout
    assert output.splitlines()[-1] == "0 []"
    assert EmergencyStop().pressed() == "robo-rl stop"


def test_looking_takes_microseconds(file):
    stop = EmergencyStop()
    began = time.thread_time()  # of the processor: other work may keep it away
    for _ in range(1000):
        assert stop.pressed() is None
    assert (time.thread_time() - began) / 1000 < 200e-6


def test_the_command_stops_another_process_and_a_script_cannot_rearm(file, capsys, monkeypatch):
    code = """if True:
        import sys, time
        from robo_rl.core import EmergencyStop
        stop = EmergencyStop()
        print("ready", flush=True)
        while stop.pressed() is None:
            time.sleep(0.001)
        print(stop.pressed(), flush=True)
    """
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert not exit_code("stop", "reason=smoke")
    assert process.stdout.readline() == "smoke\n"
    assert process.wait(60) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert exit_code("rearm") == 2
    assert "only a person re-arms" in capsys.readouterr().err
    assert EmergencyStop().pressed() == "smoke"
    with pytest.raises(SystemExit):
        main(["stop", "resaon=smoke"])
    assert "did you mean 'reason'" in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "armed"), [("rearm\n", True), ("yes\n", False)])
def test_a_person_rearms_in_a_terminal(file, answer, armed):
    EmergencyStop().press("a test")
    controller, terminal = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "robo_rl.cli", "rearm"], stdin=terminal, stdout=subprocess.PIPE)
    os.write(controller, answer.encode())
    output, _ = process.communicate(timeout=60)
    assert b"all robots: a test" in output
    assert (EmergencyStop().pressed() is None) == armed


def test_without_the_deadman_switch_held_nothing_moves(tmp_path):
    file = tmp_path / "emergency_stop"
    settings = EmergencyStopConfig(file=str(file), deadman=True, deadman_timeout=5.0)
    backend = make_safe_backend(arm(), emergency_stop=settings)
    with pytest.raises(SafetyStop, match="the deadman switch is not held") as caught:
        backend.reset(0)
    assert caught.value.reason == "deadman"
    switch = DeadmanSwitch(deadman_file(file), 5.0)
    switch.beat()
    backend.reset(0)
    backend.step(ACTION)
    switch.end()
    with pytest.raises(SafetyStop, match="robo-rl enable"):
        backend.step(ACTION)


def test_the_deadman_switch_fades_by_monotonic_time(tmp_path):
    clock = ManualClock(10**9)
    switch = DeadmanSwitch(tmp_path / "deadman", 0.5, clock)
    switch.beat()
    clock.advance_ns(500_000_000)
    assert switch.is_fresh()
    clock.advance_ns(1)
    assert not switch.is_fresh()
    earlier = DeadmanSwitch(tmp_path / "deadman", 0.5, ManualClock(0))
    assert not earlier.is_fresh(), "a time of before the machine was restarted"


def test_a_time_of_before_the_machine_was_restarted_holds_nothing(tmp_path, monkeypatch):
    boot, clock = tmp_path / "boot_id", ManualClock(10**9)
    monkeypatch.setattr(heartbeat, "BOOT", boot)

    def switch_of(run: str | None) -> DeadmanSwitch:
        boot.unlink(missing_ok=True)
        if run is not None:
            boot.write_text(run + "\n")
        return DeadmanSwitch(tmp_path / "deadman", 0.5, clock)

    for before, after, held in (("one", "one", True), ("one", "two", False), (None, "two", False), (None, None, True)):
        switch_of(before).beat()
        assert switch_of(after).is_fresh() == held, (before, after)


def test_the_space_bar_holds_the_deadman_switch(file):
    controller, terminal = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "robo_rl.cli", "enable"], stdin=terminal, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert b"Hold the space bar" in process.stdout.readline()
    switch = DeadmanSwitch(deadman_file(file), 5.0)
    assert not switch.is_fresh()
    os.write(controller, b" ")
    deadline = time.monotonic() + 5
    while not switch.is_fresh() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert switch.is_fresh()
    os.write(controller, b"q")
    assert process.wait(60) == 0
    assert not switch.is_fresh()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_lets_go_of_the_deadman_switch_and_gives_the_terminal_back(file, number):
    controller, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    handler = signal.signal(number, signal.SIG_DFL)  # where tests run under nohup, what they start ignores SIGHUP
    process = subprocess.Popen([sys.executable, "-m", "robo_rl.cli", "enable"], stdin=terminal, stdout=subprocess.PIPE)
    signal.signal(number, handler)
    assert process.stdout is not None
    assert b"Hold the space bar" in process.stdout.readline()
    switch = DeadmanSwitch(deadman_file(file), 5.0)
    os.write(controller, b" ")
    deadline = time.monotonic() + 5
    while not switch.is_fresh() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    assert not switch.is_fresh() and termios.tcgetattr(terminal) == before


def test_ctrl_backslash_presses_it():
    presses = []
    before = signal.getsignal(signal.SIGQUIT)
    with Interruption(lambda: presses.append(1)) as interruption:
        os.kill(os.getpid(), signal.SIGQUIT)
        time.sleep(0.01)
        assert (presses, interruption.signal) == ([1], None)
    assert signal.getsignal(signal.SIGQUIT) == before
