"""The simulation of the task that a data set was recorded in, made from the configuration that the data set stores."""

from typing import Any, cast

from hydra.core.config_store import ConfigNode, ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..core import DataError, EnvBackend, RoboRLError, printable
from ..replay import EpisodeStore
from .allow_list import check_saved
from .composition import build
from .registration import register_all_configs
from .stops import SIMULATED
from .trained import saved_config

FACTS = "dataset.json"


def recorded_backend(store: EpisodeStore, named: DictConfig | None = None) -> EnvBackend:
    """Return a simulation of the task of a data set, for its model alone; also if a robot recorded the data set.

    Args:
        store: the data set. Its metadata has the task as ``robo-rl record`` writes it; the demonstrations of a run
            have the task of the run.
        named: section ``task`` to use instead; None: that of the data set.

    Raises:
        DataError: if the task is unknown, is none of the simulator's, or cannot be made.
    """
    try:
        node = _typed(store, _recorded_task(store)) if named is None else named
        if node.get("_target_") != SIMULATED:
            raise DataError(f"the task {printable(store.spec.task)} is none of the simulator's, so it has no scene")
        return cast(EnvBackend, build(node))
    except (RoboRLError, OmegaConfBaseException, OSError) as error:
        reason = printable(str(error).partition("\n")[0])
        raise error if isinstance(error, DataError) else DataError(f"its task cannot be made: {reason}") from error


def _recorded_task(store: EpisodeStore) -> dict[str, Any]:
    """Return the section ``task`` that a data set, or the run that it is in, stores."""
    task = store.metadata.get("task")
    run = store.path.parent / "config.yaml"
    if not isinstance(task, dict) and store.path.name == "demonstrations" and run.is_file():
        task = cast("dict[str, Any]", OmegaConf.to_container(saved_config(run))).get("task")
    if not isinstance(task, dict):
        raise DataError(
            f"{store.path} does not store the configuration of its task, so that its arm is unknown; data sets of "
            "robo-rl record and robo-rl collect do"
        )
    return task


def _typed(store: EpisodeStore, task: dict[str, Any]) -> DictConfig:
    """Return the configuration of a recorded task, typed, with current defaults for missing keys."""
    check_saved(OmegaConf.create({"task": task}), store.path / FACTS)
    register_all_configs()
    nodes = cast("dict[str, ConfigNode]", ConfigStore.instance().repo.get("task", {}))
    name = task.get("name")
    node = nodes.get(f"{name}_schema.yaml") or nodes.get(f"{name}.yaml")
    if node is None:
        raise DataError(
            f"there is no task {printable(str(name))} here; if a package of yours has it, install the package"
        )
    return cast(DictConfig, OmegaConf.merge(node.node, task))
