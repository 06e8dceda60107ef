"""Pages in a browser: a small server of fixed files and authenticated websockets; ``static/`` contains the pages.

``server`` needs the package ``websockets`` (``robo-rl[web]``) and is imported only where it is used.
"""

from .config import AUTHORITY_PATH, LAN, WebConfig

__all__ = ["AUTHORITY_PATH", "LAN", "WebConfig", "register_configs"]


def register_configs() -> None:
    """Register the section ``web`` of commands that serve a page."""
    from hydra.core.config_store import ConfigStore  # slow to import, and not needed for the help of a command
    from omegaconf import OmegaConf

    from robo_rl.core import config_node

    ConfigStore.instance().store(name="web_schema", node=OmegaConf.create({"web": config_node(None, WebConfig)}))
