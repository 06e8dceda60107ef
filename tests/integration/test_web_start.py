"""The home page of robo-rl web: data sets beside the runs, and the form that starts a run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets")

from robo_rl.monitoring.starting import Starter
from robo_rl.telemetry import LiveWatch

from ..rigs.browser import wait_until
from ..rigs.command_line import SMALL_AGENT
from ..rigs.data_page import recorded
from ..rigs.hostile_data import make_hostile_data
from ..rigs.page_checks import resize
from ..rigs.web_page import ServedDashboard, open_page

RUN = [*SMALL_AGENT, "run.evaluation_interval=0", "run.final_evaluation_episodes=1", "run.video_episodes=0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    recorded(folder / "sets" / "mine")
    for kind in ("pipes", "texts", "nested"):
        make_hostile_data(folder / "sets", kind)
    recorded(folder / "runs" / "earlier" / "demonstrations", (4,))
    (folder / "runs" / "earlier" / "config.yaml").write_text("task: {name: reach}\nagent: {name: rlpd}\nseed: 3\n")
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[ServedDashboard]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        starter = Starter(str(folder / "runs"), 1)
        served = ServedDashboard(folder / "runs", folder, folder / "sets", starter)
        served.start()
        yield served
        served.stop()
        for process in starter._processes.values():
            process.terminate()
            process.wait()


def text(browser: Any, selector: str) -> str:
    return str(browser.execute_script(f"return document.querySelector('{selector}')?.textContent ?? ''"))


def click(browser: Any, selector: str) -> None:
    element = wait_until(lambda: browser.find_elements("css selector", f"{selector}:not(:disabled)"))[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def fill(browser: Any, **values: str) -> None:
    """Set fields of the form."""
    setting = """
    const form = document.getElementById("start");
    for (const [name, value] of Object.entries(arguments[0])) form.elements[name].value = value;
    form.dispatchEvent(new Event("input"));
    """
    browser.execute_script(setting, values)


def open_form(browser: Any, served: ServedDashboard) -> None:
    open_page(browser, served)
    wait_until(lambda: browser.find_elements("css selector", "#sets-section .tile"))
    click(browser, "#gallery-section .to-start")
    wait_until(lambda: browser.find_element("css selector", "#start").is_displayed())


def test_data_sets_are_beside_the_runs_and_bad_ones_do_not_hide_others(browser: Any, served: ServedDashboard) -> None:
    resize(browser, 1280, 800)
    open_page(browser, served)
    tiles = "return [...document.querySelectorAll('#sets-section .tile')].map((tile) => [tile.tagName, tile.innerText])"
    contents = wait_until(lambda: browser.execute_script(tiles))
    by_name = {content.split("\n")[0]: (tag, content) for tag, content in contents}
    assert set(by_name) == {"mine", "pipes", "texts", "nested", "earlier/demonstrations"}
    tag, content = by_name["mine"]
    assert tag == "A" and all(part in content for part in ("test, 3 episodes", "24 steps, 2.4 s, 58.", "kB", "67 %"))
    assert by_name["pipes"][0] == by_name["nested"][0] == "DIV" and "not a regular file" in by_name["pipes"][1]
    assert browser.execute_script("return document.querySelectorAll('[onerror]').length") == 0
    picture = "return document.querySelector('#sets-section .tile[title$=mine] img')?.naturalWidth"
    wait_until(lambda: browser.execute_script(picture) == 160)
    click(browser, "#sets-section .tile[title$=mine]")
    wait_until(lambda: text(browser, "#title") == "mine")
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_errors_of_the_form_are_those_of_the_command(browser: Any, served: ServedDashboard, folder: Path) -> None:
    resize(browser, 1280, 800)
    open_form(browser, served)
    wait_until(lambda: text(browser, "#start-command").startswith("robo-rl train task=pick_cube agent=rlpd"))
    mine = browser.execute_script("return [...document.querySelector('#start [name=data]').options].at(-1).value")
    assert mine.startswith(str(folder)), "data sets are offered as demonstrations"
    fill(browser, task="reach", seed="1", data=mine, options="agent.gamma=7")
    click(browser, "#start-check")
    wait_until(lambda: text(browser, "#start-problem").startswith("robo-rl: agent.gamma must be in [0, 1], got 7"))
    assert "demonstrations.path=" in text(browser, "#start-command")
    fill(browser, options="robot=virtual")
    wait_until(lambda: "a page starts no robot" in text(browser, "#start-problem"))
    fill(browser, options="safety=none")
    wait_until(lambda: "a page changes no safety filter" in text(browser, "#start-problem"))
    fill(browser, options="logging=wandb")
    wait_until(lambda: "logging=wandb" in text(browser, "#start-command"))
    click(browser, "#start-check")
    wait_until(lambda: "no run that contacts a server (logging.wandb" in text(browser, "#start-problem"))
    fill(browser, options="", seed="0,1", sweep="yes", steps="20")
    wait_until(lambda: text(browser, "#start-command").endswith("-m"))
    click(browser, "#start-check")
    wait_until(lambda: text(browser, "#start-problem") == "Valid: 2 runs of 20 steps")


def test_a_started_run_is_live_outlives_the_server_and_is_stopped(
    browser: Any, served: ServedDashboard, folder: Path
) -> None:
    resize(browser, 1280, 800)
    open_form(browser, served)
    fill(browser, task="reach", agent="rlpd", seed="5", steps="1000000", demonstrations="1", options="\n".join(RUN))
    click(browser, "#start-go")
    wait_until(lambda: text(browser, "#start-problem").startswith("Started: one run of 1,000,000 steps"))
    (run,) = wait_until(lambda: list((folder / "runs").glob("*_reach_rlpd_5")))
    wait_until(lambda: "Run folder" in text(browser, "#started pre") and text(browser, "#started .chip") == "running")
    wait_until(LiveWatch(run).is_going_on)
    served.stop()
    served.start()
    open_page(browser, served)
    wait_until(lambda: browser.find_elements("css selector", f'#runs option[value="{run}"]'))
    assert LiveWatch(run).is_going_on(), "it goes on without the server that started it"
    assert text(browser, "#gallery .run:first-child b") == run.name, "active runs come first"
    click(browser, "#gallery .run:first-child .tile")
    wait_until(lambda: text(browser, "#path") == str(run))
    click(browser, "[data-command=stop]")
    click(browser, "[data-command=stop]")
    wait_until(lambda: (run / "summary.json").exists())
    wait_until(lambda: text(browser, "#started .chip") == "ended")
    assert json.loads((run / "summary.json").read_text())["env_steps"] < 1000000
