"""Telemetry: the metrics of a run on disk, in TensorBoard and W&B, the progress line, and live status and commands."""

from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node
from robo_rl.core.lazy import imported_on_use

from .config import LoggingConfig

if TYPE_CHECKING:
    from .console import Console
    from .interventions import intervention_rate
    from .live import COMMANDS, EPISODE_COMMANDS, Command, LiveRobot, LiveRun, LiveStatus, LiveWatch
    from .logger import RunLogger, check_logging
    from .summary import SUMMARY, git_commit, versions, write_summary
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = [
    "COMMANDS",
    "EPISODE_COMMANDS",
    "SUMMARY",
    "Command",
    "Console",
    "LiveRobot",
    "LiveRun",
    "LiveStatus",
    "LiveWatch",
    "LoggingConfig",
    "RunLogger",
    "check_logging",
    "git_commit",
    "intervention_rate",
    "register_configs",
    "versions",
    "write_summary",
]


def register_configs() -> None:
    """Register the logging configuration with Hydra (group ``logging``)."""
    ConfigStore.instance().store(group="logging", name="default", node=config_node(None, LoggingConfig))
