"""The server of the page of runs in a thread, and a status that a run reports to it."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from robo_rl.monitoring import data_page
from robo_rl.monitoring.dashboard import PAGES, Dashboard
from robo_rl.monitoring.run_table import WatchConfig
from robo_rl.monitoring.starting import Starter
from robo_rl.telemetry import LiveRobot, LiveStatus
from robo_rl.web import WebConfig
from robo_rl.web.open_pages import OpenPage
from robo_rl.web.server import PageServer

from .server_thread import ServerThread

TOKEN = "a secret of this test"
ROBOTS = tuple(
    LiveRobot(name, name == "left", {"steps": "1,234", "policy": "3 updates old", "held": "0 s"})
    for name in ("left", "right")
)
STATUS = LiveStatus("training", False, {"checkpoint": "the disk is full"}, ROBOTS)


class ServedDashboard:
    """The server of ``robo-rl web`` in a thread; ``stop`` and ``start`` are a dropped connection."""

    def __init__(
        self,
        runs: Path,
        folder: Path,
        data: Path | None = None,
        starter: Starter | None = None,
        pages: Sequence[OpenPage] = (),
    ) -> None:
        (folder / "token").write_text(TOKEN)
        (folder / "token").chmod(0o600)
        self.messages: list[str] = []
        self._token_file = str(folder / "token")
        self._data = data_page.DataPage([] if data is None else [str(data)], lambda: self._dashboard.runs())
        watched = WatchConfig(runs=[str(runs)], newest=4, interval=0.2)
        self._dashboard = Dashboard(watched, self._data, starter, partial(list, pages))
        self.port = 0

    def start(self) -> None:
        config = WebConfig(address=f"127.0.0.1:{self.port}", token_file=self._token_file)
        self._thread = ServerThread(
            lambda: PageServer(
                config,
                PAGES | data_page.PAGES,
                self._dashboard.serve,
                self.messages.append,
                data_page.MESSAGE_BYTES,
                {data_page.SOCKET: self._data.serve},
                self._dashboard.files,
            )
        )
        self.server = self._thread.server
        self.port = int(self.server.origin.rpartition(":")[2])

    def stop(self) -> None:
        self._thread.stop()


def open_page(browser: Any, served: ServedDashboard, token: str = TOKEN) -> None:
    """Load the page of runs again."""
    browser.get("about:blank")
    browser.get(f"{served.server.origin}/#{quote(token)}")
