"""Server of the data page of ``robo-rl web``, which shows recorded episodes and edits them into new data sets."""

import asyncio
import math
import os
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..core import ConfigError, DataError, RoboRLError, require
from ..operators.stop_button import StopButton
from ..recording.edits import EditConfig, command_of, edit, summary_of
from ..replay import EpisodeStore
from ..web.reading import TURNS, Readers
from .page_requests import Answer, Message, PageRequests, send
from .recorded_scenes import RecordedScenes
from .run_table import clip
from .watched_data import (
    DEMONSTRATIONS,
    SearchResult,
    check_files,
    data_sets_in,
    demonstrations_of,
    describe_set,
    flagged,
    open_data_set,
    picture,
    signals,
    stamp_of_set,
    thumbnail,
)
from .watched_runs import stamp_of

READ_SECONDS = 5.0
"""Longest wait for a folder [s]."""
FLAG_SECONDS = 3600.0
"""Longest wait for flags [s]."""
ALIVE_SECONDS = 1.0
PROGRESS_SECONDS = 0.3
MOST_DATA_SETS = 100
MOST_OPEN = 4
"""Largest number of data sets that are kept open."""
MOST_READS = 4
"""Largest number of requests of a page for which files are read at the same time."""
MOST_MEASURED = 2
"""Largest number of data sets whose flags are computed at the same time."""
MOST_EDITS = 20_000
MESSAGE_BYTES = 256 << 10
"""Largest message of a page [bytes]: the edits of a data set."""

SOCKET = "/socket/data"
NAMES = (
    "data.html", "data.js", "data_edits.js", "data_episode.js", "data_sets.js", "data_thumbnails.js", "requests.js",
)  # fmt: skip
PAGES = {f"/{name}": name for name in NAMES}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_SEGMENT = re.compile(r"[0-9]{1,9}:[0-9]{1,9}-[0-9]{1,9}(:success|:failure)?", re.ASCII)


@dataclass(frozen=True)
class DataConfig:
    """The option ``data`` of configs/web.yaml, which documents it and holds its default."""

    data: list[str]


@dataclass
class Saving:
    """New data set that is being written: its name, and the numbers of written episodes and of all episodes."""

    name: str
    done: int = 0
    total: int = 0


class DataPage:
    """Server of the data pages. One object serves all pages.

    Pages send :class:`.PageRequests`. At least once a second a page receives ``saving``, the data set that is being
    written.

    Data sets may belong to any user. They are read in threads, with limits on size and time. No data set is changed:
    edits are written to a new one beside it. The emergency stop does not depend on any data set.

    Args:
        folders: data sets, folders of them, or globs.
        runs: returns run folders, whose demonstrations are offered, too; None: there are none.
    """

    def __init__(self, folders: list[str], runs: Callable[[], Awaitable[list[Path]]] | None = None) -> None:
        self._folders, self._runs = folders, runs
        self._readers, self._button = Readers(READ_SECONDS, TURNS), StopButton()
        self._flag_readers, self._writers = Readers(FLAG_SECONDS), Readers(math.inf)
        self._paths: dict[str, Path] = {}
        self._saved: list[Path] = []
        self._facts: dict[Path, tuple[object, dict[str, Any]]] = {}
        self._stores: OrderedDict[Path, tuple[object, tuple[EpisodeStore, int]]] = OrderedDict()
        self._flags: dict[Path, tuple[object, asyncio.Task[Any]]] = {}
        self._listing, self._measuring = asyncio.Lock(), asyncio.Semaphore(MOST_MEASURED)
        self._scenes = RecordedScenes()
        self._saving: Saving | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def serve(self, page: Any) -> None:
        """Communicate with a page until it leaves."""
        from websockets.exceptions import ConnectionClosed

        from ..web.server import read_message

        async with asyncio.TaskGroup() as group:
            alive, requests = group.create_task(self._send_state(page)), PageRequests(page, group, self.answers())
            with suppress(ConnectionClosed):
                async for data in page:
                    message = read_message(data)
                    if message.get("command") == "emergency_stop":
                        self._button.press(partial(send, page), message.get("run"))
                    else:
                        requests.begin(message)
            alive.cancel()
            requests.cancel()

    async def _send_state(self, page: Any) -> None:
        while True:
            saving = self._saving
            await send(page, {"saving": None if saving is None else vars(saving)})
            await asyncio.sleep(ALIVE_SECONDS if saving is None else PROGRESS_SECONDS)

    def answers(self) -> Callable[[Message], Awaitable[Answer]]:
        """Return a function that answers the requests of one page, with a limit on those that read at a time."""
        return partial(self._answer_to, reads=asyncio.Semaphore(MOST_READS))

    async def _answer_to(self, message: Message, reads: asyncio.Semaphore) -> Answer:
        """Return the answer to a request, or raise the reason why there is none."""
        name = str(message.get("request"))
        if name == "list":
            async with self._listing:
                return await self._list()
        path = self._paths.get(str(message.get("path")))
        if path is None:
            raise DataError("there is no such data set; reload the page")
        long: dict[str, Callable[[Path, Message], Awaitable[dict[str, Any]]]] = {
            "flags": self._measure,
            "save": self._save,
            "command": self._command,
            "scene": lambda path, message: self._scenes.scene(path, _whole(message, "episode")),
        }
        if name in long:
            return await long[name](path, message)
        short: dict[str, Callable[[EpisodeStore], Any]] = {
            "describe": describe_set,
            "thumbnail": lambda store: thumbnail(store, _whole(message, "episode"), _whole(message, "pictures")),
            "signals": lambda store: signals(store, _whole(message, "episode")),
            "picture": lambda store: picture(
                store, _whole(message, "episode"), _whole(message, "row"), str(message.get("camera"))
            ),
        }
        if name not in short:
            raise DataError(f"there is no request {name!r}")
        async with reads:
            answer: Answer = await self._readers.call(f"{name} {path}", lambda: short[name](self._store(path)))
        return answer

    def _store(self, path: Path) -> EpisodeStore:
        """Return an open data set; called in threads."""
        return self._open(path)[0]

    def _open(self, path: Path) -> tuple[EpisodeStore, int]:
        """Return an open data set, and its size [bytes]. It is opened again after it has changed."""
        stamp = stamp_of_set(path)
        kept = self._stores.get(path)
        if kept is None or kept[0] != stamp:
            kept = stamp, open_data_set(path)
            self._stores[path] = kept
            while len(self._stores) > MOST_OPEN:
                with suppress(KeyError):  # another thread has removed it
                    self._stores.popitem(last=False)
        return kept[1]

    async def _list(self) -> dict[str, Any]:
        """Find the data sets and describe each of them. One that does not answer does not hide the others."""
        # The prefix distinguishes a search from a data set of the same path, whose late outcomes must not be confused.
        searches = {f"search {folder}": partial(data_sets_in, folder) for folder in self._folders}
        for run in await self._runs() if self._runs is not None else ():
            searches[f"search run {run}"] = partial(demonstrations_of, run)
        saved = {"saved": lambda: SearchResult([path for path in self._saved if os.path.lexists(path)], [])}
        outcomes = await self._readers.read(searches | saved)
        notes = [str(each) for each in outcomes.values() if isinstance(each, Exception)]
        found = [each for each in outcomes.values() if not isinstance(each, Exception)]
        paths = list(dict.fromkeys(path for each in found for path in each.sets))
        if links := [link for each in found for link in each.links]:
            more = f" and {len(links) - 1} more" * (len(links) > 1)
            notes.append(f"links are not followed: {links[0]}{more}; name what they lead to, as data=[{links[0]}]")
        if len(paths) > MOST_DATA_SETS:
            notes.append(
                f"{len(paths) - MOST_DATA_SETS:,} of {len(paths):,} data sets are not shown; name those to see, as "
                f"data=[{paths[MOST_DATA_SETS]}]"
            )
        paths = paths[:MOST_DATA_SETS]
        self._paths = {str(path): path for path in paths}
        facts = await self._readers.read({f"facts {path}": partial(self._facts_of, path) for path in paths})
        self._facts = {path: known for path, known in self._facts.items() if path in paths}
        sets = [
            {"path": str(path), "name": _name(path), "problem": clip(_reason(each))}
            if isinstance(each := facts[f"facts {path}"], Exception)
            else each
            for path in paths
        ]
        if not sets:
            notes.append(f"no data set found in {', '.join(self._folders)}; record one with robo-rl record")
        return {"sets": sets, "notes": [clip(note) for note in notes]}

    def _facts_of(self, path: Path) -> dict[str, Any]:
        """Return the facts of a data set, which are read again after it has changed; called in threads."""
        stamp = stamp_of_set(path)
        if path not in self._facts or self._facts[path][0] != stamp:
            store, size = self._open(path)
            counts = store.summary()
            known = any(record.success is not None for record in store.records)
            facts = {
                "path": str(path),
                "name": _name(path),
                "task": clip(store.spec.task),
                "episodes": counts.episodes,
                "steps": counts.steps,
                "seconds": counts.steps / store.spec.control_rate,
                "successes": counts.successes if known else None,
                "bytes": size,
            }
            self._facts[path] = stamp, facts
        return self._facts[path][1]

    async def _measure(self, path: Path, message: Message) -> dict[str, Any]:
        """Return the flags of a data set, which are computed once for all pages."""
        stamp = await self._readers.call(f"stamp {path}", lambda: stamp_of(path / "episodes.jsonl"))
        known = self._flags.get(path)
        if known is None or known[0] != stamp or (known[1].done() and known[1].exception()):
            self._flags[path] = stamp, self._start(self._compute_flags(path))
        flags: dict[str, Any] = await asyncio.shield(self._flags[path][1])
        return flags

    async def _compute_flags(self, path: Path) -> Any:
        async with self._measuring:
            return await self._flag_readers.call(f"flags {path}", lambda: flagged(self._store(path)))

    def _start(self, work: Any) -> "asyncio.Task[Any]":
        """Start work that continues if the page that requested it leaves."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # pages that still wait report the error
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return task

    async def _command(self, path: Path, message: Message) -> dict[str, Any]:
        """Return the command line that is equivalent to the request ``save``."""

        def command() -> dict[str, Any]:
            settings = edit_settings(path, message)
            exists = os.path.lexists(settings.output)
            problem = f"{settings.output} exists already; choose another name" if exists else ""
            return {"command": command_of(settings), "problem": problem}

        answer: dict[str, Any] = await self._readers.call(f"command {path}", command)
        return answer

    async def _save(self, path: Path, message: Message) -> dict[str, Any]:
        if self._saving is not None:
            raise ConfigError(f"{self._saving.name} is being saved; wait until it is complete")
        self._saving = Saving(clip(str(message.get("name"))))
        saved: dict[str, Any] = await asyncio.shield(self._start(self._write(path, message, self._saving)))
        return saved

    async def _write(self, path: Path, message: Message, saving: Saving) -> dict[str, Any]:
        def write() -> tuple[str, str]:
            settings = edit_settings(path, message)
            check_files(path)
            if os.path.lexists(settings.output):
                raise ConfigError(f"{settings.output} exists already; choose another name")

            def progress(done: int, total: int) -> None:
                saving.done, saving.total = done, total

            (output,) = edit(settings, progress)
            return settings.output, summary_of(output)

        try:
            output, summary = await self._writers.call(f"save {path} {time.monotonic_ns()}", write)
        finally:
            self._saving = None
        self._saved.append(Path(output))
        return {"saved": output, "summary": clip(summary)}


def edit_settings(path: Path, message: Message) -> EditConfig:
    """Return the settings of the edit in the message of a page: a new data set beside ``path``.

    It is called in threads, because it follows the links in ``path``.

    Raises:
        ConfigError: if the message is not valid.
    """
    name, edits = message.get("name"), message.get("edits")
    is_name = isinstance(name, str) and _NAME.fullmatch(name) and ".partial-" not in name
    require(bool(is_name), "name", "letters, digits, dots, dashes and underscores, at most 64", name)
    if not isinstance(edits, dict):
        raise ConfigError("edits must be lists by name")
    numbers = {key: _list_of(edits, key, _is_number) for key in ("drop", "mark_success", "mark_failure")}
    return EditConfig(
        path=str(path),
        merge=[],
        output=str(path.parent / str(name)),
        rest=None,
        keep=None,
        drop_flagged=[],
        segments=_list_of(edits, "segments", _is_segment),
        trim=False,
        share=1.0,
        seed=0,
        **numbers,
    )


def _list_of(edits: Message, key: str, is_valid: Callable[[object], bool]) -> list[Any]:
    values = edits.get(key, [])
    if not isinstance(values, list) or len(values) > MOST_EDITS or not all(map(is_valid, values)):
        raise ConfigError(f"edits.{key} must be a list of at most {MOST_EDITS:,} episodes or segments")
    return values


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def _is_segment(value: object) -> bool:
    return isinstance(value, str) and _SEGMENT.fullmatch(value) is not None


def _whole(message: Message, key: str) -> int:
    value = message.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(f"{key} must be a whole number")
    return value


def _name(path: Path) -> str:
    """Return the name of a data set; with that of its run if it has the demonstrations of one."""
    return clip(f"{path.parent.name}/{path.name}" if path.name == DEMONSTRATIONS else path.name)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, RoboRLError | OSError) else f"{type(error).__name__} in its files"
