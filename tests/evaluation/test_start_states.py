"""The map of start states, and the videos that a report shows of a run."""

import json
import re
from pathlib import Path

import pytest

from robo_rl.evaluation.report_videos import videos
from robo_rl.evaluation.run_files import Episode
from robo_rl.evaluation.runs import load_run
from robo_rl.evaluation.start_states import start_map, varied_elements

HOSTILE = "<b onmouseover=alert(1)>_x"


def make_run(folder: Path, *episodes: Episode) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text("seed: 0\n")
    lines = [{"index": number, "success": success, "start": start} for number, success, start in episodes]
    (folder / "evaluation.json").write_text(json.dumps({"episodes": lines}))
    return folder


@pytest.mark.parametrize(
    ("elements", "chosen"),
    [
        ({"cube_x": 0.1, "cube_y": 0.1, "wrist_force_x": 9.0, "wrist_force_y": 9.0}, ("cube_x", "cube_y")),
        ({"to_cube_x": 0.2, "to_cube_y": 0.2, "cube_x": 0.1, "cube_y": 0.1}, ("cube_x", "cube_y")),
        ({"to_cube_x": 0.2, "to_cube_y": 0.2, "angle": 3.0}, ("to_cube_x", "to_cube_y")),
        ({"cube_x": 0.1, "cube_y": 0.0, "angle": 3.0}, ("angle", "cube_x")),
        ({"cube_x": 0.1, "cube_y": 0.0}, None),
        ({}, None),
    ],
)
def test_the_map_shows_where_an_object_begins(elements: dict[str, float], chosen: tuple[str, str] | None) -> None:
    episodes = [Episode(n, True, {name: n * extent for name, extent in elements.items()}) for n in range(2)]
    assert varied_elements(episodes) == chosen


def test_clipped_elements_are_axes_only_if_there_are_no_others() -> None:
    places = [(0.01 * n, 0.02 * (7 * n % 20)) for n in range(20)]
    fine = [
        {f"to_goal_fine_{axis}": min(20 * value, 1.0) for axis, value in zip("xy", place, strict=True)}
        for place in places
    ]
    coarse = [dict(zip(("to_goal_x", "to_goal_y"), place, strict=True)) for place in places]
    both = [Episode(n, True, fine[n] | coarse[n]) for n in range(20)]
    assert varied_elements(both) == ("to_goal_x", "to_goal_y")
    assert varied_elements([Episode(n, True, fine[n]) for n in range(20)]) == ("to_goal_fine_x", "to_goal_fine_y")


def test_each_start_state_has_a_mark_by_its_outcome_and_failures_link_to_their_videos(tmp_path: Path) -> None:
    outcomes = (True, False, None, False)
    starts = [{"cube_x": 0.1 * n, "cube_y": 0.05 * n} for n in range(4)]
    run = make_run(tmp_path / "run", *(Episode(n, outcomes[n], starts[n]) for n in range(4)))
    figure = start_map(load_run(run), {1: "failure-0-1"})
    assert figure.count('class="success"') == 2 and figure.count('<path class="failure"') == 2  # one in the legend
    assert figure.count('<circle class="unknown"') == 1
    assert figure.count('<a href="#failure-0-1"><path class="failure"') == 1
    assert "episode 2: failure, cube_x 0.1, cube_y 0.05" in figure and "1 of 4 start states solved" in figure


def test_names_of_a_run_are_no_markup(tmp_path: Path) -> None:
    starts = [{HOSTILE: 1.0 * n, "b": 2.0 * n} for n in range(2)]
    run = make_run(tmp_path / "<i>run", *(Episode(n, True, starts[n]) for n in range(2)))
    figure = start_map(load_run(run), {})
    assert "<i>" not in figure and "<b onmouseover" not in figure and "&lt;b onmouseover" in figure


@pytest.mark.parametrize(
    "text", ["", "[]", '{"episodes": 3}', '{"episodes": [{"index": 0, "success": 3, "start": {}}]}']
)
def test_a_damaged_file_of_episodes_leaves_out_the_map(text: str, tmp_path: Path) -> None:
    run = make_run(tmp_path)
    (run / "evaluation.json").write_text(text)
    assert start_map(load_run(run), {}) == ""


def test_videos_stand_in_the_order_of_the_run_with_their_pictures(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "videos").mkdir()
    for name in ("final.mp4", "start.mp4", "failure_012.mp4", "final.jpg"):
        (run / "videos" / name).write_bytes(name.encode())
    (run / "videos" / "start.jpg").symlink_to("/etc/passwd")
    page = videos([load_run(run)], run / "report.html", embed=False)
    captions = ["before the first step", "at the end", "failure, episode 12"]
    assert [page.count(f"{caption}</figcaption>") for caption in captions] == [1, 1, 1]
    places = [page.index(f"{caption}</figcaption>") for caption in captions]
    assert places == sorted(places)
    assert page.count("poster=") == 1 and 'src="videos/final.mp4" poster="videos/final.jpg"' in page
    embedded = videos([load_run(run)], tmp_path / "report.html", embed=True)
    assert 'poster="data:image/jpeg;base64,' in embedded and "videos/" not in embedded


@pytest.mark.parametrize("embed", [False, True])
def test_marks_of_failures_lead_to_their_videos_in_the_page(embed: bool, tmp_path: Path) -> None:
    runs = []
    for name in "ab":
        run = make_run(tmp_path / name, *(Episode(n, False, {"cube_x": 0.1 * n, "cube_y": 0.1 * n}) for n in range(2)))
        (run / "videos").mkdir()
        (run / "videos" / "failure_002.mp4").write_bytes(name.encode())
        runs.append(load_run(run))
    page = videos(runs, tmp_path / "report.html", embed)
    targets = re.findall(r'<a href="#([^"]*)">', page)
    assert len(set(targets)) == 2
    places = [page.index(f'<figure id="{target}">') for target in targets]
    captions = [page[place:].partition("<figcaption>")[2].partition("<")[0] for place in places]
    assert captions == ["a · failure, episode 2", "b · failure, episode 2"]
