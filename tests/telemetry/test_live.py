"""What passes between a run and those who watch it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from robo_rl.core import ConfigError, DataError, ManualClock
from robo_rl.telemetry import Command, LiveRobot, LiveRun, LiveStatus, LiveWatch

STATUS = LiveStatus(
    "training",
    False,
    {"success": "the task itself reports success"},
    (LiveRobot("a/b@c", True, {"steps": "12"}, "no camera"),),
)


def test_status_pictures_and_commands_arrive(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000_000)
    watch = LiveWatch(tmp_path, clock)
    assert not watch.is_going_on() and watch.status() is None
    with LiveRun(tmp_path, clock) as run:
        run.report(STATUS)
        run.show("a/b@c", {"images/wrist": b"jpeg"})
        assert watch.is_going_on() and watch.status() == STATUS
        ((key, (file, first)),) = watch.pictures().items()
        assert key == ("a/b@c", "images/wrist") and file.read_bytes() == b"jpeg"
        run.show("a/b@c", {"images/wrist": b"another"})
        assert watch.pictures()[key][1] > first
        run.show_scene("a/b@c", b'{"geoms": []}', b"")
        run.show_scene("a/b@c", b"", b"no JSON")
        assert sorted(watch.scenes()) == [("a/b@c", "frame"), ("a/b@c", "geometry")]
        assert watch.read_scene(watch.scenes()["a/b@c", "geometry"][0]) == {"geoms": []}
        with pytest.raises(DataError, match=r"frame\.json"):
            watch.read_scene(watch.scenes()["a/b@c", "frame"][0])
        watch.send(Command("pause"))
        watch.send(Command("reset", "a/b@c"))
        assert watch.waiting() == ["pause", "reset a/b@c"]
        assert run.take_commands() == [Command("pause"), Command("reset", "a/b@c")]
        assert run.take_commands() == [] == watch.waiting()
    assert not watch.is_going_on() and watch.status() is None and watch.pictures() == {} == watch.scenes()


def test_somebody_who_went_away_does_not_watch(tmp_path: Path) -> None:
    clock = ManualClock()
    LiveWatch(tmp_path, clock).watch()
    assert not (tmp_path / "live").exists(), "a run that does not go on is left as it is"
    with LiveRun(tmp_path, clock) as run:
        assert not run.watched
        LiveWatch(tmp_path, clock).watch()
        clock.advance_ns(2_900_000_000)
        assert run.watched
        clock.advance_ns(200_000_000)
        assert not run.watched


def test_commands_are_refused_with_the_reason(tmp_path: Path) -> None:
    watch = LiveWatch(tmp_path)
    with pytest.raises(DataError, match="not running"):
        watch.send(Command("pause"))
    with LiveRun(tmp_path) as run:
        run.report(STATUS)
        with pytest.raises(DataError, match="success: the task itself reports success"):
            watch.send(Command("success", "left"))
        with pytest.raises(DataError, match="no command 'fly'"):
            watch.send(Command("fly"))
        for number, junk in enumerate(("{", "[1]", '{"name": "fly"}', '{"what": 1}', json.dumps({"name": "stop"}))):
            (tmp_path / "live" / "commands" / f"{number}.json").write_text(junk)
        assert run.take_commands() == [Command("stop")]


def test_one_process_at_a_time_and_a_killed_one_is_gone_with_its_commands(tmp_path: Path) -> None:
    code = f"import time, pathlib; from robo_rl.telemetry import *; run = LiveRun(pathlib.Path({str(tmp_path)!r}))\n"
    code += "run.report(LiveStatus('training')); print('ready', flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        watch = LiveWatch(tmp_path)
        watch.send(Command("stop"))
        with pytest.raises(ConfigError, match="another process is busy"):
            LiveRun(tmp_path)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not watch.is_going_on()
    with LiveRun(tmp_path) as run:
        assert run.take_commands() == [], "what was asked of another process, perhaps days ago"


def test_status_is_told_at_once_where_the_state_changes(tmp_path: Path) -> None:
    clock = ManualClock()
    with LiveRun(tmp_path, clock) as run:
        watch = LiveWatch(tmp_path, clock)
        run.report(LiveStatus("training"))
        run.report(LiveStatus("training", paused=True))
        assert watch.status() == LiveStatus("training")
        run.report(LiveStatus("evaluating"))
        assert watch.status() == LiveStatus("evaluating")
        clock.advance_ns(600_000_000)
        run.report(LiveStatus("evaluating", paused=True))
        assert watch.status() == LiveStatus("evaluating", paused=True)
