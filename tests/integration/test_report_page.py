"""The page of robo-rl report in Chromium: charts of runs, which answer to the cursor, on small and large screens."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from robo_rl.evaluation.report import write_report
from robo_rl.evaluation.runs import load_run

from ..rigs.browser import wait_until
from ..rigs.page_checks import MOST_BYTES, SIZES, resize

STOPPED = 1500
REASON = "contact force above 40 N </script><script>document.title = 'hostile'</script>"
HOVER = """
const [place, share] = arguments;
const box = place.getBoundingClientRect();
const at = {clientX: box.left + share * box.width, clientY: box.top + 20, bubbles: true};
place.dispatchEvent(new MouseEvent("mousemove", at));
"""


def make_run(folder: Path, seed: int) -> Path:
    """Make a run of 3,000 steps, in which the robot was stopped at step 1500."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"task: {{name: pick_cube}}\nagent: {{name: rlpd}}\nseed: {seed}\n")
    lines: list[dict[str, Any]] = []
    for step in range(0, 3001, 5):
        time = {"step": step, "wall_seconds": step / 12}
        stopped = REASON if step == STOPPED else None
        lines.append(time | {"kind": "episode", "episode_return": step / 3000, "success": True, "stopped": stopped})
        lines.append(time | {"kind": "train", "critic_loss": 1 / (step + 1 + seed), "q_mean": step / 3000})
        if step % 500 == 0:
            rate = {"success_rate": step / 3000, "return_mean": step / 3000, "episodes": 50}
            lines.append(time | {"kind": "evaluation"} | rate)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def charts(browser: Any) -> list[Any]:
    return list(wait_until(lambda: browser.find_elements("css selector", "#charts figure .u-over")))


def legend(browser: Any, number: int = 0) -> str:
    return str(browser.find_elements("css selector", "#charts figure .u-legend")[number].text)


def test_the_cursor_reads_every_curve_and_the_reason_of_a_stop(browser: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 0)
    resize(browser, 1280, 800)
    browser.get(write_report([load_run(run)], tmp_path / "report.html").as_uri())
    titles = [caption.text for caption in browser.find_elements("css selector", "#charts figcaption")]
    assert {"success of evaluations", "critic loss", "mean Q", "return, mean of 20 episodes"} <= set(titles)
    success = titles.index("success of evaluations")
    places = charts(browser)
    assert "100 %" in legend(browser, success), "the last value, until the cursor is in a chart"
    note = browser.find_element("css selector", "#charts + p")
    assert note.text.startswith("Red lines: a robot was stopped")
    browser.execute_script(HOVER, places[success], STOPPED / 3000)
    wait_until(lambda: "1,500" in legend(browser, success) and "50 %" in legend(browser, success))
    wait_until(lambda: "0.5" in legend(browser, titles.index("mean Q")))
    wait_until(lambda: note.text == f"step 1,500: {REASON}")
    assert browser.title == "pick_cube · rlpd", "nothing of a run is executed"
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_runs_are_compared_in_the_same_charts(browser: Any, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"seed_{seed}", seed) for seed in range(8)]
    page = write_report([load_run(run) for run in runs], tmp_path / "report.html")
    without_pictures = re.sub(r'data:image/[^"]*', "", page.read_text())
    assert len(without_pictures) < MOST_BYTES
    resize(browser, 1280, 800)
    browser.get(page.as_uri())
    browser.execute_script(HOVER, charts(browser)[0], 0.5)
    wait_until(lambda: all(f"seed_{seed}" in legend(browser) for seed in range(8)))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_no_chart_is_wider_than_its_box(browser: Any, size: tuple[int, int], tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 0)
    resize(browser, *size)
    browser.get(write_report([load_run(run)], tmp_path / "report.html").as_uri())
    charts(browser)
    widths = "return [...document.querySelectorAll('#charts figure')].map((box) => box.scrollWidth - box.clientWidth)"
    assert max(browser.execute_script(widths)) <= 0, "no chart is wider than its box"
