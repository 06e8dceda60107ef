"""The page of a bring-up of a virtual robot, without the robot."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from robo_rl.core import EmergencyStop
from robo_rl.operators.checks import PASS, WARN, Check
from robo_rl.operators.setup_page import SetupPage
from robo_rl.operators.stop_button import StopButton
from robo_rl.telemetry import Console
from robo_rl.web import WebConfig

AXES = ("x", "y", "z")
CHECKS = (
    Check("source joints", PASS, "/joint_states: 250.0 Hz, at most 4 ms old (100 ms are allowed)"),
    Check("source front", WARN, "/front/image_raw: 8.1 Hz, at most 131 ms old (200 ms are allowed); slower than 10 Hz"),
    Check("reset", PASS, "2 resets, at most 0.1 s; at most 0.021 rad from home, 0.010 rad apart"),
)
STOPPED_BY = "the page of robo-rl setup"
"""Reason of the page's emergency stop."""


@contextmanager
def set_up_page(latches: StopButton) -> Iterator[SetupPage]:
    """Serve the page, whose button presses the emergency stop of ``robot=virtual``."""
    stop = EmergencyStop(robot="virtual")
    about = {"robot": "virtual", "task": "pick_cube"}
    press = lambda: "" if stop.press(STOPPED_BY) else "no disk"  # noqa: E731
    page = SetupPage(Console(highlight=False), WebConfig("127.0.0.1:0"), about, press, latches)
    try:
        yield page
    finally:
        page.close()


def show_checks(page: SetupPage) -> None:
    """Show checks, announcements and pictures, as a bring-up does that has come to its last question."""
    for check in CHECKS:
        page.add(check)
    for name in AXES:
        page.announce(f"{name}: the end effector moves 2.0 cm forwards (+{name}), and back")
    page.show({"front": scene(170), "wrist": scene(120)})


def scene(brightness: int) -> Any:
    """A picture of a dark block on a table."""
    picture = np.full((120, 160, 3), brightness, np.uint8)
    picture[50:80, 60:100] = (180, 60, 40)
    return picture
