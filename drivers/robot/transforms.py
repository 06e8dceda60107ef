"""Poses of frames relative to others, from the transforms on /tf and /tf_static."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, matrix_of_quaternion, quaternion_of_matrix

from ..ros2 import Node, QoSProfile
from .config import TRANSFORMS, SourceConfig

Array = NDArray[np.float64]

log = logging.getLogger(__name__)

DEPTH = 100
"""Depth of the queues, as in tf2's listeners."""
POSE = "geometry_msgs/msg/PoseStamped"


@dataclass(frozen=True)
class Link:
    """Newest transform of a frame into its parent: x_parent = rotation @ x_child + position."""

    parent: str
    position: Array
    rotation: Array
    stamp: tuple[int, int]
    received_ns: int | None  # None: a fixed transform


class Placement(NamedTuple):
    """Pose of a frame in another: position (3,) [m], rotation (3, 3) and arrival of its moving transforms [ns]."""

    position: Array
    rotation: Array
    received_ns: tuple[int, ...]


class TransformTree:
    """Newest transform of each frame into its parent. Transforms are not interpolated to a common time."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}

    @property
    def frames(self) -> list[str]:
        """Names of all received frames."""
        links = list(self._links.items())  # a copy, because the node's thread adds links
        return sorted({name for child, link in links for name in (child, link.parent)})

    def update(self, message: Any, received_ns: int | None) -> None:
        """Store the transforms of a TFMessage.

        A transform that repeats the previous stamp of its frame is ignored, and so is an invalid one.

        Args:
            message: message of the type tf2_msgs/msg/TFMessage.
            received_ns: monotonic time of its arrival [ns]; None: its transforms are fixed.
        """
        for transform in message.transforms:
            child, stamp = transform.child_frame_id.strip("/"), transform.header.stamp
            seconds = stamp.sec, stamp.nanosec
            previous = self._links.get(child)
            if previous is not None and previous.stamp == seconds != (0, 0) and received_ns is not None:
                continue
            shift, turn = transform.transform.translation, transform.transform.rotation
            position = np.array([shift.x, shift.y, shift.z])
            try:
                rotation = matrix_of_quaternion(np.array([turn.x, turn.y, turn.z, turn.w]))
            except ValueError as error:
                log.warning("the transform of %s is left out: %s", child, error)
                continue
            self._links[child] = Link(transform.header.frame_id.strip("/"), position, rotation, seconds, received_ns)

    def look_up(self, frame: str, parent: str) -> Placement | None:
        """Return the pose of ``frame`` in ``parent``; None if they are not connected."""
        frame_path, parent_path = self._find_path(frame), self._find_path(parent)
        common = next((name for name in frame_path if name in parent_path), None)
        if common is None:
            return None
        lower, times = self._compose(frame_path, common)
        upper, other_times = self._compose(parent_path, common)
        return Placement(upper[1].T @ (lower[0] - upper[0]), upper[1].T @ lower[1], (*times, *other_times))

    def _find_path(self, frame: str) -> list[str]:
        """Return the frame and its ancestors, in this order."""
        path = [frame]
        while path[-1] in self._links and self._links[path[-1]].parent not in path:
            path.append(self._links[path[-1]].parent)
        return path

    def _compose(self, path: list[str], end: str) -> tuple[tuple[Array, Array], list[int]]:
        """Return the pose of a path's first frame in the frame ``end``, and the arrival times of moving transforms."""
        position, rotation, times = np.zeros(3), np.eye(3), []
        for name in path[: path.index(end)]:
            link = self._links[name]
            position, rotation = link.rotation @ position + link.position, link.rotation @ rotation
            times += [] if link.received_ns is None else [link.received_ns]
        return (position, rotation), times


class FrameSubscription:
    """Subscription to the pose of a frame in another, which provides a PoseStamped for each new transform.

    Args:
        node: node of the driver.
        source: configuration with topic, frame and parent.
        clock: monotonic clock.
        callback: called in the node's thread with a message and the arrival time of its oldest transform.
    """

    def __init__(
        self,
        node: Node,
        source: SourceConfig,
        clock: Clock,
        callback: Callable[[Any, int], None] | None = None,
    ) -> None:
        self._node, self._source, self._clock, self._callback = node, source, clock, callback
        self._tree = TransformTree()
        self._times: tuple[int, ...] = ()
        self._latest: tuple[Any, int] | None = None
        # SourceConfig has checked the value; Hydra's fields cannot be Literals. "auto" suits transforms: they are
        # small.
        reliability = "best_effort" if source.reliability == "auto" else source.reliability
        moving = QoSProfile(DEPTH, reliability)  # type: ignore[arg-type]
        self._fixed = node.create_subscription(
            TRANSFORMS, f"{source.topic}_static", self._take_fixed, QoSProfile(DEPTH, durability="transient_local")
        )
        self._moving = node.create_subscription(TRANSFORMS, source.topic, self._take_moving, moving)

    @property
    def topic(self) -> str:
        """Name of the topics and frames, for messages to people."""
        frames = "" if self._latest else f"; frames there: {', '.join(self._tree.frames) or 'none'}"
        return f"{self._moving.topic} (of {self._source.frame} in {self._source.parent}{frames})"

    @property
    def matched_count(self) -> int:
        """Number of publishers of moving transforms."""
        return self._moving.matched_count

    def latest(self) -> tuple[Any, int] | None:
        """Return the newest pose and the arrival time of its oldest transform (monotonic clock [ns])."""
        return self._latest

    def _take_fixed(self, message: Any) -> None:
        self._tree.update(message, None)

    def _take_moving(self, message: Any) -> None:
        self._tree.update(message, self._clock.now_ns())
        placement = self._tree.look_up(self._source.frame, self._source.parent)
        if placement is None or not placement.received_ns or placement.received_ns == self._times:
            return
        self._times = placement.received_ns
        position, orientation = placement.position.tolist(), quaternion_of_matrix(placement.rotation).tolist()
        pose = {
            "position": dict(zip("xyz", position, strict=True)),
            "orientation": dict(zip("xyzw", orientation, strict=True)),
        }
        pose_message = self._node.types.make(POSE, header={"frame_id": self._source.parent}, pose=pose)
        self._latest = pose_message, min(placement.received_ns)
        if self._callback is not None:
            self._callback(*self._latest)
