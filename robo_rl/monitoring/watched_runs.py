"""Data about runs for the page of ``robo-rl web``. Functions that read files are called in threads."""

import os
import stat
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..core import ForeignFolder, RoboRLError, override
from ..evaluation.curves import curves, stops
from ..evaluation.run_videos import run_videos
from ..evaluation.runs import MOST_VIDEOS, POSTER, Run, folders_in, is_run, matching, runs_below
from ..telemetry import COMMANDS, LiveStatus, LiveWatch
from .run_table import clip, facts, newest_change, results, robot_of
from .small_pictures import scaled_file

PICTURES_BYTES = 8 << 20
"""Largest size of pictures that are read at a time [bytes]."""
POSTER_BYTES = 8 << 20
"""Largest size of a video's picture that is read [bytes]."""
POSTER_WIDTH = 480
"""Largest width of a picture in the gallery [pixels]."""
POSTERS = ("final.jpg", "start.jpg")
"""Pictures of videos that represent a run in the gallery, the preferred one first."""
SPARK_POINTS = 40
MOST_SHOWN = 24
"""Largest number of videos of a run that the page shows."""
REPORT = "report.html"
KINDS = {".mp4": "video/mp4", POSTER: "image/jpeg"}
"""Media types of the files in the folder ``videos`` of a run that are sent to pages, by suffix."""
UNREADABLE = "cannot be shown"
"""Status of a run whose files cannot be read."""


def places(pattern: str) -> list[Path]:
    """Return the folders in which to search for runs: matches of a pattern, or their entries if these are not runs."""
    matches = matching(pattern)
    return [entry for match in matches for entry in ([match] if is_run(match) else folders_in(match))]


def dated_runs(folder: Path) -> list[tuple[float, Path, Path]]:
    """Return the runs at or below a folder: the time of the last change, the path, and the path without links."""
    return [(newest_change(run), run, run.resolve()) for run in runs_below(folder)]


def new_pictures(run: Path, sent: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], tuple[bytes, int]]:
    """Return the pictures of a run that are not in ``sent`` yet, with their stamps, by robot and camera."""
    watch = LiveWatch(run)
    watch.watch()
    pictures, remaining_bytes = {}, PICTURES_BYTES
    for name, (file, stamp) in sorted(watch.pictures().items()):
        if sent.get(name) != stamp and remaining_bytes > 0 and (picture := watch.read_picture(file)) is not None:
            pictures[name] = picture, stamp
            remaining_bytes -= len(picture)
    return pictures


def stamp_of(file: Path) -> tuple[int, int] | None:
    """Return a stamp that changes with the file, or None if the file is missing or inaccessible."""
    try:
        status = os.lstat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def kind_of(name: str) -> str | None:
    """Return the media type of a file in a run folder that is sent to pages: its report and its videos; else None."""
    if name == REPORT:
        return "text/html; charset=utf-8"
    folder, _, file = name.rpartition("/")
    return KINDS.get(Path(file).suffix) if folder == "videos" else None


def describe(run: Run, going_on: bool) -> dict[str, Any]:
    """Return the facts, curves, videos and faults in the files of a run as JSON values."""
    all_facts = facts(run, going_on)
    stopped = stops(run)
    return {
        "path": str(run.path),
        "name": clip(run.name),
        "title": clip(f"{run.task}  {run.agent}  seed {run.seed}"),
        "status": clip(run.status),
        "robot": robot_of(run),
        "result": [] if going_on else [(name, clip(text)) for name, text in results(run)],
        "again": "" if going_on else evaluation_command(run.path),
        **file_facts(run),
        # The omitted facts are already visible in the curves.
        "facts": [(name, text) for name, text in all_facts if name not in ("evaluations", "learning", "stopped")],
        "faults": [f"step {step:,}: {reason}" for step, reason in reversed(stopped[-10:])],
        "curves": curves(run),
        "stops": stopped,
    }


def evaluation_command(run: Path) -> str:
    """Return the command that evaluates a run again; empty if its path cannot be displayed in full."""
    command = f"robo-rl eval {override('run', run.resolve())}"
    return command if clip(command) == command else ""


def file_facts(run: Run) -> dict[str, Any]:
    """Return the videos of a run, and whether it has a report, as JSON values; addresses are relative to its folder."""
    pictures = ForeignFolder(run.path).files("videos", POSTER, MOST_VIDEOS)
    videos = run_videos(run)

    def address(name: str) -> str:
        """Return an address that changes whenever the file does."""
        return f"videos/{quote(os.fsencode(name), safe='')}?{hash(stamp_of(run.path / 'videos' / name))}"

    entries = []
    for video in videos[:MOST_SHOWN]:
        picture = video.path.with_suffix(POSTER).name
        poster = address(picture) if picture in pictures else ""
        entries.append({"caption": clip(video.caption), "address": address(video.path.name), "poster": poster})
    try:
        has_report = stat.S_ISREG(os.lstat(run.path / REPORT).st_mode)
    except OSError:
        has_report = False
    return {"videos": entries, "more_videos": len(videos) - len(entries), "report": REPORT if has_report else ""}


def tile(path: Path, outcome: Mapping[str, Any] | Exception) -> dict[str, Any]:
    """Return the gallery's entry for a run as JSON values, with a shortened version of its first curve.

    Args:
        path: the run folder.
        outcome: the data about the run, or the error that prevented reading it.
    """
    data = unreadable(path, outcome) if isinstance(outcome, Exception) else outcome
    curve = data["curves"][0] if data["curves"] else {"title": "", "x": [], "y": []}
    stride = -(-len(curve["y"]) // SPARK_POINTS) or 1
    return {
        "path": data["path"],
        "name": data["name"],
        "title": data["title"],
        "state": data["live"]["state"] if data["going_on"] else data["status"],
        "paused": data["live"]["paused"],
        "going_on": data["going_on"],
        "curve": curve["title"],
        "spark": curve["y"][(len(curve["y"]) - 1) % stride :: stride],
        "share": curve.get("share", False),
    }


def poster(run: Path, sent: object) -> tuple[bytes | str, object] | None:
    """Return the small picture that represents a run, and its stamp.

    For a picture that cannot be shown, the reason is returned instead. The result is None if there is no picture, or if
    ``sent`` is its stamp.
    """
    folder = ForeignFolder(run)
    pictures = folder.files("videos", POSTER, MOST_VIDEOS)
    name = next((name for name in POSTERS if name in pictures), None)
    if name is None or (stamp := (name, pictures[name].st_mtime_ns)) == sent:
        return None
    try:
        return scaled_file(folder.read_bytes(f"videos/{name}", POSTER_BYTES), POSTER_WIDTH), stamp
    except (RoboRLError, OSError) as error:
        return clip(str(error)), stamp


def unreadable(path: Path, error: Exception) -> dict[str, Any]:
    """Return the data about a run that cannot be shown."""
    reason = str(error) if isinstance(error, RoboRLError | OSError) else f"{type(error).__name__} in its files"
    return {
        "path": str(path),
        "name": clip(path.name),
        "title": clip(path.name),
        "status": UNREADABLE,
        "result": [],
        "again": "",
        "videos": [],
        "more_videos": 0,
        "report": "",
        "files": "",
        "facts": [("note", clip(reason))],
        "faults": [],
        "curves": [],
        "stops": [],
        "going_on": False,
        "live": asdict(LiveStatus("")),
        "refused": dict.fromkeys(COMMANDS, "the run cannot be read"),
        "waiting": [],
    }


def refused_commands(status: LiveStatus | None, going_on: bool) -> dict[str, str]:
    """Return the commands that a run does not accept now, with the reasons. An emergency stop is never refused."""
    if not going_on:
        return dict.fromkeys(COMMANDS, "the run is not running")
    if status is None:
        return dict.fromkeys(COMMANDS, "the run is starting")
    return {name: why for name, why in status.refused.items() if name in COMMANDS}
