"""The gallery of runs in the page of robo-rl web: what each has reached, choice, comparison and videos."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("websockets")

from ..rigs.browser import wait_until
from ..rigs.page_checks import resize
from ..rigs.web_page import ServedDashboard, open_page
from .test_report_page import HOVER

RATES = {"slow": [0.1, 0.2, 0.4], "quick": [0.1, 0.8, 0.96]}


def make_run(folder: Path, rates: list[float]) -> None:
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("task: {name: pick_cube}\nagent: {name: rlpd}\nseed: 0\n")
    times = [{"step": 500 * n, "wall_seconds": 5.0 * n} for n in range(len(rates))]
    evaluations = [
        time | {"kind": "evaluation", "success_rate": rate, "episodes": 50}
        for time, rate in zip(times, rates, strict=True)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in evaluations))
    (folder / "summary.json").write_text(json.dumps({"status": "completed", "env_steps": 1000, "wall_seconds": 10.0}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gallery")
    for name, rates in RATES.items():
        make_run(folder / "runs" / name, rates)
    (folder / "runs" / "quick" / "videos").mkdir()
    Image.fromarray(np.full((48, 64, 3), 90, np.uint8)).save(folder / "runs" / "quick" / "videos" / "final.jpg")
    (folder / "runs" / "slow" / "videos").mkdir()
    (folder / "runs" / "slow" / "videos" / "final.jpg").symlink_to(folder / "runs" / "quick" / "videos" / "final.jpg")
    return folder


def tiles(browser: Any, served: ServedDashboard) -> dict[str, Any]:
    """Open the page; return the tiles of runs by name."""
    open_page(browser, served)
    elements = wait_until(lambda: browser.find_elements("css selector", "#gallery .run"))
    return {tile.find_element("css selector", "b").text: tile for tile in elements}


def click(browser: Any, tile: Any, selector: str) -> None:
    button = tile.find_element("css selector", selector)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()


def read_at(browser: Any, share: float) -> str:
    """Move the cursor to a share of the width of the first chart; return its legend, empty while there is no chart."""
    place = "const chart = document.querySelector('#curves .u-over'); if (!chart) return '';"
    hover = HOVER.replace("[place, share] = arguments", "[place, share] = [chart, arguments[0]]")
    legend = "return document.querySelector('#curves .u-legend').textContent"
    return str(browser.execute_script(f"{place}{hover}{legend}", share))


def test_the_gallery_shows_what_each_run_has_reached(browser: Any, served: ServedDashboard) -> None:
    resize(browser, 1280, 800)
    by_name = tiles(browser, served)
    assert set(by_name) == set(RATES)
    assert "96 %" in by_name["quick"].text and "40 %" in by_name["slow"].text
    lines = {
        name: tile.find_element("css selector", "polyline").get_attribute("points") for name, tile in by_name.items()
    }
    assert lines["quick"] == "0.0,27.0 50.0,6.0 100.0,1.2"
    chip = by_name["slow"].find_element("css selector", ".chip")
    assert (chip.text, chip.get_attribute("class")) == ("completed", "chip good")
    width = "return arguments[0].querySelector('img').naturalWidth"
    wait_until(lambda: browser.execute_script(width, by_name["quick"]) == 64)
    assert not browser.execute_script(width, by_name["slow"]), "no link is followed"


def test_large_pictures_are_scaled_down_and_others_have_a_reason(
    browser: Any, served: ServedDashboard, folder: Path
) -> None:
    resize(browser, 1280, 800)
    videos = folder / "runs" / "quick" / "videos"
    before = (videos / "final.jpg").read_bytes()
    width = "return arguments[0].querySelector('img:not([hidden])')?.naturalWidth"
    try:
        noise = np.random.default_rng(0).integers(0, 256, (900, 1200, 3), np.uint8)
        Image.fromarray(noise).save(videos / "final.jpg", quality=95)
        assert (videos / "final.jpg").stat().st_size > 512 << 10
        tile = tiles(browser, served)["quick"]
        wait_until(lambda: browser.execute_script(width, tile) == 480)
        (videos / "final.jpg").write_bytes(before[:-2])
        wait_until(lambda: "Picture not shown: a JPEG of 48 x 64 pixels ends too early" in tile.text)
        assert not browser.execute_script(width, tile)
    finally:
        (videos / "final.jpg").write_bytes(before)
    wait_until(lambda: browser.execute_script(width, tile) == 64)


def test_a_run_is_chosen_in_the_gallery(browser: Any, served: ServedDashboard) -> None:
    resize(browser, 1280, 800)
    for name in RATES:
        by_name = tiles(browser, served)
        click(browser, by_name[name], ".tile")
        wait_until(lambda name=name: browser.find_element("css selector", "#path").text.endswith(f"/{name}"))
        wait_until(
            lambda by_name=by_name, name=name: by_name[name].find_elements("css selector", ".tile[aria-pressed=true]")
        )


def test_runs_are_compared_at_the_cursor(browser: Any, served: ServedDashboard) -> None:
    resize(browser, 1280, 800)
    by_name = tiles(browser, served)
    click(browser, by_name["quick"], ".tile")
    click(browser, by_name["slow"], "button:not(.tile)")
    wait_until(lambda: len(browser.find_elements("css selector", "#curves .u-legend:first-child .u-series")) != 1)
    wait_until(lambda: all(part in read_at(browser, 0.5) for part in ("500", "quick", "80 %", "slow", "20 %")))
    click(browser, by_name["slow"], "button:not(.tile)")
    wait_until(lambda: "slow" not in read_at(browser, 0.5))


def test_curves_grow_with_their_run(browser: Any, served: ServedDashboard, folder: Path) -> None:
    resize(browser, 1280, 800)
    click(browser, tiles(browser, served)["slow"], ".tile")
    wait_until(lambda: browser.find_element("css selector", "#path").text.endswith("/slow"))
    wait_until(lambda: "1,000" in read_at(browser, 0.99))
    metrics = folder / "runs" / "slow" / "metrics.jsonl"
    before = metrics.read_text()
    line = json.loads(before.splitlines()[-1]) | {"step": 9000}
    try:
        metrics.write_text(f"{before}{json.dumps(line)}\n")
        wait_until(lambda: "9,000" in read_at(browser, 0.99))
    finally:
        metrics.write_text(before)
