"""Arm of servos with joint positions as commands and measurements."""

import math
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

MEASURED = ("torque_enable", "present_position", "present_velocity", "present_voltage", "present_temperature")
STORED = ("model_number", "position_low", "position_high", "homing_offset", "operating_mode")
POSITION_CONTROL = 0
"""Value of the register ``operating_mode`` in which a servo moves to its goal position."""
FASTEST = 254
"""Largest value of the register ``acceleration``. The servo need not smooth the motion, because the driver moves the
goals smoothly.
"""


@dataclass(frozen=True)
class ArmReading:
    """One reading of all servos.

    Attributes:
        positions: joint positions (n,) of the arm, in the order of the task [rad].
        velocities: joint velocities (n,) [rad/s].
        opening: opening of the gripper, 0 closed to 1 open; None without a gripper.
        stamp_ns: monotonic time before the instruction was sent [ns].
        faults: descriptions of servo faults, one text for each.
        relaxed: descriptions of servos without torque, one text for each.
    """

    positions: Array
    velocities: Array
    opening: float | None
    stamp_ns: int
    faults: tuple[str, ...] = ()
    relaxed: tuple[str, ...] = ()


class ServoArm:
    """Joints of an arm on a servo bus.

    Args:
        config: configuration of the arm.
        port: path of the serial port.
        joints: names of the task's joints.
        limits: range of each joint, and of the gripper's joint, by name [rad].
        speed: largest speed of each joint (n,) [rad/s].
        gripper: name of the gripper's joint; None without a gripper.
        clock: monotonic clock.

    Raises:
        ConfigError: if servos and joints do not have the same names, a joint has no range, or the calibration file
            cannot be read.
    """

    def __init__(
        self,
        config: ServoArmConfig,
        port: str,
        joints: tuple[str, ...],
        limits: Mapping[str, tuple[float, float]],
        speed: Array,
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
        if endless := [name for name in self._names if not np.isfinite(limits[name]).all()]:
            raise ConfigError(
                f"robot.servos: the task's arm has no range for {', '.join(endless)}, but a servo that controls its "
                "position turns within one turn, and back by the way it came; give the joint a range in the file of "
                "task.arm.model"
            )
        self._file = None if config.calibration is None else load_calibration(config.calibration)
        self._ids = [config.servos[name].id for name in self._names]
        self._count, self._speed = len(joints), speed
        self._maps: list[JointMap] = []
        self.bus = ServoBus(port, config.baud_rate, config.answer_timeout, config.retries, clock)

    @property
    def is_connected(self) -> bool:
        return self.bus.is_open and bool(self._maps)

    def connect(self) -> None:
        """Open the port, find every servo, and check the calibration. Nothing moves, and nothing is written.

        Raises:
            BusError: if the port cannot be opened, or a servo does not answer.
            DriverError: if a servo is another model or does not control its position, or if its calibration does not
                match.
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
        relaxed = [
            f"servo {servo} ({name})"
            for name, servo in zip(self._names, self._ids, strict=True)
            if not answers[servo]["torque_enable"]
            # an overloaded gripper protects itself
            and not (name == self._gripper and Fault.OVERLOADED in self.bus.faults[servo])
        ]
        faults = [
            text
            for name, servo, tick in zip(self._names, self._ids, ticks, strict=True)
            if (text := self._fault(name, servo, tick, answers[servo]))
        ]
        n = self._count
        return ArmReading(positions[:n], velocities[:n], opening, stamp_ns, tuple(faults), tuple(relaxed))

    def command(self, positions: Array, opening: float | None) -> None:
        """Command joint positions (n,) [rad] and an opening of the gripper; positions are kept within their ranges.

        Raises:
            PortLostError: if the port is lost.
        """
        self.bus.sync_write("goal_position", self._goals(positions, opening))

    def engage(self, positions: Array, opening: float | None) -> None:
        """Switch on the torque of all servos, with joint positions (n,) [rad] and an opening as their goals.

        A servo keeps its goal while it is off, and moves there as soon as it is switched on. The torque is therefore
        switched on only after every servo has confirmed its new goal. Gains and limits are set first, because the
        servos may have been without power.

        Raises:
            BusError: if a servo does not confirm its goal or its torque.
        """
        self._configure()
        self.bus.sync_write_checked("goal_position", self._goals(positions, opening))
        self.bus.sync_write_checked("torque_enable", dict.fromkeys(self._ids, 1))

    def relax(self) -> None:
        """Switch off the torque of all servos.

        Raises:
            BusError: if a servo does not confirm it.
        """
        self.bus.sync_write_checked("torque_enable", dict.fromkeys(self._ids, 0))

    def close(self) -> None:
        """Close the port."""
        self.bus.close()

    def _configure(self) -> None:
        """Set gains and limits."""
        speeds = [*np.abs(self._speed * [each.per_unit for each in self._maps[: self._count]]), 0.0]  # 0: no limit
        for servo, name, speed in zip(self._ids, self._names, speeds, strict=False):
            # gains are in EEPROM, which wears out: while it is locked, writes are not stored permanently
            self.bus.write(servo, "lock", 1)
            self.bus.write(servo, "proportional_gain", self._config.proportional_gain)
            self.bus.write(servo, "integral_gain", 0)
            self.bus.write(servo, "torque_limit", round(1000 * self._config.servos[name].torque))
            self.bus.write(servo, "acceleration", FASTEST)
            # Another program may have left a speed limit. This one also bounds the speed that a wrong goal can cause.
            self.bus.write(servo, "goal_velocity", math.ceil(speed))

    def _goals(self, positions: Array, opening: float | None) -> dict[int, int]:
        """Return the goals of all servos [ticks] by id."""
        values = list(positions)
        if self._gripper is not None:
            closed, open_ = self._limits[self._gripper]
            values.append(closed + (0.0 if opening is None else opening) * (open_ - closed))
        return {servo: each.ticks(value) for servo, each, value in zip(self._ids, self._maps, values, strict=True)}

    def _find(self, name: str) -> Calibration:
        """Return the calibration stored in a joint's servo, read as one block so that its values are consistent."""
        servo = self._config.servos[name].id
        stored = self.bus.sync_read([servo], STORED)[servo]
        if stored["model_number"] != MODEL_NUMBER:
            raise DriverError(
                f"servo {servo} ({name}) has model number {stored['model_number']}, but an STS3215 has {MODEL_NUMBER}"
            )
        if stored["operating_mode"] != POSITION_CONTROL:
            raise DriverError(
                f"servo {servo} ({name}) has operating mode {stored['operating_mode']}, but goals need "
                f"{POSITION_CONTROL}, position control; lerobot-calibrate sets it"
            )
        return Calibration(servo, stored["homing_offset"], stored["position_low"], stored["position_high"])

    def _fault(self, name: str, servo: int, ticks: int, answer: Mapping[str, int]) -> str:
        """Return the fault of a servo as a text; empty if it has none."""
        fault, temperature = self.bus.faults[servo], answer["present_temperature"]
        if not 0 <= ticks < TICKS:
            return f"servo {servo} ({name}) reports position {ticks}, outside its turn: turn the joint back by hand"
        if name == self._gripper:
            fault &= ~Fault.OVERLOADED  # it holds an object, and has lowered its torque by itself
        if fault & Fault.OVERHEATED or temperature >= self._config.temperature:
            return f"servo {servo} ({name}) is hot: {temperature} degrees, {self._config.temperature:g} are allowed"
        if fault:
            kinds = ", ".join(str(kind.name).lower() for kind in Fault if kind in fault)
            return f"servo {servo} ({name}) reports: {kinds} ({answer['present_voltage'] / 10:g} V)"
        return ""
