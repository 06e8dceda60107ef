"""Teleoperation in a window, on SDL's dummy display."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from robo_rl.core import ConfigError, DriverError, ManualClock
from robo_rl.drivers.teleop import TeleopConfig
from robo_rl.drivers.teleop.window import WindowTeleop

from ..rigs.specs import steered_spec

SPEC = steered_spec(("x", "y", "z", "gripper"))


@pytest.fixture
def pygame(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    module = pytest.importorskip("pygame", reason="the extra 'teleop' is not installed")
    yield module
    module.quit()


@pytest.fixture
def device(pygame: Any) -> Iterator[WindowTeleop]:
    opened = WindowTeleop(SPEC, TeleopConfig(), ManualClock())
    opened.read()
    yield opened
    opened.close()
    opened.close()


def test_keys_act_from_down_to_up(pygame: Any, device: WindowTeleop) -> None:
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_w))
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_SPACE))
    assert device.read().action.tolist() == [1, 0, 0, 1]
    assert device.read().action.tolist() == [1, 0, 0, 1]
    pygame.event.post(pygame.event.Event(pygame.KEYUP, key=pygame.K_w))
    assert device.read().action.tolist() == [0, 0, 0, 1]


def test_a_window_that_loses_the_keyboard_lets_go(pygame: Any, device: WindowTeleop) -> None:
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_a))
    assert device.read().action[1] == 1
    pygame.event.post(pygame.event.Event(pygame.WINDOWFOCUSLOST))
    assert device.read().action[1] == 0


def test_buttons(pygame: Any, device: WindowTeleop) -> None:
    for key in (pygame.K_RETURN, pygame.K_BACKSPACE):
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key))
    assert device.read().buttons == {"success", "discard"}
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    assert device.read().buttons == {"stop"}


def test_the_picture_is_shown_as_it_is(pygame: Any, device: WindowTeleop) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (100, 700, 3), dtype=np.uint8)
    device.show(picture, ["episode 1 of 3"])
    surface = pygame.display.get_surface()
    shown = np.array([[surface.get_at((x, y))[:3] for x in range(0, 700, 50)] for y in range(0, 100, 10)])
    np.testing.assert_array_equal(shown, picture[::10, ::50])
    text = np.array([surface.get_at((x, 100 + y))[:3] for x in range(100) for y in range(24)])
    assert text.max() == 255
    device.show(None, ["no picture"])
    assert pygame.display.get_surface().get_width() == 640


def test_no_display_is_a_driver_error(pygame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "no_such_driver")
    with pytest.raises(DriverError, match=r"no window can be opened .*choose keyboard"):
        WindowTeleop(SPEC, TeleopConfig())


def test_a_display_that_nobody_sees_is_none(pygame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pygame.display.init()  # on the driver that SDL falls back on by itself where there is no display
    monkeypatch.delenv("SDL_VIDEODRIVER")
    with pytest.raises(DriverError, match="there is no display"):
        WindowTeleop(SPEC, TeleopConfig())
    assert not pygame.display.get_init()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(ConfigError, match=r"pip install 'robo-rl\[teleop\]'"):
        WindowTeleop(SPEC, TeleopConfig())
