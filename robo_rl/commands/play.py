"""robo-rl play: the demonstrations of a task, the policy of a run, or recorded episodes in the browser."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from ..actor import RecordedPoses
from ..app import build_backend, has_robot, load_policy, run_config, scene_limits, with_source
from ..app.recorded_task import recorded_backend
from ..core import (
    ConfigError,
    EnvBackend,
    EnvSpec,
    Interruption,
    check_seed,
    importing_extra,
    nearest,
)
from ..monitoring.players import PolicyPlayer, ScriptPlayer
from ..operators.page_address import link_text, page_settings
from ..recording.scripts import SCRIPTS
from ..safety import NoticingBackend
from ..web import WebConfig

if TYPE_CHECKING:
    from ..monitoring.playing import Player, Playing
    from ..monitoring.replaying import Replaying

NAMES = {
    "expert": "scripted expert",
    "human_like": "human-like script",
    "play": "script that plays",
    "planner": "planner",
}
_PLANNER = ("planner", "reward@planner")
"""Sections and groups of the options of the planner, as :func:`_given` names them."""


def run(config: DictConfig) -> int:
    """Play episodes until Ctrl-C; return the exit code.

    Raises:
        ConfigError: if the package ``websockets`` is missing, a robot is configured, the task has no scripted expert,
            or the address is taken.
    """
    with importing_extra("web", "pages need the packages websockets and segno"):
        from ..monitoring.playing import Playing
    check_seed(config)
    if config.source not in SCRIPTS:
        raise ConfigError(f"source: unknown value {config.source!r}; {nearest(str(config.source), SCRIPTS)}")
    settings = page_settings(config)
    if config.data is not None:
        return _replay(config, settings)
    if _given() & {"episode"}:
        raise ConfigError("episode is a number of an episode of data=FOLDER: name the data set, too")
    played = config if config.run is None else _run_to_play(config)
    if has_robot(played):
        raise ConfigError(
            "robo-rl play is for simulations, but this configuration drives a robot: leave out robot, or let the "
            "policy of a run act with robo-rl eval run=FOLDER on_robot=true"
        )
    source = config.source if config.run is None else ""
    backend = NoticingBackend(with_source(build_backend(played), played, source), print)
    try:
        player, name = _player(config, played, backend)
        playing = Playing(backend, player, config.seed, scene_limits(played.safety, backend.robot))
        return _play(playing, settings, backend.spec, name, recorded=False)
    finally:
        backend.close()


def _replay(config: DictConfig, settings: WebConfig) -> int:
    """Show the recorded episodes of a data set until Ctrl-C; return the exit code.

    Raises:
        ConfigError: if options are given that have no meaning for recorded episodes.
        DataError: if the data set cannot be read, or has no arm to pose.
    """
    from ..monitoring.replaying import Replaying
    from ..monitoring.watched_data import open_data_set

    if given := _given() & {"run", "checkpoint", "source", "safety", "seed", *_PLANNER}:
        raise ConfigError(f"data={config.data} shows recorded states, in which nothing acts: leave out {min(given)}")
    path = Path(config.data)
    if not path.is_dir():
        raise ConfigError(f"data: expected the folder of a data set, got {path}")
    store, _ = open_data_set(path)
    backend = recorded_backend(store, config.task if "task" in _given() else None)
    try:
        replaying = Replaying(store, RecordedPoses(backend, store.spec), config.episode)
        name = f"recorded states of {path.resolve().name}"
        return _play(replaying, settings, store.spec, name, recorded=True)
    finally:
        backend.close()
        store.close()


def _play(episodes: "Playing | Replaying", settings: WebConfig, spec: EnvSpec, name: str, *, recorded: bool) -> int:
    """Serve the page of episodes until Ctrl-C; return the exit code."""
    from ..monitoring.playing import PAGES, PlayPage
    from ..web.server import PageServer
    from ..web.threaded import ThreadedServer

    about = {"task": spec.task, "player": name, "control_rate": spec.control_rate, "recorded": recorded}
    server = PageServer(settings, PAGES, PlayPage(episodes, about).serve, title=f"Play {spec.task}")
    # A thread serves, because a simulator renders in the main thread.
    with Interruption() as interruption, closing(ThreadedServer(server)):
        link = link_text(server.link, settings)
        print(f"{spec.task}, {name}. Open {link}\nThe page lists its keys. Ctrl-C ends.", flush=True)
        episodes.run(lambda: interruption.signal is not None)
    return 0 if interruption.signal is None else 128 + interruption.signal


def _given() -> set[str]:
    """Return the names of the sections and options on the command line."""
    return {word.lstrip("+~").partition("=")[0].partition(".")[0] for word in HydraConfig.get().overrides.task}


def _run_to_play(config: DictConfig) -> DictConfig:
    """Return the configuration of the run.

    Raises:
        ConfigError: if options are given that the run determines itself.
    """
    if given := _given() & {"task", "safety", "source", *_PLANNER}:
        raise ConfigError(f"run={config.run} already has a task, safety filters and a policy: leave out {min(given)}")
    return run_config(Path(config.run))


def _player(config: DictConfig, played: DictConfig, backend: EnvBackend) -> "tuple[Player, str]":
    """Return the player, which chooses the actions in the environment of ``played``, and its description."""
    if config.run is None:
        return ScriptPlayer(config.source, backend, config.seed), NAMES[config.source]
    trained = load_policy(Path(config.run), backend.spec, str(config.checkpoint), played)
    return PolicyPlayer(trained.policy), f"policy of {Path(config.run).resolve().name}, step {trained.step:,}"
