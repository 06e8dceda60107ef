"""Recording of demonstrations by scripts or by teleoperation (robo-rl record)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..actor import ActionChoice, Actor
from ..core import (
    EMERGENCY_STOP,
    EnvBackend,
    Intervention,
    Observation,
    SafetyStop,
    Source,
    derive_seed,
    require,
)
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
"""Configuration section of the options that messages name."""
SOURCES = (*SCRIPTS, "keyboard", "window", "browser", "gamepad", "spacemouse", "joy", "twist", "leader")


@dataclass(frozen=True)
class RecordConfig:
    """The section ``record`` of configs/record.yaml, which documents the options and their defaults."""

    source: str
    output: str | None
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
    """Record ``episodes`` of a script that uses the backend's expert into the data set ``path``.

    Args:
        backend: backend with a scripted expert.
        path: folder of the data set.
        episodes: number of episodes to store.
        noise: standard deviation of the Gaussian noise on the expert's actions. The noisy action is executed, so the
            data shows how the expert corrects mistakes; both actions are stored.
        seed: seed of start states and noise.
        source: a key of :data:`.scripts.SCRIPTS`.
        only_successful: discard episodes that end without success.
        if_exists: see :func:`open_data_set`.
        metadata: further metadata of the data set, as JSON values.
        console: where to print the progress; None: nowhere.
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
    """Chooser of a person's actions with a teleoperation device, in real time. One object serves all episodes.

    An episode begins when the person has released the device and then moves it; each step takes one control period. If
    time has passed while waiting, as on a robot, the backend is then reset again, because its observation is old and
    its watchdog may have stopped it. A pause discards the episode, and no episode begins before the button is pressed
    again. Neither does one begin while a stop is latched.

    Args:
        panel: panel with the person's device and screen.
        episodes: requested number of episodes, for the screen.
        space: returns a description of the free disk space, for the screen.
    """

    def __init__(self, panel: Panel, episodes: int, space: Callable[[], str]) -> None:
        self._panel = panel
        self._episodes = episodes
        self._space = space
        self._space_text = ""
        self._stored = 0
        self._steps = 0
        self._last = ""

    def report(self, stored: int, outcome: Outcome) -> None:
        """Store the outcome of an episode for the screen, and prepare the next episode."""
        self._stored = stored
        self._steps = 0
        self._last = f"last episode: {outcome.describe()}"

    def begin(self, actor: Actor) -> None:
        panel, clock = self._panel, self._panel.backend.clock
        self._space_text = self._space()
        while panel.held:
            self._wait_period("waiting", waits=True)
        actor.begin_episode()
        start_ns = clock.now_ns()
        if panel.device is not None:
            panel.device.reset()
        panel.begin()
        self._wait_for(False, "release the device")
        self._wait_for(True, "move to begin")
        if clock.now_ns() > start_ns:  # false in simulation, where time advances only with steps
            actor.begin_again()
            panel.begin()
            self._check_stop(panel.look())
        # A button that was pressed twice at the end of the last episode must not end this one.
        panel.forget_buttons()

    def __call__(self, observation: Observation) -> ActionChoice:
        if self._steps > 0:
            self._wait_period(f"step {self._steps}", observation=observation)
        self._steps += 1
        return ActionChoice(self._panel.action(observation), Source.HUMAN)

    def button(self) -> str | None:
        if self._panel.paused:
            return "discard"
        return next((name for name in ("discard", "failure", "success") if name in self._panel.input.buttons), None)

    def _wait_for(self, in_control: bool, state: str) -> None:
        """Show ``state`` until the person is in control (or not), as ``in_control`` requires, and not paused."""
        while self._panel.input.in_control != in_control or self._panel.paused:
            self._wait_period("paused" if self._panel.paused else state, waits=True)

    def _wait_period(self, state: str, waits: bool = False, observation: Observation | None = None) -> None:
        """Show ``state`` for one control period and read the person's input; see :meth:`Panel.turn`."""
        facts = {"stored": str(self._stored), "steps": str(self._steps)}
        state = f"episode {self._stored + 1} of {self._episodes}: {state}"
        lines = self._space_text, self._last
        reading = self._panel.turn(state, *lines, facts=facts, waits=waits, observation=observation)
        self._check_stop(reading, waits)

    def _check_stop(self, intervention: Intervention, waits: bool = False) -> None:
        """Stop the recording if the person pressed a stop button; a latched emergency stop ends only the episode.

        Args:
            intervention: the person's input.
            waits: whether no step follows, so that a latched stop needs nothing more.

        Raises:
            RecordingStopped: if the recording ends.
            SafetyStop: if the episode ends, and the robot waits for a person to re-arm it.
        """
        if EMERGENCY_STOP in intervention.buttons:
            self._panel.backend.stop("emergency stop")
            if not self._panel.latches:
                raise RecordingStopped
            if not waits:
                raise SafetyStop(EMERGENCY_STOP, "a person pressed the emergency stop")
        if "stop" in intervention.buttons:
            raise RecordingStopped


def record_human(
    backend: EnvBackend,
    path: Path,
    settings: RecordConfig,
    only_successful: bool,
    config: DictConfig,
    metadata: Mapping[str, Any],
) -> None:
    """Record episodes of a person into the data set at ``path``.

    Args:
        backend: robot or simulator.
        path: folder of the data set.
        settings: configuration of the recording.
        only_successful: discard episodes that failed, except those that the person ends as failures.
        config: configuration of the whole command.
        metadata: further metadata of the data set, as JSON values.
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
