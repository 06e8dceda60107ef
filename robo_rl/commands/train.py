"""robo-rl train: training in a new run folder, or resumed in an existing one."""

import contextlib
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict

from ..agents.sac.ranks import several_ranks
from ..app import RESUMED, RayRuntimeConfig, emergency_stop, has_robot, run_config
from ..core import ConfigError, Interruption, check_seed, importing_extra, section
from ..operators.takeover import has_person
from ..training.asynchronous import AsyncTraining
from ..training.local import LocalTraining
from ..training.ranks import follow, joined_ranks
from ..training.run_folder import claimed

RESUMABLE = (*(f"{name}." for name in RESUMED), "resume", "allow")


def run(config: DictConfig) -> int:
    """Train as configured; return the exit code (0, 1: diverged, 130: interrupted, 143: terminated)."""
    with joined_ranks() as rank:
        if rank == 0:
            return _train(config)
        return follow(config if config.resume is None else _resumed(config, Path(str(config.resume))))


def _train(config: DictConfig) -> int:
    if config.resume is None:
        check_seed(config)
        if has_robot(config) and config.runtime.name != "async":
            raise ConfigError("a robot cannot wait for the learner: choose runtime=async")
        folder = Path(config.run.dir)
        choices = HydraConfig.get().runtime.choices
        with open_dict(config):
            config.choices = {group: choice for group, choice in choices.items() if group in config}
            _limit_cloning(config)
    else:
        folder = Path(str(config.resume))
        config = _resumed(config, folder)
    if config.runtime.name == "ray":
        return _with_ray(config, folder)
    training_class = AsyncTraining if config.runtime.name == "async" else LocalTraining
    with contextlib.ExitStack() as stack:
        with claimed(config, folder):
            stop = emergency_stop(config, "Ctrl-\\ in the terminal of the run")
            interruption = stack.enter_context(Interruption(stop))
            training = training_class(config, folder, interruption)
        try:
            return training.run()
        finally:
            training.close()


def _limit_cloning(config: DictConfig) -> None:
    """Let a run that starts from another one begin with the final weight of the cloning term, if none is given.

    The larger weight of the beginning is meant for an untrained policy: it would pull a policy that is better than the
    demonstrations back to them.
    """
    given = {word.lstrip("+").partition("=")[0] for word in HydraConfig.get().overrides.task}
    if config.start.run is not None and "cloning_weight" in config.agent and "agent.cloning_weight" not in given:
        config.agent.cloning_weight = min(config.agent.cloning_weight, config.agent.final_cloning_weight)


def _with_ray(config: DictConfig, folder: Path) -> int:
    with contextlib.ExitStack() as claim:
        claim.enter_context(claimed(config, folder))
        if several_ranks():
            raise ConfigError("runtime=ray starts its own learner: under torchrun choose runtime=local or async")
        settings: RayRuntimeConfig = section(config, "runtime")
        if has_person(config):
            raise ConfigError("a person cannot intervene in simulators of Ray: leave out teleop.device and steering")
        with importing_extra("ray", "runtime=ray needs Ray"):
            from ..training.with_ray import connect, learn
        connect(settings)
        return learn(config, folder, claim.close)


def _resumed(config: DictConfig, folder: Path) -> DictConfig:
    """Return the configuration of the run in ``folder``, with the current overrides of ``run`` and ``logging``."""
    saved = run_config(folder)
    keys = [word.partition("=")[0].lstrip("+~") for word in HydraConfig.get().overrides.task]
    refused = [key for key in keys if not key.startswith(RESUMABLE)]
    if refused:
        raise ConfigError(
            f"a resumed run keeps its configuration: {', '.join(refused)} cannot be changed; only run.*, logging.* "
            "and allow may be given beside resume"
        )
    if "run.dir" in keys:
        raise ConfigError("a resumed run stays in its folder: leave out run.dir")
    for key in keys:
        if key not in ("resume", "allow"):
            value = OmegaConf.select(config, key)
            OmegaConf.update(saved, key, value)
            OmegaConf.update(saved.resumed, key, value, force_add=True)
    saved.resume = str(folder)
    return saved
