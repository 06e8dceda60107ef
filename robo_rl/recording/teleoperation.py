"""robo-rl record: demonstrations from the scripted expert or by teleoperation, and play."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..actor import ActionChoice, Actor
from ..core import EnvBackend, Intervention, Observation, Source, derive_seed, require
from ..operators.panel import Panel, open_panel
from ..telemetry import Console
from .disk_space import DiskSpace
from .episodes import (
    IF_EXISTS,
    EpisodePrinter,
    Outcome,
    RecordingStopped,
    open_data_set,
    record_episodes,
)
from .scripts import SCRIPTS, noise_of

SECTION = "record."
"""Of the options that the recording's messages name."""
SOURCES = (*SCRIPTS, "keyboard", "window", "browser", "gamepad", "spacemouse", "joy", "twist", "leader")


@dataclass(frozen=True)
class RecordConfig:
    """The section ``record`` of configs/record.yaml; what each option means and its default stand there."""

    source: str
    path: str | None
    episodes: int
    max_episode_steps: int
    noise: float
    only_successful: bool | None
    if_exists: str

    def __post_init__(self) -> None:
        require(self.source in SOURCES, "record.source", f"one of {', '.join(SOURCES)}", self.source)
        require(self.episodes >= 1, "record.episodes", "1 or more", self.episodes)
        require(self.max_episode_steps >= 1, "record.max_episode_steps", "1 or more", self.max_episode_steps)
        require(0 <= self.noise <= 1, "record.noise", "in [0, 1]", self.noise)
        require(self.if_exists in IF_EXISTS, "record.if_exists", f"one of {', '.join(IF_EXISTS)}", self.if_exists)


def record_expert(
    backend: EnvBackend,
    path: Path,
    episodes: int,
    *,
    noise: float,
    seed: int,
    source: str = "expert",
    only_successful: bool = True,
    if_exists: str = "fail",
    metadata: Mapping[str, Any] | None = None,
    console: Console | None = None,
    section: str | None = SECTION,
) -> None:
    """Record ``episodes`` of a script with the backend's expert into the data set ``path``.

    Args:
        backend: must have an expert.
        path: folder of the data set.
        episodes: how many to store.
        noise: standard deviation of the Gaussian noise on the expert's actions. The noisy action is executed,
            so the data shows how the expert makes up for mistakes; both are stored.
        seed: of start states and noise.
        source: a key of :data:`.scripts.SCRIPTS`.
        only_successful: leave out episodes that end without success.
        if_exists: see :func:`open_data_set`.
        metadata: further facts to keep with the data, as JSON values.
        console: where to tell how it goes; None: nowhere.
        section: see :func:`record_episodes`.

    Raises:
        ConfigError: if the backend has no expert.
        DataError: if the data set cannot be written, its disk is nearly full, or far too few episodes succeed.
    """
    expert = backend.expert(derive_seed(seed, "expert"))
    facts = {"source": source, "seed": seed, **noise_of(source, noise), **(metadata or {})}
    with open_data_set(path, backend.spec, if_exists, facts, section or "") as store:
        record_episodes(
            backend,
            store,
            episodes,
            lambda rng: SCRIPTS[source](backend.spec, expert, noise, rng),
            actor=source,
            seed=seed,
            only_successful=only_successful,
            report=EpisodePrinter(console, episodes, DiskSpace(store).describe) if console is not None else None,
            section=section,
        )


class HumanChooser:
    """A person with a teleoperation device, in real time. One object serves all episodes.

    An episode begins when the person, having let go, moves; then each step takes one control period. Where time went by
    meanwhile, as on a robot, the backend is reset once more then: what it observed has become old, and its watchdog may
    have stopped it. A pause discards the episode, and none begins before a second press of the button.

    Args:
        panel: what the person holds and sees.
        episodes: how many are wanted, for the screen.
        space: says how much room the disk has, for the screen.
    """

    def __init__(self, panel: Panel, episodes: int, space: Callable[[], str]) -> None:
        self._panel = panel
        self._episodes = episodes
        self._space = space
        self._room = ""
        self._stored = 0
        self._steps = 0
        self._last = ""

    def report(self, stored: int, outcome: Outcome) -> None:
        """Take note of an episode that ended, and wait for the next."""
        self._stored = stored
        self._steps = 0
        self._last = f"last episode: {outcome.describe()}"

    def begin(self, actor: Actor) -> None:
        panel, clock = self._panel, self._panel.backend.clock
        self._room = self._space()
        actor.begin_episode()
        began_ns = clock.now_ns()
        if panel.device is not None:
            panel.device.reset()
        panel.begin()
        self._wait_for(False, "let go")
        self._wait_for(True, "move to begin")
        if clock.now_ns() > began_ns:  # a simulator's clock stands still while nobody steps it
            actor.begin_again()
            panel.begin()
            self._obey(panel.look())
        # A button pressed twice at the end of the last episode does not end this one.
        panel.forget_buttons()

    def __call__(self, observation: Observation) -> ActionChoice:
        if self._steps > 0:
            self._turn(f"step {self._steps}")
        self._steps += 1
        return ActionChoice(self._panel.action(observation), Source.HUMAN)

    def button(self) -> str | None:
        if self._panel.paused:
            return "discard"
        return next((name for name in ("discard", "failure", "success") if name in self._panel.said.buttons), None)

    def _wait_for(self, in_control: bool, state: str) -> None:
        """Show ``state`` until the person has control, or has not."""
        while self._panel.said.in_control != in_control or self._panel.paused:
            self._turn("paused" if self._panel.paused else state, waits=True)

    def _turn(self, state: str, waits: bool = False) -> None:
        """Show ``state`` and take what the person says; see :meth:`Panel.turn`."""
        facts = {"stored": str(self._stored), "steps": str(self._steps)}
        state = f"episode {self._stored + 1} of {self._episodes}: {state}"
        self._obey(self._panel.turn(state, self._room, self._last, facts=facts, waits=waits))

    def _obey(self, said: Intervention) -> None:
        """Stop where the person says so."""
        if "emergency_stop" in said.buttons:
            self._panel.backend.stop("emergency stop")
            raise RecordingStopped
        if "stop" in said.buttons:
            raise RecordingStopped


def record_human(
    backend: EnvBackend,
    path: Path,
    settings: RecordConfig,
    only_successful: bool,
    config: DictConfig,
    metadata: Mapping[str, Any],
) -> None:
    """Record episodes that a person chooses the actions of, into the data set at ``path``.

    Args:
        backend: robot or simulator.
        path: of the data set.
        settings: of the recording.
        only_successful: leave out episodes that failed.
        config: of the whole command.
        metadata: kept with the data set.
    """
    facts = {"source": settings.source, "seed": config.seed, **metadata}
    with open_data_set(path, backend.spec, settings.if_exists, facts, SECTION) as store:
        panel = open_panel(config, backend, settings.source, f"{settings.source} of the recording")
        try:
            person = HumanChooser(panel, settings.episodes, DiskSpace(store).describe)
            record_episodes(
                backend,
                store,
                settings.episodes,
                lambda _: person,
                actor=settings.source,
                seed=config.seed,
                only_successful=only_successful,
                report=person.report,
                attempts_per_episode=None,
                section=SECTION,
            )
        finally:
            panel.close()
