"""robo-rl actor: an actor for a learner on another machine."""

from pathlib import Path

import torch
from omegaconf import DictConfig, open_dict

from ..app import ActorConfig, build_backend, emergency_stop, has_robot, run_config
from ..core import Interruption, RobotAwayError, section
from ..operators.takeover import Takeover, open_takeover
from ..training.actor_processes import EXIT_AWAY
from ..training.remote_actor import RemoteActor


def run(config: DictConfig) -> int:
    """Act as configured in configs/actor.yaml until the run ends.

    Returns:
        The exit code: 130 if interrupted, 143 if terminated, 75 if the robot is unreachable.
    """
    settings: ActorConfig = section(config, "actor")
    if config.run is not None:
        saved = run_config(Path(str(config.run)))
        with open_dict(config):
            robot = ["robot"] if has_robot(saved) else []
            # An actor that a person starts uses that person's device, not the run's.
            person = [name for name in ("teleop", "steering") if settings.parent is not None and name in saved]
            for name in ("task", "safety", "agent", "reset", "intervention", "base", "seed", *robot, *person):
                config[name] = saved[name]
    torch.set_num_threads(settings.threads)
    with Interruption(emergency_stop(config, "Ctrl-\\ in the terminal of an actor")) as interruption:
        backend = build_backend(config)
        takeover: Takeover | None = None
        try:
            takeover = open_takeover(config, backend)
            return RemoteActor(config, backend, interruption, takeover).run()
        except RobotAwayError as error:
            print(f"robo-rl: {error}", flush=True)
            return EXIT_AWAY
        finally:
            if takeover is not None:
                takeover.close()
            backend.close()
