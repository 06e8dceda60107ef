"""HDF5 files of robomimic as people report them: read whole, or refused by episode, array and shape."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from robo_rl.core import ConfigError, DataError, ImageConfig
from robo_rl.replay import EpisodeStore
from robo_rl.replay.interchange import ForeignConfig, Robomimic, hdf5

from ..rigs.command_line import exit_code

CASES = Path(__file__).parents[1] / "data/cases/robomimic"
STATES = "Members of episodes left out: 1 (states)"
STEPS = 6


def load(path, **options):
    """Read a file; return the data and its episodes."""
    data = Robomimic().load(path, ForeignConfig(**{"control_rate": 20.0, **options}))
    return data, list(data.episodes())


def write(path, demos=2, **changes):
    """Write a file of others; ``changes`` replace arrays of each demo, None leaves one out."""
    random = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for number in range(demos):
            arrays = {
                "actions": random.uniform(-1, 1, (STEPS, 2)),
                "rewards": np.arange(STEPS, dtype=float),
                "dones": np.arange(STEPS) == STEPS - 1,
                "obs/state": random.standard_normal((STEPS, 3)),
                **changes,
            }
            demo = file.create_group(f"data/demo_{number}")
            for name, rows in arrays.items():
                if rows is not None:
                    demo.create_dataset(name, data=rows)
    return path


# --- the inputs of the reports ---------------------------------------------------------------------------------------


def test_channels_first_become_channels_last():
    data, episodes = load(CASES / "images_chw.hdf5")
    with h5py.File(CASES / "images_chw.hdf5") as file:
        stored = file["data/demo_1/obs/agentview_image"][()]
    np.testing.assert_array_equal(episodes[1].observation["images/agentview"][:-1], stored.transpose(0, 2, 3, 1))
    assert data.notes.lines() == [STATES, "Images converted: 1 (images/agentview: axes chw become hwc)"]


def test_single_numbers_and_additional_axes_are_read(tmp_path):
    _, (first, _) = load(CASES / "extra_dimension.hdf5")
    assert (first.observation["gripper"].shape, first.observation["eef"].shape) == ((13, 1), (13, 1, 4))
    command = ["import", f"path={CASES / 'extra_dimension.hdf5'}", f"output={tmp_path / 'set'}", "format=robomimic"]
    assert not exit_code(*command)
    with EpisodeStore.open(tmp_path / "set") as store:
        assert len(store.episode(0)) == 12 and store.spec.control_rate == 20


def test_rewards_that_were_never_written_are_zeros_and_said():
    data, episodes = load(CASES / "unwritten_rewards.hdf5")
    assert not episodes[0].rewards["reward"].any() and len(episodes[0].rewards["reward"]) == 12
    assert data.notes.lines() == [
        STATES,
        "Rewards that were never written, read as 0: 2 (/data/demo_0/rewards, /data/demo_1/rewards)",
    ]


def test_an_environment_without_arguments_has_no_control_rate():
    _, episodes = load(CASES / "kwargs_null.hdf5")
    assert len(episodes) == 2
    with pytest.raises(ConfigError, match=r"foreign\.control_rate"):
        load(CASES / "kwargs_null.hdf5", control_rate=None)


def test_another_control_rate_than_that_of_the_file_is_said():
    data, _ = load(CASES / "images_chw.hdf5", control_rate=10.0)
    assert "Control rate of 10 Hz as configured; the file states 20 Hz" in data.notes.lines()
    assert load(CASES / "images_chw.hdf5", control_rate=None)[0].spec.control_rate == 20


def test_a_slight_excess_is_clipped_on_request():
    with pytest.raises(DataError, match=r"demo_0.*'action' of frame 5 is 1\.7948 in element 2.*foreign\.clip=true"):
        load(CASES / "actions_slight.hdf5")
    data, episodes = load(CASES / "actions_slight.hdf5", clip=True)
    assert episodes[0].executed_action[5, 2] == 1
    assert data.notes.lines() == [
        STATES,
        "Episodes with actions beyond the limits, clipped: 2 (0: 1 actions, 1: 1 actions)",
    ]


# --- images ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        (
            "wrist_image",
            np.zeros((STEPS, 8, 6, 4), np.uint8),
            r"RGBA images of shape \(8, 6, 4\).*channels:3\}\}' drops alpha",
        ),
        (
            "wrist_image",
            np.zeros((STEPS, 8, 6, 3), np.float32),
            r"float32 images.*'foreign\.images=\{wrist:\{low:LOW,high:HIGH\}\}'",
        ),
        (
            "wrist_depth",
            np.zeros((STEPS, 8, 6, 1), np.float32),
            r"\{wrist_depth:\{low:LOW.*leave_out=\[images/wrist_depth\]",
        ),
        ("wrist_image", np.zeros((STEPS, 3, 3, 3), np.uint8), r"set it with 'foreign\.images=\{wrist:\{axes"),
        ("wrist", np.zeros((STEPS, 2, 8, 6, 3), np.uint8), r"two or three axes.*got \(2, 8, 6, 3\); foreign.leave_out"),
        ("wrist_image", np.zeros((STEPS, 144), np.uint8), r"obs/wrist_image: wrist: .*\(144,\).*images/wrist\] leaves"),
    ],
    ids=["rgba", "float", "depth", "ambiguous", "stack", "flat"],
)
def test_images_of_another_kind_are_refused_by_name(tmp_path, name, rows, message):
    with pytest.raises(DataError, match=message):
        load(write(tmp_path / "a.hdf5", **{f"obs/{name}": rows}))


def test_images_of_another_kind_are_converted_on_request(tmp_path):
    depth = np.linspace(0, 2, STEPS * 8 * 6, dtype=np.float32).reshape(STEPS, 8, 6, 1)
    rgba = np.random.default_rng(1).integers(0, 256, (STEPS, 8, 6, 4), np.uint8)
    path = write(
        tmp_path / "a.hdf5", **{"obs/top_depth": depth, "obs/top_image": rgba, "obs/grey_image": rgba[..., :1]}
    )
    images = {"top_depth": ImageConfig(low=0, high=2), "top": ImageConfig(channels=3)}
    _, (episode, _) = load(path, images=images)
    np.testing.assert_array_equal(episode.observation["images/top"][:-1], rgba[..., :3])
    np.testing.assert_array_equal(episode.observation["images/grey"][:-1], rgba[..., :1])
    np.testing.assert_array_equal(episode.observation["images/top_depth"][:-1], np.rint(depth * 127.5))
    data, _ = load(path, images={"top": ImageConfig(channels=3)}, leave_out=["images/top_depth"])
    assert "Observations left out: 1 (images/top_depth: foreign.leave_out)" in data.notes.lines()


def test_an_episode_of_other_shape_is_refused_by_name(tmp_path):
    """As many numbers in another shape would fit after a reshape: it must not be made."""
    path = write(tmp_path / "a.hdf5", **{"obs/top_image": np.zeros((STEPS, 8, 6, 3), np.uint8)})
    with h5py.File(path, "r+") as file:
        del file["data/demo_1/obs/top_image"]
        file["data/demo_1/obs/top_image"] = np.zeros((STEPS, 6, 8, 3), np.uint8)
    with pytest.raises(DataError, match=r"demo_1/obs/top_image has rows of shape \(6, 8, 3\) .* shape \(8, 6, 3\)"):
        load(path)


# --- what is missing or does not agree -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": np.zeros(STEPS - 1)}, "demo_0/rewards has 5 rows, but there are 6 actions"),
        ({"dones": np.zeros(STEPS + 1)}, "demo_0/dones has 7 rows, but there are 6 actions"),
        ({"obs/state": np.zeros((STEPS - 2, 3))}, "demo_0/obs/state has 4 rows, but there are 6 actions"),
        ({"obs/goal": np.zeros(())}, "demo_0/obs/goal has a single value"),
        ({"next_obs/state": np.zeros((STEPS - 1, 3))}, "demo_0/next_obs/state has 5 rows"),
        ({"rewards": np.zeros((STEPS, 2))}, r"one number per step in /data/demo_0/rewards, found float64 \(6, 2\)"),
        (
            {"actions": np.zeros((STEPS, 1, 2))},
            r"vectors of numbers, but demo_0 has rows of shape \(1, 2\)",
        ),
        ({"next_obs/state": np.zeros((STEPS, 1, 3))}, r"rows of shape \(3,\), but next_obs/state has \(1, 3\)"),
    ],
)
def test_lengths_and_shapes_that_do_not_agree_are_named(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        load(write(tmp_path / "a.hdf5", **changes))


def test_counts_are_compared_with_what_the_file_says(tmp_path):
    path = write(tmp_path / "a.hdf5")
    with h5py.File(path, "r+") as file:
        file["data"].attrs["total"] = 2 * STEPS
        file["data/demo_1"].attrs["num_samples"] = STEPS
    assert len(load(path)[1]) == 2
    with h5py.File(path, "r+") as file:
        file["data"].attrs["total"] = 3 * STEPS
    with pytest.raises(DataError, match="/data has 12 actions, but its attribute 'total' states 18"):
        load(path)
    with h5py.File(path, "r+") as file:
        file["data/demo_1"].attrs["num_samples"] = STEPS + 2
    with pytest.raises(DataError, match="/data/demo_1 has 6 actions, but its attribute 'num_samples' states 8"):
        load(path)


@pytest.mark.parametrize(
    ("listed", "absent"),
    [
        ([b"demo_0", b"demo_1"], ""),
        ([b"demo_1"], ""),
        ([b"demo_0", b"demo_7", b"demo_12"], "2 (demo_12, demo_7)"),
        (["demo_2"], "1 (demo_2)"),
        ([0, 1], ""),
    ],
)
def test_episodes_that_lists_of_the_file_name_but_do_not_exist_are_said(tmp_path, listed, absent):
    path = write(tmp_path / "a.hdf5")
    with h5py.File(path, "r+") as file:
        file["mask/train"] = listed
    data, episodes = load(path)
    line = f"Episodes that a list of the file names, but that it does not have: {absent}"
    assert len(episodes) == 2 and (line in data.notes.lines()) == bool(absent)


@pytest.mark.parametrize(("channels", "kind"), [(1, "depth"), (3, "images")])
def test_images_of_16_bits_that_are_left_out_are_called_what_they_are(tmp_path, channels, kind):
    data, _ = load(write(tmp_path / "a.hdf5", **{"obs/top_image": np.zeros((STEPS, 8, 6, channels), np.uint16)}))
    assert any(f"(images/top: 16-bit {kind}, which" in line for line in data.notes.lines())


def test_arrays_that_were_written_in_part_are_refused(tmp_path):
    path = write(tmp_path / "a.hdf5", **{"obs/state": None})
    with h5py.File(path, "r+") as file:
        rows = file["data/demo_1"].create_dataset("obs/state", (STEPS, 3), "f4", chunks=(2, 3))
        file["data/demo_0/obs/state"] = np.zeros((STEPS, 3))
        rows[:2] = 1
    with pytest.raises(DataError, match="demo_1/obs/state has 1 of its 3 chunks; its recording was cut short"):
        load(path)
    with h5py.File(path, "r+") as file:
        del file["data/demo_1/obs/state"]
        file["data/demo_1"].create_dataset("obs/state", (STEPS, 3), "f4")
    with pytest.raises(DataError, match=r"demo_1/obs/state declares 72 bytes, but only 0 are stored; .* never written"):
        load(path)


def test_dones_that_were_never_written_end_nothing(tmp_path):
    path = write(tmp_path / "a.hdf5", demos=1, dones=None)
    with h5py.File(path, "r+") as file:
        file["data/demo_0"].create_dataset("dones", (STEPS,), "i8")
    data, (episode,) = load(path)
    assert episode.record.steps == STEPS - 1 and not episode.terminated.any()
    assert "Dones that were never written, read as 0: 1 (/data/demo_0/dones)" in data.notes.lines()


def test_values_that_are_not_finite_are_named_and_cut_on_request(tmp_path):
    state = np.ones((STEPS, 3))
    state[3, 1] = np.nan
    path = write(tmp_path / "a.hdf5", **{"obs/state": state})
    with pytest.raises(DataError, match=r"demo_0: episode 0: 'obs/state' of frame 3 has nan in element 1"):
        load(path)
    _, episodes = load(path, faults="cut")
    assert [episode.record.steps for episode in episodes] == [2, 2, 2, 2]


def test_what_is_left_out_is_said(tmp_path):
    words = np.array([b"left"] * STEPS)
    path = write(tmp_path / "a.hdf5", **{"obs/words": words, "obs/group/inner": np.zeros(STEPS)})
    with h5py.File(path, "r+") as file:
        file["data/episode_7/actions"] = np.zeros((STEPS, 2))
    data, episodes = load(path)
    assert set(episodes[0].observation) == {"state"}
    assert data.notes.lines() == [
        "Members of 'data' that are not episodes (demo_N), left out: 1 (episode_7)",
        "Observations left out: 2 (group: no array, words: |S4, which is not numeric)",
    ]


@pytest.mark.parametrize(
    "about",
    [None, [], {"env_kwargs": {"control_freq": "20"}}, {"env_kwargs": [1]}, {"env_kwargs": {"control_freq": 0}}],
)
def test_what_an_environment_is_said_to_be_never_stops_an_import(tmp_path, about):
    path = write(tmp_path / "a.hdf5")
    with h5py.File(path, "r+") as file:
        file["data"].attrs["env_args"] = json.dumps(about)
    assert len(load(path)[1]) == 2
    with pytest.raises(ConfigError, match=r"foreign\.control_rate"):
        load(path, control_rate=None)


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("rewards", None, "demo_0 has 'rewards', but demo_1 does not"),
        ("obs/more", np.zeros((STEPS, 2)), "demo_1 has 'obs/more', but demo_0 does not"),
        (
            "obs/state",
            np.array([b"a"] * STEPS),
            r"demo_1/obs/state has rows of shape \(\) \(\|S1\), but those of "
            "demo_0",
        ),
        ("actions", np.array([[b"a", b"b"]] * STEPS), r"expected numbers in /data/demo_1/actions, found \|S1"),
        ("actions", np.zeros((STEPS, 3)), r"expected actions of shape \(2,\), found \(3,\)"),
    ],
)
def test_episodes_that_differ_are_named(tmp_path, name, rows, message):
    path = write(tmp_path / "a.hdf5")
    with h5py.File(path, "r+") as file:
        if name in file["data/demo_1"]:
            del file[f"data/demo_1/{name}"]
        if rows is not None:
            file[f"data/demo_1/{name}"] = rows
    with pytest.raises(DataError, match=message):
        load(path)


def test_an_episode_of_nothing_is_left_out(tmp_path):
    path = write(tmp_path / "a.hdf5")
    with h5py.File(path, "r+") as file:
        demo = file["data/demo_0"]
        for name in ("actions", "rewards", "dones", "obs/state"):
            shape = demo[name].shape[1:]
            del demo[name]
            demo[name] = np.zeros((0, *shape))
    data, episodes = load(path)
    assert [episode.record.session for episode in episodes] == [1]
    assert data.notes.lines() == ["Episodes without an action between two observations, left out: 1 (0)"]


def test_links_within_the_file_are_followed(tmp_path):
    """Soft and hard links, also to a group that holds the link; h5py makes such files of filtered data sets."""
    path = write(tmp_path / "a.hdf5", **{"obs/state": None, "obs/x": np.zeros((STEPS, 3))})
    with h5py.File(path, "r+") as file:
        for number in range(2):
            file[f"pool/{number}"] = np.full((STEPS, 3), number, float)
            file[f"data/demo_{number}/obs/soft"] = h5py.SoftLink(f"/pool/{number}")
            file[f"data/demo_{number}/obs/hard"] = file[f"pool/{number}"]
            file[f"data/demo_{number}/obs/up"] = file
    _, episodes = load(path)
    for key in ("soft", "hard"):
        assert [float(episode.observation[key].mean()) for episode in episodes] == [0, 1]


def test_more_members_than_a_file_may_have_are_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "a.hdf5")
    monkeypatch.setattr(hdf5, "_LINKS", 13)
    assert len(load(path)[1]) == 2  # data, two episodes of four, and a state in each obs
    monkeypatch.setattr(hdf5, "_LINKS", 12)
    with pytest.raises(DataError, match="more than 12 members"):
        load(path)
