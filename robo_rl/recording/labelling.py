"""Labelling of the frames of recorded episodes by a person (robo-rl label), from which a classifier learns."""

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

HELP = "from this frame on:   success: the next stage   failure: stage 0   discard: unclear"
MOTION = "forward, back: in time   pause: one frame at a time   stop: quit without changing this episode"

FAST = 4
"""Number of frames to advance per displayed frame while the person moves forward or back."""
HELD = 0.5
"""Deflection of the device above which the person moves forward or back."""
SMALLEST = 320
"""Smallest height at which pictures are displayed [pixels]."""

Labels = NDArray[np.int8]


@dataclass(frozen=True)
class LabelConfig:
    """The section ``label`` of configs/label.yaml, which documents the options and their defaults."""

    path: str
    output: str | None
    device: str | None
    camera: str | None
    again: bool
    speed: float

    def __post_init__(self) -> None:
        devices = (*DEVICES, None)
        require(self.device in devices, "label.device", f"null or one of {', '.join(DEVICES)}", self.device)
        require(self.speed > 0, "label.speed", "above 0", self.speed)


class Classifier(Protocol):
    """Classifier that ``config.classifier`` makes for an environment."""

    def learn(self, episodes: Sequence[Batch], labels: Sequence[Labels]) -> Metrics:
        """Learn from rows of episodes and the stage after each row (n,); return the errors on held-out episodes."""
        ...

    def save(self, path: Path, facts: dict[str, Any]) -> None:
        """Write the classifier to a file, with facts for human readers."""
        ...


class ClassifierConfig(Protocol):
    """Configuration of a classifier."""

    keys: tuple[str, ...] | None
    stages: int
    file: str | None

    def make(self, name: str, spec: EnvSpec, seed: int) -> Classifier: ...


class Viewer:
    """Plays episodes to a person, who labels their frames.

    Frames are played at their rate. Moving the device forward or back plays them faster, or frame by frame while
    paused. At the last frame the viewer waits: to finish, the person releases the device and moves it forward again.

    Args:
        device: device of the person, whose action x moves in time; it must also be a screen.
        stages: number of stages.
        rate: frames per second.
        clock: clock of monotonic time.

    Raises:
        ConfigError: if the device is not a screen.
    """

    def __init__(self, device: TeleopDevice, stages: int, rate: float, clock: Clock | None = None) -> None:
        if not isinstance(device, Screen):
            raise ConfigError("teleop.screen must be keyboard or window: labelling needs a display of the frames")
        self._device: TeleopDevice = device
        self._screen: Screen = device
        self._stages = stages
        self._period_ns = round(1e9 / rate)
        self._clock = clock or MonotonicClock()

    def label(self, title: str, frames: NDArray[np.uint8]) -> Labels | None:
        """Return the person's label of each of the frames (n, height, width, 3); None: the person stopped.

        The initial label is stage 0. A button changes the labels of the displayed frame and of all frames after it.
        """
        labels = np.zeros(len(frames), dtype=np.int8)
        frame, last, paused, is_released = 0, len(frames) - 1, False, False
        self._device.reset()
        deadline_ns = self._clock.now_ns()
        while True:
            mode = "paused" if paused else "the end; forward: the next episode" if frame == last else "playing"
            state = f"{title}, frame {frame + 1} of {last + 1}: {_name_of(int(labels[frame]), self._stages)} ({mode})"
            self._screen.show(_enlarged(frames[frame]), [state, HELP, MOTION])
            deadline_ns = max(deadline_ns + self._period_ns, self._clock.now_ns())
            self._clock.sleep_until_ns(deadline_ns)
            reading = self._device.read()
            buttons = frozenset() if reading is None else reading.buttons
            if buttons & {"stop", "emergency_stop"}:
                return None
            paused ^= "pause" in buttons
            if "success" in buttons:
                labels[frame:] = min(max(labels[frame], 0) + 1, self._stages)
            elif "failure" in buttons:
                labels[frame:] = 0
            elif "discard" in buttons:
                labels[frame:] = UNKNOWN
            x = 0.0 if reading is None else float(reading.action[0])
            if abs(x) < HELD:
                is_released = frame == last
                frame += not paused and frame < last
            elif x > 0 and is_released:
                return labels
            else:
                is_released = False
                frame = int(np.clip(frame + np.sign(x) * (1 if paused else FAST), 0, last))


def show_episodes(store: EpisodeStore, book: LabelBook, stages: int, settings: LabelConfig, config: DictConfig) -> None:
    """Show the episodes to a person, and save the labels of each episode as soon as it is finished."""
    key = _camera(store.spec, settings.camera)
    labelled = () if settings.again else book.numbers
    unlabelled = [number for number in range(len(store)) if number not in labelled]
    if not unlabelled:
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
        for number in unlabelled:
            frames = store.arrays(number, [key]).observation[key][..., -3:]
            labels = viewer.label(f"episode {number} of {len(store)}", frames)
            if labels is None:
                return
            book.put(number, labels)
    finally:
        device.close()


def _camera(spec: EnvSpec, camera: str | None) -> str:
    """Return the observation key of the images to display."""
    cameras = [key.removeprefix("images/") for key in spec.observation if key.startswith("images/")]
    if not cameras:
        raise ConfigError(
            "label.path: the data set has no images to display: record it with cameras, for example "
            "task.observation.cameras=[front]. The classifier can still use the state"
        )
    if camera is not None and camera not in cameras:
        raise ConfigError(f"label.camera: the data set has no camera {camera!r}: {nearest(camera, cameras)}")
    return f"images/{camera or cameras[0]}"


def _enlarged(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    factor = -(-SMALLEST // picture.shape[0])
    return picture.repeat(factor, axis=0).repeat(factor, axis=1)


def _name_of(label: int, stages: int) -> str:
    if label == UNKNOWN:
        return "unclear"
    if stages == 1:
        return ("failure", "success")[label]
    return f"stage {label} of {stages}"


def format_counts(labels: Labels, stages: int) -> str:
    """Return the number of observations with each label, in words."""
    counts = [(_name_of(label, stages), int((labels == label).sum())) for label in range(UNKNOWN, stages + 1)]
    return ", ".join(f"{count:,} {name}" for name, count in counts)


def print_errors(errors: Mapping[str, float], stages: int, console: Console) -> None:
    """Print the error rates, and the number of episodes and states that they were measured on."""
    held_out = int(errors["held_out_episodes"])
    basis = (
        f"{held_out} held-out episodes" if held_out else "the training episodes: label five or more to hold some out"
    )
    console.print(f"errors on {basis}")
    table = Table("reached", "false positives", "of", "false negatives", "of", box=None, pad_edge=False)
    for stage in range(1, stages + 1):
        cells = []
        for kind, of in (("false_positives", "negatives"), ("false_negatives", "positives")):
            rate = errors.get(f"{kind}/{stage}")
            cells += ["none" if rate is None else f"{100 * rate:.1f} %", f"{errors[f'{of}/{stage}']:.0f}"]
        table.add_row(_name_of(stage, stages), *cells)
    console.print(table)
