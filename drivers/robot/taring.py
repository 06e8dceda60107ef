"""Bias of the wrist sensor: measured at rest, subtracted by the driver and published for guards."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, DriverError, announce

from ..ros2 import LATCHED, Node
from .config import RobotConfig, TareConfig
from .decoding import Wrench

Array = NDArray[np.float64]

WRENCH = "geometry_msgs/msg/WrenchStamped"
POLL_NS = 2_000_000
FEWEST = 4
"""Smallest number of measurements from which a steady load can be recognised."""
STEADY_SHARE = 0.1
"""Share of the largest bias by which two means of the load at rest may differ."""
PARTS = 8
"""Largest number of intervals of the measurement whose means are compared. The two halves of a swinging arm's loads
would agree.
"""


class WrenchTare:
    """Measurement of the bias at the start of each episode, which is subtracted and published for guards (latched).

    Args:
        node: node of the driver.
        config: configuration of the robot.
        wrench: decoder that subtracts the bias.
        newest: returns the newest message of the sensor, or None.
        clock: monotonic clock.
    """

    def __init__(
        self, node: Node, config: RobotConfig, wrench: Wrench, newest: Callable[[], Any], clock: Clock
    ) -> None:
        self._node, self._config, self._wrench, self._newest, self._clock = node, config, wrench, newest, clock
        self._reported: Array = np.zeros(6)
        self._publisher = node.create_publisher(WRENCH, bias_topic(config), LATCHED)

    def begin(self) -> None:
        """Measure the bias while the arm is at rest.

        Raises:
            DriverError: if the bias is too large, not finite, or not steady.
        """
        measured = self._measure()
        if len(measured) < FEWEST:
            raise DriverError(
                f"robot {self._config.name!r} sent {len(measured)} measurements of its wrist in "
                f"{self._config.tare.seconds:g} s, which is too few to tare it: raise robot.tare.seconds"
            )
        bias: Array = measured.mean(axis=0)
        if problem := too_large(self._config.tare, bias):
            raise DriverError(
                f"robot {self._config.name!r} measures {problem}. Does the arm touch something? Tare the sensor "
                "itself, or allow more where that is its bias"
            )
        means = [part.mean(axis=0) for part in np.array_split(measured, min(PARTS, len(measured) // 2))]
        problems = (changes(self._config.tare, first, second) for first, second in combinations(means, 2))
        if problem := next(filter(None, problems), ""):
            raise DriverError(
                f"robot {self._config.name!r} measures a load at its wrist that changes by {problem} while it is "
                "tared. Does the arm still move, or does it touch something?"
            )
        self._report(bias)
        self._wrench.bias = bias
        values = [dict(zip("xyz", part.tolist(), strict=True)) for part in (bias[:3], bias[3:])]
        wrench = dict(zip(("force", "torque"), values, strict=True))
        message = self._node.types.make(WRENCH, header={"stamp": self._node.now()}, wrench=wrench)
        self._publisher.publish(message)

    def _report(self, bias: Array) -> None:
        """Print the bias if it differs from the last one, because contact at rest is subtracted as well."""
        change = changes(self._config.tare, self._reported, bias)
        if not change:
            return
        self._reported = bias
        force, torque = np.linalg.norm(bias[:3]), np.linalg.norm(bias[3:])
        announce(
            f"Robot {self._config.name}: {force:.1f} N and {torque:.2f} Nm are subtracted at its wrist from now on, a "
            f"change by {change}. The arm must touch nothing when episodes begin"
        )

    def _measure(self) -> Array:
        """Return the measurements (m, 6) during the configured time."""
        measurements, last = [], None
        end_ns = self._clock.now_ns() + round(self._config.tare.seconds * 1e9)
        while (now_ns := self._clock.now_ns()) < end_ns:
            message = self._newest()
            if message is not None and message is not last:
                measurements.append(self._wrench.measured(message))
                last = message
            self._clock.sleep_until_ns(min(now_ns + POLL_NS, end_ns))
        return np.array(measurements).reshape(-1, 6)


class ReceivedBias:
    """Copy of the driver's bias, for guards. Forces are unknown until it has arrived.

    Args:
        node: node of the guard.
        config: configuration of the robot.
        wrench: decoder that subtracts the bias.
    """

    def __init__(self, node: Node, config: RobotConfig, wrench: Wrench) -> None:
        self._config, self._wrench = config, wrench
        self.topic = bias_topic(config)
        node.create_subscription(WRENCH, self.topic, self._take, LATCHED)
        announce(f"Force and torque at the wrist are not judged until the driver has tared them ({self.topic})")

    def _take(self, message: Any) -> None:
        """Copy the bias of a message; called in the node's thread."""
        bias = self._wrench.measured(message)
        if problem := too_large(self._config.tare, bias):
            announce(f"{self.topic} is not taken over: {problem}")
        else:
            self._wrench.bias = bias


def bias_topic(config: RobotConfig) -> str:
    """Return the topic on which the driver publishes the bias."""
    return f"{config.name}/wrench_bias"


def changes(config: TareConfig, first: Array, second: Array) -> str:
    """Return the change between two loads (6,) [N, Nm] if it is too large for an arm at rest; empty if it is not."""
    force, torque = (float(np.linalg.norm((second - first)[part])) for part in (slice(3), slice(3, 6)))
    if force <= STEADY_SHARE * config.force and torque <= STEADY_SHARE * config.torque:
        return ""
    return f"{force:.1f} N and {torque:.2f} Nm"


def too_large(config: TareConfig, bias: Array) -> str:
    """Return why ``bias`` (6,) [N, Nm] is too large; empty if it is not."""
    force, torque = float(np.linalg.norm(bias[:3])), float(np.linalg.norm(bias[3:]))
    if force <= config.force and torque <= config.torque:  # false for NaN
        return ""
    return (
        f"{force:.1f} N and {torque:.2f} Nm at its wrist at rest, which is no bias: at most {config.force:g} N and "
        f"{config.torque:g} Nm are (robot.tare.force, robot.tare.torque)"
    )
