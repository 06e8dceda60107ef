"""The drill of a stop: a guard stops a robot in training, and a person understands and resumes it in three actions."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from robo_rl.core import OwnStop
from robo_rl.drivers.ros2 import open_node
from robo_rl.monitoring.dashboard import PAGES, Dashboard
from robo_rl.monitoring.run_table import WatchConfig
from robo_rl.operators.rearming import find_stops
from robo_rl.telemetry import Command, LiveWatch
from robo_rl.web import WebConfig
from robo_rl.web.server import PageServer

from ..rigs.browser import open_browser
from ..rigs.command_line import SMALL_AGENT, Forked, robo_rl
from ..rigs.robot_rig import PATIENCE, virtual_robot, wait_until
from ..rigs.ros2_domain import free_domain
from ..rigs.run_folder import records
from ..rigs.server_thread import ServerThread
from ..rigs.walk import Terminal

ACTIONS = 3
"""Most commands, answers and taps between a stop and the next steps of the robot."""
SECONDS = 240.0
TRIGGER = "std_srvs/srv/Trigger"
ENDLESS = [
    "task=reach",
    *SMALL_AGENT,
    "demonstrations.episodes=0",
    "run.env_steps=1000000",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
    "task.max_episode_steps=10",
]
TOKEN = "a secret of this test"


class Drill(NamedTuple):
    """A robot in training with a guard; ``environment`` is that of their processes."""

    environment: dict[str, str]
    run: Path
    robot: Forked
    guard: Terminal
    training: Terminal


def wait_for(what: str, condition: Any) -> None:
    """Wait until ``condition`` holds; other work may keep the machine busy."""
    try:
        wait_until(condition, SECONDS)
    except AssertionError:
        raise AssertionError(f"not in {SECONDS:g} s: {what}") from None


def steps(run: Path) -> int:
    """Return the step at which the newest episode of a run ended."""
    return max((line["step"] for line in records(run, "episode")), default=0)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    folder = tmp_path_factory.mktemp("drill")
    run = folder / "runs" / "on_robot"
    with free_domain() as domain, ExitStack() as stack:
        environment = {**domain, "XDG_STATE_HOME": str(folder / "state")}

        def start(*words: str) -> Terminal:
            terminal = Terminal(*words, environment=environment)
            stack.callback(terminal.end)
            return terminal

        robot = stack.enter_context(virtual_robot(environment, "virtual.watchdog.stop_after=5"))
        guard = start("guard", "task=reach", "robot=virtual", "guard.silence=3")
        patience = [*PATIENCE, "robot.start_timeout=120"]
        training = start("train", "robot=virtual", *ENDLESS, *patience, f"run.dir={run}")
        yield Drill(environment, run, robot, guard, training)


@pytest.fixture
def drill(started: Drill, monkeypatch: pytest.MonkeyPatch) -> Drill:
    """The robot takes steps, and this process shares its environment: that of a person's other terminals."""
    for name, value in started.environment.items():
        monkeypatch.setenv(name, value)
    before = steps(started.run)
    wait_for("the robot takes steps", lambda: steps(started.run) > before)
    assert not find_stops()
    return started


@contextmanager
def simulated(drill: Drill) -> Iterator[None]:
    """Train in simulation beside the robot; after the block 50 further steps are taken before the robot goes on."""
    run = drill.run.parent / "simulated"
    training = Terminal("train", *ENDLESS, f"run.dir={run}", "run.overwrite=true", environment=drill.environment)
    try:
        wait_for("the simulation takes steps", lambda: steps(run))
        yield
        before = steps(run)
        wait_for("the simulation goes on", lambda: steps(run) >= before + 50)
        assert find_stops(), "the robot is held still all the while"
        LiveWatch(run).send(Command("stop"))
        assert training.process.wait(SECONDS) == 0, training.text
        assert not [line for line in records(run, "episode") if line["stopped"]]
        assert "topped:" not in training.text
    finally:
        training.end()


def fall_silent(drill: Drill) -> str:
    """Let the robot fall silent, and come back once its guard has stopped it; return the guard's reason."""
    drill.robot.send_signal(signal.SIGSTOP)
    wait_for("the guard stops the robot", find_stops)
    drill.robot.send_signal(signal.SIGCONT)
    return r"safety guard: /\w+/?\w+ has been silent for [\d.]+ s"


def press_button(drill: Drill) -> str:
    """Press the guard's button, as a person elsewhere in the robot's network does; return its reason."""
    with open_node("operator", implementation="dds") as node:
        client = node.create_client(TRIGGER, "safety_guard/emergency_stop")
        assert client.call(node.types.make(f"{TRIGGER}_Request"), 60.0).success
    return "a person, by the emergency stop of the safety guard"


def wait_for_stop(drill: Drill, reason: str) -> None:
    """Wait until all is stopped, and the terminal of the training and ``robo-rl top`` show it."""
    wait_for("the robot's own controller stops", lambda: OwnStop("virtual").facts())
    wait_for("its terminal tells", lambda: re.search(rf"Stopped: emergency stop \(.*{reason}", drill.training.text))
    shown = robo_rl("top", f"runs=[{drill.run}]", "once=true")
    shown = " ".join(re.sub("[╭╮╰╯│─]", " ", shown).split())
    assert re.search(rf"STOPPED robot virtual: .*{reason}.* \(at [\d:]+\)", shown), shown
    assert "When all is safe: robo-rl rearm" in shown
    assert "reach rlpd seed 0 [stopped]" in shown


@contextmanager
def resumed(drill: Drill) -> Iterator[None]:
    """Have a person re-arm in the block: the robot takes steps, nothing ends, and no episode begins too early."""
    before, words = steps(drill.run), len(drill.training.text)
    yield
    wait_for("everything is released", lambda: not find_stops())
    wait_for("the robot goes on", lambda: steps(drill.run) > before)
    assert drill.training.process.poll() is None and drill.guard.process.poll() is None
    assert "rearm takes it back" not in drill.training.text[words:]


def test_a_stop_is_understood_and_resumed_in_a_terminal(drill: Drill) -> None:
    with simulated(drill):
        wait_for_stop(drill, reason := fall_silent(drill))
    person, terminal = pty.openpty()
    command = [sys.executable, "-m", "robo_rl.cli", "rearm"]
    with resumed(drill), subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, text=True) as process:
        os.write(person, b"rearm\n")
        output, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 0 and re.search(rf"robot virtual: .*{reason}", output), output
    os.close(person)
    os.close(terminal)
    actions = 2  # the command, and its confirmation
    assert actions <= ACTIONS


@contextmanager
def phone(drill: Drill, folder: Path) -> Iterator[tuple[Any, str]]:
    """Serve the page of ``robo-rl web``; yield a browser of a phone's size, and the address with the token."""
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o600)
    config = WebConfig(address="127.0.0.1:0", token_file=str(folder / "token"))
    dashboard = Dashboard(WatchConfig(runs=[str(drill.run)], newest=4, interval=0.2))
    with open_browser(folder / "profile") as browser:
        thread = ServerThread(lambda: PageServer(config, PAGES, dashboard.serve, lambda _: None))
        try:
            size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            yield browser, f"{thread.server.origin}/#{quote(TOKEN)}"
        finally:
            thread.stop()


def read(browser: Any, selector: str) -> str:
    return str(browser.find_element("css selector", selector).text)


def tap(browser: Any, selector: str) -> int:
    """Tap a button that is large enough and in view; return 1, for one action."""
    button = browser.find_element("css selector", selector)
    place = browser.execute_script("return arguments[0].getBoundingClientRect().toJSON()", button)
    assert place["left"] >= 0 and place["right"] <= 390 and place["top"] >= 0 and place["bottom"] <= 844, place
    assert place["height"] >= 44, place
    button.click()
    return 1


def test_a_stop_is_understood_and_resumed_on_a_phone(drill: Drill, tmp_path: Path) -> None:
    pytest.importorskip("websockets")
    with phone(drill, tmp_path) as (browser, address):
        wait_for_stop(drill, reason := press_button(drill))
        with resumed(drill):
            browser.get(address)
            actions = 1
            wait_for("the page tells", lambda: "its own controller" in read(browser, "#held"))
            held = read(browser, "#held")
            assert re.search(rf"robot virtual: .*{reason}.* \(at [\d:]+\)", held), held
            wait_for("the run is shown as stopped", lambda: read(browser, "#state") == "stopped")
            assert "bad" in browser.find_element("css selector", "#state").get_attribute("class")
            assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
            browser.save_screenshot(str(tmp_path / "stopped_390x844.png"))
            actions += tap(browser, "#rearm")
            assert re.search(reason, read(browser, "#confirm"))
            actions += tap(browser, "#clear")
            answer = "Re-armed: robot virtual, its own controller; Re-armed: robot virtual"
            wait_for("the page answers", lambda: read(browser, "#answer") == answer)
        wait_for("nothing is held", lambda: not read(browser, "#held"))
        wait_for("the run is shown as training", lambda: read(browser, "#state") == "training")
        assert actions <= ACTIONS
