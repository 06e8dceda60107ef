"""Resets by the arm itself: it puts the object back and goes home, and a person is called only if it cannot."""

import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    ConfigError,
    DriverError,
    EnvBackend,
    EnvSpec,
    Metrics,
    Observation,
    ResetOutcome,
    RobotDescription,
    State,
    Step,
    Transition,
    generator,
)

from .arm import ArmGuide, NotReachedError, fixed
from .config import HomingConfig, ScriptConfig, WaypointConfig
from .paths import ArmPaths
from .practice import Element, PracticeReset
from .states import Event, PracticeState

Array = NDArray[np.float64]

HELD_DISTANCE = 0.04
"""Of the object from the end effector, up to which it may be in the gripper [m]."""
REST_SECONDS = 0.5
"""In which the arm comes to rest at home [s]."""
MAX_REFUSALS = 3
"""In a row, without a step between them: resets do not help against the last, and somebody has to come."""


class HomingReset(PracticeReset):
    """Brings an arm home after every episode, along a path that touches nothing, and puts the object back before.

    An attempt picks up the object and puts it down as the script has it, where that is due, then goes home: up,
    back if need be, and through joint space. Further attempts reach a little aside or, where the arm cannot, as near as
    it comes, go higher and draw another place.
    What is random follows from the seed and the numbers of reset and attempt alone.

    Args:
        config: of the behaviour.
        spec: of the backend.
        robot: of the backend.
        seed: of the run.
        ask: waits for a person who was told a text.

    Raises:
        ConfigError: if the robot is no arm, or the observation lacks the object.
    """

    def __init__(
        self,
        config: HomingConfig,
        spec: EnvSpec,
        robot: RobotDescription | None,
        seed: int,
        ask: Callable[[str], object] = input,
    ) -> None:
        super().__init__(spec)
        if robot is None:
            raise ConfigError(f"reset=homing needs an arm's kinematics, which task {spec.task!r} has not")
        home = robot.home if config.home is None else config.home
        if len(home) != len(robot.joints):
            raise ConfigError(f"reset.home must be {len(robot.joints)} joint positions, got {len(home)}")
        self._config = config
        self._seed = seed
        self._ask = ask
        self._paths = ArmPaths(robot, config.clearance)
        self._home = np.array(home)
        self._home_position, home_rotation = self._paths.pose(self._home)
        self._guide = ArmGuide(spec, robot, home_rotation, self._observed)
        self._script = config.scripts.get(spec.task)
        self._to_object = [] if self._script is None else [Element(spec, f"{self._script.object}_{a}") for a in "xyz"]
        self._resets = self._successes = self._refusals = self._refusals_in_a_row = 0

    def refuses(self, observation: Observation, action: NDArray[np.float32]) -> str:
        """The object is leaving the part of the workspace from which the arm can fetch it.

        Raises:
            DriverError: if neither the arm nor the backend's own reset has brought it back. The run may be resumed.
        """
        if self._script is None or not self._script.within:
            return ""
        self._guide.observation = observation
        low, high = np.array(self._script.within)
        x, y = place = self._object()[:2]
        if (low <= place).all() and (place <= high).all():
            return ""
        self._refusals += 1
        self._refusals_in_a_row += 1
        reason = f"the object is at ({x:.2f}, {y:.2f}) m: beyond that the arm cannot fetch it"
        if self._refusals_in_a_row >= MAX_REFUSALS:
            tried = MAX_REFUSALS - 1
            raise DriverError(f"{reason}, and {tried} resets in a row have not brought it back. A person has to")
        return reason

    def note(self, transition: Transition) -> None:
        super().note(transition)
        self._refusals_in_a_row = 0
        if transition.terminated or transition.truncated:
            self._happens(Event.EPISODE_ENDED)

    def run(self, backend: EnvBackend) -> ResetOutcome:
        self._backend, self._step = backend, self._begin(backend)
        if self._machine.state is not PracticeState.RECOVERY:  # an episode that was left open, or stopped
            self._happens(Event.EPISODE_ENDED)
        number, reason = self._resets, ""
        self._resets += 1
        for attempt in range(1, self._config.attempts + 1):
            self._attempts += 1
            try:
                self._attempt(generator(self._seed, "homing", number, attempt), attempt)
            except NotReachedError as failure:
                reason = str(failure)
                continue
            self._successes += 1
            self._happens(Event.RECOVERED)
            return ResetOutcome(self._step, attempt)
        given_up = self._gives_up(self._config.attempts, reason)
        return replace(given_up, step=self._helped(reason)) if self._config.ask else given_up

    def metrics(self) -> Metrics:
        rate = {"practice/reset_success_rate": self._successes / self._resets} if self._resets else {}
        return {
            "practice/resets": self._resets,
            "practice/reset_attempts": self._attempts,
            "practice/refused_actions": self._refusals,
            **rate,
            **super().metrics(),
        }

    def save(self) -> State:
        return super().save() | {"resets": np.array([self._resets, self._successes, self._refusals], np.int64)}

    def load(self, saved: State) -> None:
        super().load(saved)
        self._resets, self._successes, self._refusals = (int(count) for count in saved["resets"])

    def _helped(self, reason: str) -> Step:
        """Have a person put things right and begin the episode.

        Raises:
            DriverError: if there is nobody to ask. The robot stays parked, and the run may be resumed.
        """
        reason = f"{self._config.attempts} attempts to bring the arm and its object back failed: {reason}"
        self._backend.stop(reason)
        if self._ask is input and not sys.stdin.isatty():
            raise DriverError(f"{reason}. A person has to help, and reset.ask=true needs a terminal to say so in")
        self._ask(f"\n{reason}.\nPut things right, step clear of the robot and press Enter: ")
        return self._backend.reset()

    def _attempt(self, rng: np.random.Generator, attempt: int) -> None:
        """Put the object back if need be, go home and begin the episode.

        Raises:
            NotReachedError: if that did not come about.
        """
        config, guide, script = self._config, self._guide, self._script
        guide.observation = self._step.observation
        again = attempt > 1
        if script is not None and (script.every_time or not self._lies_well(script)):
            place = self._draw_place(script, rng)
            if not self._holds(script):
                aside = rng.uniform(-1, 1, 3) * config.perturbation * again
                self._play(script.grasp, aside, place, HELD_DISTANCE if again else 0.0)
            self._play(script.put, np.zeros(3), place)
        height = config.lift * (1 + again * rng.uniform())
        aside = np.append(rng.uniform(-1, 1, 2) * config.perturbation * again, 0.0)
        path = self._paths.home(guide.joints, self._home, height, aside)
        if path is None:
            raise NotReachedError("no way home was found that is clear")
        for posture in path[1:]:
            guide.go(fixed(self._paths.pose(posture)[0]), "open", 3 * config.tolerance, config.seconds)
        guide.go(fixed(self._home_position), "open", 2 * config.tolerance, config.seconds)
        for _ in range(round(REST_SECONDS * self._rate)):
            guide.step(self._home_position, "open")
        if script is not None and not self._lies_well(script):
            raise NotReachedError("the object does not lie where it should")
        self._step = self._backend.reset()
        if self._step.success:
            raise NotReachedError("the task is solved as it stands: it needs a script that undoes it")

    def _play(self, waypoints: list[WaypointConfig], aside: Array, place: Array, enough: float = 0.0) -> None:
        """Go through a part of the script; it reaches ``aside`` (3,) of the object and puts it at ``place`` (3,).

        An object near the end of the arm's reach is grasped from as near as it comes, if that is within ``enough`` [m].
        """
        guide = self._guide
        for waypoint in waypoints:
            offset, start = np.array(waypoint.offset), guide.position

            def target(at: str = waypoint.at, offset: Array = offset, start: Array = start) -> Array:
                to_object = guide.read(self._to_object)
                if at == "object":
                    return np.array(guide.position + to_object + offset + aside)
                if at == "here":
                    return np.array(start + offset)
                if float(np.linalg.norm(to_object)) > HELD_DISTANCE:
                    raise NotReachedError("the object is not in the gripper")
                return np.array(place - to_object + offset)

            guide.go(target, waypoint.gripper, self._config.tolerance, self._config.seconds, enough)
            guide.stay(waypoint.gripper, waypoint.seconds)

    def _object(self) -> Array:
        """Return where the object is (3,) in the base frame [m]."""
        return self._guide.position + self._guide.read(self._to_object)

    def _place(self, script: ScriptConfig) -> tuple[Array, Array]:
        """Return the nearest place (3,) and how far from it the object is (3,) [m]."""
        thing = self._object()
        places = np.array(script.places)
        nearest: Array = places[np.linalg.norm(places - thing, axis=1).argmin()]
        return nearest, thing - nearest

    def _draw_place(self, script: ScriptConfig, rng: np.random.Generator) -> Array:
        drawn: Array = self._place(script)[0] + np.append(rng.uniform(-1, 1, 2) * script.spread, 0.0)
        return drawn

    def _lies_well(self, script: ScriptConfig) -> bool:
        away = np.abs(self._place(script)[1])
        return bool((away <= np.append(script.spread, 0.0) + script.tolerance).all())

    def _holds(self, script: ScriptConfig) -> bool:
        """Whether the object is lifted, and between the fingers."""
        lifted = self._place(script)[1][2] > script.tolerance
        return bool(lifted and np.linalg.norm(self._guide.read(self._to_object)) <= HELD_DISTANCE)

    def _observed(self, action: NDArray[np.float32]) -> Observation:
        self._step = self._act(self._backend, self._step, action)
        return self._step.observation
