"""robo-rl doctor: each check on machines that are well and on machines that are not."""

import importlib.metadata
import json
import signal
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from robo_rl.command_line import machine
from robo_rl.command_line.machine import Check, Status
from robo_rl.commands import doctor
from robo_rl.core import DriverError

from ..rigs.command_line import exit_code

OK, WARN, FAIL = Status.OK, Status.WARN, Status.FAIL


def test_old_python_fails() -> None:
    assert machine.check_python((3, 11, 0)).status == OK
    old = machine.check_python((3, 10, 12))
    assert (old.status, old.advice) == (FAIL, "install Python 3.11 or newer")


def test_missing_and_old_packages_are_named() -> None:
    required = [Requirement(line) for line in ("numpy>=2.2", "open_clip_torch>=3", "zarr>=3.1")]
    assert machine.check_packages(required, {"numpy": "2.4", "open-clip-torch": "3.3", "zarr": "3.1.6"}).status == OK
    check = machine.check_packages(required, {"numpy": "1.26.4", "open-clip-torch": "3.3"})
    assert check.status == FAIL
    assert check.found == "numpy 1.26.4 is installed, >=2.2 is needed; zarr is not installed"


def test_requirements_are_those_of_the_package() -> None:
    required, extras = machine.requirements()
    assert {"torch", "mujoco", "zarr"} <= {requirement.name for requirement in required}
    assert "pytest" not in {requirement.name for requirement in required}
    assert [requirement.name for requirement in extras["wandb"]] == ["wandb"]
    assert machine.installed_versions()["hydra-core"] == importlib.metadata.version("hydra-core")


def test_versions_are_compared_with_the_tested_ones(tmp_path: Path) -> None:
    file = tmp_path / "constraints.txt"
    file.write_text("# tested\nnumpy==2.4.6\n\ntorch==2.13.0\nabsent==1.0\n")
    assert machine.check_tested(file, {"numpy": "2.4.6", "torch": "2.13.0+cpu"}).status == OK
    check = machine.check_tested(file, {"numpy": "2.5.0", "torch": "2.13.0"})
    assert (check.status, check.found) == (WARN, "numpy 2.5.0 (==2.4.6)")


def test_optional_parts_are_counted_whole() -> None:
    extras = {"teleop": [Requirement("pygame>=2"), Requirement("pyspacemouse")], "ray": [Requirement("ray")]}
    check = machine.check_extras(extras, {"pygame": "2.6", "ray": "2.60"})
    assert (check.status, check.found) == (OK, "installed: ray; not: teleop")


def test_small_machines_are_warned_of() -> None:
    assert (machine.check_cores(1).status, machine.check_cores(2).status) == (WARN, OK)
    assert (machine.check_memory(2.0).status, machine.check_memory(16.0).status) == (WARN, OK)


@pytest.mark.parametrize(
    ("code", "status", "found"),
    [
        ("print('egl, 3 ms')", OK, "egl, 3 ms"),
        ("raise RuntimeError('no EGL display')", WARN, "RuntimeError: no EGL display"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", WARN, f"ended by signal {signal.SIGSEGV:d}"),
        ("raise SystemExit(3)", WARN, "no picture"),
    ],
)
def test_rendering_may_crash_without_harm(code: str, status: Status, found: str) -> None:
    check = machine.check_rendering([sys.executable, "-c", code])
    assert (check.status, check.found) == (status, found)


def test_rendering_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "RENDER_SECONDS", 0.2)
    assert machine.check_rendering([sys.executable, "-c", "import time; time.sleep(60)"]).found.startswith("no picture")


@pytest.mark.rendering
def test_this_machine_renders() -> None:
    check = machine.check_rendering([sys.executable, "-c", machine.RENDERS])
    assert check.status == OK, check.found
    assert "640x480" in check.found


def test_ros2_by_either_way() -> None:
    def neither() -> tuple[str, str]:
        raise DriverError("no ROS 2: no ROS 2 distribution is sourced; rosbags missing: pip install 'robo-rl[ros2]'")

    def sourced() -> tuple[str, str]:
        return "rclpy", "rclpy of jazzy can be imported"

    rclpy = machine.check_ros2(sourced, list)
    assert (rclpy.status, rclpy.found) == (OK, "rclpy: rclpy of jazzy can be imported")
    for packages in (["control_msgs"], ["ackermann_msgs", "std_srvs"]):
        lacking = machine.check_ros2(sourced, lambda: packages)  # noqa: B023
        assert (lacking.status, lacking.found) == (WARN, f"{rclpy.found}; without {', '.join(packages)}")
        for package in packages:
            assert f"-{package.replace('_', '-')}" in lacking.advice and "implementation=dds" in lacking.advice
    assert machine.check_ros2(lambda: ("dds", "nothing is sourced"), list).found.startswith("plain DDS")
    missing = machine.check_ros2(neither, list)
    assert (missing.status, missing.advice) == (WARN, "for real robots: pip install 'robo-rl[ros2]'")
    assert missing.found == "no ROS 2: no ROS 2 distribution is sourced; rosbags missing"


def test_teleoperation_devices() -> None:
    check = machine.check_teleop(lambda: (["gamepad (Pad)"], ["libhidapi is missing"]))
    assert (check.status, check.found, check.advice) == (OK, "keyboard, gamepad (Pad)", "libhidapi is missing")


def test_cameras_with_their_names(tmp_path: Path) -> None:
    assert machine.check_cameras(tmp_path, tmp_path).status == WARN
    (tmp_path / "video0").touch()
    (tmp_path / "drivers" / "video0").mkdir(parents=True)
    (tmp_path / "drivers" / "video0" / "name").write_text("RealSense D435\n")
    check = machine.check_cameras(tmp_path, tmp_path / "drivers")
    assert (check.status, check.found) == (OK, f"{tmp_path}/video0 (RealSense D435)")


def test_cameras_that_may_not_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "video0").touch()
    monkeypatch.setattr(machine.os, "access", lambda path, mode: False)
    assert machine.check_cameras(tmp_path, tmp_path).found == f"no access to {tmp_path}/video0"


def test_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "WRITE_BYTES", 1000)
    monkeypatch.setattr(machine, "_write_speed", lambda folder: 100.0)
    states = []
    for free in (0.5, 5, 50):
        usage = machine.shutil._ntuple_diskusage(1e12, 1e12, free * 1e9)  # type: ignore[attr-defined]
        monkeypatch.setattr(machine.shutil, "disk_usage", lambda folder, usage=usage: usage)
        states.append(machine.check_disk(tmp_path / "not" / "there" / "yet").status)
    assert states == [FAIL, WARN, OK]
    monkeypatch.setattr(machine, "_write_speed", lambda folder: 1.0)
    assert machine.check_disk(tmp_path).status == WARN


def test_a_disk_that_refuses_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> float:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(machine, "_write_speed", refuse)
    check = machine.check_disk(tmp_path)
    assert (check.status, check.found) == (FAIL, f"{tmp_path}: Read-only file system")


def test_the_speed_of_writing_is_positive_and_leaves_nothing(tmp_path: Path) -> None:
    assert machine._write_speed(tmp_path) > 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("status", "code"), [(OK, 0), (WARN, 0), (FAIL, 1)])
@pytest.mark.parametrize("as_json", [False, True])
def test_report_and_exit_code(
    status: Status, code: int, as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = [Check("Python", OK, "3.11"), Check("ROS 2", status, "none", "pip install 'robo-rl[ros2]'")]
    monkeypatch.setattr(doctor, "examine", lambda folder: checks)
    assert exit_code("doctor", f"doctor.json={str(as_json).lower()}") == code
    printed = capsys.readouterr().out
    if as_json:
        assert json.loads(printed)[1] == {
            "name": "ROS 2",
            "status": status.value,
            "found": "none",
            "advice": "pip install 'robo-rl[ros2]'",
        }
    else:
        assert "robo-rl[ros2]" in " ".join(printed.split())


def test_every_check_runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "RENDERS", "print('left out')")
    checks = doctor.examine(tmp_path)
    assert len({check.name for check in checks}) == len(checks) >= 11
    assert all(check.found for check in checks)
    assert not [check for check in checks if check.status == FAIL]
    assert all(check.advice for check in checks if check.status != OK)


def test_the_native_update_and_its_precisions() -> None:
    assert machine.check_native(True, "compiled", "", None).found == "compiled; float32 only"
    found = "compiled; float32 or bfloat16 by AMX, which takes 57 % of the time"
    assert machine.check_native(True, "compiled", "AMX", 0.57).found == found
    lacking = machine.check_native(False, "no compiler", "", None)
    assert lacking.status == WARN and "g++" in lacking.advice
