"""Recording is killed, the disk is full, the disk is read-only: what was stored before stays as it was."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zarr

from robo_rl.core import DataError, write_durably
from robo_rl.replay import EpisodeStore

from ..rigs.replay_episodes import SPEC, assert_same, make_episode, steps_of

# Imports once, then forks a recorder for each line of its input; so a kill costs no start-up.
# The recorder adds episodes, each made from its number, and tells every commit to a file. The line says at which of
# its synchronisations with the disk the recorder kills itself; 0: never, it is killed from outside.
FORKS_RECORDERS = """
import os, pathlib, signal, sys
sys.path.insert(0, sys.argv[1])
from replay_episodes import make_episode, steps_of
from robo_rl.replay import EpisodeStore

def record(path, commits):
    with EpisodeStore.open(path, "a") as store:
        while True:
            number = len(store)
            store.append_episode(make_episode(number, steps_of(number)))
            os.write(commits, b"%d\\n" % number)

def kill_at(count):
    fsync = os.fsync
    def counted(file):
        nonlocal count
        count -= 1
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(file)
    os.fsync = counted

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
path = pathlib.Path(sys.argv[2])
commits = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        kill_at(int(line))
        record(path, commits)
    print(child, flush=True)
"""

KILLS_FROM_OUTSIDE = 6
KILLS_WHILE_WRITING = 16


def wait_for_end(process: int) -> None:
    while Path(f"/proc/{process}").exists():
        time.sleep(0.002)


def wait_for_commits(commits: Path, count: int, recorder: int) -> None:
    """Return when ``count`` more commits were told."""
    target = len(commits.read_text().split()) + count
    while len(commits.read_text().split()) < target:
        assert Path(f"/proc/{recorder}").exists(), "the recorder ended by itself"
        time.sleep(0.002)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="waits for the end of a process through /proc")
def test_kill_9_at_random_points_loses_the_open_episode_alone(tmp_path):
    path, commits = tmp_path / "set", tmp_path / "commits"
    commits.touch()
    EpisodeStore.create(path, SPEC).close()
    helpers = Path(__file__).parents[1] / "rigs"
    forker = subprocess.Popen(
        [sys.executable, "-c", FORKS_RECORDERS, str(helpers), str(path), str(commits)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    moments = random.Random(0)
    kills = [0] * KILLS_FROM_OUTSIDE + [moments.randint(1, 100) for _ in range(KILLS_WHILE_WRITING)]
    moments.shuffle(kills)
    checked = unfinished = 0
    try:
        for kill in kills:
            forker.stdin.write(f"{kill}\n")
            forker.stdin.flush()
            recorder = int(forker.stdout.readline())
            if kill == 0:
                wait_for_commits(commits, moments.randint(0, 2), recorder)
                time.sleep(moments.uniform(0, 0.15))
                os.kill(recorder, signal.SIGKILL)
            wait_for_end(recorder)
            committed = [int(line) for line in commits.read_text().split()]
            assert committed == sorted(set(committed))
            unfinished += holds_more(path)
            with EpisodeStore.open(path) as store:
                # A commit that was told is there; one more may be, killed between the commit and the telling.
                assert len(store) >= len(committed)
                for number in range(checked, len(store)):
                    assert_same(store.episode(number), make_episode(number, steps_of(number)))
                checked = len(store)
    finally:
        forker.stdin.close()
        forker.wait()
    assert unfinished > KILLS_WHILE_WRITING / 2, "too few kills came in the middle of an episode"
    with EpisodeStore.open(path, "a") as store:
        assert not lengths_differ(path)
        for number in range(len(store)):
            assert_same(store.episode(number), make_episode(number, steps_of(number)))


def committed_steps(path: Path) -> int:
    records = [json.loads(line) for line in (path / "episodes.jsonl").read_bytes().split(b"\n")[:-1]]
    return sum(record["steps"] for record in records)


def arrays_by_step(path: Path) -> list[zarr.Array]:
    return [array for _, array in zarr.open_group(path / "arrays.zarr", mode="r").arrays()]


def holds_more(path: Path) -> bool:
    """Whether rows were written that no committed episode owns."""
    steps = committed_steps(path)
    return any(array[steps : steps + 500].any() for array in arrays_by_step(path))


def lengths_differ(path: Path) -> bool:
    """Whether the arrays are longer than the committed episodes."""
    return {array.shape[0] for array in arrays_by_step(path)} != {committed_steps(path)}


def test_a_file_is_replaced_whole(tmp_path):
    file = tmp_path / "file"
    write_durably(file, b"old")
    with file.open("rb") as opened_before:
        write_durably(file, b"new content")
        assert opened_before.read() == b"old"
    assert file.read_bytes() == b"new content"
    assert list(tmp_path.iterdir()) == [file]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "robo_rl-test", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def remount(folder: Path, mode: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{mode}", str(folder)], check=True)


def test_disk_full_keeps_what_was_stored_and_goes_on_when_space_is_free(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_500_000))
    path = small_disk / "set"
    with EpisodeStore.create(path, SPEC) as store:
        for number in range(50):
            try:
                store.append_episode(make_episode(number, 210))
            except DataError as error:
                assert str(error) == (
                    f"{path}: cannot store the episode: No space left on device; free space on this disk and try "
                    "again. Episodes stored earlier are intact"
                )
                break
        stored = len(store)
        assert 1 <= stored < 50
        with pytest.raises(DataError, match="free space on this disk"):
            store.append_episode(make_episode(stored, 210))
        for number in range(stored):
            assert_same(store.episode(number), make_episode(number, 210))
        ballast.unlink()
        store.append_episode(make_episode(stored, 210))
    with EpisodeStore.open(path, "a") as store:
        assert len(store) == stored + 1
        assert not lengths_differ(path)
        for number in range(stored + 1):
            assert_same(store.episode(number), make_episode(number, 210))


def test_full_disk_at_the_commit_itself(tmp_path, monkeypatch):
    path = tmp_path / "set"
    with EpisodeStore.create(path, SPEC) as store:
        store.append_episode(make_episode(0, 5))
        whole = os.write
        # The system takes only part of the line, as it does on the last free block.
        monkeypatch.setattr(os, "write", lambda file, data: whole(file, data[:20]))
        with pytest.raises(DataError, match="cannot store the episode: No space left on device"):
            store.append_episode(make_episode(1, 5))
        monkeypatch.undo()
        assert len(store) == 1
        store.append_episode(make_episode(2, 6))
    with EpisodeStore.open(path) as store:
        assert_same(store.episode(0), make_episode(0, 5))
        assert_same(store.episode(1), make_episode(2, 6))


def test_full_disk_when_a_data_set_is_made(small_disk):
    (small_disk / "ballast").write_bytes(bytes(4 * 1024 * 1024 - 8192))
    with pytest.raises(DataError, match="cannot create the data set: No space left on device; free space"):
        EpisodeStore.create(small_disk / "set", SPEC)
    assert [file.name for file in small_disk.iterdir()] == ["ballast"]


def test_read_only_disk(small_disk):
    path = small_disk / "set"
    with EpisodeStore.create(path, SPEC) as store:
        store.append_episode(make_episode(0, 5))
    remount(small_disk, "ro")
    try:
        with EpisodeStore.open(path) as reader:
            assert_same(reader.episode(0), make_episode(0, 5))
        with pytest.raises(DataError, match="Read-only file system; choose a path on a writable disk"):
            EpisodeStore.open(path, "a")
        with pytest.raises(DataError, match="cannot create the data set: Read-only file system"):
            EpisodeStore.create(small_disk / "other", SPEC)
    finally:
        remount(small_disk, "rw")


def test_limit_on_file_sizes(tmp_path):
    path = tmp_path / "set"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with EpisodeStore.create(path, SPEC) as store:
        store.append_episode(make_episode(0, 50))
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, before[1]))
        try:
            with pytest.raises(DataError, match="cannot store the episode: File too large; raise the limit"):
                store.append_episode(make_episode(1, 140))
            store.append_episode(make_episode(1, 3))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert_same(store.episode(0), make_episode(0, 50))
        assert_same(store.episode(1), make_episode(1, 3))
