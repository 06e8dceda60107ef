"""What a person says about an episode, and what people see of it."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest

from robo_rl.actor import View, marked
from robo_rl.core import ManualClock, RenderingError, Transition

from ..rigs.replay_episodes import make_episode


def step(**changes: Any) -> Transition:
    return dataclasses.replace(make_episode(0, 3)[0], **changes)


def test_reset_cuts_the_episode() -> None:
    last = marked(step(success=None), "reset")
    assert last.truncated and not last.terminated and last.success is None


def test_success_ends_the_task_where_nobody_else_tells() -> None:
    last = marked(step(success=None, rewards={"success": 0.0, "effort": -0.5}), "success")
    assert last.terminated and not last.truncated and last.success is True
    assert last.rewards == {"success": 1.0, "effort": -0.5}
    assert marked(step(success=None, rewards={"effort": -0.5}), "success").rewards == {"effort": -0.5}


def test_failure_cuts_the_episode_without_success() -> None:
    last = marked(step(success=None), "failure")
    assert last.truncated and not last.terminated and last.success is False


def test_the_task_knows_better() -> None:
    last = marked(step(success=False, rewards={"success": 0.0}), "success")
    assert last.truncated and not last.terminated and last.success is False and last.rewards == {"success": 0.0}


def test_an_episode_that_has_ended_stays_as_it_is() -> None:
    ended = step(terminated=True, success=None)
    assert marked(ended, "success") is ended


def colour(data: bytes) -> list[int]:
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
    assert picture is not None
    return [int(value) for value in picture.mean((0, 1)).round()]


def make_view(clock: ManualClock, **methods: Any) -> View:
    """Return a view of a backend that has only ``methods``."""
    return View(SimpleNamespace(**methods), clock)  # type: ignore[arg-type]


def test_the_newest_frame_of_each_camera_a_few_times_a_second() -> None:
    clock = ManualClock()
    view = make_view(clock)
    red, blue = (np.full((16, 16, 3), value, np.uint8) for value in ((200, 0, 0), (0, 0, 200)))
    observation = {"state": np.zeros(3), "images/wrist": np.concatenate([blue, red], -1)}
    (picture,) = (pictures := view.take(observation)).values()
    assert list(pictures) == ["wrist"]
    assert colour(picture) == pytest.approx([200, 0, 0], abs=3)
    assert view.take(observation) == {}
    clock.advance_ns(200_000_000)
    assert view.take(observation)


def test_slow_pictures_take_a_small_share_of_the_time() -> None:
    clock, grey = ManualClock(), np.full((16, 16, 3), 90, np.uint8)

    def render() -> Any:
        clock.advance_ns(60_000_000)
        return grey

    view = make_view(clock, render=render)
    count = 0
    for _ in range(1000):
        count += bool(view.take({}))
        clock.advance_ns(10_000_000)
    assert clock.now_ns() == 10_000_000_000 + 60_000_000 * count
    assert 0.25 < 60_000_000 * (count - 1) / clock.now_ns() <= 0.3


def test_without_cameras_the_scene_and_without_a_renderer_the_reason() -> None:
    grey = np.full((16, 16, 3), 90, np.uint8)
    view = make_view(ManualClock(), render=lambda: grey)
    assert colour(view.take({"state": np.zeros(3)})["scene"]) == pytest.approx([90, 90, 90], abs=3)

    def render() -> None:
        raise RenderingError("no EGL here")

    view = make_view(ManualClock(), render=render)
    assert view.take({}) == {} and view.problem == "no EGL here"


@pytest.mark.parametrize(("channels", "colours"), [(1, 1), (2, 1), (4, 1), (3, 3), (6, 3), (9, 3)])
def test_stacked_frames_of_grey_and_coloured_cameras_become_pictures(channels: int, colours: int) -> None:
    stacked = np.zeros((16, 24, channels), np.uint8)
    stacked[..., -colours:] = 120
    (picture,) = make_view(ManualClock()).take({"images/wrist": stacked}).values()
    assert colour(picture) == pytest.approx([120, 120, 120], abs=3)
