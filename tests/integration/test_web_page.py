"""The page of robo-rl web in Chromium: buttons act, wrong tokens are refused, a dropped connection recovers."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("websockets")

from robo_rl.actor import jpeg
from robo_rl.core import EmergencyStop
from robo_rl.core.emergency import default_file, file_of
from robo_rl.core.latch import Latch
from robo_rl.telemetry import Command, LiveRun

from ..rigs.browser import (
    NOTICES_NO_SILENCE,
    before_pages,
    press_stop_on_a_dead_network,
    proxied,
    wait_until,
)
from ..rigs.web_page import STATUS, TOKEN, ServedDashboard, open_page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as its files show it: curves of 40 evaluations and 300 episodes."""
    folder = tmp_path_factory.mktemp("web")
    run = folder / "runs" / "2026-01-01_pick_cube_rlpd_0"
    run.mkdir(parents=True)
    safety = f"safety: {{emergency_stop: {{file: {folder}/stop}}}}"  # which the page leaves alone
    (run / "config.yaml").write_text(
        f"task: {{name: pick_cube}}\nagent: {{name: rlpd}}\nseed: 0\nrun: {{env_steps: 6000}}\n{safety}\n"
    )
    rng = np.random.default_rng(0)
    lines: list[dict[str, Any]] = []
    for step in range(20, 6000, 20):
        time = {"step": step, "wall_seconds": step / 12}
        success = bool(rng.random() < step / 6000)
        stopped = "contact_stop" if step % 700 == 0 else None
        episode = {"episode_return": float(success), "success": success, "stopped": stopped}
        lines.append(time | {"kind": "episode"} | episode)
        lines.append(time | {"kind": "train", "q_mean": step / 7000, "critic_loss": 5 / step, "entropy": -step / 1000})
        if step % 150 == 0:
            lines.append(time | {"kind": "evaluation", "success_rate": min(step / 4000, 1.0), "episodes": 50})
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture
def run(folder: Path) -> Iterator[LiveRun]:
    """The run goes on: this is what its process holds."""
    with LiveRun(folder / "runs" / "2026-01-01_pick_cube_rlpd_0") as run:
        run.report(STATUS)
        yield run


def text(browser: Any, selector: str) -> str:
    return str(browser.execute_script(f"return document.querySelector('{selector}')?.textContent ?? ''"))


def press(browser: Any, command: str, robot: str = "") -> None:
    chosen = f"[data-command={command}]" + (f"[data-robot={robot}]" if robot else "")
    button = wait_until(lambda: browser.find_elements("css selector", f"{chosen}:enabled"))[0]
    # Not below the header, where a person would not press it either.
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()


def rearm(browser: Any, answer: str) -> None:
    """Press Rearm and answer the question with the button ``answer``."""
    browser.find_element("css selector", "#rearm").click()
    wait_until(lambda: "Is everybody clear" in text(browser, "#confirm"))
    browser.find_element("css selector", f"#{answer}").click()


def shown_title(browser: Any, served: ServedDashboard) -> str:
    """Open the page; return the title of the run that it shows first."""
    open_page(browser, served)
    return str(wait_until(lambda: text(browser, "#title")))


def commanded(run: LiveRun) -> list[Command]:
    return list(wait_until(run.take_commands))


def test_it_shows_the_run_and_its_cameras_and_its_buttons_act(
    browser: Any, served: ServedDashboard, run: LiveRun, folder: Path
) -> None:
    browser.set_window_size(1280, 900)
    open_page(browser, served)
    wait_until(lambda: text(browser, "#state") == "training")
    assert text(browser, "#connection") == "connected"
    assert text(browser, "#title") == "pick_cube  rlpd  seed 0"
    assert "success of evaluations" in text(browser, "#curves") and "100 %" in text(browser, "#curves")
    assert "step 5,600: contact_stop" in text(browser, "#faults")
    assert TOKEN not in browser.current_url, "the address can be shown to others"
    assert wait_until(lambda: run.watched), "pictures are of use now"

    run.show("left", {"wrist": jpeg(np.full((48, 64, 3), (250, 10, 10), np.uint8))})
    width = "return document.querySelector('#cameras img')?.naturalWidth"
    assert wait_until(lambda: browser.execute_script(width)) == 64

    press(browser, "pause")
    assert commanded(run) == [Command("pause")]
    press(browser, "reset", "right")
    press(browser, "success", "left")
    commands = commanded(run)
    while len(commands) < 2:
        commands += commanded(run)
    assert commands == [Command("reset", "right"), Command("success", "left")]
    press(browser, "stop")
    assert not run.take_commands(), "the end of a run is asked for twice"
    # Twice within 3 s, which a busy machine may need more presses for: they may then end it more than once.
    assert set(wait_until(lambda: press(browser, "stop") or run.take_commands())) == {Command("stop")}

    refused = browser.find_element("css selector", "[data-command=checkpoint]")
    assert not refused.is_enabled() and "the disk is full" in refused.get_attribute("title")

    press(browser, "emergency_stop")
    emergency = EmergencyStop()
    assert wait_until(emergency.pressed) == "the page of robo-rl web"
    wait_until(lambda: "all robots: the page of robo-rl web (at " in text(browser, "#holds"))
    rearm(browser, "stay")
    assert emergency.pressed()
    rearm(browser, "clear")
    wait_until(lambda: text(browser, "#answer") == "Re-armed: all robots")
    wait_until(lambda: not browser.find_element("css selector", "#held").is_displayed())
    assert not emergency.pressed()
    problems = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert not problems


def test_the_emergency_stop_can_be_pressed_while_the_page_asks(
    browser: Any, served: ServedDashboard, run: LiveRun
) -> None:
    """The question makes everything beside it inert, and other robots may move."""
    left = Latch(file_of(default_file(), "left"))
    left.press("safety guard: silent")
    open_page(browser, served)
    wait_until(lambda: "robot left: safety guard: silent" in text(browser, "#holds"))
    rearm(browser, "confirm [data-command=emergency_stop]")
    assert wait_until(EmergencyStop().pressed) == "the page of robo-rl web"
    assert not browser.find_element("css selector", "#confirm").is_displayed() and left.pressed()
    assert EmergencyStop().rearm() and left.rearm()


def test_a_wrong_token_is_refused(browser: Any, served: ServedDashboard, run: LiveRun) -> None:
    open_page(browser, served, "a wrong secret")
    wait_until(lambda: browser.find_element("css selector", "#ask").is_displayed())
    assert text(browser, "#connection") == "not connected" and text(browser, "#title") == ""
    assert served.messages[-1] == "Refused a page from 127.0.0.1: the token is missing or wrong"
    browser.find_element("css selector", "#token").send_keys(TOKEN)
    browser.find_element("css selector", "#ask button").click()
    wait_until(lambda: text(browser, "#state") == "training")


def test_a_dropped_connection_recovers(browser: Any, served: ServedDashboard, run: LiveRun) -> None:
    open_page(browser, served)
    wait_until(lambda: text(browser, "#state") == "training")
    served.stop()
    try:
        wait_until(lambda: text(browser, "#connection") == "connection lost")
        pause = browser.find_element("css selector", "[data-command=pause]")
        assert not pause.is_enabled() and "no connection" in pause.get_attribute("title")
    finally:
        served.start()
    wait_until(lambda: text(browser, "#connection") == "connected")
    press(browser, "pause")
    assert commanded(run) == [Command("pause")]


def test_an_emergency_stop_comes_through_though_its_connection_died_unnoticed(
    browser: Any, served: ServedDashboard, run: LiveRun, folder: Path
) -> None:
    emergency = EmergencyStop()
    with proxied(served.server) as proxy, before_pages(browser, NOTICES_NO_SILENCE):
        open_page(browser, served)
        wait_until(lambda: text(browser, "#state") == "training")
        press_stop_on_a_dead_network(browser, proxy, emergency.pressed)
        assert wait_until(lambda: text(browser, "#answer")) == "Robots are stopped"
        wait_until(lambda: "the page of robo-rl web" in text(browser, "#holds"))
        emergency.rearm()
        wait_until(lambda: not text(browser, "#holds"))
        assert not emergency.pressed(), "once it is confirmed it is not said again"


def test_an_emergency_stop_without_a_connection_is_kept_for_the_run_that_it_was_of(
    browser: Any, served: ServedDashboard, run: LiveRun
) -> None:
    open_page(browser, served)
    wait_until(lambda: text(browser, "#state") == "training")
    emergency = EmergencyStop()
    served.stop()
    try:
        wait_until(lambda: text(browser, "#connection") == "connection lost")
        press(browser, "emergency_stop")
        assert browser.find_element("css selector", "#unconfirmed").is_displayed()
        # As a server that was started anew: it has not looked at any run.
        served._dashboard._looks.clear()
        served._dashboard._paths.clear()
    finally:
        served.start()
    wait_until(lambda: not browser.find_element("css selector", "#unconfirmed").is_displayed())
    assert emergency.rearm()


def test_without_a_run_the_emergency_stop_is_that_of_this_user(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    served = ServedDashboard(tmp_path, tmp_path)
    served.start()
    try:
        open_page(browser, served)
        wait_until(lambda: browser.find_element("css selector", "#no-runs").is_displayed())
        assert str(tmp_path) in text(browser, "#searched") and "robo-rl train task=" in text(browser, "#no-runs")
        assert not browser.find_element("css selector", "#notice").is_displayed(), "nothing is wrong"
        browser.find_element("css selector", "#no-runs .to-start").click()
        wait_until(lambda: browser.find_element("css selector", "#start-state").is_displayed())
        press(browser, "emergency_stop")
        wait_until(lambda: text(browser, "#notice") == "Robots are stopped")
        assert EmergencyStop().pressed() == "the page of robo-rl web"
        assert not browser.find_element("css selector", "#unconfirmed").is_displayed()
    finally:
        served.stop()


def test_an_emergency_stop_that_cannot_be_pressed_is_never_shown_as_confirmed(
    browser: Any, served: ServedDashboard, run: LiveRun, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_page(browser, served)
    wait_until(lambda: text(browser, "#state") == "training")
    presses: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(EmergencyStop, "press", lambda _, reason: bool(presses.append(reason)))
        press(browser, "emergency_stop")
        wait_until(lambda: len(presses) > 1)
        assert browser.find_element("css selector", "#unconfirmed").is_displayed()
        wait_until(lambda: text(browser, "#answer").startswith("ROBOTS ARE NOT STOPPED"))
    wait_until(lambda: not browser.find_element("css selector", "#unconfirmed").is_displayed())
    assert EmergencyStop().rearm()


def test_a_connection_that_comes_back_shows_and_commands_the_run_that_was_chosen(
    browser: Any, served: ServedDashboard, run: LiveRun, folder: Path
) -> None:
    newer = folder / "runs" / "2026-01-02_reach_rlpd_0"
    newer.mkdir()
    (newer / "config.yaml").write_text(
        f"task: {{name: reach}}\nseed: 1\nsafety: {{emergency_stop: {{file: {folder}/b}}}}\n"
    )
    (newer / "metrics.jsonl").write_text(json.dumps({"step": 1, "wall_seconds": 0.1, "kind": "train"}) + "\n")
    try:
        wait_until(lambda: shown_title(browser, served).endswith("seed 1"))  # the list of runs may be a moment old
        choice = f"document.querySelector('#runs').value = '{folder}/runs/2026-01-01_pick_cube_rlpd_0';"
        browser.execute_script(f"{choice} document.querySelector('#runs').dispatchEvent(new Event('change'))")
        wait_until(lambda: "seed 0" in text(browser, "#title"))
        served.stop()
        served.start()
        browser.execute_script(
            "window.seen = new Set(); const title = document.querySelector('#title');"
            "new MutationObserver(() => seen.add(title.textContent)).observe(title, {childList: true, subtree: true})"
        )
        wait_until(lambda: text(browser, "#connection") == "connected")
        press(browser, "pause")
        assert commanded(run) == [Command("pause")]
        press(browser, "emergency_stop")
        emergency = EmergencyStop()
        assert wait_until(emergency.pressed) == "the page of robo-rl web"
        emergency.rearm()
        assert not (folder / "stop").exists() and not (folder / "b").exists()
        assert not any("seed 1" in title for title in browser.execute_script("return [...seen]"))
    finally:
        shutil.rmtree(newer)


def test_a_run_that_ended_takes_no_commands(browser: Any, served: ServedDashboard) -> None:
    open_page(browser, served)
    wait_until(lambda: text(browser, "#state") == "unfinished")
    pause = browser.find_element("css selector", "[data-command=pause]")
    assert not pause.is_enabled() and "not running" in pause.get_attribute("title")


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_nothing_is_wider_than_the_screen(
    browser: Any, served: ServedDashboard, run: LiveRun, width: int, height: int
) -> None:
    phone = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        open_page(browser, served)
        wait_until(lambda: text(browser, "#robots th"))
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
