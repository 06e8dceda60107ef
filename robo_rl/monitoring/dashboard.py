"""Server of ``robo-rl web``, a page in the browser to watch runs and to command active ones."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..core import DataError, RoboRLError
from ..evaluation.charts import STATIC as CHARTS
from ..evaluation.runs import load_run
from ..operators.stop_button import StopButton, holds_of_robots, holds_or_problem
from ..telemetry import Command, LiveStatus, LiveWatch
from ..web.files import FolderFiles
from ..web.open_pages import OpenPage
from ..web.reading import TURNS, Readers
from .data_page import DataPage
from .live_scenes import CAMERAS, NOTHING, VIEWS, new_scenes
from .page_requests import Answer, Message, PageRequests
from .run_table import WatchConfig, clip, is_held
from .starting import Starter
from .watched_runs import (
    REPORT,
    UNREADABLE,
    dated_runs,
    describe,
    kind_of,
    new_pictures,
    places,
    poster,
    refused_commands,
    stamp_of,
    tile,
    unreadable,
)

PICTURE_SECONDS = 0.05
GALLERY_SECONDS = 3.0
"""Shortest time between two reads of all runs [s]."""
MOST_COMPARED = 7
"""Largest number of runs whose curves are shown beside those of the chosen one."""
READ_SECONDS = 5.0
"""Longest wait for a folder [s]."""
MOST_REQUESTS = 32
"""Largest number of commands of a page that wait to be sent to runs."""
SWITCH_SECONDS = 0.001
"""Switch interval of threads [s], so that reading threads yield quickly to an emergency stop. Python's default is 5
ms.
"""
ALIVE_SECONDS = 1.0
SHARE_OF_CORE = 0.1
"""Largest share of one processor core for reading files. Long metrics are therefore read less often."""

NAMES = (
    "runs.js", "alarm.js", "cameras.js", "data_sets.js", "data_thumbnails.js", "ended.js", "gallery.js", "held.js",
    "link.js", "requests.js", "scene.js", "scene_drawing.js", "start.js", "page.css", "icon.svg",
)  # fmt: skip
PAGES = (
    {"/": "runs.html"}
    | {f"/{name}": name for name in NAMES}
    | {f"/{name}": str(CHARTS / name) for name in ("charts.js", "uplot.js", "charts.css")}
)

STAMPED = ("config.yaml", "metrics.jsonl", "summary.json", "videos", REPORT)
"""Files and folders of a run that are read again after a change."""


class Look(NamedTuple):
    """Data about a run, read when the run and its files had the state ``stamp``."""

    stamp: object
    data: dict[str, Any]


class Dashboard:
    """Server of the pages, which sends the state of runs and handles commands. One object serves all pages.

    Messages to a page are JSON objects: ``runs``, the chosen ``run``, the curves of the ``compared`` ones, the
    ``gallery`` of all, and ``held``, the latches that hold robots still and their reasons, if they have changed,
    otherwise ``alive``; and ``answer`` to a command. After an emergency stop, the answer has ``stopped``, the run of
    the page; without it, the page sends the emergency stop again, on a new connection. Pictures are bytes: a line with
    a JSON object that names robot and camera, or the run whose ``poster`` it is, then a JPEG file. If a ``poster``
    cannot be shown, a JSON object has its run and the ``problem``. A ``scene`` is a JSON object, see
    :class:`.ScenePart`. Messages of a page choose a run, ``{"run": path}``, or others to ``compare`` it with, or what
    it ``views`` of robots, see :data:`.VIEWS`, or command it, ``{"command": name, "robot": name}``, or re-arm the
    robots that they show, ``{"command": "rearm", "seen": held}``. ``data``, the server of data sets, and ``starter``
    answer :class:`.PageRequests`; the commands that pages started are in ``started``, and the number of further ones
    that run in ``more_started``. ``pages`` are the title and link of each page of other commands. Without a run,
    ``searched`` names the folders, and ``note`` a problem with one.

    Run folders may belong to any user. They are read in threads, each folder separately, with limits on size and time.
    The emergency stop is that of all robots of this user. It does not depend on any run folder.

    Args:
        settings: the runs to show.
        data: the data sets that pages show beside the runs; None: none.
        starter: starts runs for pages; None: none is started.
        pages: returns the pages of other commands.

    Attributes:
        files: reports and videos of the runs, at addresses that the pages receive.
    """

    def __init__(
        self,
        settings: WatchConfig,
        data: DataPage | None = None,
        starter: Starter | None = None,
        pages: Callable[[], list[OpenPage]] = list,
    ) -> None:
        self._settings, self._data, self._starter, self._pages = settings, data, starter, pages
        self.files = FolderFiles(kind_of)
        self._readers, self._button = Readers(READ_SECONDS, TURNS), StopButton()
        self._looks: dict[Path, Look] = {}
        self._paths: dict[str, Path] = {}
        self._listed: tuple[float, list[Path], str] | None = None

    async def serve(self, page: Any) -> None:
        """Communicate with a page until it leaves."""
        from websockets.exceptions import ConnectionClosed

        from ..web.server import read_message

        async def while_open(talk: Coroutine[Any, Any, None]) -> None:
            with suppress(ConnectionClosed):  # messages that arrived before the page left still have to be handled
                await talk

        visit = Visit(page)
        async with asyncio.TaskGroup() as group:
            talks = self._send_changes(visit), self._show(visit), self._send_gallery(visit)
            tasks = [group.create_task(while_open(talk)) for talk in talks]
            group.create_task(self._run_commands(visit))
            requests = PageRequests(page, group, self._answers())
            with suppress(ConnectionClosed):
                async for data in page:
                    message = read_message(data)
                    if "request" in message:
                        requests.begin(message)
                    else:
                        self._handle(visit, message)
            requests.cancel()
            visit.ask(None)
            for task in tasks:
                task.cancel()

    def _answers(self) -> Callable[[Message], Awaitable[Answer]]:
        """Return a function that answers the requests of one page."""
        of_data = None if self._data is None else self._data.answers()
        starts = {} if self._starter is None else self._starter.requests

        async def answer_to(message: Message) -> Answer:
            name = str(message.get("request"))
            if name in starts:
                answer: Answer = await starts[name](message)
                return answer
            if of_data is None:
                raise DataError(f"there is no request {name!r}")
            return await of_data(message)

        return answer_to

    async def runs(self) -> list[Path]:
        """Return the newest run folders."""
        return (await self._list())[0]

    def _handle(self, visit: "Visit", message: Mapping[str, Any]) -> None:
        run, name = message.get("run", visit.chosen), message.get("command")
        if name == "emergency_stop":
            self._button.press(visit.answer, run)  # at once, without waiting for earlier commands
        elif name == "rearm":
            self._button.rearm(visit.answer, message.get("seen"))
        elif isinstance(name, str):
            visit.ask((run, name, str(message.get("robot", ""))))
        elif message.get("views") in VIEWS:
            visit.view(message["views"])
        elif isinstance(message.get("compare"), list):
            visit.compare(message["compare"])
        elif str(run) in self._paths:
            visit.choose(str(run))

    async def _run_commands(self, visit: "Visit") -> None:
        """Send the commands of a page to the runs, in order, until the page has left."""
        while (command_request := await visit.requests.get()) is not None:
            run, name, robot = command_request
            if run is not None and str(run) not in self._paths:  # the page chose the run before this server started
                await self._list()
            path, command = self._paths.get(str(run)), Command(name, robot)
            answer = f"{command}: asked for" if path is not None else "no run is chosen"
            try:
                if path is not None:
                    await self._readers.call(f"command {path}", partial(LiveWatch(path).send, command))
            except (RoboRLError, OSError) as error:  # includes time-outs
                answer = str(error)
            await visit.answer({"answer": answer})

    async def _send_changes(self, visit: "Visit") -> None:
        """Send changes, and a sign that the connection is alive at least once a second."""
        while True:
            start = time.monotonic()
            visit.changed.clear()
            look = asyncio.create_task(self._look(visit.chosen, visit.compared))
            try:
                while not (await asyncio.wait({look}, timeout=ALIVE_SECONDS))[0]:
                    await visit.send({})
            finally:
                look.cancel()
            await visit.send(look.result())
            now = time.monotonic()
            deadline = now + max(self._settings.interval, (now - start) / SHARE_OF_CORE)
            while (remaining_seconds := deadline - time.monotonic()) > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(remaining_seconds, ALIVE_SECONDS)):
                        await visit.changed.wait()
                    break
                await visit.send({})

    async def _show(self, visit: "Visit") -> None:
        """Send new pictures or scenes of the chosen run while it is active. A slow page receives fewer."""
        while True:
            start = time.monotonic()
            if visit.chosen is not None and visit.going_on and visit.views != NOTHING:
                with suppress(RoboRLError, OSError):
                    send = self._send_pictures if visit.views == CAMERAS else self._send_scenes
                    await send(visit, self._paths[visit.chosen])
            await asyncio.sleep(max(PICTURE_SECONDS, time.monotonic() - start))

    async def _send_pictures(self, visit: "Visit", run: Path) -> None:
        pictures = await self._readers.call(f"pictures {run}", partial(new_pictures, run, dict(visit.sent_pictures)))
        for (robot, camera), (picture, stamp) in pictures.items():
            visit.sent_pictures[robot, camera] = stamp
            heading = json.dumps({"robot": robot, "camera": camera})
            await visit.page.send(heading.encode() + b"\n" + picture)

    async def _send_scenes(self, visit: "Visit", run: Path) -> None:
        parts = await self._readers.call(f"scenes {run}", partial(new_scenes, run, dict(visit.sent_pictures)))
        for part in parts:
            visit.sent_pictures[part.key] = part.stamp
            await visit.page.send(json.dumps({"scene": part.message}))

    async def _send_gallery(self, visit: "Visit") -> None:
        """Send the results of all listed runs, and the pictures of their videos, whenever these have changed."""
        while True:
            start = time.monotonic()
            paths, _ = await self._list()
            looks = await self._readers.read({f"run {path}": partial(self._look_at, path) for path in paths})
            outcomes = {path: looks[f"run {path}"] for path in paths}
            tiles = [tile(path, outcome) for path, outcome in outcomes.items()]
            tiles.sort(key=lambda each: not each["going_on"])  # the active ones first
            pages = (await self._readers.read({"pages": self._pages}))["pages"]
            await visit.send({"gallery": tiles, "pages": [] if isinstance(pages, Exception) else pages})
            if self._starter is not None:
                started = (await self._readers.read({"started": self._starter.started}))["started"]
                commands, more = ([], 0) if isinstance(started, Exception) else started
                await visit.send({"started": commands, "more_started": more})
            for path in paths:
                with suppress(RoboRLError, OSError):
                    reading = partial(poster, path, visit.sent_posters.get(path))
                    if (answer := await self._readers.call(f"poster {path}", reading)) is not None:
                        picture, visit.sent_posters[path] = answer
                        heading = {"poster": str(path)}
                        if isinstance(picture, str):
                            await visit.page.send(json.dumps(heading | {"problem": picture}))
                        else:
                            await visit.page.send(json.dumps(heading).encode() + b"\n" + picture)
            await asyncio.sleep(max(GALLERY_SECONDS, (time.monotonic() - start) / SHARE_OF_CORE))

    async def _look(self, chosen: str | None, compared: Sequence[str] = ()) -> dict[str, Any]:
        """Return the message about the runs, the chosen run (by default the newest), and the curves of others."""
        paths, problem = await self._list()
        if not paths:
            held = (await self._readers.read({"stop": holds_of_robots}))["stop"]
            searched = ", ".join(self._settings.runs)
            return {
                "runs": [],
                "run": None,
                "note": problem,
                "searched": searched,
                "held": holds_or_problem(held),
            }
        path = self._paths.get(chosen or "", paths[0])
        others = [self._paths[other] for other in compared if other in self._paths and other != str(path)]
        looks = {f"run {each}": partial(self._look_at, each) for each in (path, *others)}
        outcomes = await self._readers.read(looks | {"stop": holds_of_robots})
        data = outcomes[f"run {path}"]
        if isinstance(data, Exception):
            data = unreadable(path, data)
        runs = [{"path": str(run), "name": clip(run.name)} for run in paths]
        drawn = [
            {"name": clip(other.name), "curves": each["curves"], "stops": each["stops"]}
            for other in others
            if not isinstance(each := outcomes[f"run {other}"], Exception)
        ]
        return {"runs": runs, "run": data, "compared": drawn, "held": holds_or_problem(outcomes["stop"])}

    async def _list(self) -> tuple[list[Path], str]:
        """Return the newest runs, and a problem with a folder, or "". Within ``interval``, pages share the result."""
        if self._listed is None or time.monotonic() - self._listed[0] > self._settings.interval:
            paths, problem = await self._find()
            self._paths |= {str(path): path for path in paths}
            self._listed = time.monotonic(), paths, problem
        return self._listed[1:]

    async def _find(self) -> tuple[list[Path], str]:
        """Find runs in all folders concurrently, so that a folder that does not answer does not hide the others."""
        patterns = {f"runs {pattern}": partial(places, pattern) for pattern in self._settings.runs}
        folders_by_pattern = await self._readers.read(patterns)
        problems = [str(each) for each in folders_by_pattern.values() if isinstance(each, Exception)]
        folders = [path for each in folders_by_pattern.values() if not isinstance(each, Exception) for path in each]
        outcomes = await self._readers.read({f"runs in {path}": partial(dated_runs, path) for path in folders})
        dated = [run for each in outcomes.values() if not isinstance(each, Exception) for run in each]
        unique = {place: (changed, path) for changed, path, place in reversed(dated)}  # keeps the first path of a run
        newest = sorted(unique.values(), reverse=True)[: self._settings.newest]
        return [path for _, path in newest], (problems or [""])[0]

    def _look_at(self, path: Path) -> dict[str, Any]:
        watch = LiveWatch(path)
        going_on = watch.is_going_on()
        stamp = going_on, *(stamp_of(path / name) for name in STAMPED)
        if path not in self._looks or self._looks[path].stamp != stamp:
            self._looks[path] = Look(stamp, describe(load_run(path, going_on), going_on))
        data, status = self._looks[path].data, watch.status() if going_on else None
        live = status or LiveStatus("starting" if going_on else "")
        if going_on and is_held(data["robot"]):
            live = replace(live, state="stopped")
        return {
            **data,
            "files": self.files.address(path),
            "going_on": going_on,
            "live": asdict(live),
            "refused": refused_commands(status, going_on),
            "waiting": watch.waiting() if going_on else [],
        }


class Visit:
    """Open page: its last messages, the run that it shows, and its commands."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.chosen: str | None = None
        self.going_on = False
        self.views = CAMERAS
        self.changed = asyncio.Event()
        self.compared: list[str] = []
        self.sent_pictures: dict[tuple[str, str], int] = {}
        self.sent_posters: dict[Path, object] = {}
        self.requests: asyncio.Queue[tuple[object, str, str] | None] = asyncio.Queue()
        self._state: dict[str, Any] = {}

    def choose(self, path: str) -> None:
        """Show another run."""
        self.chosen = path
        self.sent_pictures.clear()
        self.changed.set()

    def view(self, views: str) -> None:
        """Send one of :data:`.VIEWS` of robots from now on."""
        self.views = views
        self.sent_pictures.clear()

    def compare(self, paths: Sequence[object]) -> None:
        """Also show the curves of other runs."""
        self.compared = [str(path) for path in paths[:MOST_COMPARED]]
        self.changed.set()

    def ask(self, request: tuple[object, str, str] | None) -> None:
        """Add a command to the queue: run, name and robot; None: no more commands follow."""
        if request is None or self.requests.qsize() < MOST_REQUESTS:
            self.requests.put_nowait(request)

    async def answer(self, message: Mapping[str, Any]) -> None:
        """Send the answer to a command, unless the page has left, and request an update of the page."""
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            await self.page.send(json.dumps(message))
        self.changed.set()

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send the values that have changed since the last message."""
        news = {key: value for key, value in message.items() if key not in self._state or self._state[key] != value}
        self._state |= news
        if message.get("run") is not None:
            self.going_on = message["run"]["going_on"]
            # A folder that was removed meanwhile is not chosen, so that the newest run is shown as soon as there is
            # one.
            if self.chosen is None and message["run"]["status"] != UNREADABLE:
                self.choose(message["run"]["path"])
        await self.page.send(json.dumps(news or {"alive": True}))
