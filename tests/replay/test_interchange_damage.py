"""Exports that a full disk ends, and imports of files that are cut short, damaged or made to harm."""

import json
import resource
import struct
import subprocess
import sys

import h5py
import numpy as np
import pytest
from omegaconf import OmegaConf
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from robo_rl.commands import export, import_
from robo_rl.commands.export import data_set
from robo_rl.core import DataError
from robo_rl.replay import EpisodeStore
from robo_rl.replay.interchange import ForeignConfig, LeRobot, Rlds, Robomimic, Rosbag
from robo_rl.replay.interchange.rlds_layout import FEATURES
from robo_rl.replay.interchange.rosbag_topics import TopicConfig
from robo_rl.replay.interchange.tfrecord import _checksum

from ..rigs.bags import write_bag
from ..rigs.interchange import FORMATS, record

SCALING = {"control_rate": 10.0, "action_low": [-2.0], "action_high": [2.0]}


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def run_export(path, output, name, **options):
    format_ = {"_target_": f"robo_rl.replay.interchange.{name}", **options}
    config = OmegaConf.create({"path": str(path), "output": str(output), "format": format_, "instruction": None})
    return export.run(config)


def run_import(path, output, name):
    foreign = OmegaConf.structured(ForeignConfig(**SCALING))
    config = {"path": str(path), "output": str(output), "format": {"_target_": f"robo_rl.replay.interchange.{name}"}}
    return import_.run(OmegaConf.create({**config, "foreign": foreign}))


EXPORT = """
import resource, sys
from tests.replay.test_interchange_damage import run_export
from robo_rl.core import DataError
path, output, name, storage = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
try:
    run_export(path, output, name, **({"storage": storage} if storage else {}))
except DataError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize(("name", "storage"), [("Robomimic", ""), ("Rosbag", "sqlite3"), ("Rosbag", "mcap")])
def test_a_full_disk_ends_an_export_by_a_message(recorded, tmp_path, name, storage):
    """In a process of its own: HDF5 used to end the process by a segmentation fault."""
    arguments = [str(recorded[0].path), str(tmp_path / "there"), name, storage]
    done = subprocess.run([sys.executable, "-c", EXPORT, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"refused: {tmp_path / 'there'} cannot be written (")
    assert list(tmp_path.iterdir()) == []


def test_robomimic_at_every_size_of_the_disk(recorded, tmp_path):
    """The file is whole or refused, wherever the disk ends; and it is the same as without the guard."""
    data = data_set(recorded[0], None)
    Robomimic().export(data, tmp_path / "whole.hdf5")
    size = (tmp_path / "whole.hdf5").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (1, size // 10, size // 3, size * 2 // 3, size - 1000, size - 1, size):
        path = tmp_path / f"{limit}.hdf5"
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
            if limit < size:
                with pytest.raises(OSError, match=r"too large|No space left"):
                    Robomimic().export(data, path)
            else:
                Robomimic().export(data, path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(list(Robomimic().load(path, ForeignConfig()).episodes())) == 3


def test_a_bag_is_called_as_its_folder(recorded, tmp_path):
    run_export(recorded[0].path, tmp_path / "bag", "Rosbag")
    assert names(tmp_path / "bag") == ["bag.mcap", "metadata.yaml"]
    assert names(tmp_path) == ["bag"]


# --- copies that are cut short ---------------------------------------------------------------------------------------


def test_files_that_a_copy_lacks_are_missed(recorded, tmp_path):
    """Episodes are paired with instructions by their number: of a gap all that follow would be told another's."""
    data = data_set(recorded[0], None)
    Rlds(shard_megabytes=1e-3).export(data, tmp_path / "rlds")
    _, second, _ = sorted((tmp_path / "rlds").glob("*.tfrecord-*"))
    second.rename(tmp_path / "kept")
    with pytest.raises(DataError, match="state 00003 TFRecord files of split 'train', found 2; copy the data"):
        Rlds().load(tmp_path / "rlds", ForeignConfig())
    (tmp_path / "kept").write_bytes(b"")
    (tmp_path / "kept").rename(second)
    with pytest.raises(DataError, match="expected the 3 exported episodes, found 2"):
        list(Rlds().load(tmp_path / "rlds", ForeignConfig()).episodes())
    Robomimic().export(data, tmp_path / "there.hdf5")
    with h5py.File(tmp_path / "there.hdf5", "r+") as file:
        del file["data/demo_1"]
    with pytest.raises(DataError, match="expected the 3 exported episodes, found 2"):
        list(Robomimic().load(tmp_path / "there.hdf5", ForeignConfig()).episodes())


@pytest.mark.parametrize("name", FORMATS)
def test_an_episode_more_or_less_than_was_said_is_missed(recorded, tmp_path, name, monkeypatch):
    from robo_rl.replay.interchange import lerobot_import, rlds_import, robomimic_import, rosbag

    FORMATS[name].export(data_set(recorded[0], None), tmp_path / "there")
    for module in (lerobot_import, rlds_import, robomimic_import, rosbag):
        real = module.read_facts
        monkeypatch.setattr(module, "read_facts", lambda *a, real=real: (*real(*a)[:2], ["push"] * 4))
    with pytest.raises(DataError, match="expected the 4 exported episodes, found 3"):
        list(FORMATS[name].load(tmp_path / "there", ForeignConfig()).episodes())


def test_a_bag_whose_recorder_was_killed_says_how_it_is_repaired(recorded, tmp_path):
    write_bag(tmp_path / "bag")
    (file,) = (tmp_path / "bag").glob("*.mcap")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"damaged .*repair it with mcap recover, or with ros2 bag reindex"):
        Rosbag().load(tmp_path / "bag", ForeignConfig())
    (tmp_path / "bag/metadata.yaml").unlink()
    with pytest.raises(DataError, match="if the recorder was killed, ros2 bag reindex creates it"):
        Rosbag().load(tmp_path / "bag", ForeignConfig())


@pytest.mark.parametrize("storage", ["MCAP", "SQLITE3"])
def test_what_is_out_of_order_in_a_bag_is_read_in_order(tmp_path, storage):
    """Topics of different rates, written in any order: the newest message at each tick counts."""
    types = get_typestore(Stores.ROS2_JAZZY)
    kind = "std_msgs/msg/Float64"
    rows = [("/state", n / 20, n / 20) for n in range(41)] + [("/command", n / 25, n / 50) for n in range(51)]
    with Writer(tmp_path / "bag", version=8, storage_plugin=StoragePlugin[storage]) as bag:
        bag_topics = {topic: bag.add_connection(topic, kind, typestore=types) for topic in ("/state", "/command")}
        for index in np.random.default_rng(0).permutation(len(rows)):
            topic, seconds, value = rows[index]
            message = types.types[kind](data=value)
            bag.write(bag_topics[topic], 10**15 + round(seconds * 1e9), types.serialize_cdr(message, kind))
    topics = {
        "state": TopicConfig(topic="state", gives="state", fields=("data",)),
        "command": TopicConfig(topic="command", gives="action", fields=("data",)),
    }
    (episode,) = Rosbag(topics=topics).load(tmp_path / "bag", ForeignConfig(control_rate=10.0)).episodes()
    ticks = np.arange(20) / 10
    np.testing.assert_allclose(episode.observation["state"][:-1, 0], ticks, atol=1e-6)
    commands = np.floor((ticks + 0.1) * 25 + 1e-9) / 50  # at the end of each period
    np.testing.assert_allclose(episode.executed_action[:19, 0], commands[:19], atol=1e-6)


# --- files made to harm ----------------------------------------------------------------------------------------------


@pytest.fixture
def foreign_hdf5(recorded, tmp_path):
    """A robomimic file of others; and one whose numbers it wants to have read."""
    Robomimic().export(data_set(recorded[0], None), tmp_path / "other.hdf5")
    Robomimic().export(data_set(recorded[0], None), tmp_path / "there.hdf5")
    with h5py.File(tmp_path / "there.hdf5", "r+") as file:
        del file["robo_rl"]
    return tmp_path / "there.hdf5"


@pytest.mark.parametrize("kind", ["link", "group", "external", "virtual"])
def test_what_lies_in_another_file_is_not_read(foreign_hdf5, tmp_path, kind):
    """A file from the network must not bring what lies on this machine, a key for example, into a data set."""
    with h5py.File(foreign_hdf5, "r+") as file:
        demo = file["data/demo_0"]
        if kind == "group":
            del demo["obs"]
            demo["obs"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "data/demo_0/obs")
        else:
            del demo["obs/state"]
        if kind == "link":
            demo["obs/state"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "data/demo_0/obs/state")
        elif kind == "external":
            (tmp_path / "key").write_bytes(bytes(7 * 3 * 4))
            demo.create_dataset("obs/state", (7, 3), "f4", external=[(str(tmp_path / "key"), 0, 7 * 3 * 4)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((7, 3), "f4")
            layout[:] = h5py.VirtualSource(str(tmp_path / "other.hdf5"), "data/demo_0/obs/state", shape=(7, 3))
            demo.create_virtual_dataset("obs/state", layout)
    with pytest.raises(
        DataError, match=r"demo_0/obs(/(state|images_front|front_image))? is stored in another file; copy it"
    ):
        run_import(foreign_hdf5, tmp_path / "out", "Robomimic")
    assert not (tmp_path / "out").exists()


def test_sizes_that_are_only_said_take_no_memory(foreign_hdf5, recorded, tmp_path):
    with h5py.File(foreign_hdf5, "r+") as file:
        del file["data/demo_0/obs/state"]
        file["data/demo_0"].create_dataset("obs/state", (7, 1 << 40), "f4", chunks=(1, 1024))
    with pytest.raises(DataError, match="declares 30786325577728 bytes, but only 0 are stored; it is damaged"):
        run_import(foreign_hdf5, tmp_path / "out", "Robomimic")
    Rlds().export(data_set(recorded[0], None), tmp_path / "rlds")
    (shard,) = (tmp_path / "rlds").glob("*.tfrecord-*")
    for size in (1 << 40, (1 << 64) - 1):
        length = struct.pack("<Q", size)
        shard.write_bytes(length + _checksum(length) + b"few")
        with pytest.raises(DataError, match="damaged or cut short"):
            list(Rlds().load(tmp_path / "rlds", ForeignConfig()).episodes())


def test_all_zeros_are_no_damage(tmp_path):
    """What packs best of all: the limit on what is said must let it pass."""
    with h5py.File(tmp_path / "there.hdf5", "w") as file:
        demo = file.create_group("data/demo_0")
        demo.create_dataset("actions", data=np.zeros((4, 2), np.float32))
        demo.create_dataset(
            "obs/front_image", data=np.zeros((5, 512, 512, 3), np.uint8), compression="gzip", compression_opts=9
        )
    assert run_import(tmp_path / "there.hdf5", tmp_path / "out", "Robomimic") == 0
    with EpisodeStore.open(tmp_path / "out") as store:
        assert store.records[0].steps == 4


def test_rlds_of_words_or_bytes_is_no_numbers(recorded, tmp_path):
    Rlds().export(data_set(recorded[0], None), tmp_path / "there")
    (tmp_path / "there/robo_rl.json").unlink()
    features = tmp_path / "there" / FEATURES
    tree = json.loads(features.read_text())
    steps = tree["featuresDict"]["features"]["steps"]["sequence"]["feature"]["featuresDict"]["features"]
    for dtype in ("S1000000000", "U100000000", "complex64"):
        steps["observation"]["featuresDict"]["features"]["state"]["tensor"]["dtype"] = dtype
        features.write_text(json.dumps(tree))
        data = Rlds().load(tmp_path / "there", ForeignConfig(**SCALING))
        assert set(data.spec.observation) == {"images/front"}
        assert data.metadata["imported"]["left_out"] == ["steps/observation/state"]


NONSENSE = (
    *("cannot be read as LeRobot", "damaged", "lacks fps", "expected an object", "must be a whole number"),
    *("states no dtype", "has the shape"),
)
"""Parts of messages about descriptions of LeRobot data sets."""


def test_nonsense_is_answered_by_a_message(tmp_path, capsys):
    store, _ = record(tmp_path / "set", lengths=(4, 2))
    with store:
        LeRobot(version="v2.1").export(data_set(store, None), tmp_path / "lerobot")
        Rlds().export(data_set(store, None), tmp_path / "rlds")
    (tmp_path / "lerobot/meta/robo_rl/dataset.json").unlink()
    info = tmp_path / "lerobot/meta/info.json"
    whole = json.loads(info.read_text())

    def feature(**changes):
        state = {**whole["features"]["observation.state"], **changes}
        return {**whole, "features": {**whole["features"], "observation.state": state}}

    outside = {**whole["features"], "observation.../../../../outside": whole["features"]["observation.state"]}
    for content in (
        [],
        None,
        {key: value for key, value in whole.items() if key != "fps"},
        {**whole, "chunks_size": 0},
        {**whole, "features": {**whole["features"], "observation.state": None}},
        feature(shape=[1 << 40], names=None),
        feature(shape=[-3], names=None),
        feature(shape="3"),
        {**whole, "features": outside},
    ):
        info.write_text(json.dumps(content))
        with pytest.raises(DataError, match=rf"lerobot.*({'|'.join(NONSENSE)})"):
            run_import(tmp_path / "lerobot", tmp_path / "out", "LeRobot")
    for name in ("features.json", "robo_rl.json"):
        kept = (tmp_path / "rlds" / name).read_bytes()
        (tmp_path / "rlds" / name).write_bytes(b"\xff\xfe")
        with pytest.raises(DataError, match=r"(features|robo_rl)\.json.*(damaged|expected JSON)"):
            run_import(tmp_path / "rlds", tmp_path / "out", "Rlds")
        (tmp_path / "rlds" / name).write_bytes(kept)
    assert names(tmp_path) == ["lerobot", "rlds", "set"], "nothing is left, here or outside"
