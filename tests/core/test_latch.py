"""A latched stop outlives whatever becomes of its folder, and is looked at in microseconds whatever its file is."""

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from robo_rl.core import DeadmanSwitch, DriverError, EmergencyStop, GuardBeat, StopButton
from robo_rl.core.latch import TEXT_BYTES, Latch

from ..rigs.open_files import open_files_in


def renamed(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def removed(folder: Path) -> None:
    shutil.rmtree(folder)


def replaced(folder: Path) -> None:
    renamed(folder)
    folder.mkdir()


def parent_renamed(folder: Path) -> None:
    folder.parent.rename(folder.parent.with_name("elsewhere"))


def turned_into_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.touch()


def pointed_elsewhere(folder: Path) -> None:
    """The folder was a link, as to a share that is mounted."""
    renamed(folder)
    other = folder.with_name("other")
    other.mkdir()
    folder.symlink_to(other)


def home_pointed_elsewhere(folder: Path) -> None:
    """A folder above it was a link, as to a share that is mounted."""
    parent_renamed(folder)
    other = folder.parent.with_name("other")
    (other / folder.name).mkdir(parents=True)
    folder.parent.symlink_to(other)


def copied_without_it(folder: Path) -> None:
    """Replace the folder by a backup that lacks the newest file."""
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy, ignore=lambda *_: {"stop"})
    shutil.rmtree(folder)
    copy.rename(folder)


def made_again(folder: Path) -> None:
    """Remove the folder and make it again: many file systems give the new one the inode of the old one."""
    shutil.rmtree(folder)
    folder.mkdir()


def emptied_and_made_again(folder: Path) -> None:
    for _ in range(3):
        made_again(folder)
        (folder / "another").touch()


VANISHING = [
    renamed,
    removed,
    replaced,
    made_again,
    emptied_and_made_again,
    parent_renamed,
    turned_into_a_file,
    pointed_elsewhere,
    home_pointed_elsewhere,
    copied_without_it,
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state" / "stop"


@pytest.mark.parametrize("vanish", VANISHING)
@pytest.mark.parametrize("pressed", [True, False])
def test_a_folder_that_vanishes_does_not_rearm(file: Path, vanish: Callable[[Path], None], pressed: bool) -> None:
    latch = Latch(file)
    if pressed:
        latch.press("a test")
    else:
        assert latch.pressed() is None
    vanish(file.parent)
    for _ in range(3):
        assert latch.pressed() is not None
    if vanish is not turned_into_a_file:
        assert Latch(file).pressed() is not None, "every other process is told"
        assert latch.rearm() and latch.pressed() is None
        assert Latch(file).pressed() is None


@pytest.mark.parametrize("vanish", [renamed, removed, replaced, made_again])
def test_a_process_that_begins_after_the_folder_vanished_is_stopped(file: Path, vanish: Callable[[Path], None]) -> None:
    assert Latch(file).press("a test")
    vanish(file.parent)
    reason = Latch(file).pressed()
    assert reason is not None and reason.startswith("a test; its file") and "nobody re-armed" in reason
    assert Latch(file).rearm()
    removed(file.parent)
    assert Latch(file).pressed() is None, "a person took it back before"


def test_two_processes_that_watch_a_folder_vanish_are_rearmed_once(file: Path) -> None:
    first, second = Latch(file), Latch(file)
    removed(file.parent)
    assert first.pressed() and second.pressed()
    assert first.rearm()
    assert first.pressed() is None and second.pressed() is None


def test_removing_the_file_does_not_rearm(file: Path) -> None:
    watching = Latch(file)
    assert Latch(file).press("a test")
    file.unlink()
    for latch in (watching, Latch(file), watching):
        reason = latch.pressed()
        assert reason is not None and reason.startswith("a test; its file") and "nobody re-armed" in reason
    file.unlink()
    assert (watching.pressed() or "").count("nobody re-armed") == 1
    assert watching.rearm() and Latch(file).pressed() is None


def test_a_process_that_begins_while_a_person_rearms_does_not_stop_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    latch, exists = Latch(file), os.path.lexists
    assert latch.press("a test")

    def rearmed_before(path: Path) -> bool:
        """Let the other process re-arm between looking for the copy and for the file."""
        if path == file:
            monkeypatch.undo()
            assert latch.rearm()
        return exists(path)

    monkeypatch.setattr(os.path, "lexists", rearmed_before)
    assert Latch(file).pressed() is None and not file.exists()


def test_rearming_as_soon_as_the_file_is_there_is_not_undone_by_who_still_presses(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing to disk takes milliseconds, in which a person may see the stop and re-arm."""
    latch = Latch(file)
    seen: list[str | None] = []

    def rearm(_: Path) -> None:
        seen.append(Latch(file).pressed())
        latch.rearm()

    monkeypatch.setattr("robo_rl.core.latch.sync_folder", rearm)
    latch.press("a test")
    assert seen == ["a test"] and latch.pressed() is None and Latch(file).pressed() is None


def test_whoever_finds_the_file_finds_its_reason(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    latch, write = Latch(file), os.write
    seen: list[str] = []

    def watched_write(descriptor: int, data: bytes) -> int:
        seen.append(file.read_text() if file.exists() else "no file")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", watched_write)
    assert latch.press("a test") and seen == ["no file", "a test\n"], "before the file and its copy are written"
    assert latch.press("another") and latch.pressed() == "another"
    assert [path.name for path in file.parent.iterdir()] == [file.name], "no draft is left"


def test_a_file_system_without_hard_links_holds_a_stop(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    latch = Latch(file)
    monkeypatch.setattr(os, "link", refuse)
    assert latch.press("a test") and Latch(file).pressed() == "a test"
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_folders_that_latches_keep_open_are_closed(file: Path, tmp_path: Path) -> None:
    latch = Latch(file)
    assert latch.pressed() is None
    opened = open_files_in(tmp_path)
    for _ in range(50):
        removed(file.parent)
        assert latch.pressed() and latch.rearm()
    assert open_files_in(tmp_path) == opened


def test_a_stop_below_a_read_only_folder_can_be_rearmed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container, the copy cannot be written, and the system refuses to remove even a file that does not exist."""
    copy, unlink = file.parent.with_name(f".{file.parent.name}.{file.name}"), Path.unlink
    latch = Latch(file)
    assert latch.press("a test")
    copy.unlink()

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path == copy:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    assert latch.rearm() and Latch(file).pressed() is None


def test_a_lack_of_file_descriptors_is_not_a_removed_folder(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        latch = Latch(file)
        assert latch.pressed() is None
    assert latch.pressed() is None
    replaced(file.parent)
    assert "was removed or replaced" in (latch.pressed() or "")


def fifo(file: Path) -> None:
    os.mkfifo(file)


def endless(file: Path) -> None:
    file.symlink_to("/dev/zero")


def huge(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(1 << 40)


def folder(file: Path) -> None:
    file.mkdir()


def dangling(file: Path) -> None:
    file.symlink_to("/nowhere/at/all")


def loop(file: Path) -> None:
    file.symlink_to(file)


def controlling(file: Path) -> None:
    file.write_text("\x1b[2J\x07gone\r\n" + "x" * 10_000)


@pytest.mark.parametrize("make", [fifo, endless, huge, folder, dangling, loop, controlling])
def test_whatever_lies_there_stops_at_once(file: Path, make: Callable[[Path], None]) -> None:
    latch = Latch(file)
    make(file)
    began = time.thread_time()
    for _ in range(100):
        reason = latch.pressed()
        assert reason and reason.isprintable() and len(reason) <= TEXT_BYTES
    assert time.thread_time() - began < 1.0
    assert latch.press("again") and latch.pressed()
    if make is folder:
        with pytest.raises(DriverError, match="robots stay stopped until you remove it"):
            latch.rearm()
    else:
        assert latch.rearm() and latch.pressed() is None


def test_pressing_writes_through_no_link(file: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("data")
    latch = Latch(file)
    file.symlink_to(precious)
    assert latch.press("a test") and precious.read_text() == "data"
    assert latch.rearm() and precious.read_text() == "data"


@pytest.mark.parametrize("make", [fifo, endless, huge, folder, dangling, controlling])
def test_whatever_lies_in_the_place_of_the_deadman_switch_is_no_held_key(
    file: Path, make: Callable[[Path], None]
) -> None:
    file.parent.mkdir(parents=True)
    make(file)
    assert not DeadmanSwitch(file, 1.0).is_fresh()


def test_a_robot_obeys_its_own_stop_and_that_of_all() -> None:
    left, right, everybody = EmergencyStop(robot="left"), EmergencyStop(robot="right/arm"), EmergencyStop()
    left.press("the guard of left")
    assert left.pressed() == "the guard of left" and right.pressed() is None and everybody.pressed() is None
    left.rearm()
    everybody.press("a person")
    assert left.pressed() == right.pressed() == "a person"
    everybody.rearm()
    assert left.pressed() is None and right.pressed() is None


def test_a_guard_that_looked_once_has_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    beat = GuardBeat("arm")
    button = StopButton(None, guard=GuardBeat("arm"))
    strict = StopButton(None, guard=GuardBeat("arm", required=True))
    assert button.reason() is None
    assert strict.reason() == ("guard_silent", "no guard looks after robot 'arm' yet")
    beat.beat()
    assert button.reason() is None and strict.reason() is None
    monkeypatch.setattr("robo_rl.core.emergency.GUARD_SECONDS", -1.0)
    name, text = button.reason() or ("", "")
    assert name == "guard_silent" and "the guard of robot 'arm' has not looked for" in text
    assert "robo-rl rearm robot=arm" in text
    beat.end()
    assert button.reason() is None and strict.reason() is not None


def emptied(file: Path) -> None:
    file.write_text("")


def of_the_future(file: Path) -> None:
    file.write_text(f"{time.monotonic_ns() + 10**12} {file.read_text().partition(' ')[2]}")


def of_no_number(file: Path) -> None:
    file.write_text("soon " + file.read_text().partition(" ")[2])


def instead(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """Return a function that removes the file and lets ``make`` create another entry at its path."""

    def replace(file: Path) -> None:
        file.unlink()
        make(file)

    return replace


@pytest.mark.parametrize(
    "damage", [emptied, of_the_future, of_no_number, *map(instead, (fifo, endless, huge, folder, dangling))]
)
def test_a_heartbeat_that_cannot_be_read_is_not_no_guard(damage: Callable[[Path], None]) -> None:
    beat = GuardBeat("arm")
    beat.beat()
    damage(beat.file)
    name, text = StopButton(None, guard=GuardBeat("arm")).reason() or ("", "")
    assert name == "guard_silent" and f"heartbeat {beat.file} of the guard of robot 'arm' cannot be read" in text
    if beat.file.is_dir():
        with pytest.raises(DriverError, match="cannot be removed"):
            beat.end()
    else:
        beat.end()
        assert GuardBeat("arm").missed() is None


def test_a_heartbeat_of_an_earlier_run_of_the_machine_is_none() -> None:
    beat = GuardBeat("arm")
    beat.beat()
    beat.file.write_text(f"{time.monotonic_ns() + 10**12} 00000000-0000-0000-0000-000000000000")
    assert beat.missed() is None
