"""robo-rl web: a page in the browser to watch runs, and to command those that go on."""

import asyncio
import json
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..core import MAX_SECONDS, EmergencyStop, RoboRLError, require
from ..evaluation.runs import load_run
from ..telemetry import Command, LiveStatus, LiveWatch
from ..web.reading import Readers
from .run_table import clip
from .watched_runs import UNREADABLE, dated_runs, describe, new_pictures, places, refused_commands, stamp_of, unreadable

PICTURE_SECONDS = 0.1
READ_SECONDS = 5.0
"""Longest that a folder is waited for."""
MOST_ASKED = 32
"""Commands of a page that may wait to be passed on."""
SWITCH_SECONDS = 0.001
"""How soon threads that read give way to an emergency stop; Python's own default is 5 ms for each of its steps."""
ALIVE_SECONDS = 1.0
SHARE_OF_CORE = 0.1
"""Most of one processor core that reading the files may take: long metrics are read more seldom."""

PAGES = {"/": "runs.html"} | {f"/{name}": name for name in ("runs.js", "link.js", "page.css", "icon.svg")}


@dataclass(frozen=True)
class WatchConfig:
    """Options of configs/web.yaml, where the defaults and their meaning stand."""

    runs: list[str]
    newest: int
    interval: float

    def __post_init__(self) -> None:
        require(len(self.runs) > 0, "runs", "one or more run folders, for example runs=[runs/a,runs/b]", self.runs)
        require(self.newest >= 1, "newest", "1 or more", self.newest)
        require(0 < self.interval <= MAX_SECONDS, "interval", f"in (0, {MAX_SECONDS:g}]", self.interval)


class Look(NamedTuple):
    """What the files of a run said when it and they were as ``stamp``."""

    stamp: object
    told: dict[str, Any]


class Dashboard:
    """What pages are told about runs, and what they ask for. One object serves all pages.

    Messages to a page are JSON objects: ``runs`` and the chosen ``run`` where they changed, ``alive`` else, ``answer``
    to a command, with ``stopped``, the run of an emergency stop, after that was pressed: otherwise the page says so
    again, on a new connection; and pictures: bytes whose first line is a JSON object that says of what, then a JPEG
    file. Messages of a page choose a run, ``{"run": path}``, or command it, ``{"command": name, "robot": name}``.

    Run folders may be anybody's. Whatever is in them is read in threads, each folder on its own, bounded in size and
    time. The emergency stop is that of all robots of this user; no folder says where it is, and none is read for it.
    """

    def __init__(self, settings: WatchConfig) -> None:
        self._settings = settings
        self._readers, self._pressing = Readers(READ_SECONDS), Readers(READ_SECONDS)
        self._presses: set[asyncio.Task[None]] = set()
        self._looks: dict[Path, Look] = {}
        self._paths: dict[str, Path] = {}
        self._listed: tuple[float, list[Path], str] | None = None

    async def serve(self, page: Any) -> None:
        """Talk to a page until it leaves."""
        from websockets.exceptions import ConnectionClosed

        from ..web.server import read_message

        async def while_open(talk: Coroutine[Any, Any, None]) -> None:
            with suppress(ConnectionClosed):  # what the page said before it left is still to be heard
                await talk

        visit = Visit(page)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(while_open(talk)) for talk in (self._tell(visit), self._show(visit))]
            group.create_task(self._obey(visit))
            with suppress(ConnectionClosed):
                async for data in page:
                    self._hear(visit, read_message(data))
            visit.ask(None)
            for task in tasks:
                task.cancel()

    def _hear(self, visit: "Visit", message: Mapping[str, Any]) -> None:
        run, name = message.get("run", visit.chosen), message.get("command")
        if name == "emergency_stop":
            # It waits for nothing that was asked before, and does not end with the page.
            task = asyncio.create_task(self._press(visit, run))
            self._presses.add(task)
            task.add_done_callback(self._presses.discard)
        elif isinstance(name, str):
            visit.ask((run, name, str(message.get("robot", ""))))
        elif str(run) in self._paths:
            visit.choose(str(run))

    async def _press(self, visit: "Visit", run: object) -> None:
        """Press the emergency stop, and say so."""
        try:
            problem = await self._pressing.call("stop", press_emergency_stop)
        except (RoboRLError, OSError) as error:  # a time-out is one
            problem = str(error)
        told = {"answer": f"ROBOTS ARE NOT STOPPED: {problem}. Use the button that cuts the power"}
        await visit.answer(told if problem else {"answer": "Robots are stopped", "stopped": run})
        visit.changed.set()

    async def _obey(self, visit: "Visit") -> None:
        """Pass on the commands of a page in their order, until it has left."""
        while (asked := await visit.asked.get()) is not None:
            run, name, robot = asked
            if run is not None and str(run) not in self._paths:  # the page chose it before this server was started
                await self._list()
            path, command = self._paths.get(str(run)), Command(name, robot)
            answer = f"{command}: asked for" if path is not None else "no run is chosen"
            try:
                if path is not None:
                    await self._readers.call(f"command {path}", partial(LiveWatch(path).send, command))
            except (RoboRLError, OSError) as error:  # a time-out is one
                answer = str(error)
            await visit.answer({"answer": answer})
            visit.changed.set()

    async def _tell(self, visit: "Visit") -> None:
        """Tell what changed, and at least once a second that the connection lives."""
        while True:
            began = time.monotonic()
            visit.changed.clear()
            look = asyncio.create_task(self._look(visit.chosen))
            try:
                while not (await asyncio.wait({look}, timeout=ALIVE_SECONDS))[0]:
                    await visit.tell({})
            finally:
                look.cancel()
            await visit.tell(look.result())
            now = time.monotonic()
            deadline = now + max(self._settings.interval, (now - began) / SHARE_OF_CORE)
            while (left := deadline - time.monotonic()) > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, ALIVE_SECONDS)):
                        await visit.changed.wait()
                    break
                await visit.tell({})

    async def _show(self, visit: "Visit") -> None:
        """Send new pictures of the chosen run while it goes on; a page that is slow gets fewer."""
        while True:
            began = time.monotonic()
            if visit.chosen is not None and visit.going_on:
                run, shown = self._paths[visit.chosen], dict(visit.shown)
                with suppress(RoboRLError, OSError):
                    found = await self._readers.call(f"pictures {run}", partial(new_pictures, run, shown))
                    for (robot, camera), (picture, stamp) in found.items():
                        visit.shown[robot, camera] = stamp
                        heading = json.dumps({"robot": robot, "camera": camera})
                        await visit.page.send(heading.encode() + b"\n" + picture)
            await asyncio.sleep(max(PICTURE_SECONDS, time.monotonic() - began))

    async def _look(self, chosen: str | None) -> dict[str, Any]:
        """Return what there is to tell: the runs, and the chosen one, the newest by default."""
        paths, note = await self._list()
        if not paths:
            return {"runs": [], "run": None, "note": note}
        path = self._paths.get(chosen or "", paths[0])
        look, stop = f"run {path}", "stop"
        outcomes = await self._readers.read({look: partial(self._look_at, path), stop: why_robots_are_stopped})
        told, emergency = outcomes[look], outcomes[stop]
        if isinstance(told, Exception):
            told = unreadable(path, told)
        if isinstance(emergency, Exception):
            emergency = str(emergency)
        runs = [{"path": str(each), "name": clip(each.name)} for each in paths]
        return {"runs": runs, "run": told | {"emergency": emergency}}

    async def _list(self) -> tuple[list[Path], str]:
        """Return the newest runs, and why there is none; all pages share what was found within ``interval``."""
        if self._listed is None or time.monotonic() - self._listed[0] > self._settings.interval:
            paths, note = await self._find()
            self._paths |= {str(path): path for path in paths}
            self._listed = time.monotonic(), paths, note
        return self._listed[1:]

    async def _find(self) -> tuple[list[Path], str]:
        """Look for runs, in each folder beside the others: one that does not answer hides no other."""
        patterns = {f"runs {pattern}": partial(places, pattern) for pattern in self._settings.runs}
        found = await self._readers.read(patterns)
        problems = [str(each) for each in found.values() if isinstance(each, Exception)]
        folders = [path for each in found.values() if not isinstance(each, Exception) for path in each]
        outcomes = await self._readers.read({f"runs in {path}": partial(dated_runs, path) for path in folders})
        dated = [run for each in outcomes.values() if not isinstance(each, Exception) for run in each]
        unique = {place: (changed, path) for changed, path, place in reversed(dated)}  # the first name of each counts
        newest = sorted(unique.values(), reverse=True)[: self._settings.newest]
        problems.append(f"no run found in {', '.join(self._settings.runs)}")
        return [path for _, path in newest], problems[0]

    def _look_at(self, path: Path) -> dict[str, Any]:
        watch = LiveWatch(path)
        going_on = watch.is_going_on()
        stamp = going_on, *(stamp_of(path / name) for name in ("config.yaml", "metrics.jsonl", "summary.json"))
        if path not in self._looks or self._looks[path].stamp != stamp:
            self._looks[path] = Look(stamp, describe(load_run(path, going_on), going_on))
        status = watch.status() if going_on else None
        return {
            **self._looks[path].told,
            "going_on": going_on,
            "live": asdict(status or LiveStatus("starting" if going_on else "")),
            "refused": refused_commands(status, going_on),
            "waiting": watch.waiting() if going_on else [],
        }


class Visit:
    """One page that is open: what it was told last, which run it shows, and what it asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.chosen: str | None = None
        self.going_on = False
        self.changed = asyncio.Event()
        self.shown: dict[tuple[str, str], int] = {}
        self.asked: asyncio.Queue[tuple[object, str, str] | None] = asyncio.Queue()
        self._told: dict[str, Any] = {}

    def choose(self, path: str) -> None:
        """Show another run."""
        self.chosen = path
        self.shown.clear()
        self.changed.set()

    def ask(self, asked: tuple[object, str, str] | None) -> None:
        """Take note of a command: run, name and robot; None: there will be none any more."""
        if asked is None or self.asked.qsize() < MOST_ASKED:
            self.asked.put_nowait(asked)

    async def answer(self, told: Mapping[str, Any]) -> None:
        """Send the answer to a command, unless the page has left."""
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            await self.page.send(json.dumps(told))

    async def tell(self, told: Mapping[str, Any]) -> None:
        """Send what is not as it was told before."""
        news = {key: value for key, value in told.items() if key not in self._told or self._told[key] != value}
        self._told |= news
        if told.get("run") is not None:
            self.going_on = told["run"]["going_on"]
            # A folder that was removed meanwhile is not stayed with: the newest run is shown as soon as there is one.
            if self.chosen is None and told["run"]["status"] != UNREADABLE:
                self.choose(told["run"]["path"])
        await self.page.send(json.dumps(news or {"alive": True}))


def press_emergency_stop() -> str:
    """Press the emergency stop of all robots of this user; return why that was not possible, nothing where it was."""
    emergency = EmergencyStop()
    return "" if emergency.press("the page of robo-rl web") else f"{emergency.file} cannot be written"


def why_robots_are_stopped() -> str | None:
    """Return what the emergency stop of this user says; None: it is not pressed."""
    return EmergencyStop().pressed()
