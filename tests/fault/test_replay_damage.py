"""Damaged, foreign and unfinished data sets: refused by name, never read as something else."""

import json
import shutil
import subprocess
import sys

import pytest

from robo_rl.core import DataError
from robo_rl.replay import EpisodeStore

from ..rigs.replay_episodes import SPEC, assert_same, make_episode, record


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A data set to be read only, and its episodes."""
    path = tmp_path_factory.mktemp("data") / "set"
    return path, record(path)


@pytest.fixture
def copy(recorded, tmp_path):
    """The data set of ``recorded``, to be changed."""
    shutil.copytree(recorded[0], tmp_path / "set")
    return tmp_path / "set"


def refusal(path, mode="r") -> str:
    """Return why the data set cannot be read: the same, episode by episode or many at a time."""
    reasons = set()
    for read in (lambda store: list(map(store.arrays, range(len(store)))), lambda store: list(store.episodes())):
        with pytest.raises(DataError) as caught, EpisodeStore.open(path, mode) as store:
            read(store)
        reasons.add(str(caught.value))
    (reason,) = reasons
    return reason


def test_nothing_there(tmp_path):
    path = tmp_path / "set"
    assert refusal(path) == f"{path}: there is no data set; correct the path, or create one with `robo-rl record`"
    assert refusal(path, "a") == refusal(path)
    assert not path.exists()


def test_another_folder_or_file(tmp_path):
    expected = (
        f"{tmp_path} is not a data set: it has no dataset.json; expected a folder from `robo-rl record` or `collect`"
    )
    assert refusal(tmp_path) == expected
    (tmp_path / "file").touch()
    assert "is not a data set" in refusal(tmp_path / "file")


def test_creating_over_something_is_refused(copy, tmp_path):
    with pytest.raises(DataError, match="exists already; open it to add episodes, or choose another path"):
        EpisodeStore.create(copy, SPEC)
    (tmp_path / "empty").mkdir()
    EpisodeStore.create(tmp_path / "empty", SPEC).close()


def test_newer_format(copy):
    facts = json.loads((copy / "dataset.json").read_text())
    (copy / "dataset.json").write_text(json.dumps(facts | {"format_version": 2}))
    assert refusal(copy) == (
        f"{copy}/dataset.json: expected format version 1, found 2; the data set was written by another version of "
        "robo-rl: update the installed one"
    )
    (copy / "dataset.json").write_text(json.dumps(facts | {"format": "other"}))
    assert "expected format 'robo_rl episodes', found 'other'" in refusal(copy)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "robo_rl episodes", "format_version": 1}'])
def test_damaged_facts(copy, text):
    (copy / "dataset.json").write_text(text)
    assert "dataset.json is damaged" in refusal(copy)


def test_damaged_list_of_episodes(copy):
    file = copy / "episodes.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    for line in (b"\x00\x00\n", b"{}\n", b"[1]\n", lines[1].replace(b'"steps":450', b'"steps":-4')):
        file.write_bytes(lines[0] + line + lines[2])
        assert "line 2 is damaged" in refusal(copy)
        assert "keep the earlier episodes" in refusal(copy)
    shorter = json.loads(lines[1]) | {"steps": 45, "sources": {"policy": 45}}
    file.write_bytes(lines[0] + json.dumps(shorter).encode() + b"\n" + lines[2])
    assert "of episode 1 is damaged (wrong checksum)" in refusal(copy)
    file.unlink()
    assert "No such file" in refusal(copy)


def test_unfinished_line_is_no_episode(copy):
    file = copy / "episodes.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-30])
    with EpisodeStore.open(copy) as store:
        assert len(store) == 3
    with EpisodeStore.open(copy, "a") as store:
        assert len(store) == 3
        store.append_episode(make_episode(8, 30))
    with EpisodeStore.open(copy) as store:
        assert_same(store.episode(2), make_episode(2, 1))
        assert_same(store.episode(3), make_episode(8, 30))


ARRAY_FILES = ["observation/images/front/c.1.0.0.0", "executed_action/c.0.0", "observation/state/c.0.0", "success/c.0"]


@pytest.mark.parametrize("name", ARRAY_FILES)
@pytest.mark.parametrize("damage", ["flipped", "truncated", "missing", "zeroed"])
def test_damaged_rows_are_never_returned(copy, name, damage):
    file = copy / "arrays.zarr" / name
    data = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(data[: len(data) // 2])
    elif damage == "zeroed":
        file.write_bytes(bytes(len(data)))
    else:
        data[len(data) // 3] ^= 16
        file.write_bytes(data)
    message = refusal(copy)
    assert f"{name.rsplit('/', 1)[0]} of episode" in message
    assert "is damaged" in message
    assert "restore the data set from a copy" in message


def test_missing_or_altered_array(copy):
    file = copy / "arrays.zarr" / "rewards" / "zarr.json"
    text = file.read_text()
    file.write_text(text.replace('"float32"', '"float64"'))
    assert "rewards: expected float32 rows of shape (2,) as dataset.json states" in refusal(copy)
    file.write_text(text.replace("488", "480"))
    assert "rewards: expected at least 488 rows for 4 episodes, found 480" in refusal(copy)
    file.unlink()
    assert "rewards: the array is missing or damaged" in refusal(copy)


@pytest.mark.parametrize("name", ["episodes.jsonl", "arrays.zarr", "arrays.zarr/observation", "arrays.zarr/rewards"])
def test_links_out_of_a_data_set_are_not_written_through(copy, tmp_path, name):
    """A list of episodes that links to another file would truncate it to its last complete line."""
    outside = tmp_path / "outside"
    (copy / name).rename(outside)
    (copy / name).symlink_to(outside)
    EpisodeStore.open(copy).close()  # reading is allowed
    before = outside.read_bytes() if outside.is_file() else sorted(outside.rglob("*"))
    with pytest.raises(DataError, match="is a link to"):
        EpisodeStore.open(copy, "a")
    assert (outside.read_bytes() if outside.is_file() else sorted(outside.rglob("*"))) == before


def test_a_file_that_the_list_of_episodes_links_to_keeps_its_last_line(copy, tmp_path):
    (tmp_path / "notes").write_text("no newline at the end")
    (copy / "episodes.jsonl").unlink()
    (copy / "episodes.jsonl").symlink_to(tmp_path / "notes")
    with pytest.raises(DataError, match="is a link to"):
        EpisodeStore.open(copy, "a")
    assert (tmp_path / "notes").read_text() == "no newline at the end"


def _change_array(copy, name, change):
    file = copy / "arrays.zarr" / name / "zarr.json"
    facts = json.loads(file.read_text())
    change(facts)
    file.write_text(json.dumps(facts))


def test_an_array_that_states_many_rows_is_not_truncated_row_by_row(copy):
    for name in ("executed_action", "observation/images/front"):
        _change_array(copy, name, lambda facts: facts.update(shape=[1 << 40, *facts["shape"][1:]]))
        with pytest.raises(DataError, match="1,099,511,627,776 rows are stated"):
            EpisodeStore.open(copy, "a")
        _change_array(copy, name, lambda facts: facts.update(shape=[9, *facts["shape"][1:]]))


def test_chunks_without_rows_are_refused(copy):
    def change(facts):
        facts["chunk_grid"]["configuration"]["chunk_shape"][0] = 0

    _change_array(copy, "executed_action", change)
    with pytest.raises(DataError, match="executed_action"):
        EpisodeStore.open(copy)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sources": {"human": 10**9}}, "sources count"),
        ({"sources": {}}, "sources count 0 actions"),
        ({"verdicts": {"999": {"changed": True, "stop": False, "reasons": [], "message": ""}}}, "whole number"),
        ({"verdicts": {"-1": {"changed": True, "stop": False, "reasons": [], "message": ""}}}, "whole number"),
    ],
)
def test_a_record_agrees_with_its_number_of_steps(copy, change, reason):
    file = copy / "episodes.jsonl"
    first, *others = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps(json.loads(first) | change), *others, ""]))
    with pytest.raises(DataError, match=f"line 1 is damaged.*{reason}"):
        EpisodeStore.open(copy)


def test_killed_creation_leaves_nothing_to_open(tmp_path):
    script = (
        "import os, pathlib\n"
        "from robo_rl.replay import store\n"
        "from robo_rl.core import ArraySpec, EnvSpec\n"
        "store.write_durably = lambda path, data: os._exit(9)\n"
        "spec = EnvSpec('t', {}, ArraySpec((1,)), 'joint_delta', 'joint', 10.0, None, ('success',))\n"
        f"store.EpisodeStore.create(pathlib.Path({str(tmp_path / 'set')!r}), spec)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    assert "there is no data set" in refusal(tmp_path / "set")
