"""An arm of servos: joint positions in, joint positions out."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, ConfigError, DriverError

from .bus import ServoBus
from .calibration import Calibration, JointMap, check_calibration, load_calibration, map_joint
from .config import ServoArmConfig
from .protocol import Fault
from .registers import MODEL_NUMBER, TICKS

Array = NDArray[np.float64]

MEASURED = ("present_position", "present_velocity", "present_load", "present_voltage", "present_temperature")
FASTEST = 254
"""Largest value of the register ``acceleration``: the driver itself moves the goals smoothly."""


@dataclass(frozen=True)
class ArmReading:
    """One reading of all servos.

    Attributes:
        positions: joint positions (n,) of the arm, in the order of the task [rad].
        velocities: joint velocities (n,) [rad/s].
        opening: opening of the gripper, 0 closed to 1 open; None without a gripper.
        stamp_ns: monotonic time before the instruction was sent [ns].
        faults: what is wrong with servos, a text each.
    """

    positions: Array
    velocities: Array
    opening: float | None
    stamp_ns: int
    faults: tuple[str, ...] = ()


class ServoArm:
    """Joints of an arm on a servo bus.

    Args:
        config: configuration of the arm.
        port: path of the serial port.
        joints: names of the task's joints.
        limits: range of each joint, and of the gripper's joint, by name [rad].
        gripper: name of the gripper's joint; None without a gripper.
        clock: monotonic clock.

    Raises:
        ConfigError: if servos and joints do not have the same names, or the calibration file cannot be read.
    """

    def __init__(
        self,
        config: ServoArmConfig,
        port: str,
        joints: tuple[str, ...],
        limits: Mapping[str, tuple[float, float]],
        gripper: str | None,
        clock: Clock,
    ) -> None:
        self._config, self._limits, self._gripper, self._clock = config, limits, gripper, clock
        self._names = [*joints, *([gripper] if gripper is not None else [])]
        if set(self._names) != set(config.servos):
            raise ConfigError(
                f"robot.servos: robot {config.name!r} has servos for {', '.join(config.servos)}, but the task's arm "
                f"has the joints {', '.join(self._names)}; give the task this arm (task=reach_so101, or task.arm)"
            )
        self._file = None if config.calibration is None else load_calibration(config.calibration)
        self._ids = [config.servos[name].id for name in self._names]
        self._count = len(joints)
        self._maps: list[JointMap] = []
        self.bus = ServoBus(port, config.baud_rate, config.answer_timeout, config.retries, clock)

    @property
    def is_connected(self) -> bool:
        return self.bus.is_open and bool(self._maps)

    def connect(self) -> None:
        """Open the port, find every servo, check the calibration and set gains and torque limits. Nothing moves.

        Raises:
            BusError: if the port cannot be opened, or a servo does not answer.
            DriverError: if a servo is another model, or its calibration does not fit.
        """
        self._maps = []
        self.bus.open()
        try:
            stored = {name: self._find(name) for name in self._names}
            if self._file is not None:
                check_calibration(str(self._config.calibration), self._file, stored)
            maps = [
                map_joint(name, self._config.servos[name], stored[name], self._limits[name], name == self._gripper)
                for name in self._names
            ]
            for name, servo in self._config.servos.items():
                self.bus.write(servo.id, "proportional_gain", self._config.proportional_gain)
                self.bus.write(servo.id, "integral_gain", 0)
                self.bus.write(servo.id, "torque_limit", round(1000 * self._config.servos[name].torque))
                self.bus.write(servo.id, "acceleration", FASTEST)
        except DriverError:
            self.bus.close()
            raise
        self._maps = maps

    def read(self) -> ArmReading:
        """Read all servos.

        Raises:
            BusError: if one of them does not answer.
        """
        stamp_ns = self._clock.now_ns()
        answers = self.bus.sync_read(self._ids, MEASURED)
        ticks = [answers[servo]["present_position"] for servo in self._ids]
        speeds = [answers[servo]["present_velocity"] for servo in self._ids]
        positions = np.array([each.position(tick) for each, tick in zip(self._maps, ticks, strict=True)])
        velocities = np.array([speed / each.per_unit for each, speed in zip(self._maps, speeds, strict=True)])
        opening = None
        if self._gripper is not None:
            closed, open_ = self._limits[self._gripper]
            opening = float((positions[-1] - closed) / (open_ - closed))
        faults = [
            text
            for name, servo, tick in zip(self._names, self._ids, ticks, strict=True)
            if (text := self._fault(name, servo, tick, answers[servo]))
        ]
        n = self._count
        return ArmReading(positions[:n], velocities[:n], opening, stamp_ns, tuple(faults))

    def command(self, positions: Array, opening: float | None) -> None:
        """Command joint positions (n,) [rad] and an opening of the gripper; positions are kept within their ranges.

        Raises:
            PortLostError: if the port is lost.
        """
        values = list(positions)
        if self._gripper is not None:
            closed, open_ = self._limits[self._gripper]
            values.append(closed + (0.0 if opening is None else opening) * (open_ - closed))
        goals = {servo: each.ticks(value) for servo, each, value in zip(self._ids, self._maps, values, strict=False)}
        self.bus.sync_write("goal_position", goals)

    def switch(self, on: bool) -> None:
        """Switch the torque of all servos on or off.

        Raises:
            PortLostError: if the port is lost.
        """
        self.bus.sync_write("torque_enable", dict.fromkeys(self._ids, int(on)))

    def close(self) -> None:
        """Close the port."""
        self.bus.close()

    def _find(self, name: str) -> Calibration:
        """Return what is stored in a joint's servo."""
        servo = self._config.servos[name].id
        model = self.bus.read(servo, "model_number")
        if model != MODEL_NUMBER:
            raise DriverError(f"servo {servo} ({name}) has model number {model}, but an STS3215 has {MODEL_NUMBER}")
        names = ("homing_offset", "position_low", "position_high")
        return Calibration(servo, *(self.bus.read(servo, register) for register in names))

    def _fault(self, name: str, servo: int, ticks: int, answer: Mapping[str, int]) -> str:
        """Return what is wrong with a servo, or an empty text."""
        fault, temperature = self.bus.faults[servo], answer["present_temperature"]
        if not 0 <= ticks < TICKS:
            return f"servo {servo} ({name}) reports position {ticks}, outside its turn"
        if fault & Fault.OVERHEATED or temperature >= self._config.temperature:
            return f"servo {servo} ({name}) is hot: {temperature} degrees, {self._config.temperature:g} are allowed"
        if fault:
            kinds = ", ".join(str(kind.name).lower() for kind in Fault if kind in fault)
            return f"servo {servo} ({name}) reports: {kinds} ({answer['present_voltage'] / 10:g} V)"
        return ""
