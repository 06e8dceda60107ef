"""Reward for progress along waypoints in a picture, configured or requested (KAGI, Lee et al. 2024)."""

import json
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from robo_rl.core import (
    OBSERVATION_FRAME,
    Batch,
    ConfigError,
    EnvSpec,
    Experience,
    Metrics,
    Options,
    RoboRLError,
    State,
    as_config,
    nearest,
    option,
    require,
)

from ..asking.endpoint import Endpoint, EndpointConfig, Picture
from ..asking.inquiries import POLL_SECONDS, Inquiries
from ..parts.module import Floats, Module
from ..parts.vector_input import image_keys

Doubles = NDArray[np.float64]


SHOWN = 640
"""Minimum length of the shorter edge of a displayed picture, so that the labels of the grid are legible [pixels]."""

QUESTION = (
    "The picture shows a robot's workspace under a grid. Columns are numbered along the top, rows along the left. "
    "The goal is: {goal}. Which cells must the gripper's tip pass, in this order, to reach it? Begin with the cell of "
    "what it touches first. Name as few cells as describe the path. Explain briefly; then answer with one last line "
    "that holds nothing but a list of [column, row], for example [[3, 5], [4, 5]]."
)


@dataclass(frozen=True)
class KeypointsConfig(Options):
    """Dense reward for motion along waypoints in a camera image, meant to replace a sparse reward while that is 0.

    Positions in an image are fractions of its width (from the left) and of its height (from the top).

    Attributes:
        waypoints: [x, y] of each waypoint in the (square) image, for a scene that never changes; empty: the model or
            person at ``endpoint`` sees the first image of each episode, under a grid.
        goal: description of the goal in words, for the request of waypoints.
        camera: camera whose images are used; null: the first of the task.
        grid: number of cells along each edge.
        endpoint: endpoint of a vision-language model or a person.
        position: names of the observation's elements with the x, y, z of the gripper's tip.
        projection: 3 x 4 matrix P of the camera: a position p is at (u / w, v / w) in the image, with (u, v, w) = P (p,
            1). Empty: that of the camera ``front`` of a simulated task.
        radius: distance within which a waypoint is passed.
    """

    waypoints: tuple[Any, ...] = ()
    goal: str = ""
    camera: str | None = None
    grid: int = option(12, low=2, high=40)
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    position: tuple[str, str, str] = ("end_effector_x", "end_effector_y", "end_effector_z")
    projection: tuple[Any, ...] = ()
    radius: float = option(0.05, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "endpoint", as_config(self.endpoint, EndpointConfig))
        object.__setattr__(self, "waypoints", tuple(tuple(map(float, each)) for each in self.waypoints))
        inside = all(len(each) == 2 and min(each) >= 0 and max(each) <= 1 for each in self.waypoints)
        require(inside, "waypoints", "pairs [x, y] of shares, 0 to 1", self.waypoints)
        require(bool(self.waypoints or self.goal.strip()), "goal", "a text if waypoints is empty", self.goal)
        matrix = self.projection
        valid = len(matrix) == 3 and all(len(row) == 4 for row in matrix) and bool(np.isfinite(matrix).all())
        require(valid or not matrix, "projection", "empty, or 3 rows of 4 numbers", matrix)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "KeypointsReward":
        """Return the module of term ``name``."""
        return KeypointsReward(self, name, spec)


@dataclass(frozen=True)
class View:
    """Position and target of an upright camera in the base frame [m], and its vertical field of view [degrees]."""

    position: tuple[float, float, float]
    target: tuple[float, float, float]
    field_of_view: float = 45.0

    def projection(self, aspect: float) -> Doubles:
        """Return the matrix (3, 4) of :class:`KeypointsConfig` for pictures with ``aspect``, width over height."""
        position = np.array(self.position)
        forward = np.array(self.target) - position
        forward /= np.linalg.norm(forward)
        right = np.cross(forward, (0, 0, 1))
        right /= np.linalg.norm(right)
        axes = np.stack([right, np.cross(forward, right), forward])  # directions right, down and forward of the picture
        focal = 0.5 / np.tan(np.radians(self.field_of_view) / 2)
        intrinsics = np.array([[focal / aspect, 0, 0.5], [0, focal, 0.5], [0, 0, 1]])
        projection: Doubles = intrinsics @ np.column_stack([axes, -axes @ position])
        return projection


FRONT = {
    "reach": View((1.1, 0.0, 0.5), (0.45, 0.0, 0.06)),
    "pick_cube": View((1.1, 0.0, 0.5), (0.45, 0.0, 0.06)),
    "push_cube": View((1.1, 0.0, 0.5), (0.45, 0.0, 0.06)),
    "stack_cubes": View((1.1, 0.0, 0.5), (0.45, 0.0, 0.06)),
    "regrasp": View((1.1, 0.0, 0.5), (0.45, 0.0, 0.06)),
    "open_door": View((0.10, -0.55, 0.62), (0.62, 0.02, 0.24)),
    "peg_insert": View((0.82, 0.0, 0.32), (0.50, 0.0, 0.06)),
    "plug_insert": View((0.80, 0.0, 0.26), (0.50, 0.0, 0.06)),
    "cable_route": View((0.98, -0.06, 0.40), (0.50, -0.06, 0.04)),
    "bin_relocate": View((1.02, 0.0, 0.52), (0.49, 0.0, 0.04)),
    "wipe": View((1.0, 0.0, 0.46), (0.49, 0.0, 0.06)),
}
"""Camera ``front`` of each simulated task."""


class KeypointsReward(Module):
    """Reward for progress along waypoints; see :class:`KeypointsConfig`.

    Training does not wait for an answer: an episode is scored and used for training once its waypoints have arrived.

    The reward is the progress along the path from the initial position of the gripper's tip, as seen by the camera,
    through the K waypoints. The next waypoint is passed when the tip comes within ``radius`` of it, and remains passed
    for the rest of the episode. With n waypoints passed, the reward of a step is
    (n + 1 - min(1, distance to the next / length of the path segment that leads to it)) / K, and 1 when all are passed.
    The paper describes its reward only in words; this formula is not from the paper. The literal formula, n / K minus
    the distance to the next waypoint, falls when a waypoint is passed and the next one is further away than 1 / K, so
    that hovering before a waypoint would be optimal. With distances relative to segments it never falls there.

    All rewards of an episode without an answer are 0.

    Raises:
        ConfigError: if the observation has no such elements or pictures, poses are relative to the first one, or the
            endpoint cannot be used.
    """

    whole_episodes = True
    judges_state = False

    def __init__(self, config: KeypointsConfig, name: str, spec: EnvSpec) -> None:
        super().__init__()
        self.config = config
        option = f"reward.modules.{name}"
        if OBSERVATION_FRAME in spec.extra:
            raise ConfigError(
                f"{option} projects positions in the base frame into a picture, and task.observation.relative=true "
                "hides them: choose another module, or task.observation.relative=false"
            )
        self._elements = [_element(element_name, spec, f"{option}.position") for element_name in config.position]
        self._endpoint: Endpoint | None = None
        self._inquiries = Inquiries(self._ask, config.endpoint.parallel)
        self._requested: set[bytes] = set()  # contents of pictures whose waypoints were requested
        self._answers: dict[bytes, Doubles | None] = {}
        self._reported = 0  # number of answers included in metrics so far
        self._arrived = 0
        aspect, camera = 1.0, "front"
        if not config.waypoints:
            cameras = None if config.camera is None else (config.camera,)
            self._pictures = image_keys(cameras, spec, f"{option}.camera")[0]
            self._endpoint = Endpoint(config.endpoint)
            camera = self._pictures.removeprefix("images/")
            height, width, _ = spec.observation[self._pictures].shape
            aspect = width / height
        if config.projection:
            self._projection = np.array(config.projection, dtype=np.float64)
        elif camera == "front" and spec.task in FRONT:
            self._projection = FRONT[spec.task].projection(aspect)
        else:
            raise ConfigError(f"{option}.projection: set the matrix of the camera {camera!r} of {spec.task!r}")

    def __call__(self, batch: Batch) -> Floats:
        """Return the rewards (n,) of the n steps of one episode, in order."""
        waypoints = self._waypoints(batch)
        if waypoints is None:
            return np.zeros(len(batch["action"]), dtype=np.float32)
        before, after = (
            np.stack([batch[f"{prefix}observation/{key}"][:, index] for key, index in self._elements], axis=1)
            for prefix in ("", "next_")
        )
        places = projected(np.concatenate((before[:1], after)), self._projection)
        return waypoint_rewards(places, waypoints, self.config.radius)

    @property
    def waiting(self) -> bool:
        """Whether an answer has yet to arrive."""
        return self._inquiries.waiting

    def ready(self, first: Batch) -> bool:
        """Return whether the answer for the episode that begins with these rows has arrived; if not, request it."""
        if self._endpoint is None:
            return True
        for question, answer in self._inquiries.collect():
            if isinstance(answer, RoboRLError):
                self._endpoint.report(answer)
            cells = None if isinstance(answer, RoboRLError) else read_cells(answer, self.config.grid)
            self._requested.discard(question.tobytes())
            self._arrived += 1
            self._answers[question.tobytes()] = None if cells is None else (np.array(cells) - 0.5) / self.config.grid
        picture = self._first_picture(first)
        key = picture.tobytes()
        if key not in self._answers and key not in self._requested:
            self._requested.add(key)
            self._inquiries.put(picture)
        return key in self._answers

    def update(self, experience: Experience) -> Metrics:
        """Return the use and cost of the endpoint if another answer has arrived."""
        if self._endpoint is None or self._reported == self._arrived:
            return {}
        self._reported = self._arrived
        return self._endpoint.metrics()

    def _waypoints(self, batch: Batch) -> Doubles | None:
        """Wait for the waypoints (K, 2) of an episode and return them; None if there is no valid answer."""
        if self._endpoint is None:
            return np.array(self.config.waypoints, dtype=np.float64)
        while not self.ready(batch):
            time.sleep(POLL_SECONDS)
        return self._answers.pop(self._first_picture(batch).tobytes())

    def _first_picture(self, batch: Batch) -> Picture:
        return np.ascontiguousarray(batch[f"observation/{self._pictures}"][0, ..., -3:])

    def _ask(self, picture: Picture) -> str:
        assert self._endpoint is not None
        question = QUESTION.format(goal=self.config.goal), under_grid(picture, self.config.grid)
        return self._endpoint.ask(
            question, {"grid": self.config.grid}, lambda answer: read_cells(answer, self.config.grid) is not None
        )

    def state(self) -> State:
        """Return the use of the endpoint's budget."""
        return {} if self._endpoint is None else self._endpoint.state()

    def load(self, state: State) -> None:
        """Restore ``state``."""
        if self._endpoint is not None:
            self._endpoint.load(state)


def _element(name: str, spec: EnvSpec, option: str) -> tuple[str, int]:
    """Return the observation key and the index of a named element of an observation."""
    for key, array in spec.observation.items():
        if name in array.names:
            return key, array.names.index(name)
    valid_names = [element_name for array in spec.observation.values() for element_name in array.names]
    raise ConfigError(f"{option}: the observation has no element {name!r}: {nearest(name, valid_names)}")


def projected(positions: NDArray[np.floating], projection: Doubles) -> Doubles:
    """Return the image coordinates (n, 2) of positions (n, 3) in shares of the picture; NaN if behind the camera.

    Args:
        positions: positions in the frame of the projection.
        projection: matrix (3, 4), see :class:`KeypointsConfig`.
    """
    homogeneous = positions.astype(np.float64) @ projection[:, :3].T + projection[:, 3]
    with np.errstate(divide="ignore", invalid="ignore"):
        places: Doubles = np.where(homogeneous[:, 2:] > 0, homogeneous[:, :2] / homogeneous[:, 2:], np.nan)
    return places


def waypoint_rewards(places: Doubles, waypoints: Doubles, radius: float) -> Floats:
    """Return the rewards (n,) of an episode; see :class:`KeypointsReward`.

    Distances are at most sqrt(2), which is also the distance of a tip that the camera cannot see.

    Args:
        places: (n + 1, 2), image coordinates of the gripper's tip at the beginning and after each of n steps.
        waypoints: (K, 2), in order; K is 1 or more.
        radius: distance within which a waypoint is passed.
    """
    farthest = np.sqrt(2.0)
    distances = np.linalg.norm(places[:, None] - waypoints, axis=2)
    distances = np.where(np.isfinite(distances), np.minimum(distances, farthest), farthest)
    lengths = np.append(distances[0, 0], np.linalg.norm(np.diff(waypoints, axis=0), axis=1))
    passed, done = 0, np.empty(len(places))
    for step, row in enumerate(distances):
        while passed < len(waypoints) and row[passed] <= radius:
            passed += 1
        # Waypoints at the same position are passed together, so the length is not 0 here.
        done[step] = passed + (1 - min(1, row[passed] / lengths[passed]) if passed < len(waypoints) else 0)
    return (done[1:] / len(waypoints)).astype(np.float32)


def under_grid(picture: Picture, cells: int) -> Picture:
    """Return an enlarged picture (H, W, 3) under a grid of ``cells`` by ``cells`` with numbered edges."""
    height, width = picture.shape[:2]
    factor = max(1.0, SHOWN / min(height, width))
    image = Image.fromarray(picture).resize((round(width * factor), round(height * factor)))
    draw = ImageDraw.Draw(image)
    for line in range(cells + 1):
        x, y = (round(line * (edge - 1) / cells) for edge in image.size)
        draw.line((x, 0, x, image.height), fill=(255, 255, 255))
        draw.line((0, y, image.width, y), fill=(255, 255, 255))
    for cell in range(cells):
        x, y = (round((cell + 0.5) * edge / cells) for edge in image.size)
        for place, anchor in (((x, 3), "ma"), ((3, y), "lm")):
            draw.text(place, str(cell + 1), (255, 255, 0), anchor=anchor, stroke_width=1, stroke_fill=(0, 0, 0))
    return np.asarray(image).copy()


def read_cells(answer: str, cells: int) -> list[list[int]] | None:
    """Return the columns and rows, from 1, listed in the last line of an answer; None if there is no such list."""
    last = answer.strip().rpartition("\n")[2].strip(" `*")
    try:
        result = json.loads(last)
    except (ValueError, RecursionError):
        return None
    if not isinstance(result, list) or not result:
        return None
    for cell in result:
        if not isinstance(cell, list) or len(cell) != 2 or any(type(number) is not int for number in cell):
            return None
        if not 1 <= min(cell) <= max(cell) <= cells:
            return None
    return result
