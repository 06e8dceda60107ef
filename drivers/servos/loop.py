"""Loop that owns a servo bus: it reads servos, moves goals smoothly, holds, relaxes and survives a lost cable."""

import threading
from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Clock, DriverError, EmergencyStop, announce

from .arm import ArmReading, ServoArm
from .port import BusError, PortLostError

Array = NDArray[np.float64]

REOPEN_NS = 500_000_000
"""Time between two attempts to open a lost port [ns]."""
JUMP = 0.3
"""Largest motion of a joint between two readings beyond what its speed limit allows [rad]."""
LONGEST_GAP = 0.1
"""Longest time between two readings in which a joint is assumed to have moved [s]."""
SAG = 0.1
"""Largest distance of a joint from its goal at which a holding arm keeps the goal, instead of the measured position
[rad].
"""


class Motion(NamedTuple):
    """Straight motion of the goals.

    Attributes:
        start: goals (n + 1,) at its beginning: joints [rad] and opening of the gripper.
        end: goals at its end.
        begin_ns: monotonic time of its beginning.
        duration_ns: its duration.
    """

    start: Array
    end: Array
    begin_ns: int
    duration_ns: int

    def at(self, now_ns: int) -> Array:
        """Return the goals at a time."""
        share = min(max((now_ns - self.begin_ns) / max(self.duration_ns, 1), 0.0), 1.0)
        goals: Array = self.start + share * (self.end - self.start)
        return goals


class ServoLoop:
    """Thread that reads and commands an arm of servos until it is closed.

    The arm is relaxed until the first :meth:`hold`. When the port is lost, the servos keep their last goals by
    themselves; the loop opens the port again when it reappears, and then holds the arm where it is. Servos that are
    found switched off stay off until the next :meth:`hold`, and the robot's emergency stop is pressed, so that the arm
    does not move merely because the power returns.

    Args:
        arm: the arm, connected.
        name: name of the robot, for messages.
        rate: cycles per second [Hz].
        speed: largest speed of each joint (n,) [rad/s].
        relax_after: time after :meth:`hold` at which the servos are switched off [s]; None: they stay on.
        clock: monotonic clock.

    Attributes:
        rejected: number of failed cycles by kind, in addition to the bus's own errors.
        failure: why the thread has ended by itself; empty if it has not.
        is_driven: whether the servos were switched on, and not off since.
        power_stop: emergency stop that was pressed when servos lost their power; None if that never happened.
    """

    def __init__(
        self, arm: ServoArm, name: str, rate: float, speed: Array, relax_after: float | None, clock: Clock
    ) -> None:
        self._arm, self._name, self._speed, self._clock = arm, name, speed, clock
        self._period_ns = round(1e9 / rate)
        self._relax_ns = None if relax_after is None else round(relax_after * 1e9)
        self._lock = threading.Lock()
        self._reading: ArmReading | None = None
        self._unconfirmed: ArmReading | None = None
        self._motion: Motion | None = None
        self._held_ns: int | None = None  # since when the arm has been holding; None: it moves or is relaxed
        self.is_driven = False
        self._problem = self.failure = ""
        self._retry_ns = 0
        self.power_stop: EmergencyStop | None = None
        self.rejected: Counter[str] = Counter()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"servos {name}", daemon=True)
        self._thread.start()

    @property
    def newest(self) -> ArmReading | None:
        """The newest reading; None before the first, and after the port was lost."""
        return self._reading

    @property
    def problem(self) -> str:
        """Why there is no new reading; empty if there is."""
        return self._problem

    def move(self, joints: Array, opening: float | None, seconds: float) -> None:
        """Move straight to joint positions (n,) [rad] and an opening, and stay there.

        A joint that would have to exceed its speed limit moves only as far as the limit allows. The call has no effect
        unless the arm is holding or moving, because the port may just have been lost.

        Args:
            joints: joint positions (n,) [rad].
            opening: opening of the gripper, 0 closed to 1 open; None: it stays.
            seconds: duration of the motion [s].
        """
        with self._lock:
            now_ns = self._clock.now_ns()
            if self._motion is None:
                return
            start = self._motion.at(now_ns)
            farthest = self._speed * seconds
            joints = start[:-1] + np.clip(joints - start[:-1], -farthest, farthest)
            end = np.append(joints, start[-1] if opening is None else opening)
            self._motion, self._held_ns = Motion(start, end, now_ns, round(seconds * 1e9)), None

    def hold(self) -> None:
        """Hold the arm where it is, and switch on servos that are off. They are switched off after ``relax_after``."""
        with self._lock:
            self._hold()

    def forget(self) -> None:
        """Forget reading and goals, because the arm was moved by other means; accept the next reading unchecked."""
        with self._lock:
            self._reading = self._unconfirmed = self._motion = None

    def close(self, relax: bool) -> None:
        """End the thread, with the servos switched off or holding."""
        self._closed.set()
        self._thread.join()
        with self._lock:
            if relax:
                self._relax()
            self._arm.close()

    def _run(self) -> None:
        next_ns = self._clock.now_ns()
        while not self._closed.is_set():
            with self._lock:
                self._cycle()
            next_ns = max(next_ns + self._period_ns, self._clock.now_ns())
            self._closed.wait(max(next_ns - self._clock.now_ns(), 0) * 1e-9)

    def _cycle(self) -> None:
        """Read the arm, then command it."""
        try:
            if not self._arm.is_connected:
                self._reconnect()
                return
            reading = self._arm.read()
            if self.is_driven and reading.relaxed:
                self._lose_power(reading.relaxed)
                return
            self._take(reading)
            now_ns = self._clock.now_ns()
            if self._motion is not None:
                goals = self._motion.at(now_ns)
                self._arm.command(goals[:-1], float(goals[-1]))
            if self._held_ns is not None and self._relax_ns is not None and now_ns - self._held_ns > self._relax_ns:
                announce(f"Robot {self._name}: the servos are switched off to cool")
                self._relax()
        except PortLostError as error:
            self._lose(str(error))
        except BusError as error:
            self._problem = str(error)
        except Exception as error:  # any failure must end the run, which would otherwise wait for readings
            self.failure = self._problem = f"the loop of the servos failed: {error!r}"
            self._closed.set()
            raise

    def _take(self, reading: ArmReading) -> None:
        """Accept a reading. One in which a joint has moved farther than it can needs a second one to confirm it."""
        last = self._reading or self._unconfirmed
        self._unconfirmed = reading
        if last is None:
            return
        seconds = 1e-9 * (reading.stamp_ns - last.stamp_ns)
        # The limit does not grow with a longer gap, because the arm must not hold a position that may be corrupted.
        moved = np.abs(reading.positions - last.positions) - self._speed * min(seconds, LONGEST_GAP)
        if (moved > JUMP).any():
            joint = int(moved.argmax())
            self.rejected["jump"] += 1
            self._problem = (
                f"joint {joint + 1} jumped from {last.positions[joint]:.2f} to {reading.positions[joint]:.2f} rad "
                f"within {seconds:.3f} s"
            )
            return
        self._reading, self._problem = reading, ""

    def _hold(self) -> None:
        """Hold the goals if the arm is near them, otherwise the last measured position. The lock must be held."""
        reading = self._reading
        if reading is None:
            self._motion = None
            return
        now_ns = self._clock.now_ns()
        measured = np.append(reading.positions, reading.opening or 0.0)
        goals = measured if self._motion is None else self._motion.at(now_ns)
        # A grasped object keeps the gripper from its goal, so the gripper always keeps its goal.
        arm = np.where(np.abs(goals[:-1] - measured[:-1]) <= SAG, goals[:-1], measured[:-1])
        held = np.append(arm, goals[-1])
        self._motion, self._held_ns = Motion(held, held, now_ns, 0), now_ns
        try:
            if self.is_driven:
                self._arm.command(held[:-1], float(held[-1]))
            else:
                self._arm.engage(held[:-1], float(held[-1]))
                self.is_driven = True
        except PortLostError as error:
            self._lose(str(error))
        except BusError as error:
            self._motion, self._held_ns, self._problem = None, None, str(error)

    def _relax(self) -> None:
        """Switch the servos off. The lock must be held."""
        self._motion = self._held_ns = None
        self.is_driven = False
        if self._arm.is_connected:
            try:
                self._arm.relax()
            except BusError as error:
                announce(f"Robot {self._name}: {error} The servos may hold; switch off their power")
                if isinstance(error, PortLostError):
                    self._lose(str(error))

    def _lose(self, problem: str, advice: str = "The servos hold; the port is opened again when it is back") -> None:
        """Close the port, which is opened again later. The servos keep their goals."""
        self._problem, self._retry_ns = problem, self._clock.now_ns() + REOPEN_NS  # reported while there is no reading
        self._reading = self._unconfirmed = self._motion = self._held_ns = None
        self._arm.close()
        announce(f"Robot {self._name}: {problem} {advice}")

    def _lose_power(self, relaxed: tuple[str, ...]) -> None:
        """Record that another cause switched servos off, and stop the robot until a person re-arms it."""
        self.is_driven = False  # the other servos hold; the next hold() switches all of them on
        problem = f"{', '.join(relaxed)} switched off: was power lost?"
        self.power_stop = EmergencyStop(robot=self._name)
        self.power_stop.press(problem)
        self._lose(problem, f"Look at the arm, then robo-rl rearm robot={self._name}")

    def _reconnect(self) -> None:
        """Try to open the lost port at intervals. Once it answers, hold the arm, unless it lost its power."""
        now_ns = self._clock.now_ns()
        if now_ns < self._retry_ns:
            return
        self._retry_ns = now_ns + REOPEN_NS
        try:
            self._arm.connect()
            readings = [self._arm.read() for _ in range(2)]
        except DriverError as error:
            self._arm.close()
            self._problem = str(error)
            return
        if self.is_driven and readings[-1].relaxed:
            self._lose_power(readings[-1].relaxed)
            return
        for reading in readings:
            self._take(reading)
        if self.is_driven:
            self._hold()
        announce(f"Robot {self._name}: the port is back")
