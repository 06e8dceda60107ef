"""Resets by the arm itself: it puts the object back and goes home. The operator is called only if it fails."""

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
    Observation,
    ResetOutcome,
    RobotDescription,
    State,
    Step,
    Transition,
    generator,
    saved_counts,
)

from .arm import ArmGuide, NotReachedError, fixed
from .config import HomingConfig
from .object_mover import ObjectMover
from .paths import ArmPaths
from .practice import ReturningReset
from .states import Event, PracticeState

Array = NDArray[np.float64]

REST_SECONDS = 0.5
"""Time for the arm to come to rest at home [s]."""
MAX_REFUSALS = 3
"""Refusals in a row, without a step between them, after which resets do not help and the operator has to act."""


class HomingReset(ReturningReset):
    """A reset controller that puts the object back and brings the arm home on a clear path after every episode.

    An attempt picks up the object and puts it down by the script, if necessary, and then goes home: up, back if
    necessary, and through joint space. Further attempts reach slightly beside the object, or as close to it as the arm
    can, go higher, and draw another place.
    All random numbers depend only on the seed and the numbers of the reset and the attempt.

    Args:
        config: configuration of the behaviour.
        spec: spec of the backend.
        robot: description of the robot.
        seed: seed of the run.
        ask: shows a text to the operator and waits for an answer.

    Raises:
        ConfigError: if the robot is not an arm, or the observation lacks the object.
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
            raise ConfigError(f"reset=homing needs the kinematics of an arm, which task {spec.task!r} does not have")
        home = robot.home if config.home is None else config.home
        if len(home) != len(robot.joints):
            raise ConfigError(f"reset.home must be {len(robot.joints)} joint positions, got {len(home)}")
        self._config = config
        self._seed = seed
        self._ask = ask
        self._paths = ArmPaths(robot, config.clearance)
        self._home = np.array(home)
        self._home_position, home_rotation = self._paths.pose(self._home)
        self._guide = ArmGuide(spec, robot, home_rotation, self._execute)
        script = config.scripts.get(spec.task)
        self._mover = None if script is None else ObjectMover(script, spec, self._guide, config)
        self._refusals_in_a_row = 0

    def refuses(self, observation: Observation, action: NDArray[np.float32]) -> str:
        """Return a reason if the object leaves the area from which the arm can fetch it; otherwise an empty string.

        Raises:
            DriverError: if neither the arm nor the backend's own reset has brought it back. The run may be resumed.
        """
        self._guide.observation = observation
        if self._mover is None or self._mover.can_fetch():
            return ""
        self._refusals += 1
        self._refusals_in_a_row += 1
        x, y, _ = self._mover.position
        reason = f"the object is at ({x:.2f}, {y:.2f}) m: beyond that the arm cannot fetch it"
        if self._refusals_in_a_row >= MAX_REFUSALS:
            resets = MAX_REFUSALS - 1
            raise DriverError(f"{reason}, and {resets} resets in a row have not brought it back. A person has to")
        return reason

    def note(self, transition: Transition) -> None:
        super().note(transition)
        self._refusals_in_a_row = 0

    def run(self, backend: EnvBackend) -> ResetOutcome:
        self._backend, self._step = backend, self._begin(backend)
        if self._machine.current is not PracticeState.RECOVERY:  # the episode was stopped or not ended
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
        outcome = self._gives_up(self._config.attempts, reason)
        return replace(outcome, step=self._ask_for_help(reason)) if self._config.ask else outcome

    def state(self) -> State:
        return super().state() | {"resets": np.array([self._resets, self._successes, self._refusals], np.int64)}

    def load(self, state: State) -> None:
        super().load(state)
        self._resets, self._successes, self._refusals = saved_counts(state["resets"], 3)

    def _ask_for_help(self, reason: str) -> Step:
        """Have the operator correct the scene, then begin the episode.

        Raises:
            DriverError: if no operator can be asked. The robot stays parked, and the run may be resumed.
        """
        reason = f"{self._config.attempts} attempts to bring the arm and its object back failed: {reason}"
        self._backend.stop(reason)
        if self._ask is input and not sys.stdin.isatty():
            raise DriverError(f"{reason}. A person has to help, and reset.ask=true needs a terminal to say so in")
        self._ask(f"\n{reason}.\nPut things right, step clear of the robot and press Enter: ")
        return self._backend.reset()

    def _attempt(self, rng: np.random.Generator, attempt: int) -> None:
        """Put the object back if necessary, go home and begin the episode.

        Raises:
            NotReachedError: if any of this fails.
        """
        config, guide, mover = self._config, self._guide, self._mover
        guide.observation = self._step.observation
        is_retry = attempt > 1
        if mover is not None:
            mover.put_back(rng, is_retry)
        height = config.lift * (1 + is_retry * rng.uniform())
        shift = np.append(rng.uniform(-1, 1, 2) * config.perturbation * is_retry, 0.0)
        path = self._paths.home(guide.joints, self._home, height, shift)
        if path is None:
            raise NotReachedError("no way home was found that is clear")
        for posture in path[1:]:
            guide.go(fixed(self._paths.pose(posture)[0]), "open", 3 * config.tolerance, config.seconds)
        guide.go(fixed(self._home_position), "open", 2 * config.tolerance, config.seconds)
        for _ in range(round(REST_SECONDS * self._rate)):
            guide.step(self._home_position, "open")
        if mover is not None and not mover.is_in_place():
            raise NotReachedError("the object does not lie where it should")
        self._step = self._backend.reset()
        if self._step.success:
            raise NotReachedError("the task is solved as it stands: it needs a script that undoes it")

    def _execute(self, action: NDArray[np.float32]) -> Observation:
        self._step = self._act(self._backend, self._step, action)
        return self._step.observation
