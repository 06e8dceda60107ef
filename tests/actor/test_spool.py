"""The spool: what was appended is there, whatever happens to the process."""

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from robo_rl.actor import Spool, SpoolFullError
from robo_rl.actor import spool_writer as module
from robo_rl.core import DataError

from ..rigs.open_files import open_files_in


def record(sequence: int) -> bytes:
    return random.Random(sequence).randbytes(50 + sequence % 40)


def fill(spool: Spool, session: int, count: int) -> None:
    spool.begin_session(session)
    for sequence in range(count):
        spool.append(sequence, record(sequence))


def contents(spool: Spool, session: int) -> list[bytes]:
    first, end = spool.extent(session)
    return spool.read(session, first, 10**9) if end > first else []


def test_steps_are_appended_in_order_and_to_a_session(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        with pytest.raises(RuntimeError, match="begin a session"):
            spool.append(0, b"step")
        fill(spool, 1, 3)
        with pytest.raises(RuntimeError, match="expected step 3 of session 1, got 5"):
            spool.append(5, b"step")
        assert spool.held_records == 3


def test_what_is_appended_is_read_in_batches_and_forgotten_when_settled(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        fill(spool, 1, 100)
        assert spool.sessions() == [1] and spool.extent(1) == (0, 100) and spool.held_records == 100
        assert spool.read(1, 10, 200) == [record(10), record(11), record(12)]
        assert spool.read(1, 10, 1) == [record(10)], "a record larger than the batch travels alone"
        assert spool.read(1, 100, 1000) == []
        spool.settle(1, 40)
        assert spool.extent(1) == (40, 100)
        assert spool.held_bytes == sum(len(record(sequence)) for sequence in range(40, 100))
        assert contents(spool, 1) == [record(sequence) for sequence in range(40, 100)]
        spool.drop_session(1)
        assert spool.sessions() == [] and spool.held_bytes == 0


def test_a_slow_deletion_does_not_hold_up_the_control_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_BYTES", 1000)
    deleting, may_go_on = threading.Event(), threading.Event()

    def unlink(path: Path, missing_ok: bool = False) -> None:
        deleting.set()
        assert may_go_on.wait(20)

    with Spool(tmp_path) as spool:
        fill(spool, 1, 100)
        monkeypatch.setattr(Path, "unlink", unlink)
        settling = threading.Thread(target=spool.settle, args=(1, 60))
        settling.start()
        assert deleting.wait(20)
        spool.append(100, record(100))
        may_go_on.set()
        settling.join()
        assert contents(spool, 1) == [record(sequence) for sequence in range(60, 101)]


def test_files_are_deleted_once_they_are_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_BYTES", 1000)
    with Spool(tmp_path) as spool:
        fill(spool, 1, 100)
        files = sorted(tmp_path.rglob("*.spool"))
        assert len(files) > 5
        spool.settle(1, 60)
        left = sorted(tmp_path.rglob("*.spool"))
        assert 1 < len(left) < len(files) and int(left[1].stem) > 60 >= int(left[0].stem)
        spool.settle(1, 100)
        assert len(list(tmp_path.rglob("*.spool"))) == 1
        assert spool.held_records == 0 and spool.held_bytes == 0


def test_a_new_process_finds_what_the_last_one_left(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.bind("run a")
        fill(spool, 4, 30)
        spool.settle(4, 10)
    with Spool(tmp_path) as spool:
        assert spool.run == "run a" and spool.newest_session == 4
        # Records are deleted by the file: those that were settled may come again, and the learner knows them.
        assert spool.extent(4) == (0, 30)
        assert contents(spool, 4) == [record(sequence) for sequence in range(30)]
        fill(spool, 5, 3)
        assert spool.sessions() == [4, 5]
        with pytest.raises(DataError, match="holds 33 steps of run run a, but the learner is of run run b"):
            spool.bind("run b")


def test_an_empty_spool_changes_its_run(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.bind("run a")
        fill(spool, 1, 3)
        spool.settle(1, 3)
        assert spool.run == ""
        spool.bind("run b")
        assert spool.sessions() == []
        fill(spool, 2, 1)
        assert spool.run == "run b"


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        Spool(tmp_path),
        pytest.raises(DataError, match="another actor uses this spool; give each actor a separate name"),
    ):
        Spool(tmp_path)
    Spool(tmp_path).close()


@pytest.mark.parametrize("cut", [1, 30, 70])
def test_a_tail_that_a_power_cut_left_half_written_is_cut_off_and_counted(tmp_path: Path, cut: int) -> None:
    with Spool(tmp_path) as spool:
        fill(spool, 1, 20)
    (file,) = tmp_path.rglob("*.spool")
    size = file.stat().st_size
    os.truncate(file, size - cut)
    with Spool(tmp_path) as spool:
        whole = spool.extent(1)[1]
        assert whole < 20 and contents(spool, 1) == [record(sequence) for sequence in range(whole)]
        assert spool.damaged_bytes > 0


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        fill(spool, 1, 20)
    (file,) = tmp_path.rglob("*.spool")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)
    with Spool(tmp_path) as spool:
        end = spool.extent(1)[1]
        assert 5 < end < 15 and contents(spool, 1) == [record(sequence) for sequence in range(end)]


def test_names_of_new_files_are_brought_to_the_disk_after_their_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    for name in ("fsync", "fdatasync"):
        true = getattr(os, name)

        def sync(descriptor: int, true: Callable[[int], None] = true) -> None:
            synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(tmp_path))
            true(descriptor)

        monkeypatch.setattr(os, name, sync)
    with Spool(tmp_path, sync_seconds=1000) as spool:
        spool.bind("run")
        assert len(synced) == 2 and synced[1] == Path()
        fill(spool, 1, 3)
        spool.sync()
        folder = Path("session_000000000001")
        assert synced[2:] == [folder / "000000000000000.spool", Path(), folder]
        spool.append(3, record(3))
        spool.sync()
        assert synced[5:] == [folder / "000000000000000.spool"]


def test_a_disk_that_does_not_take_what_was_written_is_told_by_the_next_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()

    def fail(descriptor: int) -> None:
        failed.set()
        raise OSError(errno.EIO, "Input/output error")

    with Spool(tmp_path, sync_seconds=0.01) as spool:
        monkeypatch.setattr(os, "fdatasync", fail)
        fill(spool, 1, 1)
        assert failed.wait(60)

        def append_until_told() -> None:
            for sequence in range(1, 100_000):
                spool.append(sequence, record(sequence))

        with pytest.raises(DataError, match="cannot append to the spool: Input/output error; check the disk"):
            append_until_told()


def test_what_a_disk_did_not_take_is_brought_there_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_BYTES", 100)
    true, synced = os.fdatasync, set[str]()
    with Spool(tmp_path, sync_seconds=1000) as spool:
        fill(spool, 1, 9)
        open_files = open_files_in(tmp_path)

        def fail(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        def sync(descriptor: int) -> None:
            synced.add(Path(f"/proc/self/fd/{descriptor}").readlink().name)
            true(descriptor)

        monkeypatch.setattr(os, "fdatasync", fail)
        for _ in range(5):
            with pytest.raises(OSError, match="No space left"):
                spool.sync()
        assert open_files_in(tmp_path) == open_files > 0
        monkeypatch.setattr(os, "fdatasync", sync)
        spool.sync()
    assert synced == {file.name for file in tmp_path.glob("session_*/*.spool")} and len(synced) > 2


def test_a_full_spool_refuses_and_takes_the_same_step_later(tmp_path: Path) -> None:
    with Spool(tmp_path, capacity_bytes=1000) as spool:
        spool.begin_session(1)
        sequence = 0
        with pytest.raises(SpoolFullError, match="the spool is full"):
            while True:
                spool.append(sequence, record(sequence))
                sequence += 1
        assert spool.extent(1) == (0, sequence)
        spool.settle(1, 5)
        spool.append(sequence, record(sequence))
        assert contents(spool, 1) == [record(number) for number in range(5, sequence + 1)]


def test_a_disk_that_takes_half_a_record_leaves_whole_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Spool(tmp_path) as spool:
        fill(spool, 1, 5)
        whole = os.writev
        monkeypatch.setattr(os, "writev", lambda file, data: whole(file, [b"".join(data)[:20]]))
        with pytest.raises(SpoolFullError, match="No space left on device; free space on this disk"):
            spool.append(5, record(5))
        monkeypatch.undo()
        spool.append(5, record(5))
    with Spool(tmp_path) as spool:
        assert contents(spool, 1) == [record(sequence) for sequence in range(6)]
        assert spool.damaged_bytes == 0


def test_a_limit_on_file_sizes_is_a_full_disk(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Spool(tmp_path) as spool:
        fill(spool, 1, 5)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
        try:
            with pytest.raises(SpoolFullError, match="File too large; raise the limit on file sizes"):
                spool.append(5, record(5))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        spool.append(5, record(5))
        assert contents(spool, 1) == [record(sequence) for sequence in range(6)]


APPENDS_FOR_EVER = """
import pathlib, random, sys
from robo_rl.actor import Spool
spool = Spool(pathlib.Path(sys.argv[1]))
spool.begin_session(spool.newest_session + 1)
sequence = 0
while True:
    spool.append(sequence, random.Random(sequence).randbytes(50 + sequence % 40))
    sequence += 1
    print(sequence, flush=True)
"""


def test_kill_9_loses_no_step_that_append_returned_for(tmp_path: Path) -> None:
    for attempt in range(1, 4):
        process = subprocess.Popen(
            [sys.executable, "-c", APPENDS_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        reported = 0
        for line in process.stdout:
            reported = int(line)
            if reported >= 50 * attempt:
                break
        process.send_signal(signal.SIGKILL)
        reported = int([str(reported), *process.stdout.read().split("\n")[:-1]][-1])
        process.wait()
        with Spool(tmp_path) as spool:
            assert spool.newest_session == attempt
            assert spool.extent(attempt)[1] >= reported
            held = contents(spool, attempt)
            assert held == [record(sequence) for sequence in range(len(held))]


def test_the_last_step_goes_beyond_the_capacity(tmp_path: Path) -> None:
    with Spool(tmp_path, capacity_bytes=150) as spool:
        fill(spool, 1, 2)
        with pytest.raises(SpoolFullError, match="the spool is full"):
            spool.append(2, record(2))
        assert spool.append_last(2, record(2))
    with Spool(tmp_path) as spool:
        assert contents(spool, 1) == [record(sequence) for sequence in range(3)]


def test_a_last_step_that_the_disk_does_not_take_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Spool(tmp_path) as spool:
        fill(spool, 1, 3)
        monkeypatch.setattr(os, "writev", lambda file, data: 0)
        assert not spool.append_last(3, record(3))
        assert contents(spool, 1) == [record(sequence) for sequence in range(4)]
        spool.settle(1, 4)
        assert spool.held_bytes == 0
        spool.drop_session(1)
        assert spool.sessions() == []


def test_a_session_begun_during_another_takes_the_steps_that_follow(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        fill(spool, 1, 3)
        fill(spool, 2, 2)
        assert contents(spool, 1) == [record(sequence) for sequence in range(3)]
        assert contents(spool, 2) == [record(sequence) for sequence in range(2)]
        spool.sync()
    with Spool(tmp_path) as spool:
        assert spool.sessions() == [1, 2]
        assert contents(spool, 1) == [record(sequence) for sequence in range(3)]
