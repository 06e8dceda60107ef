"""Teleoperation by a page: what it says, and when it counts."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("websockets")

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.sync import client

from robo_rl.core import ConfigError, ManualClock
from robo_rl.drivers.teleop import make_teleop
from robo_rl.drivers.teleop.config import ELEMENTS, FUNCTIONS
from robo_rl.drivers.teleop.keys import BUTTONS as KEY_BUTTONS
from robo_rl.drivers.teleop.keys import MOTIONS
from robo_rl.web import WebConfig
from robo_rl.web.person import AXES, BUTTONS, TAKEN, PersonPage

from ..rigs.browser import wait_until
from ..rigs.specs import steered_spec

TIMEOUT = 0.3
ARM = steered_spec(("x", "y", "z", "gripper"), task="reach")


class Served:
    """A page that is served, with time that is told."""

    def __init__(self) -> None:
        self.clock = ManualClock(10**9)
        self.said: list[str] = []
        about = {"task": ARM.task, "elements": ARM.action.names}
        self.stops: list[int] = []
        self.problem = ""
        config = WebConfig("127.0.0.1:0")
        self.page = PersonPage(config, about, self.said.append, self.clock, self.stop)
        self.origin, _, self.token = self.page.link.partition("/#")

    def stop(self) -> str:
        self.stops.append(1)
        return self.problem

    def open(self, token: str | None = None) -> Any:
        opened = client.connect(f"ws{self.origin.removeprefix('http')}/socket", origin=self.origin, proxy=None)
        opened.send(json.dumps({"token": token or self.token}))
        return opened


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.page.close()


def say(opened: Any, held: tuple[str, ...] = (), tapped: tuple[str, ...] = (), **axes: Any) -> None:
    opened.send(json.dumps({"axes": axes, "held": held, "tapped": tapped}))


def test_axes_and_buttons_are_those_of_teleoperation() -> None:
    assert AXES == ELEMENTS and BUTTONS == FUNCTIONS


def test_a_touch_drives_and_its_end_or_silence_hands_back_at_once(served: Served) -> None:
    teleop = make_teleop("browser", ARM, served.clock, page=served.page)
    assert not teleop.read().in_control
    with served.open() as opened:
        assert json.loads(opened.recv())["about"]["elements"] == ["x", "y", "z", "gripper"]
        say(opened)
        wait_until(lambda: not teleop.read().message)
        say(opened, ("deadman",), ("gripper",), x=1.0, y=-5, z=float("nan"), yaw=1.0, other=1.0)
        wait_until(lambda: teleop.read().in_control)
        said = teleop.read()
        np.testing.assert_array_equal(said.action, np.array([1, -1, 0, 1], np.float32))
        assert said.action.dtype == np.float32
        served.clock.advance_ns(round((TIMEOUT + 0.01) * 1e9))
        said = teleop.read()
        assert not said.in_control and said.message and not said.action[:3].any()
        say(opened)
        say(opened, ("deadman",), x=1.0)
        wait_until(lambda: teleop.read().in_control)
        say(opened, x=1.0)
        wait_until(lambda: not teleop.read().in_control)
        say(opened, ("deadman",), x=1.0)
        wait_until(lambda: teleop.read().in_control)
    wait_until(lambda: not teleop.read().in_control)
    assert "no page is connected" in teleop.read().message


def test_taps_between_two_looks_are_not_lost_and_count_once(served: Served) -> None:
    teleop = make_teleop("browser", ARM, served.clock, page=served.page)
    with served.open() as opened:
        say(opened)
        wait_until(lambda: not teleop.read().message)
        buttons: set[str] = set()
        say(opened, (), ("success", "unknown"))
        say(opened)
        wait_until(lambda: buttons.update(teleop.read().buttons) or buttons)
        assert buttons == {"success"} and not teleop.read().buttons


def test_an_emergency_stop_is_pressed_at_once_and_told_though_its_page_is_gone(served: Served) -> None:
    teleop = make_teleop("browser", ARM, served.clock, page=served.page)
    tapped = ("success", "gripper", "emergency_stop")

    def is_told() -> None:
        said = teleop.read()
        assert said.buttons == {"emergency_stop"} and said.message and not said.in_control
        assert said.action[3] == -1, "the gripper stays"
        assert not teleop.read().buttons

    with served.open() as opened:
        assert not teleop.read().in_control
        say(opened, (), tapped)
        wait_until(lambda: len(served.stops) == 1)
        served.clock.advance_ns(round((TIMEOUT + 0.01) * 1e9))
        is_told()
        say(opened, (), tapped)
        wait_until(lambda: len(served.stops) == 2)
        with served.open() as newest:
            newest.recv()  # it drives by now
            is_told()
    for number in range(3, 20):
        with served.open() as leaving:
            say(leaving, (), ("emergency_stop",))
        wait_until(lambda: teleop.read().buttons == {"emergency_stop"})
        assert len(served.stops) == number


def heard(opened: Any) -> None:
    """Wait until the page is told that its emergency stop was pressed."""
    while json.loads(opened.recv()) != {"heard": ["emergency_stop"]}:
        pass


def test_an_emergency_stop_is_confirmed_after_it_was_pressed(served: Served) -> None:
    with served.open() as opened:
        say(opened, (), ("success",))
        for number in (1, 2):
            say(opened, (), ("emergency_stop",))
            heard(opened)
            assert len(served.stops) == number


def test_an_emergency_stop_that_reached_nobody_is_not_confirmed(served: Served) -> None:
    served.problem = "/stop CANNOT BE WRITTEN"
    with served.open() as opened:
        say(opened, (), ("emergency_stop",))
        wait_until(lambda: served.stops)
        served.problem = ""
        say(opened, (), ("emergency_stop",))  # as the page does until it is confirmed
        heard(opened)
        assert len(served.stops) == 2
        served.page.show({}, ["end"])
        while (message := json.loads(opened.recv())) != {"lines": ["end"]}:
            assert "heard" not in message, "of the first"


def test_an_emergency_stop_does_not_wait_for_a_dead_page_to_close(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    closes, dies = ServerConnection.close, threading.Event()

    async def close(connection: ServerConnection, code: int = 1000, reason: str = "") -> None:
        await asyncio.to_thread(dies.wait)
        await closes(connection, code, reason)

    monkeypatch.setattr(ServerConnection, "close", close)
    with served.open() as dead:
        dead.recv()
        with served.open() as newest:
            say(newest, (), ("emergency_stop",))
            heard(newest)
            assert served.stops == [1]
            dies.set()


def test_what_is_tapped_counts_with_the_first_message_of_a_page(served: Served) -> None:
    teleop = make_teleop("browser", ARM, served.clock, page=served.page)
    assert teleop.read().message
    with served.open() as opened:
        say(opened, (), ("emergency_stop",))
        wait_until(lambda: served.stops)
        said = teleop.read()
        assert said.buttons == {"emergency_stop"} and not said.message


def test_the_newest_page_drives_and_what_is_shown_arrives(served: Served) -> None:
    with served.open() as first:
        say(first, ("deadman",), x=1.0)
        wait_until(lambda: served.page.poll(TIMEOUT)[0])
        with served.open() as second:
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    first.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == TAKEN
            assert served.page.poll(TIMEOUT)[0] is None, "what the other page said counts no more"
            served.page.show({"view": np.zeros((4, 4, 3), np.uint8)}, ["step 1"])
            while (received := second.recv()) != json.dumps({"lines": ["step 1"]}):
                pass  # it tells about the robot, and that it lives
            while isinstance(received, str):
                received = second.recv()
            assert received.startswith(b'{"camera": "view"}\n\xff\xd8'), "a JPEG file"


def test_a_page_measures_its_round_trip(served: Served) -> None:
    with served.open() as opened:
        for ping in ("text", None, [1.0], float("nan"), 1e300):
            opened.send(json.dumps({"ping": ping}))
        opened.send(json.dumps({"ping": 12.5}))
        pongs = []
        while not pongs:
            pongs += [message["pong"] for message in [json.loads(opened.recv())] if "pong" in message]
        assert pongs == [12.5] and served.page.poll(TIMEOUT)[1] == frozenset()


def test_junk_and_wrong_tokens_do_nothing(served: Served) -> None:
    with served.open("wrong") as opened, pytest.raises(ConnectionClosed):
        opened.recv()
    assert served.said == ["Refused a page from 127.0.0.1: the token is missing or wrong"]
    with served.open() as opened:
        huge = "1" + "0" * 400
        for junk in (
            "{",
            "[]",
            '{"axes": 5, "held": "deadman", "tapped": {}}',
            f'{{"axes": {{"x": {huge}}}}}',
            b"\xff",
        ):
            opened.send(junk)
        say(opened, ("deadman",), y=0.5)
        wait_until(lambda: served.page.poll(TIMEOUT) == ({"y": 0.5}, {"deadman"}, set()))


def test_the_page_gets_the_keys_of_other_devices_and_the_state_of_the_gripper(served: Served) -> None:
    teleop: Any = make_teleop("browser", ARM, served.clock, page=served.page, speed=0.5)
    with served.open() as opened:
        keys = json.loads(opened.recv())["about"]["keys"]
        say(opened)
        wait_until(lambda: not teleop.read().message)
        say(opened, ("deadman",), ("gripper",), x=keys["level"])
        wait_until(lambda: teleop.read().in_control)
        np.testing.assert_allclose(teleop.read().action, [0.5, 0, 0, 1], atol=1e-6)
        teleop.show(None, ["end"])
        news: dict[str, Any] = {}
        while news.get("closed") is not True:
            news |= json.loads(opened.recv())
    assert keys["motions"] == {name: [*MOTIONS[name]] for name in "wsadeq"}, "no key turns this arm"
    assert keys["buttons"] == {**KEY_BUTTONS, "space": "gripper"}


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="page must be one that is served"):
        make_teleop("browser", ARM)
