"""Teleoperation by a SpaceMouse: reports as the device sends them, decoded by pyspacemouse."""

import struct
import sys
from typing import Any

import numpy as np
import pytest

from robo_rl.core import ConfigError, DriverError, ManualClock
from robo_rl.drivers.teleop import find_devices, make_teleop
from robo_rl.drivers.teleop.config import AxisConfig, MappingConfig

from ..rigs.specs import steered_spec

pytest.importorskip("pyspacemouse", reason="the extra 'teleop' is not installed")

SPEC = steered_spec(("x", "y", "z", "roll", "pitch", "yaw", "gripper"))
FULL = 350
"""A full deflection in the reports."""


class Mouse:
    """A SpaceMouse Compact at the level of its HID reports: 1 (translation), 2 (rotation), 3 (buttons).

    3Dconnexion's axes: x to the right, y towards the person, z down, and rotations about them.
    """

    vendor_id, product_id, path = 0x256F, 0xC635, "/dev/hidraw0"
    product_string, manufacturer_string, serial_number, release_number = "SpaceMouse Compact", "3Dconnexion", "", 0

    def __init__(self) -> None:
        self.reports: list[bytes] = []
        self.plugged = True
        self.closed = 0

    def move(self, x: float = 0, y: float = 0, z: float = 0, rx: float = 0, ry: float = 0, rz: float = 0) -> None:
        for number, values in ((1, (x, y, z)), (2, (rx, ry, rz))):
            self.reports.append(struct.pack("<B3h", number, *(round(FULL * value) for value in values)))

    def press(self, *buttons: int) -> None:
        self.reports.append(struct.pack("<BH", 3, sum(1 << button for button in buttons)))

    def open(self) -> None: ...

    def set_nonblocking(self, nonblocking: bool) -> None:
        assert nonblocking

    def read(self, size: int) -> bytearray:
        if not self.plugged:
            from easyhid import HIDException

            raise HIDException("Failed to read from HID device: -1")
        return bytearray(self.reports.pop(0).ljust(size, b"\0")) if self.reports else bytearray()

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def mouse(monkeypatch: pytest.MonkeyPatch) -> Mouse:
    mouse = Mouse()

    class Enumeration:
        def find(self) -> list[Mouse]:
            return [mouse] if mouse.plugged else []

    monkeypatch.setattr("pyspacemouse.api.Enumeration", Enumeration)
    return mouse


def open_mouse(**fields: Any) -> tuple[Any, ManualClock]:
    clock = ManualClock(10**12)
    device = make_teleop("spacemouse", SPEC, clock=clock, screen=None, **fields)
    assert not device.read().in_control
    return device, clock


@pytest.mark.parametrize(
    ("moved", "action"),
    [
        ({"y": -1}, [1, 0, 0, 0, 0, 0]),  # pushed away from the person
        ({"x": -1}, [0, 1, 0, 0, 0, 0]),  # to the left
        ({"z": -0.55}, [0, 0, 0.5, 0, 0, 0]),  # lifted
        ({"ry": -1}, [0, 0, 0, 1, 0, 0]),  # rolled: about the direction away, the right side goes down
        ({"rx": -1}, [0, 0, 0, 0, 1, 0]),  # pitched: about the direction to the left, forwards and down
        ({"rz": -1}, [0, 0, 0, 0, 0, 1]),  # turned to the left
        ({"x": 0.09, "rz": -0.09}, [0, 0, 0, 0, 0, 0]),  # the dead zone
    ],
)
def test_reports_move_the_end_effector(mouse: Mouse, moved: dict[str, float], action: list[float]) -> None:
    device, _ = open_mouse()
    mouse.move(**moved)
    said = device.read()
    np.testing.assert_allclose(said.action, [*action, -1], atol=1e-2)
    assert said.in_control == any(action)
    device.close()
    assert mouse.closed == 1


def test_the_newest_of_many_reports_counts(mouse: Mouse) -> None:
    device, _ = open_mouse()
    for deflection in (0.2, 0.5, -1):
        mouse.move(y=deflection)
    assert device.read().action[0] == pytest.approx(1)
    assert device.read().action[0] == pytest.approx(1), "held: no report, no change"
    mouse.move()
    assert device.read().action[0] == 0


QUEUE = 63
"""Reports that the kernel keeps for one who reads hidraw; those that come when it is full are lost."""


def test_a_mouse_that_was_let_go_while_nobody_looked_does_not_move_the_robot(mouse: Mouse) -> None:
    device, clock = open_mouse()
    for _ in range(50):
        mouse.move(y=-1, rz=-1)
    mouse.move()
    del mouse.reports[QUEUE:]
    clock.advance_ns(5 * 10**9)
    for _ in range(12):
        said = device.read()
        assert not said.in_control and not said.action[:6].any()
        clock.advance_ns(50_000_000)
    mouse.move(x=-1)
    del mouse.reports[1:]  # of the two reports of a moment the one of rotations is on its way
    np.testing.assert_allclose(device.read().action[:6], [0, 1, 0, 0, 0, 0])


def test_what_is_still_deflected_after_reports_were_lost_is_to_be_let_go_first(mouse: Mouse) -> None:
    device, clock = open_mouse()
    for _ in range(50):
        mouse.move(y=-1)
    del mouse.reports[QUEUE:]
    for _ in range(20):
        assert not device.read().in_control
        mouse.move(y=-1)
        clock.advance_ns(50_000_000)
    mouse.move()
    assert not device.read().in_control
    mouse.move(y=-1)
    assert device.read().action[0] == pytest.approx(1)


def test_a_mouse_that_says_nothing_more_is_at_rest(mouse: Mouse) -> None:
    device, clock = open_mouse()
    mouse.move(y=-1)
    assert device.read().in_control
    clock.advance_ns(250_000_000)
    assert device.read().action[0] == pytest.approx(1)
    clock.advance_ns(60_000_000)
    assert not device.read().action[:6].any()


def test_a_button_that_was_let_go_while_nobody_looked_is_not_held(mouse: Mouse) -> None:
    device, clock = open_mouse(spacemouse=MappingConfig(axes={"x": AxisConfig("x")}, buttons={"deadman": "1"}))
    mouse.press(1)
    assert device.read().in_control
    for _ in range(50):
        mouse.move(y=-1)
    mouse.press()
    del mouse.reports[QUEUE:]
    clock.advance_ns(5 * 10**9)
    for _ in range(2):
        assert not device.read().in_control
    mouse.press(1)
    assert device.read().in_control


def test_a_short_press_between_two_looks_counts_once(mouse: Mouse) -> None:
    device, _ = open_mouse()
    mouse.press(1)
    mouse.press()
    assert device.read().buttons == {"success"}
    assert not device.read().buttons


def test_buttons(mouse: Mouse) -> None:
    device, _ = open_mouse()
    mouse.press(0)
    said = device.read()
    assert said.action[6] == 1 and said.in_control
    mouse.press(0, 1)
    assert device.read().buttons == {"success"}


def test_unplugged_in_motion_it_comes_back(mouse: Mouse) -> None:
    device, clock = open_mouse()
    mouse.move(y=-1)
    assert device.read().action[0] == pytest.approx(1)
    mouse.plugged = False
    said = device.read()
    assert not said.action[:6].any()
    assert said.message == "the SpaceMouse was unplugged: nothing moves until it is back"
    clock.advance_ns(600_000_000)
    assert not device.read().in_control
    mouse.plugged = True
    clock.advance_ns(600_000_000)
    assert device.read().message == ""
    mouse.move(y=-1)
    assert device.read().action[0] == pytest.approx(1)


def test_it_is_found_and_what_is_missing_is_said(mouse: Mouse, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "SpaceMouse (SpaceMouseCompact)" in find_devices()[0]
    mouse.plugged = False
    with pytest.raises(DriverError, match=r"no SpaceMouse .*libhidapi-hidraw0.*/dev/hidraw"):
        open_mouse()

    def no_library() -> None:
        raise AttributeError("hid_init")  # what pyspacemouse meets where libhidapi is not there

    monkeypatch.setattr("pyspacemouse.api.Enumeration", no_library)
    assert any("apt-get install libhidapi-hidraw0" in reason for reason in find_devices()[1])
    monkeypatch.setitem(sys.modules, "pyspacemouse", None)
    with pytest.raises(ConfigError, match=r"pip install 'robo-rl\[teleop\]'"):
        open_mouse()
