"""Data sets to the formats of other projects and back: nothing is lost, or it is said."""

import dataclasses
import json

import numpy as np
import pytest

from robo_rl.commands.export import data_set
from robo_rl.core import ArraySpec, ConfigError, DataError, EnvSpec
from robo_rl.replay.interchange import ForeignConfig, LeRobot, Rlds, Robomimic
from robo_rl.replay.interchange.statistics import FeatureStatistics

from ..rigs.interchange import FORMATS, LENGTHS, TOLD, record
from ..rigs.replay_episodes import METADATA, SPEC, assert_same


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_exported_is_imported_bit_for_bit(recorded, tmp_path, name):
    store, episodes = recorded
    FORMATS[name].export(data_set(store, None), tmp_path / "there")
    found = FORMATS[name].load(tmp_path / "there", ForeignConfig())
    assert found.spec == SPEC
    assert {key: found.metadata[key] for key in METADATA} == METADATA
    assert found.metadata["exported_from"]["path"] == str(store.path)
    assert list(found.instructions) == TOLD["instructions"]
    read = list(found.episodes())
    assert len(read) == len(episodes)
    for actual, original in zip(read, episodes, strict=True):
        assert_same(actual.transitions(), original)


@pytest.mark.parametrize("name", FORMATS)
def test_a_task_of_other_shapes_survives(tmp_path, name):
    spec = EnvSpec(
        task="other",
        observation={"state": ArraySpec((1,)), "object": ArraySpec((2, 2), "float64"), "tactile": ArraySpec((4,))},
        action=ArraySpec((1,), low=-1, high=1),
        action_space="joint_position",
        action_frame="joint",
        control_rate=20.0,
        max_episode_steps=None,
        reward_terms=(),
        reports_success=False,
    )
    store, episodes = record(tmp_path / "set", spec, metadata={}, lengths=(4, 2))
    with store:
        FORMATS[name].export(data_set(store, "push"), tmp_path / "there")
    found = FORMATS[name].load(tmp_path / "there", ForeignConfig())
    assert found.spec == spec and list(found.instructions) == ["push", "push"]
    for actual, original in zip(found.episodes(), episodes, strict=True):
        assert_same(actual.transitions(), original)


@pytest.mark.parametrize("name", FORMATS)
def test_grey_images_survive(tmp_path, name):
    spec = dataclasses.replace(SPEC, observation={"images/front": ArraySpec((24, 20, 1), "uint8")})
    store, episodes = record(tmp_path / "set", spec, lengths=(4, 2))
    with store:
        FORMATS[name].export(data_set(store, "push"), tmp_path / "there")
        if name.startswith("lerobot"):
            with pytest.raises(DataError, match=r"a video needs colour images.*format\.images=png"):
                LeRobot(images="video").export(data_set(store, "push"), tmp_path / "film")
    for actual, original in zip(
        FORMATS[name].load(tmp_path / "there", ForeignConfig()).episodes(), episodes, strict=True
    ):
        assert_same(actual.transitions(), original)


def test_videos_lose_little_and_only_of_images(tmp_path):
    store, episodes = record(tmp_path / "set")
    with store:
        smooth = data_set(store, None)
        ramp = np.add.outer(np.arange(24), np.arange(24))[..., None] * np.array([2, 4, 1])
        pictures = [np.clip(ramp + 3 * np.arange(n + 1)[:, None, None, None], 0, 255).astype(np.uint8) for n in LENGTHS]
        filmed = [
            dataclasses.replace(episode, observation={**episode.observation, "images/front": frames})
            for episode, frames in zip(smooth.episodes(), pictures, strict=True)
        ]
        smooth = dataclasses.replace(smooth, episodes=lambda: iter(filmed))
        for version in ("v2.1", "v3.0"):
            format_ = LeRobot(version=version, images="video", quality=10)
            format_.export(smooth, tmp_path / version)
            read = list(format_.load(tmp_path / version, ForeignConfig()).episodes())
            for actual, frames, original in zip(read, pictures, episodes, strict=True):
                difference = np.abs(actual.observation["images/front"].astype(int) - frames)
                assert difference.mean() < 3
                np.testing.assert_array_equal(actual.observation["images/front"][-1], frames[-1])
                np.testing.assert_array_equal(actual.proposed_action, [step.proposed_action for step in original])
        info = json.loads((tmp_path / "v3.0/meta/info.json").read_text())
        assert info["features"]["observation.images.front"]["info"]["video.codec"] in ("h264", "av1")
        assert len(list((tmp_path / "v2.1/videos").rglob("*.mp4"))) == 3
        assert len(list((tmp_path / "v3.0/videos").rglob("*.mp4"))) == 1


def test_statistics_are_those_of_numpy():
    random = np.random.default_rng(0)
    vectors = random.standard_normal((50, 3))
    images = random.integers(0, 256, (50, 5, 4, 3), np.uint8) // 2
    whole, first = FeatureStatistics(), FeatureStatistics()
    first.add({"vector": vectors[:20], "image": images[:20]})
    whole.add({"vector": vectors[20:], "image": images[20:]})
    whole.merge(first)
    for name, rows in (("vector", vectors), ("image", images.reshape(-1, 3) / 255)):
        found = whole.result()[name]
        assert found["count"] == [50]
        for key, expected in {
            "min": rows.min(0),
            "max": rows.max(0),
            "mean": rows.mean(0),
            "std": rows.std(0),
            "q10": np.quantile(rows, 0.1, axis=0, method="inverted_cdf"),
            "q99": np.quantile(rows, 0.99, axis=0, method="inverted_cdf"),
        }.items():
            np.testing.assert_allclose(found[key].ravel(), expected, rtol=1e-9, err_msg=f"{name} {key}")


def test_what_lerobot_cannot_hold_is_refused(recorded, tmp_path):
    store, _ = recorded
    data = data_set(store, None)
    for spec, message in (
        (dataclasses.replace(SPEC, control_rate=12.5), "whole number of frames per second"),
        (dataclasses.replace(SPEC, observation={"images/front": ArraySpec((24, 24, 9), "uint8")}), "one frame"),
    ):
        with pytest.raises(DataError, match=message):
            LeRobot().export(dataclasses.replace(data, spec=spec), tmp_path / "there")


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("lerobot_v3", "object", "environment_state"),
        ("lerobot_v21", "object", "environment_state"),
        ("rlds", "arm/joints", "arm_joints"),
        ("robomimic", "arm/joints", "arm_joints"),
    ],
)
def test_observations_never_take_the_place_of_others(tmp_path, name, first, second):
    observation = {first: ArraySpec((2,)), second: ArraySpec((2,))}
    store, _ = record(tmp_path / "set", dataclasses.replace(SPEC, observation=observation))
    with store, pytest.raises(DataError, match=f"the observations '{first}' and '{second}' would both be"):
        FORMATS[name].export(data_set(store, None), tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_damage_is_named(recorded, tmp_path):
    store, _ = recorded
    path = tmp_path / "there"
    LeRobot().export(data_set(store, None), path)
    final = path / "meta/robo_rl/episodes.parquet"
    final.write_bytes(final.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"episodes\.parquet is damaged"):
        list(LeRobot().load(path, ForeignConfig()).episodes())
    info = path / "meta/info.json"
    info.write_text(info.read_text().replace('"v3.0"', '"v1.6"'))
    with pytest.raises(DataError, match=r"version 'v1\.6'; only v2\.1 and v3\.0 are supported"):
        LeRobot().load(path, ForeignConfig())
    with pytest.raises(DataError, match=r"is not an RLDS data set.*it has no features\.json"):
        Rlds().load(path, ForeignConfig())
    Rlds().export(data_set(store, None), tmp_path / "rlds")
    (shard,) = (tmp_path / "rlds").glob("*.tfrecord-00000-of-00001")
    whole = shard.read_bytes()
    for damaged, message in (
        (whole[:-3], "does not match its checksum; the file is damaged or cut short"),
        (b"\xff" + whole[1:], "length does not match its checksum"),
        (whole[:100] + bytes([whole[100] ^ 1]) + whole[101:], "does not match its checksum"),
    ):
        shard.write_bytes(damaged)
        with pytest.raises(DataError, match=message):
            list(Rlds().load(tmp_path / "rlds", ForeignConfig()).episodes())
    with pytest.raises(DataError, match="no TFRecord files of split 'test'"):
        Rlds(split="test").load(tmp_path / "rlds", ForeignConfig())
    (tmp_path / "no.hdf5").write_bytes(b"no")
    with pytest.raises(DataError, match="not an HDF5 file"):
        Robomimic().load(tmp_path / "no.hdf5", ForeignConfig())


def test_options_out_of_range_are_named():
    for make, message in (
        (lambda: LeRobot(version="v1"), "format.version"),
        (lambda: LeRobot(images="gif"), "format.images"),
        (lambda: Robomimic(action="best"), "format.action"),
        (lambda: Rlds(action="best"), "format.action"),
        (lambda: Rlds(shard_megabytes=0), "format.shard_megabytes"),
        (lambda: Rlds(last_step="none"), "format.last_step"),
        (lambda: ForeignConfig(source="cat"), "foreign.source"),
        (lambda: ForeignConfig(action_low=[0.0]), "foreign.action_high"),
    ):
        with pytest.raises(ConfigError, match=message):
            make()


# --- bags ------------------------------------------------------------------------------------------------------------
