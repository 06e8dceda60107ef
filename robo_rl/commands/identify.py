"""robo-rl identify: how an arm differs from its model, from motion within its safety limits."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from ..app import build, build_backend, has_robot
from ..app.identified import print_identified, write_identified
from ..command_line.destination import new_output
from ..core import ConfigError, DataError, EnvBackend, EnvSpec, derive_seed, generator, require, typed
from ..recording.episodes import print_summary
from ..recording.excitation import Ending, TimedBackend, read_recordings, record_planned
from ..replay import EpisodeStore
from ..safety import NoticingBackend
from ..telemetry import Console

JOINT_SPACES = ("joint_position", "joint_delta")


@dataclass(frozen=True)
class IdentifyConfig:
    """Options of configs/identify.yaml, which documents them and holds their defaults."""

    output: str
    name: str
    path: str | None
    episodes: int
    held_out: int
    rate: float
    fit: bool
    seed: int
    excitation: dict[str, Any]

    def __post_init__(self) -> None:
        require(self.episodes >= 1, "episodes", "1 or more", self.episodes)
        require(self.held_out >= 1, "held_out", "1 or more", self.held_out)
        require(self.seed >= 0, "seed", "0 or more", self.seed)
        require(self.name.isidentifier(), "name", "letters, digits and underscores", self.name)
        require(self.fit or self.path is None, "fit", "true with path", self.fit)
        enough = self.path is not None or not self.fit or self.held_out < self.episodes
        require(enough, "held_out", f"below episodes={self.episodes}", self.held_out)


def run(config: DictConfig) -> int:
    """Record and fit as configured in configs/identify.yaml, write the result and print it; return the exit code."""
    settings = typed(IdentifyConfig, OmegaConf.masked_copy(config, list(IdentifyConfig.__dataclass_fields__)))
    console = Console(highlight=False, markup=False)
    if "controller" not in config.task:
        raise ConfigError("task: identification needs a task with a simulated arm, such as task=reach")
    output = new_output("output", settings.output, "folder")
    config.task.observation.cameras = []
    config.task.observation.relative = False
    if has_robot(config):
        config.task.observation.object = False  # because robots seldom measure objects
    if settings.path is None:
        data = output / "log"
        code = _ended(_record(config, settings, data, console), settings, data, console)
        if code or not settings.fit:
            return code
    else:
        data = Path(settings.path)
    with EpisodeStore.open(data) as store:
        _match(config, store.spec, data)
        simulation: Any = build(config.task)
        identification = simulation.as_identification()
        recordings = read_recordings(store, identification)
    result = identification.fit(recordings, settings.held_out, lambda text: console.print(text, soft_wrap=True))
    write_identified(result, output, settings.name, data, settings.held_out)
    print_identified(result, console)
    console.print(
        f"Use it: robo-rl train --config-dir {output} task=... +arm@task={settings.name}   (or +arm@task="
        f"{settings.name}_randomised: the delay varies within its interval, friction, armature and payload by the "
        "median of theirs)",
        soft_wrap=True,
    )
    return 0


def _record(config: DictConfig, settings: IdentifyConfig, data: Path, console: Console) -> Ending:
    """Move the arm and record it; return how the recording ended."""
    task = config.task
    task.controller.action_space, task.control_rate = "joint_position", settings.rate
    task.terminate_on_success = False
    task.max_episode_steps = round(float(settings.excitation["seconds"]) * settings.rate)
    simulation: Any = build(task)
    if not hasattr(simulation, "as_identification"):
        raise ConfigError(f"task {simulation.spec.task!r} has no arm")
    excitation = simulation.as_identification().excitation(**settings.excitation)
    seeds = [derive_seed(settings.seed, "record", "excitation", number) for number in range(settings.episodes)]
    plans = [excitation.positions(generator(seed, "noise")) for seed in seeds]
    motion = np.abs(np.array(plans) - np.array(simulation.robot.home)).max((0, 1))
    # rounded up, so that no joint moves further than the printed value
    sizes = [math.ceil(100 * size) / 100 for size in motion]
    moves = ", ".join(f"{name} {size:.2f}" for name, size in zip(simulation.robot.joints, sizes, strict=True))
    arm = config.robot.name if has_robot(config) else "The simulated arm"
    console.print(f"{arm} moves its joints around home by up to [rad or m]: {moves}", soft_wrap=True)
    backend: EnvBackend = NoticingBackend(build_backend(config), print)
    if has_robot(config):
        backend = TimedBackend(backend, config.robot.get("real_time_factor", 1.0))
    try:
        return record_planned(
            backend,
            data,
            [excitation.actions(positions) for positions in plans],
            seed=settings.seed,
            metadata={"source": "excitation", "task": OmegaConf.to_container(task, resolve=True)},
            console=console,
        )
    finally:
        backend.close()


def _ended(ending: Ending, settings: IdentifyConfig, data: Path, console: Console) -> int:
    """Print what was recorded, and the command that fits it unless the fit follows; return the exit code."""
    print_summary(data, console)
    if ending.stopped:
        kept = f"{ending.stored} of {settings.episodes} episodes are kept, the last one up to the stop"
        console.print(
            f"The robot was stopped: {ending.stopped}. Nothing is fitted{f'; {kept}' if ending.stored else ''}",
            soft_wrap=True,
        )
    code = 128 + ending.signal if ending.signal is not None else int(bool(ending.stopped))
    if ending.stored and (code or not settings.fit):
        fewer = " held_out=1" if 1 < ending.stored <= settings.held_out else ""
        advice = f"Fit it with: robo-rl identify path={data} output=FOLDER{fewer}, and the same task"
        too_few = "One episode is too few to fit: record again, with another output"
        console.print(advice if ending.stored > 1 else too_few, soft_wrap=True)
    return code


def _match(config: DictConfig, spec: EnvSpec, data: Path) -> None:
    """Set the task's actions to those of a data set.

    Raises:
        DataError: if they do not command joints.
    """
    if spec.action_space not in JOINT_SPACES:
        raise DataError(
            f"{data}: its actions are {spec.action_space}, but identification needs {' or '.join(JOINT_SPACES)}: "
            "record with task.controller.action_space=joint_position"
        )
    controller = config.task.controller
    controller.action_space, config.task.control_rate = spec.action_space, spec.control_rate
    controller.action_axes = "full" if "gripper" in (spec.action.names or ()) else "xyz"
    controller.joint_scale = spec.extra.get("joint_scale", controller.joint_scale)
