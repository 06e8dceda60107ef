"""The data page of robo-rl web in Chromium: episodes are looked through, edited and saved, on a phone as well."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets")

from robo_rl.core import EmergencyStop
from robo_rl.monitoring import data_page
from robo_rl.monitoring.dashboard import PAGES, Dashboard
from robo_rl.monitoring.run_table import WatchConfig
from robo_rl.replay import EpisodeStore
from robo_rl.web import WebConfig
from robo_rl.web.server import PageServer

from ..rigs.browser import wait_until
from ..rigs.data_page import recorded
from ..rigs.hostile_data import make_hostile_data
from ..rigs.page_checks import assert_readable, resize
from ..rigs.recorded_arm import record_arm
from ..rigs.server_thread import ServerThread

LENGTHS = (20, 30, 20, 25, 21)
SCENE_PIXELS = """
const done = arguments[0];
requestAnimationFrame(() => requestAnimationFrame(() => {
  const copy = document.createElement("canvas"), scene = document.querySelector("#scene canvas");
  [copy.width, copy.height] = [64, 48];
  requestAnimationFrame(() => {
    copy.getContext("2d").drawImage(document.querySelector("#scene canvas + canvas"), 0, 0, 64, 48);
    done([scene.width > 0, copy.toDataURL()].join(" "));
  });
}));
"""


def serve_data(folder: Path) -> ServerThread:
    """Serve the pages of ``robo-rl web`` for runs and data sets in ``folder``."""
    dashboard, data = Dashboard(WatchConfig([str(folder)], 4, 1.0)), data_page.DataPage([str(folder)])
    return ServerThread(
        lambda: PageServer(
            WebConfig("127.0.0.1:0"),
            PAGES | data_page.PAGES,
            dashboard.serve,
            message_bytes=data_page.MESSAGE_BYTES,
            handlers={data_page.SOCKET: data.serve},
        )
    )


def address_of(served: ServerThread) -> str:
    """Return the address of the data page, with its token."""
    return served.server.link.replace("/#", "/data.html#")


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerThread]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    recorded(tmp_path / "sets" / "mine", LENGTHS)
    served = serve_data(tmp_path / "sets")
    yield served
    served.stop()


def opened(browser: Any, served: ServerThread) -> None:
    """Open the page; the only data set is then chosen."""
    browser.get("about:blank")
    browser.get(address_of(served))
    wait_until(lambda: "flagged" in text(browser, "#flags-state"))


def text(browser: Any, selector: str) -> str:
    return str(browser.execute_script(f"return document.querySelector('{selector}')?.textContent ?? ''"))


def click(browser: Any, selector: str) -> None:
    element = wait_until(lambda: browser.find_elements("css selector", f"{selector}:enabled"))[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def open_episode(browser: Any, number: int) -> None:
    click(browser, f"#episodes .episode:nth-child({number + 1}) .tile")
    wait_for_episode(browser, number)


def wait_for_episode(browser: Any, number: int) -> None:
    """Wait until its plots are drawn, and the height of the page has settled."""
    wait_until(lambda: text(browser, "#episode-title") == f"Episode {number}")
    drawn = "return !document.querySelector('#signals').style.minHeight && !!document.querySelector('#signals canvas')"
    wait_until(lambda: browser.execute_script(drawn))


def go_to(browser: Any, step: int) -> None:
    browser.execute_script(
        "const scrubber = document.querySelector('#scrubber'); scrubber.value = arguments[0];"
        "scrubber.dispatchEvent(new Event('input'))",
        step,
    )


def press_key(browser: Any, key: str) -> None:
    browser.execute_script(
        "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))", key
    )


def edits(browser: Any) -> list[str]:
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#edits li span')].map((row) => row.textContent)"
    )
    return [str(row) for row in rows]


def test_episodes_are_curated_and_saved(browser: Any, served: ServerThread, tmp_path: Path) -> None:
    browser.set_window_size(1280, 900)
    opened(browser, served)
    wait_until(lambda: browser.execute_script("return document.querySelector('#episodes img')?.naturalWidth") == 488)
    open_episode(browser, 1)
    go_to(browser, 10)
    width = "return document.querySelector('#cameras img').naturalWidth"
    wait_until(
        lambda: browser.execute_script(width) == 24 and not browser.find_elements("css selector", "#cameras .old")
    )
    assert text(browser, "#position").startswith("10 / 30")
    click(browser, "[data-edit=split]")
    click(browser, "[data-edit=failure]")
    go_to(browser, 5)
    click(browser, "[data-edit=end]")
    press_key(browser, "n")
    wait_for_episode(browser, 2)
    press_key(browser, "+")
    press_key(browser, "n")
    wait_for_episode(browser, 3)
    press_key(browser, "x")
    assert edits(browser) == [
        "Episode 1: split at step 10",
        "Episode 1: mark as a failure (the piece at step 10)",
        "Episode 1: end at step 5",
        "Episode 2: mark as a success",
        "Episode 3: delete",
    ]
    wait_until(lambda: "segments=[1:0-5,1:10-30:failure]" in text(browser, "#command"))
    press_key(browser, "z")
    wait_until(lambda: "drop" not in text(browser, "#command"))
    press_key(browser, "x")
    click(browser, "#edits li:nth-child(3) button")
    wait_until(lambda: "segments=[1:0-10,1:10-30:failure]" in text(browser, "#command"))
    assert "mark_success=[2]" in text(browser, "#command") and "drop=[3]" in text(browser, "#command")
    assert text(browser, "#edits-result") == "5 episodes, 91 steps would be saved"
    browser.refresh()
    wait_until(lambda: len(edits(browser)) == 4)
    click(browser, "#save-button")
    wait_until(lambda: text(browser, "#saved").startswith("Saved: "))
    with EpisodeStore.open(tmp_path / "sets" / "mine_edited") as store:
        assert [record.steps for record in store.records] == [20, 10, 20, 20, 21]
        assert [record.success for record in store.records][2:4] == [False, True]
    wait_until(lambda: "mine_edited" in text(browser, "#sets"))
    wait_until(lambda: not browser.find_element("css selector", "#save-button").is_enabled())
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_episodes_are_kept_or_deleted_by_keys_alone(browser: Any, served: ServerThread) -> None:
    resize(browser, 1280, 900)
    opened(browser, served)
    keys = pytest.importorskip("selenium.webdriver").Keys
    focused = "return document.activeElement.closest('.episode')?.querySelector('b').textContent"

    def press(*pressed: str) -> str:
        for key in pressed:
            browser.switch_to.active_element.send_keys(key)
        return str(browser.execute_script(focused))

    assert press(keys.ARROW_RIGHT) == "Episode 0"
    assert press(keys.ARROW_RIGHT, "x") == "Episode 1" and edits(browser) == ["Episode 1: delete"]
    assert press(keys.END, "x", keys.ARROW_LEFT, "x") == "Episode 3", "the focus stays where it is"
    assert press("x", keys.HOME) == "Episode 0"
    assert edits(browser) == ["Episode 1: delete", "Episode 4: delete"]
    columns = browser.execute_script(
        "return getComputedStyle(document.querySelector('#episodes')).gridTemplateColumns.split(' ').length"
    )
    assert press(keys.ARROW_DOWN) == f"Episode {min(columns, 4)}" and press(keys.ARROW_UP) == "Episode 0"
    assert press(keys.TAB) == "Episode 0" and browser.switch_to.active_element.text == "Delete"
    assert press(keys.ENTER) == "Episode 0" and browser.switch_to.active_element.text == "Keep"
    press(keys.SHIFT + keys.TAB, keys.ARROW_RIGHT, keys.ENTER)
    wait_for_episode(browser, 1)
    assert press(keys.ESCAPE) == "Episode 1"
    wait_until(lambda: "drop=[0,1,4]" in text(browser, "#command"))


def test_an_episode_plays_to_its_end_with_its_pictures(browser: Any, served: ServerThread) -> None:
    opened(browser, served)
    open_episode(browser, 0)
    press_key(browser, "End")
    assert text(browser, "#position").startswith("20 / 20")
    click(browser, "#play")
    wait_until(lambda: text(browser, "#play") == "Pause")
    wait_until(lambda: text(browser, "#play") == "Play" and text(browser, "#position").startswith("20 / 20"))
    wait_until(lambda: not browser.find_elements("css selector", "#cameras .old"))


def test_an_episode_that_is_opened_while_another_data_set_loads_is_closed(
    browser: Any, served: ServerThread, tmp_path: Path
) -> None:
    recorded(tmp_path / "sets" / "other", LENGTHS)
    browser.get("about:blank")
    browser.get(address_of(served))
    click(browser, "#sets .tile[title$=mine]")
    wait_until(lambda: text(browser, "#title") == "mine")
    browser.execute_script(
        "const send = WebSocket.prototype.send;"
        "WebSocket.prototype.send = function (data) {"
        "  if (!data.includes('describe')) return send.call(this, data);"
        "  window.later = () => send.call(this, data);"
        "};"
    )
    click(browser, "#sets .tile[title$=other]")
    click(browser, "#episodes .episode:nth-child(2) .tile")
    wait_until(lambda: text(browser, "#episode-title") == "Episode 1")
    browser.execute_script("later()")
    wait_until(lambda: text(browser, "#title") == "other")
    assert not browser.find_element("css selector", "#episode-section").is_displayed()


def test_the_emergency_stop_is_on_the_page(browser: Any, served: ServerThread) -> None:
    opened(browser, served)
    click(browser, "#emergency")
    assert wait_until(EmergencyStop().pressed) == "the page of robo-rl web"
    wait_until(lambda: text(browser, "#notice") == "Robots are stopped")
    assert not browser.find_element("css selector", "#unconfirmed").is_displayed()


def test_texts_of_a_hostile_data_set_are_no_markup(browser: Any, served: ServerThread, tmp_path: Path) -> None:
    make_hostile_data(tmp_path / "sets", "texts")
    browser.get("about:blank")
    browser.get(address_of(served))
    click(browser, "#sets .tile:nth-child(2)")
    wait_until(lambda: "flagged" in text(browser, "#flags-state"))
    open_episode(browser, 0)
    assert "<img src=x onerror=alert(1)>" in text(browser, "#episode-facts")
    assert browser.execute_script("return document.querySelectorAll('[onerror]').length") == 0
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_states_of_an_arm_are_played_in_a_3d_scene(browser: Any, tmp_path: Path) -> None:
    record_arm(tmp_path / "sets" / "arm")
    served = serve_data(tmp_path / "sets")
    try:
        opened(browser, served)
        open_episode(browser, 1)
        wait_until(lambda: "no action is applied" in text(browser, "#scene-note"))
        drawn = []
        for step in (0, 4):
            go_to(browser, step)
            drawn.append(browser.execute_async_script(SCENE_PIXELS))
        assert drawn[0] != drawn[1], "the arm has moved"
        assert (
            text(browser, "#scene .quiet") == ""
            and browser.find_element("css selector", "#scene .stage").is_displayed()
        )
        assert_readable(browser)
        for width, height in ((360, 560), (1280, 800)):
            resize(browser, width, height)
            assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        served.stop()


def test_data_without_joints_has_no_scene(browser: Any, served: ServerThread) -> None:
    opened(browser, served)
    open_episode(browser, 0)
    assert not browser.find_element("css selector", "#scene").is_displayed()
