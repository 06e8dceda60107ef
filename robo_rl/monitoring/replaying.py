"""Recorded episodes on the page of ``robo-rl play``: the recorded states are shown, and no action is applied."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..actor import EpisodePoses, RecordedPoses, RecordedScene, SceneNews, jpeg
from ..core import MonotonicClock, RenderingError
from ..replay import EpisodeStore
from .playing import LOOK_SECONDS, OUTCOME_SECONDS, PICTURE_SECONDS, SPEEDS, Display, beside, outcome_of
from .watched_data import POINTS, check_number, check_size, stride_of


@dataclass(frozen=True)
class ReplayState:
    """State that the page displays.

    Attributes:
        episode: number of the episode, from 0 as in the data set.
        episodes: number of episodes of the data set.
        step: number of steps before the state that is shown.
        steps: number of steps of the episode.
        outcome: how the episode ended; empty before its last state.
        paused: whether time stands still.
        speed: multiple of the recorded speed.
        notice: why there is no picture; empty in all other cases.
        note: see :attr:`~robo_rl.actor.EpisodePoses.note`; empty while the poses are computed.
    """

    episode: int
    episodes: int
    step: int = 0
    steps: int = 0
    outcome: str = ""
    paused: bool = False
    speed: float = 1.0
    notice: str = ""
    note: str = ""


class Replaying:
    """Recorded episodes, one after another in recorded time, which commands of pages control.

    :meth:`run` poses and renders in its thread alone; all other methods may be called from other threads.

    Args:
        store: the data set.
        poses: poses along its episodes.
        episode: number of the first episode.

    Raises:
        DataError: if there is no such episode.
    """

    def __init__(self, store: EpisodeStore, poses: RecordedPoses, episode: int) -> None:
        check_number(store, episode)
        self._store, self._poses, self._clock = store, poses, MonotonicClock()
        self._changed = threading.Condition()
        self._display = Display(0, ReplayState(episode, len(store)))
        self._loaded = self._pictured = -1
        self._next_ns = 0
        self._commands: dict[str, Callable[[ReplayState, Any], ReplayState]] = {
            "pause": lambda state, _: replace(state, paused=not state.paused),
            "step": lambda state, _: _at(replace(state, paused=True), state.step + 1),
            "back": lambda state, _: _at(replace(state, paused=True), state.step - 1),
            "seek": lambda state, step: _at(replace(state, paused=True), step) if type(step) is int else state,
            "next": lambda state, _: _other(state, 1),
            "previous": lambda state, _: _other(state, -1),
            "faster": lambda state, _: replace(state, speed=beside(SPEEDS, state.speed, 1)),
            "slower": lambda state, _: replace(state, speed=beside(SPEEDS, state.speed, -1)),
        }

    @property
    def display(self) -> Display:
        """The newest state, picture and scene."""
        return self._display

    def command(self, name: object, value: object = None) -> None:
        """Change what is shown, as a command of the page requests; unknown commands are ignored."""
        with self._changed:
            if isinstance(name, str) and name in self._commands:
                self._change(lambda state: self._commands[name](state, value))
                self._next_ns = self._clock.now_ns() + self._period_ns()
                self._changed.notify_all()

    def run(self, is_ended: Callable[[], bool]) -> None:
        """Show episodes until ``is_ended``, which is called several times a second, returns True.

        Raises:
            DataError: if an episode is too large, or its data is damaged.
        """
        while not is_ended():
            state: ReplayState = self._display.state
            if self._loaded != state.episode:
                self._load(state.episode)
            elif self._pictured != state.step:
                self._show(state.step)
            else:
                self._wait()

    def _load(self, episode: int) -> None:
        """Compute the poses of an episode."""
        store, poses = self._store, self._poses
        rows = store.records[episode].steps + 1
        check_size(store, rows, poses.keys)
        self._stride = stride_of(rows, POINTS)
        observation = store.arrays(episode, poses.keys).observation
        self._episode_poses: EpisodePoses = poses.find(observation, list(range(0, rows, self._stride)))
        self._scene: RecordedScene = poses.scene(self._episode_poses)
        self._outcome, self._loaded, self._pictured = outcome_of(store.records[episode].success), episode, -1
        with self._changed:
            self._change(lambda state: replace(state, steps=rows - 1) if state.episode == episode else state)
            self._next_ns = self._clock.now_ns() + self._period_ns()

    def _show(self, step: int) -> None:
        """Show a state of the loaded episode."""
        self._pictured, place, notice, picture = step, step // self._stride, "", None
        frame = json.dumps(self._scene.frame(place), separators=(",", ":")).encode()
        try:
            picture = jpeg(self._poses.picture(self._episode_poses, place))
        except RenderingError as error:
            notice = f"No picture: {error}"
        with self._changed:
            self._display = self._display._replace(picture=picture, scene=SceneNews(self._scene.geometry, frame))
            self._change(
                lambda state: replace(state, notice=notice, note=self._episode_poses.note, outcome=self._ending(state))
            )

    def _wait(self) -> None:
        """Wait for the next state, a command, or a check for the end."""
        with self._changed:
            state: ReplayState = self._display.state
            now = self._clock.now_ns()
            if not state.paused and now >= self._next_ns:
                is_last = state.step == state.steps
                # States that come faster than pictures are skipped, so that the recorded time is kept.
                steps = max(1, round(PICTURE_SECONDS * 1e9 / self._period_ns()))
                self._change(lambda state: _other(state, 1) if is_last else _at(state, state.step + steps))
                ended = self._display.state.step == self._display.state.steps
                pause = OUTCOME_SECONDS * 1e9 / state.speed if ended else 0
                self._next_ns = max(self._next_ns, now - self._period_ns()) + round(steps * self._period_ns() + pause)
            else:
                self._changed.wait(LOOK_SECONDS)

    def _ending(self, state: ReplayState) -> str:
        return self._outcome if state.step == state.steps else ""

    def _period_ns(self) -> int:
        state: ReplayState = self._display.state
        return round(1e9 / (self._store.spec.control_rate * state.speed))

    def _change(self, change: Callable[[ReplayState], ReplayState]) -> None:
        state = change(self._display.state)
        self._display = self._display._replace(number=self._display.number + 1, state=state)


def _at(state: ReplayState, step: int) -> ReplayState:
    """Return the state at a step, or at the nearest one of the episode."""
    return replace(state, step=min(max(step, 0), state.steps))


def _other(state: ReplayState, places: int) -> ReplayState:
    """Return the start of another episode, the first one after the last."""
    return replace(state, episode=(state.episode + places) % state.episodes, step=0, steps=0, outcome="", note="")
