"""Hostile run folders: nothing hangs, is followed, is overwritten or hides another run."""

import asyncio
import contextlib
import fcntl
import json
import math
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from robo_rl.core import DataError, EmergencyStop, ForeignFolder
from robo_rl.evaluation.report import write_report
from robo_rl.evaluation.runs import find_runs, load_run
from robo_rl.monitoring.run_table import TopConfig, look
from robo_rl.telemetry import Command, Console, LiveRun, LiveStatus, LiveWatch

from ..rigs.free_machine import on_a_free_machine
from ..rigs.hostile_runs import KINDS, LINE, make_hostile
from ..rigs.slow_disk import make_slow

pytest.importorskip("websockets")

from robo_rl.monitoring.dashboard import Dashboard
from robo_rl.monitoring.run_table import WatchConfig
from robo_rl.monitoring.watched_runs import dated_runs

from ..web.test_web_commands_of_pages import PATIENCE_SECONDS, PRESS, Page

MEMORY_BYTES = 1 << 30
STOP_SECONDS = 0.3
"""Longest time until a page confirms an emergency stop [s]."""


@pytest.fixture(autouse=True)
def emergency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmergencyStop:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    return EmergencyStop()


class Choosing(Page):
    """A page that chooses a run, and presses the emergency stop when it is shown.

    Attributes:
        seconds: time from the press to the answer.
    """

    def __init__(self, run: str) -> None:
        super().__init__()
        self._run = run
        self.seconds = math.inf

    async def __aiter__(self) -> AsyncIterator[str]:
        yield json.dumps({"run": self._run})
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (self.data.get("run") or {}).get("path") != self._run:
                await asyncio.sleep(0.01)
            pressed = time.monotonic()
            yield json.dumps(PRESS | {"run": self._run})
            while not self.answers:
                await asyncio.sleep(0.01)
            self.seconds = time.monotonic() - pressed


def honest(runs: Path) -> Path:
    run = runs / "honest"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("task: {name: reach}\nagent: {name: rlpd}\nseed: 3\n")
    (run / "metrics.jsonl").write_text(json.dumps(LINE | {"step": 7}) + "\n")
    return run


def assert_untouched(folder: Path) -> None:
    precious = folder / "precious"
    assert not precious.exists() or precious.read_text() == "a thesis"
    for name in ("watched", "lock"):
        assert not (folder / "secret").exists() or (folder / "secret" / name).read_text() == "precious"


@pytest.mark.parametrize("kind", KINDS)
def test_report_and_top_show_the_honest_run_beside_it(kind: str, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make_hostile(runs, kind)
    honest(runs)
    paths = find_runs([str(runs)])
    assert [path.name for path in paths] == sorted(["honest", kind])
    page = write_report([load_run(path) for path in paths], tmp_path / "report.html", embed=True).read_text()
    assert "reach" in page and "SECRET" not in page and "VE9QLV" not in page  # nor in base64
    console = Console(record=True, width=200)
    console.print(look(TopConfig([str(runs)], 5, 1.0, True)))
    output = console.export_text()
    assert "reach  rlpd  seed 3" in output and "SECRET" not in output and "\x1b" not in output
    assert_untouched(tmp_path)


@on_a_free_machine
def test_the_page_stops_robots_and_shows_the_honest_run_with_all_of_them_in_view(
    tmp_path: Path, emergency: EmergencyStop
) -> None:
    runs = tmp_path / f"runs{time.monotonic_ns()}"  # it may be repeated
    hostile = [make_hostile(runs, kind) for kind in KINDS]
    own = honest(runs)
    dashboard = Dashboard(WatchConfig([str(runs)], newest=100, interval=0.1))

    async def visit_all() -> dict[str, Any]:
        results: dict[str, Any] = {}
        await dashboard.serve(Page({"command": "pause"}))
        assert set(dashboard._paths) == {str(run) for run in (*hostile, own)}
        for run in (*hostile, own):
            emergency.rearm()
            page = Choosing(str(run))
            await dashboard.serve(page)
            assert page.data["stopped"] == str(run) and emergency.pressed() == "the page of robo-rl web"
            assert page.seconds < STOP_SECONDS, f"{run.name}: {page.seconds:.3f} s"
            results[run.name] = page.data["run"]
        return results

    with (runs / "many_files" / "live" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as if that run went on
        results = asyncio.run(visit_all())
    assert results["honest"]["title"] == "reach  rlpd  seed 3"
    assert "SECRET" not in json.dumps(results) and len(json.dumps(results)) < 200_000
    assert len(results["many_files"]["waiting"]) <= 100
    assert_untouched(tmp_path)


def vanishes(file: Path) -> None:
    file.unlink()


def becomes_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def becomes_a_loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


def folder_vanishes(file: Path) -> None:
    shutil.rmtree(file.parent)


@pytest.mark.parametrize("change", [vanishes, becomes_a_folder, becomes_a_loop, folder_vanishes])
@pytest.mark.parametrize("where", ["page", "top"])
def test_files_that_change_while_a_run_is_dated_hide_no_other(
    where: str, change: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drafts replace their files, and a person may remove or move a run."""
    runs = tmp_path / "runs"
    honest(runs)
    run = honest(tmp_path / "other").rename(runs / "changing")
    (run / "draft").write_text("a draft")
    scandir = os.scandir

    @contextlib.contextmanager
    def changing(folder: Any) -> Iterator[Iterator[os.DirEntry[str]]]:
        """List a folder, whose files change before they are looked at."""
        if folder != run:
            with scandir(folder) as entries:
                yield entries
            return
        with scandir(folder) as entries:
            listed = list(entries)
        change(run / "draft")
        yield iter(listed)

    monkeypatch.setattr("robo_rl.monitoring.run_table.os.scandir", changing)
    if where == "page":
        assert {path.name for _, path, _ in dated_runs(runs)} == {"changing", "honest"}
        return
    console = Console(record=True, width=200)
    console.print(look(TopConfig([str(runs)], 5, 1.0, True)))
    assert "reach  rlpd  seed 3" in console.export_text()


def test_a_folder_that_never_answers_hides_no_other(
    tmp_path: Path, emergency: EmergencyStop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from robo_rl.monitoring import dashboard as web

    runs = tmp_path / "runs"
    own, slow = honest(runs), honest(runs / "x").rename(runs / "slow")
    (runs / "x").rmdir()
    over = make_slow(monkeypatch, "slow", "lstat", "open", "scandir")
    monkeypatch.setattr(web, "READ_SECONDS", 0.2)
    try:
        page = Page(PRESS, until=lambda data: data.get("run"))
        asyncio.run(Dashboard(WatchConfig([str(runs)], newest=5, interval=0.1)).serve(page))
        assert page.data["run"]["path"] == str(own) and emergency.pressed()
        assert [run["path"] for run in page.data["runs"]] == [str(own)]
        # One that stops answering after it was listed is said to be so.
        dashboard = Dashboard(WatchConfig([str(runs)], newest=5, interval=0.1))
        dashboard._paths[str(slow)] = slow
        data = asyncio.run(dashboard._look(str(slow)))
        assert data["run"]["path"] == str(slow) and "no answer of its file system" in str(data["run"]["facts"])
    finally:
        over.set()


@pytest.mark.parametrize("kind", ["sparse", "aliases", "nested_json", "nested_yaml", "long_texts"])
def test_reading_takes_little_memory(kind: str, tmp_path: Path) -> None:
    run = make_hostile(tmp_path, kind)
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_DATA, ({MEMORY_BYTES}, {MEMORY_BYTES}));"
        "import sys; from pathlib import Path; from robo_rl.evaluation.runs import load_run;"
        "print(load_run(Path(sys.argv[1])).problems)"
    )
    done = subprocess.run(  # without preexec_fn: threads of gRPC in this process do not survive a fork
        [sys.executable, "-c", code, str(run)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_commands_to_a_folder_full_of_links_overwrite_nothing(tmp_path: Path) -> None:
    run = make_hostile(tmp_path / "runs", "linked_writes")
    watch = LiveWatch(run)
    with (run / "live" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        watch.watch()
        watch.send(Command("pause"))
    assert watch.waiting() == ["pause"] and stat.S_ISREG((run / "live" / "watched").lstat().st_mode)
    links = make_hostile(tmp_path / "runs", "links")
    LiveWatch(links).watch()
    assert LiveWatch(links).status() is None and not LiveWatch(links).is_going_on()
    assert_untouched(tmp_path)


def test_a_run_that_begins_in_a_folder_of_links_overwrites_nothing(tmp_path: Path) -> None:
    run = make_hostile(tmp_path / "runs", "linked_writes")
    (run / "live" / "lock").unlink()
    (run / "live" / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError):
        LiveRun(run)
    (run / "live" / "lock").unlink()
    with LiveRun(run) as live:
        live.report(LiveStatus("training"))
        assert not live.watched and live.take_commands() == []
    assert_untouched(tmp_path)


def test_a_report_is_whole_or_as_it_was_and_replaces_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = honest(tmp_path / "runs")
    precious = tmp_path / "precious"
    precious.write_text("a thesis")
    (run / "report.html").symlink_to(precious)
    write_report([load_run(run)], run / "report.html")
    before = (run / "report.html").read_text()
    assert "reach" in before and not (run / "report.html").is_symlink() and precious.read_text() == "a thesis"
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError("no space left")))
        with pytest.raises(OSError):
            write_report([load_run(run)], run / "report.html")
    assert (run / "report.html").read_text() == before


def test_links_and_large_videos_are_not_embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from robo_rl.evaluation import report_videos

    run = honest(tmp_path / "runs")
    (run / "videos").mkdir()
    (run / "videos" / "good.mp4").write_bytes(b"good")
    (run / "videos" / "large.mp4").write_bytes(b"large" * 100)
    os.mkfifo(run / "videos" / "pipe.mp4")
    (run / "videos" / "link.mp4").symlink_to("/etc/passwd")
    assert [video.name for video in load_run(run).videos] == ["good.mp4", "large.mp4"]
    monkeypatch.setattr(report_videos, "VIDEO_BYTES", 100)
    page = write_report([load_run(run)], tmp_path / "report.html", embed=True).read_text()
    assert "data:video/mp4;base64,Z29vZA==" in page and "large (too large to embed: a link)" in page
    (run / "videos" / "good.jpg").write_bytes(b"p" * 90)
    (run / "videos" / "large.jpg").write_bytes(b"p" * 90)
    page = write_report([load_run(run)], tmp_path / "report.html", embed=True).read_text()
    assert page.count("data:image/jpeg") == 1, "pictures count, too"
    with pytest.raises(DataError, match="symbolic link, which is not followed"):
        ForeignFolder(run).read_bytes("videos/link.mp4", 1000)


def test_of_long_metrics_the_beginning_and_the_end_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from robo_rl.evaluation import run_files

    monkeypatch.setattr(run_files, "METRICS_BYTES", 2 << 20)
    run = honest(tmp_path / "runs")
    with (run / "metrics.jsonl").open("w") as stream:
        stream.writelines(json.dumps(LINE | {"step": step, "warning": "x" * 100}) + "\n" for step in range(30_000))
    loaded = load_run(run)
    steps = [line["step"] for line in loaded.metrics]
    assert steps[0] == 0 and steps[-1] == 29_999 and 12_000 < len(steps) < 16_000
    assert steps == sorted(set(steps))
    assert loaded.problems[0] == "metrics.jsonl has 4 MB; what lies between its first and last 1 MB is left out"
    assert not any("unreadable" in problem for problem in loaded.problems)


def test_steps_that_charts_cannot_tell_apart_are_left_out(tmp_path: Path) -> None:
    """A browser would draw the marks of their axis without end."""
    run = honest(tmp_path / "runs")
    with (run / "metrics.jsonl").open("a") as stream:
        stream.writelines(json.dumps(LINE | {"step": 10**16 + step}) + "\n" for step in (0, 2, 4))
    loaded = load_run(run)
    assert [line["step"] for line in loaded.metrics] == [7]
    assert loaded.problems[0] == "metrics.jsonl: 3 unreadable lines left out"


def test_runs_are_not_looked_for_everywhere(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    own = honest(runs)
    (runs / "sweep").mkdir()
    (runs / "sweep" / "root").symlink_to("/")
    (runs / "sweep" / "again").symlink_to(own)
    deep = runs / "deep"
    for _ in range(40):
        deep = deep / "d"
    honest(deep)
    assert find_runs([str(runs)]) == [own]
    with pytest.raises(DataError, match="no run found"):
        find_runs([str(runs / "deep")])
