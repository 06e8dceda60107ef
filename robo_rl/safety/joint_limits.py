"""Joint position, velocity, acceleration and jerk limits, with the way that braking takes.

A motion is admissible if its acceleration and jerk are within limits and if, after it, the strongest braking that these
allow keeps velocity and position within theirs. Braking is admissible itself then, so from one step to the next there
is a way to stay inside and no joint has to exceed its limits. (Where acceleration builds up slowly, the way out of one
limit could lead into another; the limits of robots are far from that: acceleration^2 / (2 jerk) is a small part of the
velocity limit. If it happened, position would go before jerk.)
"""

import math
from collections.abc import Callable, Mapping
from operator import truediv

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import PASSED, Observation, Verdict

from .motion import Action, ActionMap, ArmReader

Array = NDArray[np.float64]

CANDIDATES = 16
"""Motions that are tried between the one proposed and the one that slows down most."""
SLACK = 1e-6
"""Share of a limit by which rounding may exceed it: actions are float32."""


class JointLimiter:
    """Limits of n joints that are commanded once in a period.

    What every action goes through reckons with plain numbers: of seven joints that is several times faster than arrays.

    Args:
        lower: position limits (n,) [rad].
        upper: position limits (n,) [rad].
        velocity: limits (n,) [rad/s].
        acceleration: limits (n,) [rad/s^2].
        jerk: limits (n,) [rad/s^3].
        period: between two commands [s].
    """

    def __init__(
        self, lower: Array, upper: Array, velocity: Array, acceleration: Array, jerk: Array, period: float
    ) -> None:
        self.lower, self.upper = lower, upper
        self.velocity, self.acceleration, self.jerk = velocity, acceleration, jerk
        self.period = period
        self._braking_step: list[float] = (acceleration * period).tolist()
        # After so many periods of braking every joint has come to rest, also from full acceleration.
        until_braking = acceleration / (jerk * period)
        steps = (velocity / (acceleration * period)) + 2 * until_braking + 2
        self._easing = jerk * period * np.arange(1, math.ceil(float(steps.max())) + 1).reshape(-1, 1, 1, 1)
        # For a quick look: while full acceleration turns into full braking, which takes so many periods, a joint gains
        # at most this speed.
        turning = np.ceil(2 * until_braking)
        gaining = np.floor(until_braking)
        gain = period * (acceleration * gaining - jerk * period * gaining * (gaining + 1) / 2)
        coasting, braking = period * (turning + 2), 1 / (2 * acceleration)
        of_each = lower, upper, velocity, acceleration, jerk * period, gain, coasting, braking
        self._of_each = list(zip(*(limits.tolist() for limits in of_each), strict=True))

    def velocity_range(self, velocity: Array, acceleration: Array) -> tuple[Array, Array]:
        """Return the lowest and highest next velocity (n,) that acceleration and jerk limits allow.

        Args:
            velocity: of the last period (n,) [rad/s].
            acceleration: from the period before to the last (n,) [rad/s^2].
        """
        change = self.jerk * self.period
        low = np.maximum(acceleration - change, -self.acceleration)
        high = np.minimum(acceleration + change, self.acceleration)
        low = np.minimum(low, self.acceleration)  # an acceleration beyond its limit (another limit now) comes back
        high = np.maximum(high, -self.acceleration)
        return velocity + low * self.period, velocity + high * self.period

    def stays_inside(self, position: Array, velocity: Array, candidates: Array) -> NDArray[np.bool_]:
        """Return (c, n): whether a candidate velocity, and braking after it, is within velocity and position limits.

        Args:
            position: measured joint positions (n,) [rad].
            velocity: of the last period (n,) [rad/s].
            candidates: velocities (c, n) of the next period [rad/s].
        """
        # Both limits at once, on a first axis of 2: room above and the velocity towards it; room below, mirrored.
        towards = np.stack([candidates, -candidates])
        acceleration = (towards - np.stack([velocity, -velocity])[:, None]) / self.period
        room = np.maximum(np.stack([self.upper - position, position - self.lower]), 0.0)[:, None]
        braking = np.maximum(acceleration - self._easing, -self.acceleration)  # (steps, 2, c, n)
        speed = towards + np.cumsum(braking, axis=0) * self.period
        way = (towards + np.cumsum(speed, axis=0)) * self.period
        farthest = np.maximum(way.max(axis=0), towards * self.period)
        fastest = np.maximum(speed.max(axis=0), towards)
        inside: NDArray[np.bool_] = np.all(
            (farthest <= room * (1 + SLACK) + 1e-9) & (fastest <= self.velocity * (1 + SLACK)), axis=0
        )
        return inside

    def sure_limit(self, position: Array, velocity: Array, acceleration: Array, wanted: Array) -> list[float] | None:
        """Return what :meth:`limit` does where a quick look is enough; None where it takes a longer one.

        It is enough where the velocity nearest to ``wanted`` (n,) that acceleration and jerk allow leaves every joint
        well inside. From that speed, and what it gains until full braking is there, a joint coasts, then brakes: a
        bound of the way that :meth:`stays_inside` follows step by step.
        """
        of_all = position.tolist(), velocity.tolist(), acceleration.tolist(), wanted.tolist()
        if not math.isfinite(sum(map(sum, of_all))):
            return None
        nearest = []
        for limits, here, before, accelerating, after in zip(self._of_each, *of_all, strict=True):
            lower, upper, fastest, strongest, jolt, gain, coasting, braking = limits
            change = (after - before) / self.period
            if abs(change) > strongest or abs(change - accelerating) > jolt:
                low = min(max(accelerating - jolt, -strongest), strongest)
                high = max(min(accelerating + jolt, strongest), -strongest)
                after = min(max(before + low * self.period, after), before + high * self.period)
            rising = gain + (after if after > 0 else 0.0)
            falling = gain - (after if after < 0 else 0.0)
            if (
                rising > fastest
                or falling > fastest
                or here + rising * (coasting + rising * braking) > upper
                or here - falling * (coasting + falling * braking) < lower
            ):
                return None
            nearest.append(after)
        return nearest

    def braking_path(self, position: Array, velocity: Array) -> Array:
        """Return postures (m, n): after a period at ``velocity``, and of braking to rest after it.

        Args:
            position: joint positions (n,) [rad].
            velocity: of the next period (n,) [rad/s].
        """
        speeds = velocity.tolist()
        steps = math.ceil(max(map(truediv, map(abs, speeds), self._braking_step)) - 1e-9)
        if steps <= 1:
            return (position + velocity * self.period)[None]
        path, posture = [], position.tolist()
        for _ in range(steps):
            posture = [here + speed * self.period for here, speed in zip(posture, speeds, strict=True)]
            path.append(posture)
            speeds = [
                speed - step if speed > step else speed + step if speed < -step else 0.0
                for speed, step in zip(speeds, self._braking_step, strict=True)
            ]
        return np.array(path)

    def limit(self, position: Array, velocity: Array, acceleration: Array, wanted: Array) -> Array:
        """Return the velocity (n,) nearest to ``wanted`` for which every limit holds, joint by joint.

        Nearest to one part in 256 of what acceleration allows; ``wanted`` itself where it is well within.

        Args:
            position: measured joint positions (n,) [rad].
            velocity: of the last period (n,) [rad/s].
            acceleration: from the period before to the last (n,) [rad/s^2].
            wanted: velocity of the next period (n,) [rad/s].
        """
        sure = self.sure_limit(position, velocity, acceleration, wanted)
        if sure is not None:
            return wanted if sure == wanted.tolist() else np.array(sure)
        low, high = self.velocity_range(velocity, acceleration)
        nearest = np.minimum(np.maximum(wanted, low), high)
        if self.stays_inside(position, velocity, nearest[None]).all():
            return nearest
        # From the nearest to the one that brakes most, away from the limit that is near; then once more, finer.
        slowest = np.where(nearest > 0, low, high)
        share = np.linspace(0.0, 1.0, CANDIDATES)[:, None]
        joints = np.arange(len(nearest))
        for _ in range(2):
            candidates = nearest + share * (slowest - nearest)
            inside = self.stays_inside(position, velocity, candidates)
            inside[-1] = True
            first = inside.argmax(axis=0)
            nearest, slowest = candidates[np.maximum(first - 1, 0), joints], candidates[first, joints]
        return slowest


class JointLimits:
    """Holds joint limits on what actions ask for, and keeps the way that braking takes clear.

    Joint actions are limited joint by joint. An end-effector action is one motion of all joints: it is scaled down
    until every joint is within its limits, between standing still as fast as the limits allow and the action itself.
    It comes last in a chain: what it returns is what the next motion is compared with.

    Args:
        limiter: the limits.
        actions: what actions mean.
        reader: of the observation.
        ways: whether the arm may go from joint positions (n,) through postures (m, n), by reason for the verdict. A
            motion after which braking would not be allowed is not begun; the arm brakes then, which was a step ago.
    """

    def __init__(
        self,
        limiter: JointLimiter,
        actions: ActionMap,
        reader: ArmReader,
        ways: Mapping[str, Callable[[Array, Array], bool]],
    ) -> None:
        self._ways = ways
        self._limiter = limiter
        self._slack = SLACK * limiter.velocity
        self._actions = actions
        self._reader = reader
        self.reset()

    def reset(self) -> None:
        """Begin at rest."""
        n = len(self._limiter.velocity)
        self._velocity, self._acceleration = np.zeros(n), np.zeros(n)
        self._elements = np.zeros(0)

    def __call__(self, observation: Observation, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return ``action`` within joint limits."""
        limiter, position = self._limiter, self._reader.joint_positions(observation)
        wanted = self._actions.motion(observation, action).joints / limiter.period
        changed = action
        if self._actions.moves_joints:
            allowed = limiter.limit(position, self._velocity, self._acceleration, wanted)
            if allowed is not wanted and not (np.abs(allowed - wanted) <= self._slack).all():
                changed = self._actions.with_joints(observation, action, allowed * limiter.period)
        elif not self._admits(position, wanted):
            changed = self._faded(observation, action, position)
        if changed is not action:
            wanted = self._actions.motion(observation, changed).joints / limiter.period
        reasons = () if changed is action else ("joint_limits",)
        if not math.isfinite(
            sum(position.tolist()) + sum(wanted.tolist())
        ):  # no action: the chain holds still, and stops
            return np.full_like(action, np.nan), Verdict(changed=True, reasons=("joint_limits",))
        closed = self._closed(position, wanted)
        if closed is not None:
            changed, reasons = self._slower(observation, changed, position), (*reasons, closed)
            wanted = self._actions.motion(observation, changed).joints / limiter.period
        self._acceleration = (wanted - self._velocity) / limiter.period
        self._velocity = wanted
        self._elements = changed[self._actions.moves].astype(np.float64)
        return changed, Verdict(changed=True, reasons=reasons) if reasons else PASSED

    def _closed(self, position: Array, wanted: Array) -> str | None:
        """Return why the arm may not go on at ``wanted`` (n,) for a period and brake then; None: it may."""
        if not self._ways:
            return None
        path = self._limiter.braking_path(position, wanted)
        return next((reason for reason, is_open in self._ways.items() if not is_open(position, path)), None)

    def _slower(self, observation: Observation, action: Action, position: Array) -> Action:
        """Return what an action becomes after which braking would not be allowed.

        An end-effector action becomes the largest share of itself, mixed with braking, for which that is not so: what
        is pressed against a wall comes to the wall, and slides along it. Else the arm brakes.
        """
        if not self._actions.moves_joints:
            proposed = action[self._actions.moves].astype(np.float64)
            rest = self._rest(proposed)
            for share in np.linspace(0.0, 1.0, CANDIDATES)[1:-1]:
                option = self._actions.with_elements(action, proposed + share * (rest - proposed))
                wanted = self._actions.motion(observation, option).joints / self._limiter.period
                if self._closed(position, wanted) is None and self._admits(position, wanted):
                    return option
        return self._braking(observation, action)

    def _braking(self, observation: Observation, action: Action) -> Action:
        """Return the action that slows down as fast as the limits allow, with the gripper as ``action`` has it."""
        if not self._actions.moves_joints:
            return self._actions.with_elements(action, self._rest(action[self._actions.moves].astype(np.float64)))
        low, high = self._limiter.velocity_range(self._velocity, self._acceleration)
        return self._actions.with_joints(observation, action, np.clip(0.0, low, high) * self._limiter.period)

    def _rest(self, proposed: Array) -> Array:
        """Return what is left of the last action when all joints slow down as fast as their limits allow."""
        last = self._elements if self._elements.size else np.zeros_like(proposed)
        low, high = self._limiter.velocity_range(self._velocity, self._acceleration)
        slowest = np.where(self._velocity > 0, np.maximum(low, 0), np.minimum(high, 0))
        moving = np.abs(self._velocity) > 1e-9
        fade = float((slowest[moving] / self._velocity[moving]).max()) if moving.any() else 0.0
        return min(max(fade, 0.0), 1.0) * last

    def _admits(self, position: Array, wanted: Array) -> bool:
        limiter = self._limiter
        if limiter.sure_limit(position, self._velocity, self._acceleration, wanted) == wanted.tolist():
            return True
        low, high = limiter.velocity_range(self._velocity, self._acceleration)
        return bool(
            (wanted >= low - self._slack).all()
            and (wanted <= high + self._slack).all()
            and limiter.stays_inside(position, self._velocity, wanted[None]).all()
        )

    def _faded(self, observation: Observation, action: Action, position: Array) -> Action:
        """Return the largest share of ``action`` that is admissible, mixed with the last action as it must fade."""
        limiter = self._limiter
        proposed = action[self._actions.moves].astype(np.float64)
        rest = self._rest(proposed)
        low, high = limiter.velocity_range(self._velocity, self._acceleration)
        share = np.linspace(0.0, 1.0, CANDIDATES)[:, None]
        elements = proposed + share * (rest - proposed)
        options = [self._actions.with_elements(action, row) for row in elements]
        wanted = np.stack([self._actions.motion(observation, option).joints for option in options]) / limiter.period
        inside = limiter.stays_inside(position, self._velocity, wanted)
        inside &= (wanted >= low - self._slack) & (wanted <= high + self._slack)
        inside[-1] = True
        return options[int(np.all(inside, axis=1).argmax())]
