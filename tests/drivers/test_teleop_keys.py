"""What keys mean, on a clock that is moved by hand."""

import numpy as np
import pytest

from robo_rl.core import ArraySpec, ConfigError, EnvSpec, ManualClock
from robo_rl.drivers.teleop import TeleopConfig, make_teleop
from robo_rl.drivers.teleop.keys import KeyMotion

from ..rigs.specs import steered_spec

ALL = ("x", "y", "z", "roll", "pitch", "yaw", "gripper")


def make_spec(names: tuple[str, ...] = ALL, size: int | None = None) -> EnvSpec:
    return steered_spec(names, action=ArraySpec((size or len(names),), low=-1.0, high=1.0, names=names))


def make_motion(names: tuple[str, ...] = ALL, **fields: float) -> tuple[KeyMotion, ManualClock]:
    clock = ManualClock(10**12)
    return KeyMotion(make_spec(names), TeleopConfig(**fields), clock), clock


def advance(clock: ManualClock, seconds: float) -> None:
    clock.advance_ns(round(seconds * 1e9))


@pytest.mark.parametrize(
    ("key", "axis", "value"),
    [
        ("w", "x", 1),
        ("s", "x", -1),
        ("a", "y", 1),
        ("d", "y", -1),
        ("e", "z", 1),
        ("q", "z", -1),
        ("c", "roll", 1),
        ("z", "roll", -1),
        ("up", "pitch", 1),
        ("down", "pitch", -1),
        ("left", "yaw", 1),
        ("right", "yaw", -1),
    ],
)
def test_each_key_moves_its_axis_alone(key: str, axis: str, value: float) -> None:
    motion, _ = make_motion()
    motion.press(key)
    said = motion.intervention()
    expected = np.array([value if name == axis else 0 for name in ALL], np.float32)
    expected[-1] = -1  # open
    np.testing.assert_array_equal(said.action, expected)
    assert said.action.dtype == np.float32
    assert said.in_control


@pytest.mark.parametrize(
    ("key", "expected"),
    [("w", (0, 1)), ("s", (0, -1)), ("a", (1, 0)), ("d", (-1, 0)), ("up", (0, 1)), ("left", (1, 0)), ("e", (0, 0))],
)
def test_keys_drive_a_vehicle(key: str, expected: tuple[float, float]) -> None:
    motion, _ = make_motion(("steering", "throttle"))
    motion.press(key)
    np.testing.assert_array_equal(motion.intervention().action, np.array(expected, np.float32))
    assert "a d ← →: left, right" in motion.help()[0]
    assert "gripper" not in motion.help()[0]


def test_a_key_acts_in_full_and_then_fades() -> None:
    motion, clock = make_motion(hold_seconds=0.2, decay_seconds=0.4, speed=0.5)
    motion.press("w")
    levels = []
    for _ in range(8):
        levels.append(float(motion.intervention().action[0]))
        advance(clock, 0.1)
    np.testing.assert_allclose(levels, [0.5, 0.5, 0.5, 0.375, 0.25, 0.125, 0, 0], atol=1e-6)


def test_a_repeated_key_keeps_acting_in_full() -> None:
    motion, clock = make_motion()
    for _ in range(30):  # terminals repeat at some 30 Hz
        motion.press("e")
        advance(clock, 0.033)
        assert motion.intervention().action[2] == 1


def test_keys_add_up_and_opposite_keys_cancel() -> None:
    motion, _ = make_motion()
    for key in ("w", "a", "d"):
        motion.press(key)
    np.testing.assert_array_equal(motion.intervention().action[:3], [1, 0, 0])


def test_space_toggles_the_gripper_and_it_stays() -> None:
    motion, clock = make_motion()
    seen = []
    for key in ("space", "w", "space"):
        motion.press(key)
        seen.append(float(motion.intervention().action[-1]))
        advance(clock, 5)
    assert seen == [1, 1, -1]
    motion.press("space")
    motion.reset()
    assert motion.intervention().action[-1] == -1, "a new episode begins with an open gripper"


def test_control_is_latched_for_a_while() -> None:
    motion, clock = make_motion(latch_seconds=0.5)
    assert not motion.intervention().in_control
    motion.press("w")
    advance(clock, 0.49)
    assert motion.intervention().in_control
    advance(clock, 0.02)
    assert not motion.intervention().in_control


def test_buttons_are_told_once() -> None:
    motion, _ = make_motion()
    for key in ("enter", "backspace", "escape", "?"):
        motion.press(key)
    said = motion.intervention()
    assert said.buttons == {"success", "discard", "stop"}
    assert not said.in_control
    assert motion.intervention().buttons == frozenset()


def test_a_held_key_acts_until_it_is_let_go() -> None:
    motion, clock = make_motion()
    motion.hold("w")
    advance(clock, 60)
    said = motion.intervention()
    assert said.action[0] == 1 and said.in_control
    motion.release("w")
    assert motion.intervention().action[0] == 0
    motion.hold("a")
    motion.release_all()
    assert motion.intervention().action[1] == 0


@pytest.mark.parametrize("key", ["left", "c", "?"])
def test_a_held_key_that_moves_nothing_here_takes_no_control(key: str) -> None:
    motion, clock = make_motion(("x", "y", "z", "gripper"))
    motion.hold(key)
    advance(clock, 60)
    assert not motion.intervention().in_control


def test_axes_that_the_action_lacks_are_left_out() -> None:
    motion, _ = make_motion(("x", "y", "z", "gripper"))
    motion.press("left")
    said = motion.intervention()
    assert said.action.tolist() == [0, 0, 0, -1]
    assert not said.in_control
    assert "turn" not in motion.help()[0] and "left, right" in motion.help()[0]
    motion, _ = make_motion(("x", "y"))
    motion.press("space")
    assert motion.intervention().action.tolist() == [0, 0]


@pytest.mark.parametrize(("size", "places"), [(3, {"w": 0, "e": 2}), (4, {"e": 2}), (7, {"up": 4, "right": 5})])
def test_actions_without_names_are_known_by_their_size(size: int, places: dict[str, int]) -> None:
    for key, place in places.items():
        motion = KeyMotion(make_spec((), size), TeleopConfig(), ManualClock())
        motion.press(key)
        assert abs(motion.intervention().action[place]) == 1


@pytest.mark.parametrize(
    ("spec", "got"),
    [
        (make_spec(("joint1", "joint2")), "elements joint1, joint2"),
        (make_spec((), 28), "28 elements without names"),
    ],
)
def test_other_actions_are_refused(spec: EnvSpec, got: str) -> None:
    with pytest.raises(ConfigError, match=f"has {got}; choose a task or task.controller.action_space="):
        KeyMotion(spec, TeleopConfig(), ManualClock())


def test_unknown_devices_and_values_are_named() -> None:
    with pytest.raises(ConfigError, match="unknown teleoperation device 'windw': did you mean 'window'"):
        make_teleop("windw", make_spec())
    with pytest.raises(ConfigError, match=r"teleop.speed must be in \(0, 1\], got 2"):
        make_teleop("keyboard", make_spec(), speed=2)
    with pytest.raises(ConfigError, match=r"teleop.latch_seconds must be in \[0, 604800\], got -1"):
        TeleopConfig(latch_seconds=-1)
