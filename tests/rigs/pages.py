"""Every page that robo-rl serves, in a state that shows its controls."""

import asyncio
import json
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from robo_rl.actor import jpeg
from robo_rl.core import user_folder
from robo_rl.evaluation.report import write_report
from robo_rl.evaluation.runs import load_run
from robo_rl.evaluation.video import write_poster
from robo_rl.monitoring.playing import PAGES, PlayPage
from robo_rl.monitoring.starting import Starter
from robo_rl.operators.answer_page import AnswerPage
from robo_rl.operators.questions import Question
from robo_rl.operators.stop_button import StopButton
from robo_rl.telemetry import LiveRun
from robo_rl.web import WebConfig
from robo_rl.web.open_pages import OpenPage
from robo_rl.web.person import PersonPage
from robo_rl.web.server import PageServer

from .browser import wait_until
from .data_page import recorded
from .played import playing
from .server_thread import ServerThread
from .set_up import AXES, set_up_page, show_checks
from .videos import write_video
from .web_page import STATUS, ServedDashboard, open_page

Opener = Callable[[Any], None]
"""Opens a page in a browser, and returns when it shows everything."""

ARM = ["x", "y", "z", "roll", "pitch", "yaw", "gripper"]
"""Elements of the action of an arm."""

VIDEO_SECONDS = 2.0

OPEN_PAGES = [
    OpenPage("Answer questions", "http://127.0.0.1:8091/"),
    OpenPage("Drive pick_cube", "http://127.0.0.1:8092/"),
]
"""Pages of other commands, which the page of runs links to."""


def make_ended_run(run: Path) -> None:
    """Make a run that has ended, with videos before and after training and of a failure."""
    (run / "videos").mkdir(parents=True)
    (run / "config.yaml").write_text("task: {name: pick_cube}\nagent: {name: rlpd, pretrain_steps: 2000}\nseed: 0\n")
    lines = [
        {"kind": "evaluation", "step": step, "wall_seconds": step / 12, "success_rate": rate, "episodes": 50}
        | {"demonstrations_success_rate": 0.9, "success_seconds_median": time, "demonstrations_seconds_median": 4.0}
        for step, rate, time in ((0, 0.62, 3.5), (250, 0.8, 3.0), (500, 0.98, 2.5))
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    success = {"value": 0.98, "low": 0.93, "high": 0.99, "episodes": 100}
    times = {"percentile_90": 5.0, "successes_per_hour": 1000.0}
    summary = {
        **{"status": "completed", "env_steps": 500, "wall_seconds": 42.0, "robot_minutes": 0.8333},
        **{"success_rate": success, "cycle_time": {"median": 2.5, **times}},
        **{"demonstrations_cycle_time": {"median": 4.0, **times}},
    }
    (run / "summary.json").write_text(json.dumps(summary))
    for number, name in enumerate(("final", "start", "failure_002", "other")):
        frames = (np.full((48, 64, 3), 60 * number + 40, np.uint8) for _ in range(round(20 * VIDEO_SECONDS)))
        write_video(run / "videos" / f"{name}.mp4", frames, 20.0)
    write_poster(run / "videos" / "final.mp4")


@contextmanager
def served_pages(folder: Path) -> Iterator[dict[str, Opener]]:
    """Serve every page, with files in ``folder``; yield what opens each, by its name.

    The environment variable ``XDG_STATE_HOME`` must name a folder that is free for it.
    """
    with ExitStack() as stack:
        yield {
            **stack.enter_context(_home(folder)),
            **stack.enter_context(_without_runs(folder / "empty")),
            **stack.enter_context(_drive()),
            **stack.enter_context(_answer()),
            **stack.enter_context(_play()),
            **stack.enter_context(_setup()),
            "report": partial(_open_report, folder / "runs" / "ended"),
        }


@contextmanager
def _home(folder: Path) -> Iterator[dict[str, Opener]]:
    """Serve a run that has ended, a live one, two data sets, and a command that a page started."""
    recorded(folder / "sets" / "mine", (20, 30, 20))
    recorded(folder / "sets" / "other", (7,))
    make_ended_run(folder / "runs" / "ended")
    write_report([load_run(folder / "runs" / "ended")], folder / "runs" / "ended" / "report.html")
    live = folder / "runs" / "live"
    live.mkdir()
    (live / "config.yaml").write_text("task: {name: pick_cube}\nagent: {name: rlpd}\nseed: 1\n")
    (live / "metrics.jsonl").write_text((folder / "runs" / "ended" / "metrics.jsonl").read_text())
    started = user_folder("state", "the output of started commands") / "started"
    started.mkdir(parents=True)
    (started / "2026-01-01.txt").write_text("$ robo-rl train task=reach seed=5\nRun folder runs/reach\n")
    starter = Starter(str(folder / "runs"), 1)
    served = ServedDashboard(folder / "runs", folder, folder / "sets", starter, OPEN_PAGES)
    served.start()
    try:
        with LiveRun(live) as running:
            running.report(STATUS)
            yield {
                "live run": partial(_open_live, served, live, running),
                "ended run": partial(_open_ended, served, folder / "runs" / "ended"),
                "start form": partial(_open_form, served),
                "data": partial(_open_data, served),
                "wrong token": partial(_open_without_token, served),
            }
    finally:
        served.stop()


def _open_live(served: ServedDashboard, run: Path, running: LiveRun, browser: Any) -> None:
    _open_run(served, run, browser)
    wait_until(lambda: browser.find_elements("css selector", "[data-command=reset]:enabled"))
    wait_until(lambda: running.watched)
    running.show("left", {"wrist": jpeg(np.full((48, 64, 3), 90, np.uint8))})
    wait_until(lambda: browser.execute_script("return document.querySelector('#cameras img')?.naturalWidth"))


def _open_ended(served: ServedDashboard, run: Path, browser: Any) -> None:
    _open_run(served, run, browser)
    wait_until(lambda: browser.find_elements("css selector", "#videos video"))


def _open_without_token(served: ServedDashboard, browser: Any) -> None:
    open_page(browser, served, "wrong")
    wait_until(lambda: browser.find_element("css selector", "#ask").is_displayed())


def _open_run(served: ServedDashboard, run: Path, browser: Any) -> None:
    open_page(browser, served)
    wait_until(lambda: browser.find_elements("css selector", f'#runs option[value="{run}"]'))
    choice = "const runs = document.getElementById('runs'); runs.value = arguments[0];"
    browser.execute_script(f"{choice} runs.dispatchEvent(new Event('change'))", str(run))
    wait_until(lambda: browser.find_element("css selector", "#path").text == str(run))
    wait_until(lambda: browser.find_elements("css selector", "#curves .u-legend"))
    wait_until(lambda: browser.find_elements("css selector", "#gallery .run"))
    wait_until(lambda: len(browser.find_elements("css selector", "#pages a")) == len(OPEN_PAGES))
    wait_until(lambda: browser.find_elements("css selector", "#sets-section .tile"))


def _open_form(served: ServedDashboard, browser: Any) -> None:
    open_page(browser, served)
    wait_until(lambda: browser.find_elements("css selector", "#sets-section .tile"))
    wait_until(lambda: browser.find_elements("css selector", "#started pre"))
    _click(browser, "#gallery-section .to-start")
    wait_until(lambda: browser.find_element("css selector", "#start").is_displayed())
    wait_until(lambda: browser.find_element("css selector", "#start-command").text.startswith("robo-rl train"))
    browser.execute_script("for (const each of document.querySelectorAll('#started details')) each.open = true")


def _open_data(served: ServedDashboard, browser: Any) -> None:
    """Open an episode that is split at a step, which is the only edit."""
    for _ in range(2):
        browser.get("about:blank")
        browser.get(served.server.link.replace("/#", "/data.html#"))
        browser.execute_script("sessionStorage.clear()")
    _click(browser, "#sets .tile[title$=mine]")
    _click(browser, "#episodes .episode:nth-child(2) .tile")
    drawn = "return !document.querySelector('#signals').style.minHeight && !!document.querySelector('#signals canvas')"
    wait_until(lambda: browser.execute_script(drawn))
    step = "const scrubber = document.querySelector('#scrubber'); scrubber.value = 10;"
    browser.execute_script(f"{step} scrubber.dispatchEvent(new Event('input'))")
    _click(browser, "[data-edit=split]")
    wait_until(lambda: browser.find_elements("css selector", "#edits li"))


def _click(browser: Any, selector: str) -> None:
    element = wait_until(lambda: browser.find_elements("css selector", f"{selector}:not(:disabled)"))[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


@contextmanager
def _without_runs(folder: Path) -> Iterator[dict[str, Opener]]:
    folder.mkdir()
    served = ServedDashboard(folder, folder, folder)
    served.start()

    def open_it(browser: Any) -> None:
        open_page(browser, served)
        wait_until(lambda: browser.find_element("css selector", "#no-runs").is_displayed())

    try:
        yield {"no runs": open_it}
    finally:
        served.stop()


@contextmanager
def _drive() -> Iterator[dict[str, Opener]]:
    about = {"task": "pick_cube", "elements": ARM}
    page = PersonPage(WebConfig("127.0.0.1:0"), about, lambda _: None, emergency_stop=lambda: "")

    def open_it(browser: Any) -> None:
        browser.get("about:blank")
        browser.get(page.link)
        wait_until(lambda: browser.find_elements("css selector", "[data-pad=x-y]"))
        page.show({"view": np.full((480, 640, 3), 120, np.uint8)}, ["step 1 of 200", "you are driving"])
        wait_until(lambda: browser.execute_script("return document.getElementById('camera').naturalWidth") == 640)

    try:
        yield {"drive": open_it}
    finally:
        page.close()


@contextmanager
def _answer() -> Iterator[dict[str, Opener]]:
    """Serve a question with a choice, and one to be answered in words."""
    questions: queue.SimpleQueue[Question] = queue.SimpleQueue()
    page = AnswerPage(WebConfig("127.0.0.1:0"), questions)
    ended = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(page.serve(ended.is_set)))
    thread.start()

    questions_so_far: list[Question] = []
    pictures = [cv2.imencode(".png", np.full((480, 640, 3), grey, np.uint8))[1].tobytes() for grey in (90, 200)]

    def open_it(form: dict[str, Any], browser: Any) -> None:
        if questions_so_far:
            questions_so_far[-1].answer.cancel()
        questions_so_far.append(Question(["Which picture shows the open door?", *pictures], form, Future()))
        questions.put(questions_so_far[-1])
        browser.get("about:blank")
        browser.get(page._server.link)
        wait_until(lambda: browser.find_element("id", "number").text == f"Question {len(questions_so_far)}")
        widths = "return [...document.querySelectorAll('#parts img')].filter((each) => each.naturalWidth).length"
        wait_until(lambda: browser.execute_script(widths) == 2)

    try:
        wait_until(lambda: ":0/" not in page._server.link)
        choices = [["1", "Picture 1"], ["2", "Picture 2"], ["0", "Neither"]]
        yield {"answer by choice": partial(open_it, {"choices": choices}), "answer in words": partial(open_it, {})}
    finally:
        ended.set()
        thread.join()


@contextmanager
def _play() -> Iterator[dict[str, Opener]]:
    with playing(max_episode_steps=1000) as (episodes, _):
        page = PlayPage(episodes, {"task": "reach", "player": "scripted expert", "control_rate": 10.0})
        thread = ServerThread(lambda: PageServer(WebConfig("127.0.0.1:0"), PAGES, page.serve))

        def open_it(browser: Any) -> None:
            browser.get("about:blank")
            browser.get(thread.server.link)
            wait_until(lambda: "episode" in browser.find_element("css selector", "#line").text)
            wait_until(lambda: browser.execute_script("return document.getElementById('picture').naturalWidth"))

        try:
            yield {"play": open_it}
        finally:
            thread.stop()


@contextmanager
def _setup() -> Iterator[dict[str, Opener]]:
    """Serve a bring-up that asks which axes moved differently."""
    with set_up_page(StopButton()) as page, ThreadPoolExecutor(1) as command:
        show_checks(page)
        command.submit(page.differing_axes, AXES)

        def open_it(browser: Any) -> None:
            browser.get("about:blank")
            browser.get(page.link)
            wait_until(lambda: browser.find_elements("css selector", "[data-choice=z]"))
            wait_until(lambda: len(browser.find_elements("css selector", "#cameras img")) == 2)

        try:
            yield {"set-up": open_it}
        finally:
            wait_until(lambda: page._question).give("")


def _open_report(run: Path, browser: Any) -> None:
    browser.get((run / "report.html").as_uri())
    wait_until(lambda: browser.find_elements("css selector", "#charts figure .u-over"))
