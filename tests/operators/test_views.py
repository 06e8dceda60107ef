"""Comparison of a bring-up's pictures with those of an earlier one."""

import json
import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.operators.checks import FAIL, PASS, SKIP, WARN, BringUpConfig, Check
from robo_rl.operators.views import Views, earlier_report

from .test_bring_up import SETTINGS


def scene(right: float = 0.0, down: float = 0.0, brightness: float = 1.0, seed: int = 0) -> Any:
    """A picture of many blocks on a table, by a camera that was moved by some pixels."""
    rng, picture = np.random.default_rng(seed), np.full((240, 320, 3), 90, np.uint8)
    for _ in range(120):
        x, y, width, height = (int(value) for value in rng.integers((0, 0, 6, 6), (320, 240, 30, 30)))
        picture[y : y + height, x : x + width] = rng.integers(20, 200, 3)
    moved = cv2.warpAffine(picture, np.array([[1, 0, right], [0, 1, down]], np.float64), (320, 240))
    return (moved * brightness).clip(0, 255).astype(np.uint8)


def written(folder: Path, outcome: str = PASS, robot: str = "arm", task: str = "reach", age: int = 0) -> Path:
    """Write a report with a picture of the camera ``front``."""
    (folder / "pictures").mkdir(parents=True)
    cv2.imwrite(str(folder / "pictures" / "front.png"), scene()[..., ::-1])
    content = {"robot": robot, "task": task, "checks": [Check("reset", outcome, "").to_json()]}
    (folder / "checks.json").write_text(json.dumps(content))
    os.utime(folder / "checks.json", (1e9 - age, 1e9 - age))
    return folder


def settings(folder: Path, **options: Any) -> BringUpConfig:
    return BringUpConfig(**SETTINGS | {"output": str(folder / "new")} | options)


@pytest.mark.parametrize(
    ("picture", "options", "outcome", "text"),
    [
        (scene(), {}, PASS, "shifted by 0.0 pixels"),
        (scene(3, -2), {}, PASS, "shifted by 3.0 pixels to the right and -2.0 down"),
        (scene(12, 0), {}, FAIL, "the view has moved by 12"),
        (scene(12, 0), {"largest_shift": 20.0}, PASS, "shifted by 12.0 pixels"),
        (scene(brightness=0.6), {}, WARN, "the brightness has changed by -4"),
        (scene(seed=1), {}, FAIL, "does not show the scene"),
        (scene()[:120], {}, WARN, "the picture has 320 x 120 pixels, the reference 320 x 240"),
    ],
    ids=["same", "near", "moved", "allowed", "dark", "another_scene", "another_size"],
)
def test_a_camera_that_was_moved_is_found(
    picture: Any, options: dict[str, float], outcome: str, text: str, tmp_path: Path
) -> None:
    views = Views(written(tmp_path / "old"), settings(tmp_path, **options))
    (check,) = views.checks({"front": picture})
    assert (check.name, check.outcome) == ("view front", outcome), check
    assert text in check.text
    json.dumps(check.to_json())
    if picture.shape == scene().shape:
        overlay = views.overlays["front"]
        grey = [cv2.cvtColor(each, cv2.COLOR_RGB2GRAY) for each in (scene(), picture)]
        np.testing.assert_array_equal(overlay[..., 0], grey[0])
        np.testing.assert_array_equal(overlay[..., 2], grey[1])


def test_a_new_camera_and_a_first_report_are_not_compared(tmp_path: Path) -> None:
    (check,) = Views(written(tmp_path / "old"), settings(tmp_path)).checks({"wrist": scene()})
    assert check.outcome == WARN and "does not exist" in check.text
    (check,) = Views(None, settings(tmp_path)).checks({"front": scene()})
    assert check.outcome == SKIP
    assert Views(None, settings(tmp_path)).checks({}) == []


def test_the_newest_report_without_a_failure_is_the_reference(tmp_path: Path) -> None:
    assert earlier_report(settings(tmp_path), "arm", "reach") is None
    written(tmp_path / "oldest", age=30)
    expected = written(tmp_path / "older", age=20)
    written(tmp_path / "failed", FAIL)
    written(tmp_path / "other_robot", robot="other")
    written(tmp_path / "other_task", task="pick_cube")
    for name, content in (
        ("damaged", "{"),
        ("list", "[1]"),
        ("text", '{"robot": "arm", "task": "reach", "checks": 5}'),
    ):
        (written(tmp_path / name) / "checks.json").write_text(content)
    (tmp_path / "a_file").write_text("")
    assert earlier_report(settings(tmp_path), "arm", "reach") == expected
    named = settings(tmp_path, reference=str(tmp_path / "oldest"))
    assert earlier_report(named, "arm", "reach") == tmp_path / "oldest"
    with pytest.raises(ConfigError, match=r"reference: .* name the output of an earlier bring-up"):
        earlier_report(settings(tmp_path, reference=str(tmp_path / "missing")), "arm", "reach")
