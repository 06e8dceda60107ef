"""robo-rl actor: act for a learner elsewhere."""

from pathlib import Path

import torch
from omegaconf import DictConfig, open_dict

from ..app import ActorConfig, build_backend, emergency_stop, has_robot, run_config, section
from .interruption import Interruption
from .remote_actor import RemoteActor


def run(config: DictConfig) -> int:
    """Act as configs/actor.yaml says until the run ends; return the exit code (130: interrupted, 143: terminated)."""
    if config.run is not None:
        saved = run_config(Path(config.run))
        with open_dict(config):
            for name in ("task", "safety", "agent", "seed", *(["robot"] if has_robot(saved) else [])):
                config[name] = saved[name]
    settings: ActorConfig = section(config, "actor")
    torch.set_num_threads(settings.threads)
    with Interruption(emergency_stop(config, "Ctrl-\\ in the terminal of an actor")) as interruption:
        backend = build_backend(config)
        try:
            return RemoteActor(config, backend, interruption).run()
        finally:
            backend.close()
