"""Files of bags: logs of SQLite, parts, indices and compression, read whole or refused with the cause."""

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
import yaml
from rosbags.rosbag2 import Reader

from robo_rl.commands.export import data_set
from robo_rl.core import DataError
from robo_rl.replay import EpisodeStore
from robo_rl.replay.interchange import Rosbag

from ..rigs.bag_cases import CASES, COMMAND, STATE, case_topics, joints, load, run_import
from ..rigs.bags import record_messages


def test_what_a_killed_recorder_left_in_the_log_of_sqlite_is_read(tmp_path, capsys):
    shutil.copytree(CASES / "wal_db3", tmp_path / "bag")
    before = {file.name: file.read_bytes() for file in (tmp_path / "bag").iterdir()}
    assert run_import("lab", tmp_path / "bag", tmp_path / "set") == 0
    output = capsys.readouterr().out
    assert "SQLite files with a log that the recorder had not merged; the log was read too: 1 (" in output
    assert "/joint_states has 150 messages, but 75 according to the metadata" in output
    with EpisodeStore.open(tmp_path / "set") as store:
        assert [record.steps for record in store.records] == [29]
    assert {file.name: file.read_bytes() for file in (tmp_path / "bag").iterdir()} == before, "nothing is changed"
    episodes, _ = load(tmp_path / "bag/wal_db3.db3", *case_topics("lab").values())  # the file alone, too
    assert [episode.record.steps for episode in episodes] == [29]
    (tmp_path / "bag/wal_db3.db3-wal").unlink()
    assert load(tmp_path / "bag", *case_topics("lab").values())[0][0].record.steps == 14  # as the metadata says


def test_an_unfinished_change_of_sqlite_is_undone(tmp_path):
    """A journal holds the pages as they were before a change that a killed recorder did not finish."""
    path = record_messages(tmp_path / "bag", joints(), "SQLITE3")
    database = path / "bag.db3"
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("PRAGMA cache_size=2")
    connection.execute("BEGIN")
    connection.execute("DELETE FROM messages WHERE id > 10")
    journal = Path(f"{database}-journal").read_bytes()
    changed = database.read_bytes()
    connection.execute("ROLLBACK")
    connection.close()
    database.write_bytes(changed)
    Path(f"{database}-journal").write_bytes(journal)
    episodes, lines = load(path, STATE, COMMAND)
    assert [episode.record.steps for episode in episodes] == [9] and "log that the recorder had not merged" in lines[0]


@pytest.mark.parametrize("alone", [False, True])
def test_a_journal_that_names_another_file_is_refused_and_deletes_nothing(tmp_path, alone):
    """SQLite would delete the super-journal that a foreign journal names, which may be any file."""
    path = record_messages(tmp_path / "bag", joints(), "SQLITE3")
    database, precious = path / "bag.db3", tmp_path / "thesis"
    precious.write_text("mine")
    name, magic = str(precious).encode(), bytes.fromhex("d9d505f920a163d7")
    size = int.from_bytes(database.read_bytes()[16:18], "big")
    counts = (0, 0, database.stat().st_size // size, 512, size)
    header = (magic + b"".join(value.to_bytes(4, "big") for value in counts)).ljust(512, b"\0")
    page, total = 0x40000000 // size + 1, sum(name) & 0xFFFFFFFF
    record = page.to_bytes(4, "big") + name + len(name).to_bytes(4, "big") + total.to_bytes(4, "big") + magic
    Path(f"{database}-journal").write_bytes(header + record)
    with pytest.raises(DataError, match=r"bag\.db3-journal: the journal names another file"):
        load(database if alone else path, STATE, COMMAND)
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("storage", ["MCAP", "SQLITE3"])
@pytest.mark.parametrize("change", [-3, 3], ids=["fewer", "more"])
def test_messages_are_counted(tmp_path, storage, change):
    path = record_messages(tmp_path / "bag", joints(), storage)
    metadata = path / "metadata.yaml"
    metadata.write_text(metadata.read_text().replace("message_count: 50", f"message_count: {50 + change}"))
    message = (
        rf"has 50 messages, but {50 + change} according to the metadata: a part is missing.*format\.incomplete=true"
    )
    with pytest.raises(DataError, match=message):
        load(path, STATE, COMMAND)
    episodes, lines = load(path, STATE, COMMAND, incomplete=True)
    assert episodes[0].record.steps == 9
    assert lines[0].startswith("Topics whose number of messages differs from the stated one: 2 (")


def test_a_file_that_lacks_rows_is_refused(tmp_path):
    path = record_messages(tmp_path / "bag", joints(), "SQLITE3")
    with sqlite3.connect(path / "bag.db3") as database:
        database.execute("DELETE FROM messages WHERE id % 7 = 0")
    database.close()
    with pytest.raises(DataError, match=r"/command has \d+ messages, but 50 according to the metadata"):
        load(path, STATE, COMMAND)


def split(path, parts):
    """Record a bag in two files; return its folder."""
    half = len(parts) // 2
    record_messages(path, parts[:half], "SQLITE3")
    record_messages(path.parent / "rest", parts[half:], "SQLITE3")
    shutil.move(path.parent / "rest/rest.db3", path / "rest.db3")
    shutil.rmtree(path.parent / "rest")
    metadata = path / "metadata.yaml"
    text = metadata.read_text().replace("  - bag.db3\n", "  - bag.db3\n  - rest.db3\n")
    metadata.write_text(text.replace("message_count: 25", "message_count: 50"))
    return path


def test_all_files_of_a_bag_are_read(tmp_path):
    path = split(tmp_path / "bag", joints())
    assert load(path, STATE, COMMAND)[0][0].record.steps == 9
    metadata = path / "metadata.yaml"
    whole = metadata.read_text()
    metadata.write_text(whole.replace("  - bag.db3\n  - rest.db3\n", "  - rest.db3\n  - bag.db3\n"))
    assert load(path, STATE, COMMAND)[0][0].record.steps == 9, "in whatever order they are listed"
    metadata.write_text(whole.replace("  - rest.db3\n", ""))
    with pytest.raises(DataError, match=r"rest\.db3 is in the bag, but metadata\.yaml does not list it"):
        load(path, STATE, COMMAND)
    metadata.write_text(whole.replace("  - rest.db3\n", "  - bag.db3\n"))
    with pytest.raises(DataError, match=r"lists bag\.db3 twice"):
        load(path, STATE, COMMAND)
    metadata.write_text(whole)
    (path / "rest.db3").unlink()
    with pytest.raises(DataError, match=r"rest\.db3"):
        load(path, STATE, COMMAND)


def test_a_folder_of_bags_is_read_whole(tmp_path):
    for name in ("first", "monday/second"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        record_messages(tmp_path / name, joints())
    assert len(load(tmp_path, STATE, COMMAND)[0]) == 2
    record_messages(tmp_path / "third", joints())
    (tmp_path / "third/metadata.yaml").unlink()
    with pytest.raises(DataError, match=r"third has files of a bag, such as third\.mcap, but no metadata\.yaml"):
        load(tmp_path, STATE, COMMAND)
    assert len(load(tmp_path / "third/third.mcap", STATE, COMMAND)[0]) == 1


def without_index(path):
    """Remove the summary of an MCAP file, and the indices of its chunks, as some writers leave them out."""
    (file,) = path.glob("*.mcap")
    data = file.read_bytes()
    position, kept = 8, data[:8]
    while data[position] != 0x0F:  # up to the end of the data
        end = position + 9 + int.from_bytes(data[position + 1 : position + 9], "little")
        kept += data[position:end] if data[position] != 0x07 else b""
        position = end
    end = data[position : position + 13]
    file.write_bytes(kept + end + b"\x02\x14" + bytes(7 + 20) + data[-8:])
    return path


def test_an_mcap_file_without_an_index_is_read(tmp_path):
    random = np.random.default_rng(0)
    messages = joints()
    mixed = [messages[index] for index in random.permutation(len(messages))]
    for name, rows in (("in order", messages), ("in none", mixed)):
        path = without_index(record_messages(tmp_path / name, rows))
        with Reader(path) as reader:
            assert reader.message_count == 100
        assert load(path, STATE, COMMAND)[0][0].record.steps == 9


def test_an_mcap_file_that_was_not_finished_is_refused(tmp_path):
    path = record_messages(tmp_path / "bag", joints())
    (file,) = path.glob("*.mcap")
    file.write_bytes(file.read_bytes()[:-400])
    with pytest.raises(DataError, match=r"bag is not a bag, or is damaged or unfinished .*mcap recover"):
        load(path, STATE, COMMAND)


@pytest.mark.parametrize("storage", ["MCAP", "SQLITE3"])
@pytest.mark.parametrize("mode", ["FILE", "MESSAGE", "STORAGE"])
def test_compressed_bags_are_read_and_counted(tmp_path, storage, mode):
    if (storage, mode) == ("SQLITE3", "STORAGE"):
        pytest.skip("SQLite has no compression of its own")
    path = record_messages(tmp_path / "bag", joints(), storage, compression=mode)
    assert load(path, STATE, COMMAND)[0][0].record.steps == 9
    metadata = path / "metadata.yaml"
    metadata.write_text(metadata.read_text().replace("message_count: 50", "message_count: 51"))
    with pytest.raises(DataError, match="has 50 messages, but 51 according to the metadata"):
        load(path, STATE, COMMAND)


def test_a_message_that_cannot_be_decoded_is_named(tmp_path):
    path = record_messages(tmp_path / "bag", joints(), "SQLITE3")
    with sqlite3.connect(path / "bag.db3") as database:
        database.execute("UPDATE messages SET data = x'00010000ff' WHERE id = 7")
    database.close()
    with pytest.raises(
        DataError,
        match=r"bag: message 4 of /joints is not a sensor_msgs/msg/JointState as defined by",
    ):
        load(path, STATE, COMMAND)


def test_other_bags_than_can_be_read_together_are_refused(tmp_path, recorded):
    Rosbag().export(data_set(recorded[0], None), tmp_path / "bags/exported")
    record_messages(tmp_path / "bags/recorded", joints())
    with pytest.raises(DataError, match=r"has 2 bags, but robo-rl wrote .*exported: import only that one"):
        load(tmp_path / "bags", STATE, COMMAND)
    (tmp_path / "old.bag").write_bytes(b"#ROSBAG V2.0\n")
    with pytest.raises(DataError, match=r"is a bag of ROS 1: rosbags-convert --src"):
        load(tmp_path / "old.bag", STATE, COMMAND)


def test_a_file_that_was_copied_over_another_is_refused(tmp_path):
    """The numbers of messages agree with the metadata, and each message would be read twice."""
    path = split(tmp_path / "bag", joints())
    shutil.copy(path / "bag.db3", path / "rest.db3")
    with pytest.raises(DataError, match=r"bag\.db3 and rest\.db3 hold the same 50 messages: one file was copied over"):
        load(path, STATE, COMMAND)


@pytest.mark.parametrize("count", ["50", [], 1.5])
def test_a_number_of_messages_that_is_none_is_named(tmp_path, count):
    path = record_messages(tmp_path / "bag", joints())
    metadata = path / "metadata.yaml"
    content = yaml.safe_load(metadata.read_text())
    for topic in content["rosbag2_bagfile_information"]["topics_with_message_count"]:
        topic["message_count"] = count
    metadata.write_text(yaml.safe_dump(content))
    with pytest.raises(DataError, match=r"has '.*' messages according to the metadata, expected a number"):
        load(path, STATE, COMMAND)
