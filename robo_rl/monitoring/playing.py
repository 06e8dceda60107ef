"""Live episodes of a policy or a scripted expert in simulation, and the page that displays and controls them."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.server import ServerConnection

from ..actor import SceneLimits, SceneNews, SceneView
from ..actor.view import jpeg
from ..core import EnvBackend, MonotonicClock, Observation, RenderingError, SafetyStop, Step, derive_seed, generator
from ..web.server import read_message
from .live_scenes import CAMERAS, SCENE, VIEWS

PAGES = {"/": "play.html"} | {
    f"/{name}": name
    for name in ("play.js", "cameras.js", "scene.js", "scene_drawing.js", "link.js", "page.css", "icon.svg")
}
SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Available speeds, as multiples of real time."""
NOISES = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
"""Available standard deviations of noise on actions."""
PICTURE_SECONDS = 0.1
"""Shortest time between two pictures [s]."""
OUTCOME_SECONDS = 1.5
"""Time for which the outcome of an episode is displayed [s]."""
PUSH_SECONDS = 0.5
"""Time for which a push replaces the actions [s of robot time]."""
LOOK_SECONDS = 0.03
"""Interval between two checks for changes [s]."""
ALIVE_SECONDS = 1.0


class Player(Protocol):
    """Policy or scripted expert, which chooses the actions."""

    def reset(self) -> None:
        """Begin an episode."""
        ...

    def act(self, observation: Observation) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class PlayState:
    """State that the page displays.

    Attributes:
        episode: number of the episode, from 1.
        step: number of steps of the episode.
        outcome: how the episode ended; empty while it lasts.
        successes: number of episodes that succeeded.
        ended: number of episodes that ended by themselves.
        paused: whether episodes wait.
        speed: multiple of real time.
        noise: standard deviation of the noise on actions, which range over [-1, 1].
        fixed_start: whether episodes begin in the same state.
        pushing: whether random actions replace those of the player.
        notice: why there is no picture, or why the last episode was stopped; empty in all other cases.
    """

    episode: int = 0
    step: int = 0
    outcome: str = ""
    successes: int = 0
    ended: int = 0
    paused: bool = False
    speed: float = 1.0
    noise: float = 0.0
    fixed_start: bool = False
    pushing: bool = False
    notice: str = ""


class Display(NamedTuple):
    """State of :class:`PageEpisodes` with its number, a picture or None, and the scene with its newest frame."""

    number: int
    state: Any
    picture: bytes | None = None
    scene: SceneNews = SceneNews()


class PageEpisodes(Protocol):
    """Episodes, live or recorded, that a page displays and controls."""

    @property
    def display(self) -> Display:
        """The newest state, a dataclass, with its picture and scene."""
        ...

    def command(self, name: object, value: object = None) -> None:
        """Do what a command of the page requests; unknown commands are ignored."""
        ...


class Playing:
    """Episodes in real time, which commands change while they run.

    :meth:`run` uses the backend in its thread alone; all other methods may be called from other threads.

    Args:
        backend: the simulator.
        player: chooses the actions.
        seed: seed of the starts, and of noise.
        limits: limits of the safety filters, for display; None: there are none.
    """

    def __init__(self, backend: EnvBackend, player: Player, seed: int, limits: SceneLimits | None = None) -> None:
        self._backend, self._player, self._seed = backend, player, seed
        self._clock = MonotonicClock()
        self._rng = generator(derive_seed(seed, "play", "noise"))
        self._changed = threading.Condition()
        self._display = Display(0, PlayState())
        self._scene = SceneView(backend, limits)
        self._skips = self._steps_once = False
        self._push_left = 0
        self._pictured_ns = 0
        self._next_ns = 0
        self._start = 0
        self._commands: dict[str, Callable[[PlayState], PlayState]] = {
            "pause": lambda state: replace(state, paused=not state.paused),
            "step": self._step_once,
            "next": self._skip,
            "faster": lambda state: replace(state, speed=beside(SPEEDS, state.speed, 1)),
            "slower": lambda state: replace(state, speed=beside(SPEEDS, state.speed, -1)),
            "more_noise": lambda state: replace(state, noise=beside(NOISES, state.noise, 1)),
            "less_noise": lambda state: replace(state, noise=beside(NOISES, state.noise, -1)),
            "start": lambda state: replace(state, fixed_start=not state.fixed_start),
            "push": self._push,
        }

    @property
    def display(self) -> Display:
        """The newest state and picture."""
        return self._display

    def command(self, name: object, value: object = None) -> None:
        """Change the episodes as a command of the page requests; unknown commands are ignored."""
        with self._changed:
            if isinstance(name, str) and name in self._commands:
                self._set(self._commands[name](self._display.state))
                self._changed.notify_all()

    def run(self, is_ended: Callable[[], bool]) -> None:
        """Run episodes until ``is_ended``, which is called several times a second, returns True.

        Raises:
            SafetyStop: if the backend is stopped until a person re-arms.
        """
        while not is_ended():
            self._run_episode(is_ended)

    def _run_episode(self, is_ended: Callable[[], bool]) -> None:
        state = self._display.state
        self._start += not state.fixed_start or self._start == 0
        step = self._backend.reset(derive_seed(self._seed, "play", self._start))
        self._player.reset()
        with self._changed:
            self._skips, self._push_left = False, 0
            self._change(episode=state.episode + 1, step=0, outcome="", pushing=False, notice="")
        self._picture(step, always=True)
        self._next_ns = self._clock.now_ns()
        while self._may_step(is_ended) and not step.ended:
            try:
                step = self._backend.step(self._action(step.observation))
                self._scene.note(step.verdict)
            except SafetyStop as stop:
                if stop.waits:
                    raise
                step = replace(step, truncated=True, success=None if step.success is None else False)
                self._change(notice=str(stop))
            self._change(step=self._display.state.step + 1, pushing=self._push_left > 0)
            self._picture(step)
        if step.ended:
            self._picture(step, always=True)
            self._show_outcome(step.success, is_ended)

    def _show_outcome(self, success: bool | None, is_ended: Callable[[], bool]) -> None:
        """Display the outcome of an episode briefly; a command for the next one ends this, and a pause extends it."""
        state = self._display.state
        self._change(outcome=outcome_of(success), successes=state.successes + bool(success), ended=state.ended + 1)
        until_ns = self._clock.now_ns() + OUTCOME_SECONDS * 1e9 / state.speed
        with self._changed:
            while not (is_ended() or self._skips):
                if not self._display.state.paused and self._clock.now_ns() >= until_ns:
                    break
                self._changed.wait(LOOK_SECONDS)

    def _may_step(self, is_ended: Callable[[], bool]) -> bool:
        """Wait for the time of the next step; return whether to take it."""
        with self._changed:
            while not (is_ended() or self._skips):
                now = self._clock.now_ns()
                if self._display.state.paused:
                    if self._steps_once:
                        self._steps_once = False
                        return True
                    self._next_ns = now
                    self._changed.wait(LOOK_SECONDS)
                elif now < self._next_ns:
                    self._changed.wait(min((self._next_ns - now) * 1e-9, LOOK_SECONDS))
                else:
                    period = 1e9 / (self._backend.spec.control_rate * self._display.state.speed)
                    self._next_ns = max(self._next_ns + round(period), now)  # lost time is not caught up with
                    return True
        return False

    def _action(self, observation: Observation) -> NDArray[np.float32]:
        action = self._player.act(observation)
        with self._changed:
            noise, is_pushed = self._display.state.noise, self._push_left > 0
            self._push_left = max(self._push_left - 1, 0)
        if is_pushed:
            if not self._push_left:
                self._player.reset()  # because its planned actions no longer follow from its observations
            return self._pushed
        moved = action + noise * self._rng.standard_normal(action.shape) if noise else action
        return np.clip(moved, -1, 1).astype(np.float32)

    def _picture(self, step: Step, always: bool = False) -> None:
        """Take a picture and a frame of the scene after a step, unless the last ones are too new."""
        now = self._clock.now_ns()
        if not always and now - self._pictured_ns < PICTURE_SECONDS * 1e9:
            return
        self._pictured_ns = now
        news = self._scene.take(step.observation, always=True)
        with self._changed:
            scene = news._replace(geometry=news.geometry or self._display.scene.geometry)
            self._display = self._display._replace(number=self._display.number + 1, scene=scene)
        try:
            picture = jpeg(self._backend.render())
        except RenderingError as error:
            self._change(notice=f"No picture: {error}")
            return
        with self._changed:
            self._display = self._display._replace(number=self._display.number + 1, picture=picture)

    def _change(self, **fields: Any) -> None:
        with self._changed:
            self._set(replace(self._display.state, **fields))

    def _set(self, state: PlayState) -> None:
        self._display = self._display._replace(number=self._display.number + 1, state=state)

    def _skip(self, state: PlayState) -> PlayState:
        self._skips = True
        return replace(state, paused=False)

    def _step_once(self, state: PlayState) -> PlayState:
        self._steps_once = state.paused
        return replace(state, paused=True)

    def _push(self, state: PlayState) -> PlayState:
        """Replace the next actions by one random action."""
        self._push_left = max(1, round(PUSH_SECONDS * self._backend.spec.control_rate))
        self._pushed = self._rng.uniform(-1, 1, self._backend.spec.action.shape).astype(np.float32)
        return replace(state, pushing=True)


class PlayPage:
    """Connections of pages to the episodes.

    A page receives ``{"about": {task, player, control_rate, recorded}}``, then ``{"state": state}`` after each change,
    with the fields of :class:`PlayState` or, if ``recorded``, of :class:`.ReplayState`. It sends ``{"command": name}``,
    for some commands with a ``value``, and with ``{"views": name}`` it chooses one of :data:`.VIEWS`: pictures, bytes
    whose first line is ``{}``, or ``{"scene": part}``, the geometry or a frame of :class:`.SceneNews`.
    """

    def __init__(self, playing: PageEpisodes, about: dict[str, Any]) -> None:
        self._playing, self._about = playing, about

    async def serve(self, connection: ServerConnection) -> None:
        """Serve a page until it leaves."""
        visit = _Visit(connection)
        async with asyncio.TaskGroup() as group:
            showing = group.create_task(self._show(visit))
            async for data in connection:
                message = read_message(data)
                if message.get("views") in VIEWS:
                    visit.views = message["views"]
                self._playing.command(message.get("command"), message.get("value"))
            showing.cancel()

    async def _show(self, visit: "_Visit") -> None:
        await visit.send(json.dumps({"about": self._about}))
        while True:
            display = self._playing.display
            if display.state is not visit.sent.state:
                await visit.send(json.dumps({"state": asdict(display.state)}))
                visit.sent = visit.sent._replace(state=display.state)
            if visit.views == CAMERAS and display.picture is not None and display.picture is not visit.sent.picture:
                await visit.send(b"{}\n" + display.picture)
                visit.sent = visit.sent._replace(picture=display.picture)
            for part, text, sent in zip(SceneNews._fields, display.scene, visit.sent.scene, strict=True):
                if visit.views == SCENE and text is not sent:
                    await visit.send(f'{{"scene": {{"{part}": {text.decode()}}}}}')
                    visit.sent = visit.sent._replace(scene=visit.sent.scene._replace(**{part: text}))
            if visit.silent_seconds > ALIVE_SECONDS:
                await visit.send(json.dumps({"alive": True}))
            await asyncio.sleep(LOOK_SECONDS)


class _Visit:
    """Connection of a page: which of :data:`.VIEWS` it shows, and what it was sent last."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._sent_at = time.monotonic()
        self.views = CAMERAS
        self.sent = Display(-1, PlayState(), None)

    @property
    def silent_seconds(self) -> float:
        """Time since the last message [s]."""
        return time.monotonic() - self._sent_at

    async def send(self, message: str | bytes) -> None:
        self._sent_at = time.monotonic()
        await self._connection.send(message)


def outcome_of(success: bool | None) -> str:
    """Return the word for how an episode ended."""
    return {True: "success", False: "failure", None: "ended"}[success]


def beside(values: tuple[float, ...], value: float, places: int) -> float:
    """Return the value ``places`` positions after ``value``, limited to the first and the last one."""
    return values[min(max(values.index(value) + places, 0), len(values) - 1)]
