"""Teleoperation by a gamepad: a virtual one of SDL's, read through SDL as any other."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.core import ConfigError, DriverError, EnvSpec, ManualClock
from robo_rl.drivers.teleop import find_devices, make_teleop
from robo_rl.drivers.teleop.config import AxisConfig, MappingConfig
from robo_rl.drivers.teleop.gamepad import AXES, BUTTONS
from robo_rl.drivers.teleop.motion import AxisMotion, AxisTeleop, Polled

from ..rigs.specs import steered_spec

GAME_CONTROLLER = 1


def make_spec(*names: str) -> EnvSpec:
    return steered_spec(names)


ARM = make_spec("x", "y", "z", "yaw", "gripper")


class VirtualPad:
    """A gamepad that a program moves, plugged into SDL."""

    def __init__(self, pygame: Any) -> None:
        folder = Path(pygame.__file__).parent
        libraries = [*folder.parent.glob("pygame.libs/libSDL2-2*"), *folder.glob("libSDL2-2*")]
        if not libraries:
            pytest.skip("pygame does not bring SDL along")
        self._sdl: Any = ctypes.CDLL(str(libraries[0]))
        self._sdl.SDL_JoystickFromInstanceID.restype = ctypes.c_void_p
        self._sdl.SDL_JoystickSetVirtualAxis.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int16]
        self._sdl.SDL_JoystickSetVirtualButton.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint8]
        self.index = -1
        self.plug()

    def plug(self) -> None:
        self.index = self._sdl.SDL_JoystickAttachVirtual(GAME_CONTROLLER, len(AXES), len(BUTTONS), 0)
        assert self.index >= 0

    def unplug(self) -> None:
        if self.index >= 0:
            assert self._sdl.SDL_JoystickDetachVirtual(self.index) == 0
        self.index = -1

    def _opened(self) -> int:
        pointer = self._sdl.SDL_JoystickFromInstanceID(self._sdl.SDL_JoystickGetDeviceInstanceID(self.index))
        assert pointer, "nobody has opened the gamepad"
        return int(pointer)

    def move(self, **axes: float) -> None:
        for name, value in axes.items():
            assert self._sdl.SDL_JoystickSetVirtualAxis(self._opened(), AXES.index(name), round(32767 * value)) == 0

    def press(self, **buttons: bool) -> None:
        for name, held in buttons.items():
            assert self._sdl.SDL_JoystickSetVirtualButton(self._opened(), BUTTONS.index(name), held) == 0

    def tap(self, button: str) -> None:
        """Press a button and let it go at once. A real gamepad's driver takes in both at the next look."""
        for held in (True, False):
            self.press(**{button: held})
            self.update()

    def update(self) -> None:
        self._sdl.SDL_JoystickUpdate()


@pytest.fixture
def pad(monkeypatch: pytest.MonkeyPatch) -> Iterator[VirtualPad]:
    monkeypatch.setenv("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    pygame = pytest.importorskip("pygame", reason="the extra 'teleop' is not installed")
    from pygame._sdl2 import controller

    controller.init()
    pad = VirtualPad(pygame)
    yield pad
    pad.unplug()
    controller.quit()
    pygame.display.quit()


def open_gamepad(spec: EnvSpec = ARM, **fields: Any) -> tuple[Any, ManualClock]:
    clock = ManualClock()
    device = make_teleop("gamepad", spec, clock=clock, screen=None, **fields)
    assert not device.read().in_control
    return device, clock


def test_sticks_move_the_end_effector(pad: VirtualPad) -> None:
    device, _ = open_gamepad()
    pad.move(left_y=-1, left_x=-0.55, right_y=1, right_x=0.05)  # the last is within the dead zone
    said = device.read()
    assert said.in_control
    np.testing.assert_allclose(said.action, [1, 0.5, -1, 0, -1], atol=1e-4)
    pad.move(left_y=1, left_x=0, right_y=0)
    np.testing.assert_allclose(device.read().action, [-1, 0, 0, 0, -1], atol=1e-4)
    device.close()
    device.close()


def test_motion_takes_control_and_hands_back_after_the_latch(pad: VirtualPad) -> None:
    device, clock = open_gamepad(latch_seconds=0.5)
    pad.move(left_y=-1)
    assert device.read().in_control
    pad.move(left_y=0)
    clock.advance_ns(500_000_000)
    said = device.read()
    assert said.in_control and not said.action[:4].any()
    clock.advance_ns(1)
    assert not device.read().in_control


def test_a_deadman_button_alone_gives_control(pad: VirtualPad) -> None:
    mapping = MappingConfig(axes={"x": AxisConfig("left_y", -0.4)}, buttons={"deadman": "left_shoulder"})
    device, _ = open_gamepad(gamepad=mapping)
    pad.move(left_y=-1)
    said = device.read()
    assert not said.in_control and said.action[0] == 0
    pad.press(left_shoulder=True)
    said = device.read()
    assert said.in_control and said.action[0] == pytest.approx(0.4)
    pad.press(left_shoulder=False)
    said = device.read()
    assert not said.in_control and said.action[0] == 0


def test_buttons_are_told_once_and_the_gripper_follows_the_policy(pad: VirtualPad) -> None:
    device, _ = open_gamepad()
    pad.press(a=True, b=True, start=True, y=True)
    said = device.read()
    assert said.buttons == {"success", "failure", "pause", "emergency_stop"}
    assert not said.in_control
    assert device.read().buttons == set()
    device.reset(closed=True)  # the policy holds something
    pad.move(left_x=1)
    assert device.read().action[4] == 1
    pad.press(right_shoulder=True)
    assert device.read().action[4] == -1
    assert device.read().action[4] == -1
    pad.press(right_shoulder=False)
    device.read()
    pad.press(right_shoulder=True)
    assert device.read().action[4] == 1


def test_a_short_press_between_two_looks_counts_once(pad: VirtualPad) -> None:
    device, _ = open_gamepad()
    pad.tap("y")
    pad.tap("right_shoulder")
    said = device.read()
    assert said.buttons == {"emergency_stop"} and said.action[4] == 1, "the gripper has closed"
    assert not device.read().buttons
    pad.tap("y")
    pad.unplug()
    said = device.read()
    assert said.buttons == {"emergency_stop"} and said.message
    assert not device.read().buttons


def test_short_presses_count_after_hours_of_motion(pad: VirtualPad) -> None:
    """SDL's queue takes 65,535 events; motion fills it where nobody takes it out."""
    device, _ = open_gamepad()
    for number in range(70_000):
        pad.move(left_x=0.5 * (number % 2))
        pad.update()
        if number % 1000 == 0:
            device.read()
    pad.tap("y")
    assert device.read().buttons == {"emergency_stop"}


def test_a_button_that_is_held_when_it_is_plugged_in_did_not_go_down(pad: VirtualPad) -> None:
    device = make_teleop("gamepad", ARM, clock=ManualClock(), screen=None)
    pad.press(y=True)
    pad.update()
    assert not device.read().buttons and not device.read().buttons
    pad.press(y=False)
    pad.update()
    pad.tap("y")
    assert device.read().buttons == {"emergency_stop"}


def test_without_a_window_the_display_is_one_that_shows_nothing(
    pad: VirtualPad, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pygame

    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    device, _ = open_gamepad()
    assert pygame.display.get_driver() == "dummy" and "SDL_VIDEODRIVER" not in os.environ
    device.close()
    assert not pygame.display.get_init()


def test_a_program_with_a_gamepad_ends_by_sigterm() -> None:
    """SDL takes the signal for itself where it is not told otherwise."""
    pytest.importorskip("pygame", reason="the extra 'teleop' is not installed")
    program = (
        "import os, signal\n"
        "from robo_rl.drivers.teleop.gamepad import find_gamepads\n"
        "find_gamepads()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode == -signal.SIGTERM


def test_unplugged_in_motion_nothing_moves_until_it_is_back_and_at_rest(pad: VirtualPad) -> None:
    device, clock = open_gamepad()
    pad.move(left_y=-1)
    pad.press(a=True)
    assert device.read().action[0] == pytest.approx(1)
    pad.unplug()
    said = device.read()
    assert said.in_control and not said.action[:4].any()
    assert said.message == "the gamepad was unplugged: nothing moves until it is back"
    clock.advance_ns(600_000_000)
    assert not device.read().in_control
    pad.plug()
    device.read()
    pad.move(left_y=-1)
    pad.press(a=True)
    said = device.read()
    assert said.message == "" and said.in_control and said.buttons == {"success"}


def test_a_device_that_is_deflected_when_it_is_back_does_nothing_before_it_is_at_rest() -> None:
    """Nor do buttons that are held then."""

    class Reader:
        absence = "it is gone"
        polled = Polled({})

        def poll(self) -> Polled:
            return self.polled

        def close(self) -> None: ...

    reader, clock = Reader(), ManualClock()
    mapping = MappingConfig(axes={"x": AxisConfig("0")}, buttons={"success": "1", "gripper": "2"})
    device = AxisTeleop(reader, AxisMotion(ARM, mapping, 0.5, clock))
    device.read()
    reader.polled = Polled(None)
    assert device.read().message == "it is gone"
    reader.polled = Polled({"0": 1.0}, {"1", "2"})
    for _ in range(2):
        said = device.read()
        assert not said.in_control and not said.buttons
        np.testing.assert_array_equal(said.action, [0, 0, 0, 0, -1])
    reader.polled = Polled({})
    device.read()
    reader.polled = Polled({"0": 1.0}, {"1"})
    said = device.read()
    assert said.in_control and said.buttons == {"success"} and said.action[0] == 1


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_an_axis_that_is_not_finite_moves_nothing(value: float) -> None:
    """Joy messages and twists may contain such values."""
    mapping = MappingConfig(axes={"x": AxisConfig("stick", 1.0)})
    motion = AxisMotion(ARM, mapping, 0.0, ManualClock())
    assert not motion.intervention(Polled({"stick": 0.0})).in_control
    assert motion.intervention(Polled({"stick": 1.0})).action[0] == 1
    assert not motion.intervention(Polled({"stick": value})).action[:4].any()


def test_a_stick_that_is_deflected_at_the_start_does_nothing(pad: VirtualPad) -> None:
    clock = ManualClock()
    device = make_teleop("gamepad", ARM, clock=clock, screen=None)
    pad.move(left_y=-1)
    pad.press(a=True)
    said = device.read()
    assert not said.in_control and not said.action[:4].any() and not said.buttons
    pad.move(left_y=0)
    device.read()
    pad.move(left_y=-1)
    assert device.read().in_control


def test_a_vehicle(pad: VirtualPad) -> None:
    device, _ = open_gamepad(make_spec("steering", "throttle"))
    pad.move(right_x=-1, left_y=-1)
    np.testing.assert_allclose(device.read().action, [1, 1], atol=1e-4)


def test_keys_of_the_screen_are_buttons_alone(pad: VirtualPad, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    import pygame

    device = make_teleop("gamepad", make_spec("x", "y", "z"), clock=ManualClock(), screen="window")
    device.read()
    for key in (pygame.K_w, pygame.K_RETURN):
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key))
    said = device.read()
    assert said.buttons == {"success"} and not said.in_control and not said.action.any()
    pad.move(left_y=-1)
    assert device.read().action[0] == pytest.approx(1)
    for _ in range(2):  # neither takes the other's events, whoever looks first
        pad.tap("y")
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_BACKSPACE))
        pygame.event.post(pygame.event.Event(pygame.KEYUP, key=pygame.K_BACKSPACE))
        assert device.read().buttons == {"emergency_stop", "discard"}
    pad.unplug()
    assert device.read().message
    pad.plug()
    assert not device.read().message
    device.show(None, ["step 1"])
    device.close()
    assert not pygame.display.get_init()


def test_it_is_found(pad: VirtualPad) -> None:
    found, _ = find_devices()
    assert found == ["gamepad (Virtual Controller)"]


def test_what_cannot_be_is_said(pad: VirtualPad) -> None:
    with pytest.raises(ConfigError, match="the device has no axis 'left_t': did you mean 'left"):
        make_teleop("gamepad", ARM, screen=None, gamepad=MappingConfig(axes={"x": AxisConfig("left_t")}))
    with pytest.raises(ConfigError, match="the device has no button 'lef': "):
        mapping = MappingConfig(axes={"x": AxisConfig("left_x")}, buttons={"stop": "lef"})
        make_teleop("gamepad", ARM, screen=None, gamepad=mapping)
    with pytest.raises(ConfigError, match="no axis of the device moves"):
        make_teleop("gamepad", ARM, screen=None, gamepad=MappingConfig())
    with pytest.raises(ConfigError, match=r"teleop\.\*\.axes must be did you mean 'yaw'"):
        MappingConfig(axes={"yav": AxisConfig("left_x")})
    with pytest.raises(ConfigError, match=r"teleop\.\*\.dead_zone must be in \[0, 1\), got 1"):
        MappingConfig(dead_zone=1)
    pad.unplug()
    with pytest.raises(DriverError, match="no gamepad: plug one in"):
        make_teleop("gamepad", ARM, screen=None)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(ConfigError, match=r"pip install 'robo-rl\[teleop\]'"):
        make_teleop("gamepad", ARM, screen=None)
    assert any("pip install 'robo-rl[teleop]'" in reason for reason in find_devices()[1])
