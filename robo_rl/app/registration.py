"""Registration of the configuration classes of all packages with Hydra, without the code that they configure."""

import functools
import importlib.metadata

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from ..actor import InterventionConfig
from ..agents.registration import register_configs as register_agents
from ..calibration import register_configs as register_boards
from ..core import config_node
from ..core.search_path import register_search_path
from ..planning import register_configs as register_planner
from ..replay.interchange import register_configs as register_formats
from ..reset import register_configs as register_resets
from ..residual import BaseConfig
from ..residual import register_configs as register_execution
from ..safety import register_configs as register_safety
from ..telemetry import register_configs as register_logging
from ..transport import TransportConfig
from ..transport import register_configs as register_transport
from ..web import register_configs as register_pages
from .config import (
    ActorConfig,
    AsyncRuntimeConfig,
    DemonstrationsConfig,
    LocalRuntimeConfig,
    RayRuntimeConfig,
    RunConfig,
    StartConfig,
)

ENTRY_POINTS = "robo_rl.config"
"""Entry-point group of packages that register configuration nodes."""


def register_configs() -> None:
    """Register the configuration classes of ``robo_rl`` with Hydra."""
    store = ConfigStore.instance()
    sections = {
        "run": config_node(None, RunConfig),
        "start": config_node(None, StartConfig),
        "base": config_node(None, BaseConfig),
        "demonstrations": config_node(None, DemonstrationsConfig),
        "intervention": config_node(None, InterventionConfig),
    }
    store.store(name="train_schema", node=OmegaConf.create(sections))
    store.store(group="runtime", name="local", node=config_node(None, LocalRuntimeConfig))
    store.store(group="runtime", name="async", node=config_node(None, AsyncRuntimeConfig))
    store.store(group="runtime", name="ray", node=config_node(None, RayRuntimeConfig))
    wire = {"transport": config_node(None, TransportConfig)}
    act = {"actor": config_node(None, ActorConfig), "intervention": config_node(None, InterventionConfig)}
    act["base"] = config_node(None, BaseConfig)
    store.store(name="actor_schema", node=OmegaConf.create(wire | act))
    register_execution()
    register_boards()
    register_agents()
    register_pages()
    register_planner()
    register_transport()
    register_safety()
    register_resets()
    register_logging()
    register_formats()


@functools.cache
def register_all_configs() -> None:
    """Register the configuration classes of all installed packages with the entry point ``robo_rl.config``, once.

    Afterwards Hydra also searches the folders in ``ROBO_RL_CONFIG_PATH``.
    """
    register_search_path()
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        entry.load()()
