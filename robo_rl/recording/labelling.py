"""robo-rl label: a person says what the frames of recorded episodes show, and a classifier learns it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig
from rich.table import Table

from ..app import build
from ..core import ArraySpec, Batch, Clock, ConfigError, EnvSpec, Metrics, MonotonicClock, nearest, require
from ..operators.panel import Screen, TeleopDevice, open_page
from ..replay import UNKNOWN, EpisodeStore, LabelBook
from ..telemetry import Console

DEVICES = ("keyboard", "window", "browser", "gamepad", "spacemouse")

HELP = "success: from here on one stage further   failure: from here on none   discard: from here on unclear"
MOTION = "forward, back: in time   pause: one frame at a time   stop: leave this episode as it was, and end"

FAST = 4
"""Frames for each that is played while the person moves forward or back."""
HELD = 0.5
"""Deflection from which that is so."""
SMALLEST = 320
"""Pictures are shown with so many rows or more [pixels]."""

Labels = NDArray[np.int8]


@dataclass(frozen=True)
class LabelConfig:
    """The section ``label`` of configs/label.yaml; what each option means and its default stand there."""

    path: str
    output: str | None
    device: str | None
    camera: str | None
    again: bool
    speed: float

    def __post_init__(self) -> None:
        known = (*DEVICES, None)
        require(self.device in known, "label.device", f"null or one of {', '.join(DEVICES)}", self.device)
        require(self.speed > 0, "label.speed", "above 0", self.speed)


class Classifier(Protocol):
    """What ``config.classifier`` makes for an environment."""

    def learn(self, episodes: Sequence[Batch], labels: Sequence[Labels]) -> Metrics:
        """Learn from rows of episodes and the stage after each (n,); return the errors on some that were held out."""
        ...

    def save(self, path: Path, facts: dict[str, Any]) -> None:
        """Write it to a file, with facts for people."""
        ...


class ClassifierConfig(Protocol):
    """The configuration of a classifier."""

    keys: tuple[str, ...] | None
    stages: int
    file: str | None

    def make(self, name: str, spec: EnvSpec, seed: int) -> Classifier: ...


class Viewer:
    """Episodes as a person sees and labels them.

    Frames are played at their rate. Moving forward or back goes through them faster; paused, frame by frame. At the
    last frame it waits: who lets go there and moves forward again is done.

    Args:
        device: what the person holds, whose element x is time; it is a screen too.
        stages: number of stages.
        rate: frames a second.
        clock: monotonic time.

    Raises:
        ConfigError: if the device shows nothing.
    """

    def __init__(self, device: TeleopDevice, stages: int, rate: float, clock: Clock | None = None) -> None:
        if not isinstance(device, Screen):
            raise ConfigError("teleop.screen must be keyboard or window: who labels has to see the frames")
        self._device: TeleopDevice = device
        self._screen: Screen = device
        self._stages = stages
        self._period_ns = round(1e9 / rate)
        self._clock = clock or MonotonicClock()

    def label(self, title: str, frames: NDArray[np.uint8]) -> Labels | None:
        """Return what the person says of each of the frames (n, height, width, 3); None: to stop.

        All are of stage 0 until something else is said of them: a button speaks of the frame that is shown and of all
        after it.
        """
        labels = np.zeros(len(frames), dtype=np.int8)
        frame, last, paused, rested = 0, len(frames) - 1, False, False
        self._device.reset()
        deadline_ns = self._clock.now_ns()
        while True:
            held = "paused" if paused else "the end; forward: the next episode" if frame == last else "playing"
            state = f"{title}, frame {frame + 1} of {last + 1}: {_named(int(labels[frame]), self._stages)} ({held})"
            self._screen.show(_enlarged(frames[frame]), [state, HELP, MOTION])
            deadline_ns = max(deadline_ns + self._period_ns, self._clock.now_ns())
            self._clock.sleep_until_ns(deadline_ns)
            said = self._device.read()
            buttons = frozenset() if said is None else said.buttons
            if buttons & {"stop", "emergency_stop"}:
                return None
            paused ^= "pause" in buttons
            if "success" in buttons:
                labels[frame:] = min(max(labels[frame], 0) + 1, self._stages)
            elif "failure" in buttons:
                labels[frame:] = 0
            elif "discard" in buttons:
                labels[frame:] = UNKNOWN
            x = 0.0 if said is None else float(said.action[0])
            if abs(x) < HELD:
                rested = frame == last
                frame += not paused and frame < last
            elif x > 0 and rested:
                return labels
            else:
                rested = False
                frame = int(np.clip(frame + np.sign(x) * (1 if paused else FAST), 0, last))


def show_episodes(store: EpisodeStore, book: LabelBook, stages: int, settings: LabelConfig, config: DictConfig) -> None:
    """Show the episodes to a person, and keep what is said of each as soon as it is done."""
    key = _camera(store.spec, settings.camera)
    labelled = () if settings.again else book.numbers
    waiting = [number for number in range(len(store)) if number not in labelled]
    if not waiting:
        return
    rate = store.spec.control_rate * settings.speed
    spec = EnvSpec(
        task=store.spec.task,
        observation={},
        action=ArraySpec((1,), names=("x",)),
        action_space="end_effector_delta",
        action_frame="base",
        control_rate=rate,
        max_episode_steps=None,
        reward_terms=(),
    )
    device: TeleopDevice
    if settings.device == "browser":
        device = open_page(config, spec)
    else:
        device = build(config.teleop, device=settings.device, spec=spec, robot=None)
    try:
        viewer = Viewer(device, stages, rate)
        for number in waiting:
            frames = store.arrays(number, [key]).observation[key][..., -3:]
            labels = viewer.label(f"episode {number} of {len(store)}", frames)
            if labels is None:
                return
            book.put(number, labels)
    finally:
        device.close()


def _camera(spec: EnvSpec, camera: str | None) -> str:
    """Return the observation key of what a person looks at."""
    cameras = [key.removeprefix("images/") for key in spec.observation if key.startswith("images/")]
    if not cameras:
        raise ConfigError(
            "label.path: the data set holds no images to look at: record it with cameras, for example "
            "task.observation.cameras=[front]. What a classifier looks at may be the state all the same"
        )
    if camera is not None and camera not in cameras:
        raise ConfigError(f"label.camera: the data set has no camera {camera!r}: {nearest(camera, cameras)}")
    return f"images/{camera or cameras[0]}"


def _enlarged(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    times = -(-SMALLEST // picture.shape[0])
    return picture.repeat(times, axis=0).repeat(times, axis=1)


def _named(label: int, stages: int) -> str:
    if label == UNKNOWN:
        return "unclear"
    if stages == 1:
        return ("failure", "success")[label]
    return f"stage {label} of {stages}"


def format_counts(labels: Labels, stages: int) -> str:
    """Return how many observations have each label, for people."""
    counts = [(_named(label, stages), int((labels == label).sum())) for label in range(UNKNOWN, stages + 1)]
    return ", ".join(f"{count:,} {name}" for name, count in counts)


def print_errors(errors: Mapping[str, float], stages: int, console: Console) -> None:
    """Print the rates of errors, and on how much they were measured."""
    held_out = int(errors["held_out_episodes"])
    told = f"{held_out} held-out episodes" if held_out else "the episodes that it was fitted to: label five or more"
    console.print(f"errors on {told}")
    table = Table("reached", "false positives", "of", "false negatives", "of", box=None, pad_edge=False)
    for stage in range(1, stages + 1):
        cells = []
        for kind, of in (("false_positives", "negatives"), ("false_negatives", "positives")):
            rate = errors.get(f"{kind}/{stage}")
            cells += ["none" if rate is None else f"{100 * rate:.1f} %", f"{errors[f'{of}/{stage}']:.0f}"]
        table.add_row(_named(stage, stages), *cells)
    console.print(table)
