"""Recorded times in files of robomimic: compared with the control rate where they are named, otherwise mentioned."""

import numpy as np
import pytest

from robo_rl.core import ConfigError, DataError
from robo_rl.replay.interchange import ForeignConfig, Robomimic

from .test_robomimic_cases import STEPS, write

RATE = 20.0
EVEN = np.arange(STEPS) / RATE + 100
GAP, BACK = EVEN + 3.0 * (np.arange(STEPS) > 2), EVEN - 50.0 * (np.arange(STEPS) > 2)


def load(path, time):
    data = Robomimic(time=time).load(path, ForeignConfig(control_rate=RATE))
    return [episode.record.steps for episode in data.episodes()], data.notes.lines()


@pytest.mark.parametrize("name", ["obs/timestamp", "timestamps", "obs/t"])
@pytest.mark.parametrize("times", [GAP, BACK, GAP[:, None], np.append(GAP, GAP[-1] + 1 / RATE)])
def test_an_episode_ends_where_time_jumps(tmp_path, name, times):
    if name.startswith("obs/"):
        times = times[:STEPS]
    path = write(tmp_path / "data.hdf5", demos=1, **{name: times})
    steps, notes = load(path, name)
    assert steps == [2, 3]
    assert any(
        line.startswith("Jumps in recorded time, each of which ends an episode: 1 (episode 0 frame 2") for line in notes
    )


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (EVEN * 2, r"the control rate is 20 Hz, but the recorded times give 10 Hz"),
        (np.zeros(STEPS), r"no rate, since they do not advance"),
        (EVEN * 1e9 + 1.7e18, r"demo_0/obs/time: expected times in seconds, frame 0 has 1\.7e\+18"),
        (EVEN[:3], r"demo_0/obs/time has 3 rows, but there are 6 actions"),
        (np.where(np.arange(STEPS) == 2, np.nan, EVEN), r"demo_0/obs/time must be one finite number per step"),
        (np.stack([EVEN, EVEN], 1), r"demo_0/obs/time must be one finite number per step"),
    ],
)
def test_times_that_cannot_be_are_refused_by_name(tmp_path, times, message):
    with pytest.raises(DataError, match=message):
        load(write(tmp_path / "data.hdf5", **{"obs/time": times}), "obs/time")


def test_a_time_that_no_step_has_is_refused(tmp_path):
    with pytest.raises(
        ConfigError, match=r"format\.time names 'obs/stamp', which no step has; did you mean 'obs/state'"
    ):
        load(write(tmp_path / "data.hdf5"), "obs/stamp")


@pytest.mark.parametrize("name", ["obs/timestamp", "timestamps", "obs/camera_time", "header_stamp"])
def test_times_that_are_not_used_are_mentioned(tmp_path, name):
    _, notes = load(write(tmp_path / "data.hdf5", **{name: GAP}), None)
    assert f"Times that are not compared with the control rate (format.time): 1 ({name})" in notes


@pytest.mark.parametrize(("kind", "is_image"), [("uint8", True), ("uint16", False), ("float32", None)])
def test_large_arrays_of_two_axes_are_images_if_they_hold_bytes(tmp_path, kind, is_image):
    path = write(tmp_path / "data.hdf5", **{"obs/range": np.full((STEPS, 24, 32), 700, np.uint16).astype(kind)})
    data = Robomimic().load(path, ForeignConfig(control_rate=RATE))
    assert ("images/range" in data.spec.observation) == bool(is_image)
    assert ("range" in data.spec.observation) == (is_image is None)
    depth = "Observations left out: 1 (images/range: 16-bit depth"
    assert any(line.startswith(depth) for line in data.notes.lines()) == (is_image is False)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("lengths", [(1, 2), (2, 1), (1, 3, 2)])
def test_times_of_a_camera_of_another_rate_are_no_other_rate(tmp_path, lengths, first):
    """A camera of 30 Hz stamps frames that are taken at 20 Hz: 33 and 67 ms apart in turn, 50 ms in the mean."""
    intervals = np.resize(np.roll(lengths, first), STEPS - 1) / np.mean(lengths)
    times = np.concatenate([[0.0], np.cumsum(np.clip(intervals, 0.65, 1.35))]) / RATE
    steps, notes = load(write(tmp_path / "data.hdf5", **{"obs/time": times}), "obs/time")
    assert steps == [STEPS, STEPS] and not any("Jumps" in line for line in notes)


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_times_too_coarse_for_the_rate_are_named(tmp_path, kind):
    times = (EVEN + (1.7e9 if kind == "float32" else 0)).astype(kind)
    with pytest.raises(DataError, match=rf"demo_0/obs/time reaches .* s, where {kind} has steps of .* s, too coarse"):
        load(write(tmp_path / "data.hdf5", **{"obs/time": times}), "obs/time")
