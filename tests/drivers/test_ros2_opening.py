"""Which implementation of drivers/ros2 is chosen. A stand-in for rclpy that can only be imported is enough for that."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from robo_rl.core import ConfigError, DriverError
from robo_rl.drivers.ros2 import choose, missing_packages, open_node, opening

NAMES = ("rclpy", "rclpy.action", "rosidl_runtime_py", "rosidl_runtime_py.utilities")


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path with modules of rclpy's names."""
    for name in ("rclpy/__init__", "rclpy/action", "rosidl_runtime_py/__init__", "rosidl_runtime_py/utilities"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    yield tmp_path
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.mark.skipif(importlib.util.find_spec("rclpy") is not None, reason="a ROS 2 distribution is sourced")
def test_plain_dds_where_nothing_is_sourced() -> None:
    assert choose() == ("dds", "no ROS 2 distribution is sourced")
    with pytest.raises(DriverError, match=r"no ROS 2 distribution is sourced: source /opt/ros"):
        choose("rclpy")


def test_rclpy_where_it_can_be_imported(distribution: Path) -> None:
    assert choose() == choose("rclpy") == ("rclpy", "rclpy of jazzy can be imported")
    assert choose("dds") == ("dds", "dds was asked for")
    with pytest.raises(ConfigError, match=r"interfaces=\['folder'\] are for plain DDS"):
        open_node("node", interfaces=["folder"])


@pytest.mark.skipif(importlib.util.find_spec("rclpy") is not None, reason="a ROS 2 distribution is sourced")
def test_packages_that_the_sourced_workspace_lacks(distribution: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in opening.MESSAGE_PACKAGES[1:]:
        (distribution / package).mkdir()
        (distribution / package / "__init__.py").write_text("")
    assert missing_packages() == [opening.MESSAGE_PACKAGES[0]]
    monkeypatch.setattr(opening, "choose", lambda: ("dds", ""))
    assert missing_packages() == [], "plain DDS brings its own"


def test_plain_dds_where_rclpy_is_for_another_python(distribution: Path) -> None:
    (distribution / "rclpy" / "action.py").write_text("raise ImportError('no module _rclpy_pybind11')")
    implementation, reason = choose()
    assert implementation == "dds"
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert reason == f"rclpy cannot be imported by Python {python} (no module _rclpy_pybind11)"


def test_neither(distribution: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DriverError, match=r"no ROS 2.*sourced; cyclonedds and rosbags missing: .*robo-rl\[ros2\]"):
        choose()


def test_an_unknown_implementation_is_refused() -> None:
    with pytest.raises(ConfigError, match="implementation must be auto, rclpy or dds, got 'fast'"):
        choose("fast")  # type: ignore[arg-type]
