"""robo-rl web: a page in the browser to watch runs, and to command those that go on."""

import asyncio
import json
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig

from ..app import section
from ..core import ConfigError, DataError, EmergencyStop, RoboRLError, require
from ..evaluation.runs import Run, find_runs, flatten, load_run
from ..telemetry import COMMANDS, Command, LiveStatus, LiveWatch
from ..web import WebConfig
from .curves import curves
from .recording import typed
from .top import facts, newest_change

PICTURE_SECONDS = 0.1
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
        require(self.interval > 0, "interval", "above 0", self.interval)


def run(config: DictConfig) -> int:
    """Serve the page until Ctrl-C.

    Raises:
        ConfigError: if the package ``websockets`` is missing, the address is taken, or keys cannot be read.
    """
    try:
        from ..web.server import PageServer
    except ImportError as error:
        raise ConfigError(f"pages need the package websockets ({error}): pip install 'robo-rl[web]'") from error
    if isinstance(config.runs, str):  # one needs no brackets
        config.runs = [config.runs]
    options = {key: value for key, value in config.items() if key != "web"}
    dashboard = Dashboard(typed(WatchConfig, DictConfig(options)))
    settings: WebConfig = section(config, "web")
    server = PageServer(settings, PAGES, dashboard.serve)

    async def serve() -> None:
        async with server.serving():
            print(f"Open {server.link}\nWhoever has this address may command the runs. Ctrl-C ends.", flush=True)
            await asyncio.get_running_loop().create_future()

    asyncio.run(serve())
    return 0


class Look(NamedTuple):
    """What the files of a run said when it and they were as ``stamp``, and the emergency stop that the run obeys."""

    stamp: object
    told: dict[str, Any]
    emergency: EmergencyStop | None


class Dashboard:
    """What pages are told about runs, and what they ask for. One object serves all pages.

    Messages to a page are JSON objects: ``runs`` and the chosen ``run`` where they changed, ``alive`` else, ``answer``
    to a command, with ``stopped``, the run of an emergency stop, after that was pressed: otherwise the page says so
    again, anew connected; and pictures: bytes whose first line is a JSON object that says of what, then a JPEG file.
    Messages of a page choose a run, ``{"run": path}``, or command it, ``{"command": name, "robot": name}``.
    """

    def __init__(self, settings: WatchConfig) -> None:
        self._settings = settings
        self._looks: dict[Path, Look] = {}
        self._paths: dict[str, Path] = {}

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
            async for data in page:
                message = read_message(data)
                run = message.get("run", visit.chosen)
                if isinstance(name := message.get("command"), str):
                    # Here and at once: no thread that reads files may hold up an emergency stop.
                    told = self._command(run, name, str(message.get("robot", "")))
                    visit.changed.set()
                    await while_open(page.send(json.dumps(told)))
                elif str(run) in self._paths:
                    visit.choose(str(run))
            for task in tasks:
                task.cancel()

    async def _tell(self, visit: "Visit") -> None:
        """Tell what changed, and at least once a second that the connection lives."""
        while True:
            began = time.monotonic()
            visit.changed.clear()
            look = asyncio.create_task(asyncio.to_thread(self._look, visit.chosen))
            while not (await asyncio.wait({look}, timeout=ALIVE_SECONDS))[0]:
                await visit.tell({})
            await visit.tell(look.result())
            now = time.monotonic()
            deadline = now + max(self._settings.interval, (now - began) / SHARE_OF_CORE)
            while (left := deadline - time.monotonic()) > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(visit.changed.wait(), min(left, ALIVE_SECONDS))
                    break
                await visit.tell({})

    async def _show(self, visit: "Visit") -> None:
        """Send new pictures of the chosen run; a page that is slow gets fewer."""
        while True:
            await asyncio.sleep(PICTURE_SECONDS)
            if visit.chosen is None:
                continue
            watch = LiveWatch(self._paths[visit.chosen])
            watch.watch()
            for (robot, camera), (file, stamp) in sorted(watch.pictures().items()):
                if visit.shown.get((robot, camera)) == stamp:
                    continue
                with suppress(FileNotFoundError):
                    picture = file.read_bytes()
                    visit.shown[robot, camera] = stamp
                    heading = json.dumps({"robot": robot, "camera": camera})
                    await visit.page.send(heading.encode() + b"\n" + picture)

    def _look(self, chosen: str | None) -> dict[str, Any]:
        """Return what there is to tell: the runs, and the chosen one, the newest by default."""
        try:
            dated = sorted(((newest_change(path), path) for path in find_runs(self._settings.runs)), reverse=True)
            paths = [path for _, path in dated[: self._settings.newest]]
            self._paths |= {str(path): path for path in paths}
            path = self._paths.get(chosen or "", paths[0])
            return {"runs": [{"path": str(each), "name": each.name} for each in paths], "run": self._look_at(path)}
        except (RoboRLError, OSError) as error:  # there is none, or its files were removed meanwhile
            return {"runs": [], "run": None, "note": str(error)}

    def _look_at(self, path: Path) -> dict[str, Any]:
        files = [path / name for name in ("config.yaml", "metrics.jsonl", "summary.json")]
        watch = LiveWatch(path)
        going_on = watch.is_going_on()
        stamp = (going_on, *((file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.exists()))
        if path not in self._looks or self._looks[path].stamp != stamp:
            run = load_run(path, going_on)
            self._looks[path] = Look(stamp, describe(run, going_on), emergency_of(run))
        look = self._looks[path]
        status = watch.status() if going_on else None
        return {
            **look.told,
            "going_on": going_on,
            "live": asdict(status or LiveStatus("starting" if going_on else "")),
            "refused": refused_commands(status, going_on)
            | ({"emergency_stop": "this run has none (safety=none)"} if look.emergency is None else {}),
            "waiting": watch.waiting() if going_on else [],
            "emergency": None if look.emergency is None else look.emergency.pressed(),
        }

    def _command(self, run: object, name: str, robot: str) -> dict[str, object]:
        """Do what a page asks for of the run that it names; return what to tell it."""
        try:
            if name == "emergency_stop":
                return self._stop(run)
            path = self._paths.get(str(run))
            if path is None:
                return {"answer": "no run is chosen"}
            LiveWatch(path).send(Command(name, robot))
        except RoboRLError as error:
            return {"answer": str(error)}
        return {"answer": f"{Command(name, robot)}: asked for"}

    def _stop(self, run: object) -> dict[str, object]:
        """Press the emergency stop of the run that a page names, and say so."""
        emergency = self._emergency(run)
        if emergency is None:
            return {"answer": "This run has no emergency stop (safety=none)"}
        if not emergency.press("the page of robo-rl web"):
            answer = f"ROBOTS ARE NOT STOPPED: {emergency.file} cannot be written. Use the button that cuts the power"
            return {"answer": answer}
        return {"answer": "Robots are stopped", "stopped": run}

    def _emergency(self, run: object) -> EmergencyStop | None:
        """Return the emergency stop of a run; this user's where it is not known or cannot be read, rather than none."""
        try:
            if run is not None and str(run) not in self._paths:  # the page chose it before this server was started
                self._paths |= {str(path): path for path in find_runs(self._settings.runs)}
            path = self._paths.get(str(run))
            if path is None:
                return EmergencyStop(None)
            if path not in self._looks:
                self._look_at(path)
        except (DataError, OSError):
            return EmergencyStop(None)
        return self._looks[path].emergency


class Visit:
    """One page that is open: what it was told last, and which run it shows."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.chosen: str | None = None
        self.changed = asyncio.Event()
        self.shown: dict[tuple[str, str], int] = {}
        self._told: dict[str, Any] = {}

    def choose(self, path: str) -> None:
        """Show another run."""
        self.chosen = path
        self.shown.clear()
        self.changed.set()

    async def tell(self, told: Mapping[str, Any]) -> None:
        """Send what is not as it was told before."""
        news = {key: value for key, value in told.items() if key not in self._told or self._told[key] != value}
        self._told |= news
        if told.get("run") is not None and self.chosen is None:
            self.choose(told["run"]["path"])
        await self.page.send(json.dumps(news or {"alive": True}))


def describe(run: Run, going_on: bool) -> dict[str, Any]:
    """Return what the files of a run say: facts, curves, faults; as JSON values."""
    told = facts(run, going_on)
    stops = [line for line in run.metrics if line.get("kind") == "episode" and line.get("stopped")]
    return {
        "path": str(run.path),
        "title": f"{run.task}  {run.agent}  seed {run.seed}",
        "status": run.status,
        # What the curves show is not told twice.
        "facts": [(name, text) for name, text in told if name not in ("evaluations", "learning", "stopped")],
        "faults": [f"step {line['step']:,}: {line['stopped']}" for line in reversed(stops[-10:])],
        "curves": curves(run),
    }


def refused_commands(status: LiveStatus | None, going_on: bool) -> dict[str, str]:
    """Return the commands that a run does not take now, and why."""
    if not going_on:
        return dict.fromkeys(COMMANDS, "the run is not going on")
    if status is None:
        return dict.fromkeys(COMMANDS, "the run is starting")
    return dict(status.refused)


def emergency_of(run: Run) -> EmergencyStop | None:
    """Return the emergency stop that a run obeys; None with ``safety=none``."""
    if run.config and "emergency_stop" not in (run.config.get("safety") or {}):
        return None
    file = flatten(run.config).get("safety.emergency_stop.file")
    return EmergencyStop(Path(file) if file else None)
