"""robo-rl play: live episodes, their commands, and the page in a real process."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.actor import RecordedPoses
from robo_rl.core import derive_seed
from robo_rl.monitoring.playing import NOISES, SPEEDS
from robo_rl.monitoring.replaying import Replaying
from robo_rl.replay import EpisodeStore
from robo_rl.sim import make_backend

from ..rigs.browser import open_browser
from ..rigs.command_line import SMALL_AGENT, heeding, robo_rl
from ..rigs.played import SECONDS, playing
from ..rigs.recorded_arm import record_arm
from ..rigs.robot_rig import wait_until


def test_the_expert_succeeds_and_is_counted_and_shown() -> None:
    with playing(expert=True) as (episodes, backend):
        for _ in SPEEDS:
            episodes.command("faster")
        wait_until(lambda: episodes.display.state.successes >= 2, SECONDS)
        assert episodes.display.state.speed == SPEEDS[-1]
        assert episodes.display.picture is not None and episodes.display.picture[:2] == b"\xff\xd8"
        assert backend.seeds[:2] == [derive_seed(0, "play", number) for number in (1, 2)]


def test_a_pause_holds_and_single_steps_go_on() -> None:
    with playing(max_episode_steps=1000) as (episodes, backend):
        wait_until(lambda: episodes.display.state.step >= 2, SECONDS)
        episodes.command("pause")
        wait_until(lambda: episodes.display.state.step == len(backend.actions), SECONDS)
        before = episodes.display.state.step
        episodes.command("step")
        wait_until(lambda: episodes.display.state.step == before + 1, SECONDS)
        assert episodes.display.state.paused and len(backend.actions) == before + 1
        episodes.command("pause")
        wait_until(lambda: episodes.display.state.step >= before + 3, SECONDS)


def test_noise_and_pushes_change_actions_and_starts_repeat() -> None:
    with playing(max_episode_steps=1000) as (episodes, backend):
        wait_until(lambda: len(backend.actions) >= 1, SECONDS)
        assert not np.any(backend.actions)
        episodes.command("more_noise")
        wait_until(lambda: np.any(backend.actions[-1]), SECONDS)
        assert episodes.display.state.noise == NOISES[1]
        episodes.command("less_noise")
        episodes.command("less_noise")
        wait_until(lambda: not np.any(backend.actions[-1]), SECONDS)
        seen = len(backend.actions)
        episodes.command("push")
        wait_until(lambda: len(backend.actions) > seen + 8 and not np.any(backend.actions[-1]), SECONDS)
        pushed = [action for action in backend.actions[seen:] if np.any(action)]
        assert len(pushed) == 5 and all(np.array_equal(action, pushed[0]) for action in pushed), "0.5 s at 10 Hz"
        for command, count in (("next", 2), ("start", 2), ("next", 3)):
            episodes.command(command)
            wait_until(lambda: len(backend.seeds) == count, SECONDS)  # noqa: B023
        assert backend.seeds[1] == backend.seeds[2] != backend.seeds[0]


@contextmanager
def replaying(path: Path, episode: int = 0) -> Iterator[Replaying]:
    """Show the recorded episodes of ``path``, without pictures."""
    record_arm(path)
    with EpisodeStore.open(path) as store:
        backend = Drawn(make_backend("reach"))
        poses = RecordedPoses(backend, store.spec)  # type: ignore[arg-type]
        replay, ended = Replaying(store, poses, episode), threading.Event()
        thread = threading.Thread(target=replay.run, args=(ended.is_set,))
        thread.start()
        try:
            yield replay
        finally:
            ended.set()
            thread.join(SECONDS)
            assert not thread.is_alive()
            backend.close()


class Drawn:
    """A simulator whose pictures of other states are black."""

    def __init__(self, inner: Any) -> None:
        self.model, self.data, self.spec, self.robot = inner.model, inner.data, inner.spec, inner.robot
        self.reset, self.object_values, self.close = inner.reset, inner.object_values, inner.close

    def render(self, camera: str = "view", data: Any = None, hidden: Any = ()) -> Any:
        return np.zeros((48, 64, 3), np.uint8)


def test_recorded_states_are_shown_and_scrubbed(tmp_path: Path) -> None:
    with replaying(tmp_path / "set") as replay:
        replay.command("pause")
        wait_until(lambda: replay.display.state.note, SECONDS)
        steps, tips = replay.display.state.steps, {}
        for step in (0, 2, steps):
            replay.command("seek", step)
            wait_until(lambda: replay.display.state.step == step, SECONDS)  # noqa: B023
            before = replay.display.number
            replay.command("seek", step)
            wait_until(lambda: replay.display.number > before, SECONDS)  # noqa: B023
            wait_until(lambda: replay.display.state.outcome == ("success" if step == steps else ""), SECONDS)  # noqa: B023
            tips[step] = json.loads(replay.display.scene.frame)["tip"]
        replay.command("back")
        assert replay.display.state.step == steps - 1 and replay.display.state.paused
        for value in (None, "3", 1.5, True, [1]):
            replay.command("seek", value)
        replay.command("seek", 10**9)
        assert replay.display.state.step == steps
        replay.command("next")
        wait_until(lambda: replay.display.state.note and replay.display.state.episode == 1, SECONDS)
        replay.command("next")
        assert replay.display.state.episode == 0, "the first one follows the last"


def test_recorded_episodes_follow_each_other_in_time(tmp_path: Path) -> None:
    with replaying(tmp_path / "set", episode=1) as replay:
        for _ in SPEEDS:
            replay.command("faster")
        outcomes = set()

        def has_returned() -> bool:
            outcomes.add((replay.display.state.episode, replay.display.state.outcome))
            return {(1, "success"), (0, "success")} <= outcomes

        wait_until(has_returned, SECONDS)
        assert replay.display.picture is not None and replay.display.picture[:2] == b"\xff\xd8"


def test_unknown_commands_of_a_page_are_ignored() -> None:
    with playing(max_episode_steps=1000) as (episodes, _):
        wait_until(lambda: episodes.display.state.episode, SECONDS)
        for name in (None, 3, ["pause"], "run", "__init__"):
            episodes.command(name)
        assert not episodes.display.state.paused


@contextmanager
def started(*words: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """Start the command; yield it, and the address and the player that it prints. Ctrl-C ends it."""
    environment = {**os.environ, **variables}
    command = heeding(sys.executable, "-m", "robo_rl.cli", "play", "web.address=127.0.0.1:0", *words)
    outputs: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, env=environment, **outputs) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"^reach, (.*)\. Open (\S+)$", line)
            assert found, line + process.stdout.read()
            yield process, found[2], found[1]
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 130
        finally:
            process.kill()


def test_a_browser_shows_an_expert_and_keys_change_it(tmp_path: Path) -> None:
    pytest.importorskip("websockets")
    with open_browser(tmp_path / "profile") as browser, started("task=reach") as (_, address, _):

        def text(selector: str) -> str:
            return str(browser.find_element("css selector", selector).text)

        browser.get(address)
        wait_until(lambda: "episode" in text("#line"), SECONDS)
        width = "return document.querySelector('#picture').naturalWidth"
        wait_until(lambda: browser.execute_script(width) == 640, SECONDS)
        assert (text("#task"), text("#who"), text("#connection")) == ("reach", "scripted expert", "live")
        body = browser.find_element("css selector", "body")
        body.send_keys("+")
        wait_until(lambda: "speed 2" in text("#line"), SECONDS)
        body.send_keys("]")
        wait_until(lambda: "noise 0.1" in text("#line"), SECONDS)
        body.send_keys("r")
        wait_until(lambda: "same start" in text("#line"), SECONDS)
        body.send_keys(" ")
        wait_until(lambda: text("#outcome") in ("paused", "success", "failure"), SECONDS)
        for width, height in ((360, 560), (844, 390), (1280, 800)):
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 900}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
            browser.save_screenshot(str(tmp_path / f"play_{width}x{height}.png"))
        for button in browser.find_elements("css selector", "#keys button"):
            assert button.size["height"] >= 44 and button.size["width"] >= 44
        assert not [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]


def test_a_browser_scrubs_through_recorded_states(tmp_path: Path) -> None:
    pytest.importorskip("websockets")
    record_arm(tmp_path / "mine")
    words = (f"data={tmp_path / 'mine'}", "episode=1")
    with open_browser(tmp_path / "profile") as browser, started(*words) as (_, address, player):

        def text(selector: str) -> str:
            return str(browser.find_element("css selector", selector).text)

        assert player == "recorded states of mine"
        browser.get(address)
        wait_until(lambda: "no action is applied" in text("#note"), SECONDS)
        width = "return document.querySelector('#picture').naturalWidth"
        wait_until(lambda: browser.execute_script(width) == 640, SECONDS)
        scrub = "const s = document.querySelector('#scrubber'); s.value = 3; s.dispatchEvent(new Event('input'))"
        wait_until(lambda: "episode 1" in text("#line") or browser.find_element("css selector", "body").send_keys("b"))
        browser.execute_script(scrub)
        wait_until(lambda: "step 3 of" in text("#line") and text("#outcome") == "paused", SECONDS)
        browser.find_element("css selector", "body").send_keys(",")
        wait_until(lambda: "step 2 of" in text("#line"), SECONDS)
        browser.find_element("css selector", "#views").click()
        wait_until(lambda: browser.find_element("css selector", "#scenes .stage").is_displayed(), SECONDS)
        for button in browser.find_elements("css selector", "#keys button"):
            assert button.size["height"] >= 44 and button.size["width"] >= 44
        assert not [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]


def test_mistakes_with_data_sets_are_explained(tmp_path: Path) -> None:
    record_arm(tmp_path / "mine", source="expert")
    data = f"data={tmp_path / 'mine'}"
    assert "does not store the configuration of its task" in robo_rl("play", data, code=2)
    assert "there is no episode 7; it holds 2" in robo_rl("play", data, "task=reach", "episode=7", code=2)
    assert "in which nothing acts: leave out source" in robo_rl("play", data, "source=expert", code=2)
    assert "episode is a number of an episode of data=FOLDER" in robo_rl("play", "episode=1", code=2)
    assert "expected the folder of a data set" in robo_rl("play", f"data={tmp_path / 'nothing'}", code=2)


def test_where_nothing_can_be_rendered_the_page_says_why_and_the_numbers_go_on() -> None:
    """The library for headless rendering is there, but no driver of it."""
    from websockets.sync.client import connect

    with started("task=reach", MUJOCO_GL="egl", __EGL_VENDOR_LIBRARY_DIRS="/nonexistent") as (_, link, _):
        address, _, token = link.partition("/#")
        with connect(address.replace("http", "ws") + "/socket", origin=address) as page:
            page.send(json.dumps({"token": token}))
            state: dict[str, Any] = {}
            while not state.get("step"):
                message = page.recv(SECONDS)
                assert isinstance(message, str), "there is no picture"
                state = json.loads(message).get("state", state)
    assert state["notice"].startswith("No picture: no image can be rendered (MUJOCO_GL=egl)")
    assert "install libegl1" in state["notice"]


def test_the_policy_of_a_run_is_played_and_mistakes_are_explained(tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = ["run.env_steps=20", "demonstrations.episodes=0", "run.final_evaluation_episodes=1"]
    options += ["run.evaluation_interval=0", "run.video_episodes=0", f"run.dir={run}"]
    robo_rl("train", "task=reach", *SMALL_AGENT, *options)
    with started(f"run={run}") as (_, _, player):
        assert player == "policy of run, step 20"
    with started("task=reach", "source=human_like") as (_, _, player):
        assert player == "human-like script"
    output = robo_rl("play", f"run={run}", "task=pick_cube", code=2)
    assert "already has a task, safety filters and a policy: leave out task" in output
    output = robo_rl("play", f"run={run}", "planner.samples=5", code=2)
    assert "already has a task, safety filters and a policy: leave out planner" in output
    assert "robo-rl play is for simulations" in robo_rl("play", "task=reach", "+robot=virtual", code=2)
    assert "is not a run folder" in robo_rl("play", f"run={tmp_path}", code=2)
    assert "did you mean 'expert'" in robo_rl("play", "task=reach", "source=expart", code=2)
    assert "joint_delta" in robo_rl("play", "task=reach", "task.controller.action_space=joint_delta", code=2)
