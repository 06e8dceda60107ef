"""Demonstrations in the report of a run: small pictures, or paths of the end effector."""

import dataclasses
from pathlib import Path

from robo_rl.core import ArraySpec
from robo_rl.evaluation.report import write_report
from robo_rl.evaluation.runs import load_run
from robo_rl.monitoring.demonstration_thumbnails import MOST_SHOWN, demonstration_thumbnails
from robo_rl.replay import EpisodeStore

from ..rigs.data_page import recorded
from ..rigs.replay_episodes import SPEC, make_episode


def report(run: Path) -> str:
    (run / "config.yaml").write_text("seed: 0\n")
    page = write_report([load_run(run)], run / "report.html", thumbnails=demonstration_thumbnails)
    return page.read_text()


def test_a_report_shows_pictures_of_the_first_demonstrations(tmp_path: Path) -> None:
    recorded(tmp_path / "demonstrations", (4,) * (MOST_SHOWN + 1))
    page = report(tmp_path)
    assert page.count('<img src="data:image/jpeg') == MOST_SHOWN
    assert "<h2>Demonstrations</h2>" in page and "episode 0, 4 steps" in page


def test_without_pictures_it_shows_paths_if_they_are_known(tmp_path: Path) -> None:
    for name, names, paths in (("path", ("tip_x", "tip_y", "tip_z"), 1), ("other", ("a", "b", "c"), 0)):
        spec = dataclasses.replace(SPEC, observation={"state": ArraySpec((3,), names=names)})
        with EpisodeStore.create(tmp_path / name / "demonstrations", spec) as store:
            store.append_episode(make_episode(0, 30, spec))
        page = report(tmp_path / name)
        assert page.count("<polyline") == paths == page.count("<h2>Demonstrations</h2>")


def test_damaged_and_linked_demonstrations_are_left_out(tmp_path: Path) -> None:
    recorded(tmp_path / "run" / "demonstrations", (4,))
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "demonstrations").symlink_to(tmp_path / "run" / "demonstrations")
    assert len(demonstration_thumbnails(tmp_path / "run")) == 1 and not demonstration_thumbnails(tmp_path / "link")
    (tmp_path / "run" / "demonstrations" / "dataset.json").write_text("{")
    assert "Demonstrations" not in report(tmp_path / "run")
