"""Checked access to the newest readings of an arm of servos, and the motion home."""

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import EMERGENCY_STOP, ROBOT_AWAY, Clock, DriverError, SafetyStop

from .arm import ArmReading
from .bus import ServoBus
from .config import ServoArmConfig
from .loop import ServoLoop

Array = NDArray[np.float64]

POLL_NS = 5_000_000
SHORTEST_HOMING = 0.3
"""Shortest duration of the motion home, in which the gripper opens or closes [s]."""
HOMING_GRACE = 2.0
"""Additional time that the arm may need for the motion home [s]."""


class ServoReadings:
    """Readings of an arm of servos that are new enough and without faults."""

    def __init__(self, config: ServoArmConfig, bus: ServoBus, loop: ServoLoop, clock: Clock) -> None:
        self._config, self._bus, self._loop, self._clock = config, bus, loop, clock

    def go_home(self, home: Array, opening: float) -> None:
        """Move the arm to joint positions (n,) [rad] and an opening of the gripper, slowly; wait until it is there.

        Raises:
            SafetyStop: if it does not get there, or servos lost their power and no person has re-armed the robot since.
        """
        loop = self._loop
        if loop.power_stop is not None and (problem := loop.power_stop.pressed()) is not None:
            raise SafetyStop(EMERGENCY_STOP, f"robot {self._config.name!r}: {problem}")
        loop.forget()  # the arm may have been moved by hand
        reading = self.fresh()
        loop.hold()
        if not loop.is_driven:
            raise SafetyStop("driver_silent", f"the servos were not switched on: {loop.problem}")
        speed = self._config.homing_speed * self._config.real_time_factor
        seconds = max(float(np.abs(home - reading.positions).max()) / speed, SHORTEST_HOMING)
        loop.move(home, opening, seconds)
        deadline_ns = self._clock.now_ns() + round((seconds + HOMING_GRACE) * 1e9)
        while True:
            away = np.abs(self.fresh().positions - home)
            if (away <= self._config.homing_tolerance).all():
                return
            if self._clock.now_ns() > deadline_ns:
                loop.hold()
                joint = int(away.argmax())
                raise SafetyStop(
                    "reset_failed",
                    f"joint {joint + 1} is {away[joint]:.2f} rad from home after "
                    f"{seconds + HOMING_GRACE:.1f} s; {self._config.homing_tolerance:g} are allowed "
                    "(robot.homing_tolerance). Is the arm blocked?",
                )
            self._clock.sleep_until_ns(self._clock.now_ns() + POLL_NS)

    def fresh(self) -> ArmReading:
        """Wait for a reading that was taken after this call.

        Raises:
            SafetyStop: if there is none in time, or a servo reports a fault.
            DriverError: if nothing reads the servos any more.
        """
        begin_ns = self._clock.now_ns()
        deadline_ns = begin_ns + round((self._config.max_age + 1.0) * 1e9)
        while True:
            reading = self._loop.newest
            if reading is not None and reading.stamp_ns >= begin_ns:
                return self._without_faults(reading)
            if self._loop.failure:
                raise DriverError(f"robot {self._config.name!r}: {self._loop.failure}")
            if self._clock.now_ns() > deadline_ns:
                raise SafetyStop(ROBOT_AWAY, f"robot {self._config.name!r}: {self._loop.problem}: it is waited for")
            self._clock.sleep_until_ns(self._clock.now_ns() + POLL_NS)

    def checked(self) -> ArmReading:
        """Return the newest reading.

        Raises:
            SafetyStop: if it is too old, or a servo reports a fault.
        """
        reading, now_ns = self._loop.newest, self._clock.now_ns()
        if reading is None or now_ns - reading.stamp_ns > self._config.max_age * 1e9:
            age = "" if reading is None else f" (the newest reading is {1e-9 * (now_ns - reading.stamp_ns):.2f} s old)"
            problem = self._loop.problem or "this machine is too slow to read them"
            raise SafetyStop("driver_silent", f"the servos have fallen silent: {problem}{age}")
        return self._without_faults(reading)

    def _without_faults(self, reading: ArmReading) -> ArmReading:
        if reading.faults:
            raise SafetyStop("servo_fault", f"robot {self._config.name!r}: {'; '.join(reading.faults)}")
        return reading

    def failures(self) -> str:
        """Return the number of failures of the bus by kind, as a text."""
        counts = self._bus.errors + self._loop.rejected
        return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
