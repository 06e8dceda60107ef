"""robo-rl web: a web page on which to watch runs, to command active ones, and to edit data sets."""

import asyncio
import gc
import sys
from functools import partial

from omegaconf import DictConfig

from ..command_line.serving import run_until_signal
from ..core import EmergencyStop, importing_extra, typed
from ..monitoring import data_page
from ..monitoring.dashboard import PAGES, SWITCH_SECONDS, Dashboard
from ..monitoring.run_table import WatchConfig
from ..monitoring.starting import StartConfig, Starter
from ..operators.page_address import link_text, page_settings
from ..web import WebConfig
from ..web.open_pages import open_pages


def run(config: DictConfig) -> int:
    """Serve the page until Ctrl-C.

    Raises:
        ConfigError: if the package ``websockets`` is missing, the address is taken, or keys cannot be read.
    """
    return serve(config, page_settings(config))


def serve(config: DictConfig, settings: WebConfig, guide: str = "") -> int:
    """Serve the page until Ctrl-C.

    Args:
        config: options of the command.
        settings: address of the page.
        guide: printed after the address.

    Raises:
        ConfigError: as :func:`run`.
    """
    with importing_extra("web", "pages need the packages websockets and segno"):
        from ..web.server import PageServer
    for name in ("runs", "data"):
        if isinstance(config[name], str):  # a single folder needs no brackets
            config[name] = [config[name]]
    options = {key: value for key, value in config.items() if key not in ("web", "data", "starts")}
    watched = typed(WatchConfig, DictConfig(options))
    folders = typed(data_page.DataConfig, DictConfig({"data": config.data})).data
    starts = typed(StartConfig, DictConfig({"starts": config.starts}))
    EmergencyStop()  # raises at once if this user has no folder for it
    data = data_page.DataPage(folders, lambda: dashboard.runs())  # it is made of the other
    limit = starts.limit(settings.is_local)
    pages = partial(open_pages, settings.is_local)
    dashboard = Dashboard(watched, data, Starter(watched.runs[0], limit), pages)
    server = PageServer(
        settings,
        PAGES | data_page.PAGES,
        dashboard.serve,
        message_bytes=data_page.MESSAGE_BYTES,
        handlers={data_page.SOCKET: data.serve},
        files=dashboard.files,
    )

    async def serve_pages() -> None:
        async with server.serving():
            link = link_text(server.link, settings)
            rights = "command and start runs" if limit else "command the runs"
            warning = f"Anyone with this address can {rights} and save data sets. Ctrl-C ends."
            print(f"Open {link}\n{warning}{guide}", flush=True)
            await asyncio.get_running_loop().create_future()

    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # collecting all imported objects would stop every thread for tens of milliseconds
    run_until_signal(serve_pages())
    return 0
