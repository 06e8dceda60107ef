"""Checkpoints: atomic, hashed, damaged ones rejected by name and passed over."""

import errno
import hashlib
import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from robo_rl.core import CheckpointError, DivergenceError
from robo_rl.learner import Checkpoint, CheckpointFolder, Learner, load_checkpoint
from robo_rl.learner.checkpoint import FORMAT, _digest


def make(step: int, score: float | None = None) -> Checkpoint:
    rng = np.random.default_rng(step)
    parts = {
        "agent": {"weight": rng.normal(size=(3, 4)).astype(np.float32), "count": np.array([step])},
        "replay": {"pixels": rng.integers(0, 255, (5, 2), dtype=np.uint8)},
    }
    return Checkpoint(step, parts, {"score": score, "note": "ä"})


def test_round_trip(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    path = folder.save(make(7, 0.5))
    loaded = load_checkpoint(path)
    assert loaded.step == 7
    assert loaded.facts == {"score": 0.5, "note": "ä"}
    for part, state in make(7).parts.items():
        for key, value in state.items():
            np.testing.assert_array_equal(loaded.parts[part][key], value)
            assert loaded.parts[part][key].dtype == value.dtype


def test_scalars_and_empty_arrays_survive(tmp_path: Path) -> None:
    state = {"scalar": np.float32(3).reshape(()), "empty": np.zeros((0, 7), np.float32)}
    path = CheckpointFolder(tmp_path).save(Checkpoint(1, {"run": state}, {}))
    loaded = load_checkpoint(path).parts["run"]
    assert loaded["empty"].shape == (0, 7)
    assert loaded["scalar"].shape == ()
    assert float(loaded["scalar"]) == 3


def test_newest_and_best_are_kept_and_the_two_newest_have_the_replay(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, keep=2)
    for step, score in [(1, 0.1), (2, 0.9), (3, 0.2), (4, 0.3), (5, None)]:
        folder.save(make(step, score))
    assert [path.name for path in folder.folders()] == ["step_000000002", "step_000000004", "step_000000005"]
    best = folder.best()
    assert best is not None
    assert best.name == "step_000000002"
    assert [(path / "replay.safetensors").exists() for path in folder.folders()] == [False, True, True]
    assert "agent" in load_checkpoint(best, only=("agent",)).parts
    with pytest.raises(CheckpointError, match=r"step_000000002/replay.safetensors: cannot be read"):
        load_checkpoint(best)


@pytest.mark.parametrize(("scores", "kept"), [((0.9, 0.5), [3, 5]), ((0.5, 0.9), [5])])
def test_later_ones_that_a_run_went_back_before_are_dropped_once_it_writes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scores: tuple[float, float], kept: list[int]
) -> None:
    folder = CheckpointFolder(tmp_path, keep=2)
    for step, score in [(3, scores[0]), (7, None), (8, scores[1]), (9, None)]:
        folder.save(make(step, score))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full_disk)
        with pytest.raises(CheckpointError, match="cannot be written"):
            folder.save(make(5))
    assert folder.load_newest().step == 9
    folder.save(make(5))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step_{step:09d}" for step in kept]
    assert folder.load_newest().step == 5


def test_files_that_are_open_elsewhere_do_not_keep_new_ones_from_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a network's disk a folder stays while another process reads one of its files."""

    def stays(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))

    folder = CheckpointFolder(tmp_path, keep=1)
    folder.save(make(1))
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", stays)
        for step in (2, 3):
            newest = folder.save(make(step))
            assert folder.folders() == [newest]
    newest = folder.save(make(4))
    assert list(tmp_path.iterdir()) == [newest]


def test_where_none_has_a_score_the_newest_is_the_best(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, keep=2)
    assert folder.best() is None
    for step in (1, 2):
        newest = folder.save(make(step, None))
    assert folder.best() == newest


def test_a_damaged_old_checkpoint_does_not_keep_new_ones_from_being_written(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    (folder.save(make(1, 0.9)) / "manifest.json").write_text("{")
    newest = folder.save(make(2, 0.1))
    assert folder.best() == newest


def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path) -> None:
    for name in ("step_000000001", "dropped_step_000000001"):
        (tmp_path / f".partial_{name}").mkdir(parents=True)
        (tmp_path / f".partial_{name}" / "agent.safetensors").write_bytes(b"half")
    (tmp_path / ".partial_thesis").mkdir()  # is nobody's but the user's
    folder = CheckpointFolder(tmp_path)
    folder.save(make(2))
    again = folder.save(make(2, 0.5))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".partial_thesis", "step_000000002"]
    assert load_checkpoint(again).facts["score"] == 0.5


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "manifest", "format"])
def test_damaged_checkpoint_is_named_and_the_previous_one_loads(tmp_path: Path, damage: str) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(make(1))
    newest = folder.save(make(2))
    file = newest / "agent.safetensors"
    data = bytearray(file.read_bytes())
    if damage == "truncated":
        file.write_bytes(data[:-3])
    elif damage == "flipped":
        data[-1] ^= 1
        file.write_bytes(data)
    elif damage == "missing":
        file.unlink()
    elif damage == "manifest":
        (newest / "manifest.json").write_text("{")
    else:
        manifest = json.loads((newest / "manifest.json").read_text())
        (newest / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(CheckpointError, match="step_000000002"):
        load_checkpoint(newest)
    previous = folder.load_newest()
    assert previous.step == 1
    assert previous.parts.keys() == {"agent", "replay"}


def test_a_flipped_bit_of_a_manifest_is_noticed_or_changes_nothing(tmp_path: Path) -> None:
    state = {"agent": {"weight": np.ones(2, np.float32)}}
    facts = {"score": 0.5, "steps_to_95": None, "reached": False, "safety": {10: 2, 9: 1e-05}}
    folder = CheckpointFolder(tmp_path).save(Checkpoint(2, state, facts))
    file = folder / "manifest.json"
    good, noticed = file.read_bytes(), 0
    with file.open("r+b", buffering=0) as stream:
        for bit in range(8 * len(good)):
            damaged = bytearray(good)
            damaged[bit // 8] ^= 1 << bit % 8
            stream.seek(0)
            stream.write(damaged)
            try:
                found = load_checkpoint(folder)
            except CheckpointError:
                noticed += 1
                continue
            assert (found.step, found.parts.keys()) == (2, state.keys()), damaged.decode()
            assert found.facts == facts | {"safety": {"10": 2, "9": 1e-05}}, damaged.decode()
    assert noticed > 7 * len(good)


def test_a_manifest_of_before_it_had_a_hash_is_read_and_has_one_once_it_is_changed(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    file = folder.save(make(1)) / "manifest.json"
    old = json.loads(file.read_text()) | {"format": 1}
    del old["digest"]
    file.write_text(json.dumps(old))
    assert folder.load(1).facts == make(1).facts
    folder.amend(1, {"score": 0.5})
    assert folder.load(1).facts == {"score": 0.5, "note": "ä"}
    file.write_text(file.read_text().replace("0.5", "0.9"))
    with pytest.raises(CheckpointError, match="its SHA-256 is not that of its content"):
        folder.load(1)
    for name in ("step", "sha256", "facts"):
        file.write_text(json.dumps({key: value for key, value in old.items() if key != name}))
        with pytest.raises(CheckpointError, match="expected a step, hashes, sizes and facts"):
            folder.load(1)


def test_a_checkpoint_under_another_name_is_not_taken_for_that_step(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(make(1)).rename(tmp_path / "step_000000007")
    with pytest.raises(CheckpointError, match="it is of step 1, not of step_000000007"):
        folder.load_newest()


def test_no_usable_checkpoint_says_why(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="the folder holds none"):
        CheckpointFolder(tmp_path).load_newest()


def test_a_write_that_died_half_way_leaves_nothing_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(make(1))

    def die(self: Path, target: Path) -> Path:
        raise SystemExit("power cut")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", die)
        with pytest.raises(SystemExit, match="power cut"):
            folder.save(make(2))
    assert folder.load_newest().step == 1
    folder.save(make(3))
    assert {path.name for path in tmp_path.iterdir()} == {"step_000000001", "step_000000003"}


def test_a_disk_that_is_full_leaves_what_was_there_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(make(1))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full_disk)
        with pytest.raises(CheckpointError, match=r"step_000000002 cannot be written: No space left .* are intact"):
            folder.save(make(2))
    assert [path.name for path in tmp_path.iterdir()] == ["step_000000001"]
    assert folder.load_newest().step == 1
    assert folder.save(make(2)) == tmp_path / "step_000000002"


def test_facts_that_come_later_are_added_or_the_checkpoint_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(make(1, 0.5))
    folder.save(make(2))
    folder.amend(3, {"score": 1.0})  # it was dropped meanwhile, or never written
    assert folder.best() == tmp_path / "step_000000001"
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full_disk)
        with pytest.raises(CheckpointError, match=r"step_000000002 cannot be changed: No space left"):
            folder.amend(2, {"score": 0.9})
    assert folder.load(2).facts == {"score": None, "note": "ä"}
    folder.amend(2, {"score": 0.9})
    assert folder.best() == tmp_path / "step_000000002"
    loaded = folder.load(2, only=("agent",))
    assert loaded.facts == {"score": 0.9, "note": "ä"} and list(loaded.parts) == ["agent"]
    assert {path.name for path in tmp_path.iterdir()} == {"step_000000001", "step_000000002"}


def test_a_checkpoint_that_was_to_be_replaced_stays_until_the_other_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rename = CheckpointFolder(tmp_path), Path.rename
    folder.save(make(1))
    first = folder.save(make(2))
    before = (first / "manifest.json").read_bytes()
    for failure in (OSError(errno.ENOSPC, "No space left"), SystemExit("power cut")):

        def fail(self: Path, target: Path, failure: BaseException = failure) -> Path:
            if "replaced" not in target.name and "replaced" not in self.name:
                raise failure
            return rename(self, target)

        with monkeypatch.context() as patched, pytest.raises((CheckpointError, SystemExit)):
            patched.setattr(Path, "rename", fail)
            folder.save(make(2))
        assert CheckpointFolder(tmp_path).load_newest().step == 2
        assert (first / "manifest.json").read_bytes() == before
    folder.save(make(2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_000000001", "step_000000002"]


def full_disk(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_malicious_pickle_is_not_executed(tmp_path: Path) -> None:
    path = CheckpointFolder(tmp_path).save(make(1))
    canary = tmp_path / "canary"
    (path / "agent.safetensors").write_bytes(b"cos\nsystem\n(S'touch %s'\ntR." % os.fsencode(canary))
    with pytest.raises(CheckpointError, match=r"expected [0-9,]+ bytes, found"):
        load_checkpoint(path)
    assert not canary.exists()


def test_a_file_is_read_as_far_as_the_manifest_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = CheckpointFolder(tmp_path).save(make(1))
    size = (path / "agent.safetensors").stat().st_size
    with (path / "agent.safetensors").open("r+b") as stream:
        stream.truncate(1 << 40)  # a hole of a terabyte
    with pytest.raises(CheckpointError, match=rf"agent\.safetensors: cannot be read .*expected at most {size:,} bytes"):
        load_checkpoint(path)
    monkeypatch.setattr("robo_rl.learner.checkpoint.memory_bytes", lambda: 1000)
    manifest = {key: value for key, value in json.loads((path / "manifest.json").read_text()).items() if key != "bytes"}
    content = {key: manifest[key] for key in ("step", "sha256", "facts")}
    (path / "manifest.json").write_text(json.dumps(manifest | {"format": 2, "digest": _digest(content)}))
    with pytest.raises(CheckpointError, match="expected at most 1,000 bytes"):
        load_checkpoint(path)


@pytest.mark.parametrize("size", [-1, 1.5, "1", None, True])
def test_a_size_that_is_none_is_damage(tmp_path: Path, size: object) -> None:
    path = CheckpointFolder(tmp_path).save(make(1))
    manifest = json.loads((path / "manifest.json").read_text())
    content = {key: manifest[key] for key in ("step", "sha256", "bytes", "facts")} | {"bytes": {"agent": size}}
    (path / "manifest.json").write_text(json.dumps({"format": FORMAT, **content, "digest": _digest(content)}))
    with pytest.raises(CheckpointError, match="expected a step, hashes, sizes and facts"):
        load_checkpoint(path)


def safetensors(dtype: str, shape: list[int], size: int) -> bytes:
    header = json.dumps({"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(size)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\1\0",
        struct.pack("<Q", 1 << 60) + b"{}",
        struct.pack("<Q", 4) + b"{{{{",
        safetensors("BF16", [2], 4),  # types that NumPy lacks
        safetensors("F8_E4M3", [2], 2),
        safetensors("F4", [4], 2),
        safetensors("U8", [1 << 62, 4], 2),
        safetensors("U8", [0, 1 << 62, 1 << 62], 0),
        safetensors("U8", [3], 2),
    ],
)
def test_a_file_that_fits_its_hash_and_holds_no_arrays_is_named(tmp_path: Path, data: bytes) -> None:
    path = CheckpointFolder(tmp_path).save(make(1))
    (path / "agent.safetensors").write_bytes(data)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["sha256"]["agent"], manifest["bytes"]["agent"] = hashlib.sha256(data).hexdigest(), len(data)
    content = {key: manifest[key] for key in ("step", "sha256", "bytes", "facts")}
    (path / "manifest.json").write_text(json.dumps(manifest | {"digest": _digest(content)}))
    with pytest.raises(CheckpointError, match=r"step_000000001/agent\.safetensors: it holds no arrays"):
        load_checkpoint(path)


@pytest.mark.parametrize("make_other", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path, make_other: Callable[[Path], object]) -> None:
    path = CheckpointFolder(tmp_path).save(make(1))
    (path / "agent.safetensors").unlink()
    make_other(path / "agent.safetensors")
    with pytest.raises(CheckpointError, match=r"agent\.safetensors: cannot be read"):
        load_checkpoint(path)


def test_divergence_dumps_the_batch(tmp_path: Path) -> None:
    class Diverging:
        update_rows = 2

        def update(self, batch: object) -> dict[str, float]:
            raise DivergenceError("critic_loss is nan at update 3.")

    batch = {"reward": np.array([1, np.nan], np.float32)}
    learner = Learner(Diverging(), lambda rows: batch, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(DivergenceError, match=r"update 3\. The batch is in .*divergence_batch"):
        learner.step()
    from safetensors.numpy import load_file

    np.testing.assert_array_equal(load_file(tmp_path / "divergence_batch.safetensors")["reward"], batch["reward"])
    (tmp_path / "file").touch()
    learner = Learner(Diverging(), lambda rows: batch, tmp_path / "file")  # type: ignore[arg-type]
    with pytest.raises(DivergenceError, match=r"update 3\. The batch could not be written to .*\(File exists\)"):
        learner.step()
