"""Simulated arm whose joints are moved by simulated servos, in real time."""

import math
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArmTarget, Clock

from .calibration import map_joint, nominal_calibration
from .config import ServoArmConfig
from .virtual_bus import VirtualBus
from .virtual_servos import Measured, ServoChain

Array = NDArray[np.float64]

RATE = 100.0
"""Rate at which servos measure and command the simulated arm [Hz], in its own time."""
LONGEST_CATCH_UP = 0.1
"""Largest simulated time that one iteration catches up with [s]. On a slow machine, longer delays slow the arm's
time.
"""


class ServoDriven(Protocol):
    """Simulated robot that follows joint positions; :class:`robo_rl.sim.simulated_robot.SimulatedRobot` is one."""

    joints: tuple[str, ...]
    fingers: tuple[str, ...]
    finger_strokes: NDArray[np.float64]
    limits: Array
    torques: Array
    tick: float

    def reset(self, seed: int) -> None: ...

    def advance(self, ticks: int) -> None: ...

    def command(self, target: ArmTarget) -> None: ...

    def measure(self) -> dict[str, Array]: ...

    def objects(self) -> Array: ...

    def rewards(self) -> dict[str, float]: ...

    def close(self) -> None: ...


class VirtualServoArm:
    """Simulated arm behind a virtual servo bus. A thread advances it with the clock until it is closed.

    The servos are calibrated exactly. With all servos off, the arm floats: gravity stays compensated.

    Args:
        config: configuration of the arm.
        robot: simulated arm.
        clock: monotonic clock.
        path: where the port appears; None: in a new folder.

    Attributes:
        bus: the serial port.
        chain: the servos.
        problem: why the arm has stopped moving; empty if it moves.
    """

    def __init__(self, config: ServoArmConfig, robot: ServoDriven, clock: Clock, path: Path | None = None) -> None:
        self._robot, self._clock, self._factor = robot, clock, config.real_time_factor
        names = [*robot.joints, *robot.fingers[:1]]
        self._count = len(robot.joints)
        limits = dict(zip(names, joint_limits(robot), strict=True))
        servos = {name: config.servos[name] for name in names}
        nominal = {name: nominal_calibration(servo, limits[name]) for name, servo in servos.items()}
        self._maps = [
            map_joint(name, servos[name], nominal[name], limits[name], name not in robot.joints) for name in names
        ]
        self.chain = ServoChain(servo.id for servo in servos.values())
        for name, servo in servos.items():
            self.chain.servo(servo.id).set("position_low", max(nominal[name].range_min, 0))
            self.chain.servo(servo.id).set("position_high", nominal[name].range_max)
        self._world = threading.Lock()  # guards the simulated arm
        self._lock = threading.Lock()  # guards the servos; held only briefly, because masters wait for answers
        self.problem = ""
        robot.reset(0)
        self._exchange(0.0)
        for each in self.chain.servos:
            each.set("goal_position", each.get("present_position"))  # as after power-on
        self.bus = VirtualBus(self.chain, self._lock, path)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="virtual servo arm", daemon=True)
        self._thread.start()

    def place(self, seed: int) -> None:
        """Begin an episode: put the arm near home and the objects at their start positions. The servos stay there."""
        with self._world:
            self._robot.reset(seed)
            with self._lock:
                for servo, ticks in zip(self.chain.servos, self._ticks(self._robot.measure()), strict=True):
                    servo.setpoint = ticks
                    servo.set("goal_position", round(ticks))
            self._exchange(0.0)

    def objects(self) -> Array:
        """Return the state of the task's objects (m,)."""
        with self._world:
            return self._robot.objects()

    def rewards(self) -> dict[str, float]:
        """Return the reward terms of the current state."""
        with self._world:
            return self._robot.rewards()

    def close(self) -> None:
        """Remove the port and end the simulation. May be called twice."""
        self._closed.set()
        self._thread.join()
        self.bus.close()
        self._robot.close()

    def run(self, must_end: Callable[[], bool]) -> None:
        """Return when ``must_end`` returns true, or the simulation has failed."""
        while not must_end() and not self.problem:
            self._closed.wait(0.05)

    def _run(self) -> None:
        """Advance the arm; called in the thread."""
        period, began_ns, advanced = 1.0 / RATE, self._clock.now_ns(), 0.0
        while not self._closed.wait(period / self._factor):
            due = (self._clock.now_ns() - began_ns) * 1e-9 * self._factor - advanced
            ticks = math.floor(due / self._robot.tick)
            advanced += ticks * self._robot.tick
            executed = min(ticks, round(LONGEST_CATCH_UP / self._robot.tick))
            if executed > 0:
                with self._world:
                    self._advance(executed)

    def _advance(self, ticks: int) -> None:
        """Drive the arm to the set points and measure. The lock of the simulation must be held."""
        with self._lock:
            is_driven = any(servo.is_driven for servo in self.chain.servos[: self._count])
            setpoints = [
                each.position(servo.setpoint) for each, servo in zip(self._maps, self.chain.servos, strict=True)
            ]
        if is_driven:
            opening = self._opening(setpoints[-1]) if len(setpoints) > self._count else None
            target = ArmTarget(joints=np.array(setpoints[: self._count]), opening=opening)
        else:
            target = ArmTarget(efforts=np.zeros(self._count))
        try:
            self._robot.command(target)
            self._robot.advance(ticks)
        except Exception as error:  # an unstable simulation must not end silently
            self.problem = str(error)
            self._closed.set()
            raise
        self._exchange(ticks * self._robot.tick)

    def _exchange(self, seconds: float) -> None:
        """Let the servos measure after ``seconds`` of motion."""
        measured = self._robot.measure()
        gripper = [0.0] * (len(self._maps) - self._count)
        velocities = [*measured["joint_velocities"], *gripper]
        loads = [*1000 * measured["joint_efforts"] / self._robot.torques, *gripper]
        readings = [
            Measured(ticks, velocity * each.per_unit, math.copysign(load, load * each.per_unit))
            for each, ticks, velocity, load in zip(self._maps, self._ticks(measured), velocities, loads, strict=True)
        ]
        with self._lock:
            for servo, reading in zip(self.chain.servos, readings, strict=True):
                servo.measure(reading, seconds)

    def _ticks(self, measured: Mapping[str, Array]) -> list[float]:
        """Return the measurements of ideal servos [ticks]."""
        positions = [*measured["joint_positions"], *measured["fingers"][:1]]
        return [each.zero + position * each.per_unit for each, position in zip(self._maps, positions, strict=True)]

    def _opening(self, finger: float) -> float:
        """Return the opening of the gripper for a position of its first finger."""
        closed, open_ = self._robot.finger_strokes[0]
        return float((finger - closed) / (open_ - closed))


def joint_limits(robot: ServoDriven) -> list[tuple[float, float]]:
    """Return the range of each joint, then closed and open position of the first finger, if there is one."""
    arm = [(float(low), float(high)) for low, high in robot.limits]
    return arm + [(float(closed), float(open_)) for closed, open_ in robot.finger_strokes[:1]]
