"""robo-rl web: a web page on which to watch runs, and to command active ones."""

import asyncio
import sys

from omegaconf import DictConfig

from ..core import ConfigError, EmergencyStop, section, typed
from ..monitoring.dashboard import PAGES, SWITCH_SECONDS, Dashboard, WatchConfig
from ..web import WebConfig


def run(config: DictConfig) -> int:
    """Serve the page until Ctrl-C.

    Raises:
        ConfigError: if the package ``websockets`` is missing, the address is taken, or keys cannot be read.
    """
    try:
        from ..web.server import PageServer
    except ImportError as error:
        raise ConfigError(f"pages need the package websockets ({error}): pip install 'robo-rl[web]'") from error
    if isinstance(config.runs, str):  # a single folder needs no brackets
        config.runs = [config.runs]
    options = {key: value for key, value in config.items() if key != "web"}
    dashboard = Dashboard(typed(WatchConfig, DictConfig(options)))
    EmergencyStop()  # raises now if this user has no folder for it
    settings: WebConfig = section(config, "web")
    server = PageServer(settings, PAGES, dashboard.serve)

    async def serve() -> None:
        async with server.serving():
            print(f"Open {server.link}\nAnyone with this address can command the runs. Ctrl-C ends.", flush=True)
            await asyncio.get_running_loop().create_future()

    sys.setswitchinterval(SWITCH_SECONDS)
    asyncio.run(serve())
    return 0
