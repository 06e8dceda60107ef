"""Control barrier functions that keep the robot clear of itself and of keep-out volumes."""

import math
from bisect import bisect_left
from typing import Any, NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import PASSED, ConfigError, Observation, RobotDescription, Verdict, nearest

from .actions import ActionMap
from .distance import geom_distance
from .kinematics import Kinematics
from .levers import joint_levers, shift_shares
from .motion import Action, ArmReader
from .quadratic import nearest_point

Array = NDArray[np.float64]

JOINTS_APART = 3
"""Links with fewer joints between them touch or overlap by construction and are not watched."""
FAR = 2.0
"""Largest distance that is measured [m]; a larger one is only known to be larger."""


class Clearance(NamedTuple):
    """The clearance of one pair of geoms that are near each other.

    Attributes:
        distance: distance between the surfaces [m]; negative if they overlap.
        gradient: derivative of the distance by joint positions (n,) [m/rad].
    """

    distance: float
    gradient: Array


class Clearances:
    """Distances between the arm's links, and between them and keep-out volumes, from MuJoCo's geometry.

    A distance is only computed where it matters. Between two measurements it changes by no more than the joints' motion
    times their levers (:func:`joint_levers`), so most pairs are known to be far apart.

    Args:
        robot: robot whose model has the collision geoms of the arm (geoms that can touch something).
        kinematics: kinematics of the robot.
        keep_out: names of geoms of the model that the arm keeps away from.
        reach: distances are measured up to this [m].

    Attributes:
        model: model of the robot.
        reach: as above.
        joints: joint positions (n,) of the last query [rad].
        arrays: the pairs and their distances, as in ``native/distances.h``. The code in C++ reads all of these arrays
            and writes to ``bounds``, ``joints``, ``measured`` and ``points``, so none of them is ever replaced.

    Raises:
        ConfigError: if the model has no such geom.
    """

    def __init__(
        self, robot: RobotDescription, kinematics: Kinematics, keep_out: tuple[str, ...], reach: float
    ) -> None:
        self._data, self._kinematics = kinematics.data, kinematics
        self.reach = reach
        model = self.model = robot.model
        depth = self._depths(robot)
        arm = [
            geom
            for geom in range(model.ngeom)
            if model.geom_bodyid[geom] in depth and (model.geom_contype[geom] or model.geom_conaffinity[geom])
        ]
        level = {geom: depth[model.geom_bodyid[geom]] for geom in arm}
        pairs = [(a, b) for a in arm for b in arm if level[b] - level[a] >= JOINTS_APART]
        names = [model.geom(geom).name for geom in range(model.ngeom)]
        for name in keep_out:
            if name not in names:
                raise ConfigError(
                    f"safety.barrier.keep_out: the robot's model has no geom {name!r}: "
                    f"{nearest(name, [name for name in names if name])}"
                )
            pairs += [(names.index(name), geom) for geom in arm if level[geom] >= 2]  # what stands on it is not moved
        self._pairs = pairs
        self._bodies = model.geom_bodyid.tolist()
        self._rests = (model.body_weldid[model.geom_bodyid] == 0).tolist()
        self._elsewhere = np.empty(6)
        self._jacobian = np.empty((3, model.nv))
        self._levers = joint_levers(robot, pairs)  # largest change of each distance by a unit of each joint
        self._shares = shift_shares(robot, pairs)
        self._bounds = np.full(len(pairs), -np.inf)  # lower bounds of the distances at ``joints``
        self._measured = np.zeros(len(pairs), bool)  # whether the bounds are the distances themselves
        self._points = np.empty((len(pairs), 6))  # the nearest points of each pair at its last measurement
        self.joints = np.zeros(len(robot.joints))
        geoms = np.array(pairs, np.int32).reshape(-1, 2)
        bodies = model.geom_bodyid[geoms]
        joints = [model.joint(name) for name in robot.joints]
        self.arrays: dict[str, NDArray[Any]] = {
            "geoms": geoms,
            "bodies": np.where(model.body_weldid[bodies] == 0, -1, bodies).astype(np.int32),
            "places": np.array([joint.qposadr[0] for joint in joints], np.int32),
            "columns": np.array([joint.dofadr[0] for joint in joints], np.int32),
            "levers": self._levers,
            "bounds": self._bounds,
            "measured": self._measured,
            "points": self._points,
            "joints": self.joints,
        }

    def _depths(self, robot: RobotDescription) -> dict[int, int]:
        """Return the number of joints between the base and each body of the arm."""
        model = robot.model
        joints = [int(model.joint(name).bodyid[0]) for name in robot.joints]
        base = int(model.body_parentid[joints[0]])
        depth = {base: 0} if base > 0 else {}
        for body in range(base + 1, model.nbody):
            parent = int(model.body_parentid[body])
            if parent in depth or body == joints[0]:
                depth[body] = depth.get(parent, 0) + (body in joints)
        return depth

    def keeps(self, margin: float, joints: Array, path: Array, travel: Array) -> bool:
        """Return whether every pair keeps ``margin`` [m] along ``path`` (m, n).

        A pair that is nearer at ``joints`` (n,) has to keep that distance instead, unless the path is empty. ``travel``
        (n,) is how far the joints move along the path [rad].
        """
        bounds, loss = self._bounds_at(joints), self._levers.dot(travel)
        doubtful = bounds - loss < margin
        if not np.count_nonzero(doubtful):  # takes a quarter of the time of doubtful.any()
            return True
        self._measure(doubtful, joints)
        near = (doubtful & (bounds - loss < margin)).nonzero()[0].tolist()
        if not near or not len(path):
            return not near
        last, left = path[-1], []  # plain numbers are faster than arrays for the few pairs that are near
        for pair in near:
            start, end = float(bounds[pair]), self._distance(pair, last, self._elsewhere)
            allowed = min(margin - 1e-6, start) - 1e-9
            if end < allowed:
                return False
            # No distance in between is less than half of start + end - loss. Depths of overlap are not exact.
            if (start + end - float(loss[pair])) / 2 < allowed or min(start, end) <= 0:
                left.append((pair, allowed, start, end))
        if not left:
            return True
        postures = np.concatenate([joints[None], path])
        losses = np.zeros((len(left), len(postures)))
        moved = np.abs(postures[1:] - postures[:-1])
        (self._levers[[pair for pair, *_ in left]] @ moved.T).cumsum(axis=1, out=losses[:, 1:])
        return all(self._keeps(*way, changes, postures) for way, changes in zip(left, losses.tolist(), strict=True))

    def _keeps(self, pair: int, allowed: float, start: float, end: float, losses: list[float], postures: Array) -> bool:
        """Return whether the distance of a pair stays ``allowed`` [m] in ``postures`` (m, n).

        It is ``start`` in the first posture and ``end`` in the last [m]. From the first posture to another, it changes
        by at most the other's element of ``losses`` (m,), and between any two postures by at most the difference of
        their elements. The distance is measured where it may be smallest, until it cannot be too small anywhere
        (Piyavskii 1972, Shubert 1972). These bounds do not hold where geoms overlap: there, every posture is measured.
        """
        spans = [(0, len(losses) - 1, start, end)]
        while spans:
            first, last, before, after = spans.pop()
            enough = min(before, after) > 0 and (before + after - losses[last] + losses[first]) / 2 >= allowed
            if enough or last - first < 2:
                continue
            lowest = (before - after + losses[first] + losses[last]) / 2
            middle = bisect_left(losses, lowest, first + 1, last - 1)
            distance = self._distance(pair, postures[middle], self._elsewhere)
            if distance < allowed:
                return False
            spans += [(first, middle, before, distance), (middle, last, distance, after)]
        return True

    def needed(self, motion: Array, margin: float, share: float) -> Array:
        """Return the distances (pairs,) [m] of which ``motion`` (n,) takes at most ``share`` above ``margin``."""
        distances: Array = self._levers.dot(np.abs(motion))
        distances /= share
        distances += margin
        return distances

    def enough(self, largest: Array, shift: float, rounding: Array, margin: float, share: float) -> Array:
        """Return the distances (pairs,) [m] of which a motion takes at most ``share`` above ``margin``.

        Args:
            largest: largest joint motion (n,) [rad].
            shift: largest displacement of the end effector, as the length of its six elements [m, rad].
            rounding: joint motion (n,) that rounding may add to that displacement [rad].
            margin: smallest clearance [m].
            share: share of the clearance above the margin, in (0, 1].
        """
        losses = np.minimum(self._levers.dot(largest), self._shares * shift + self._levers.dot(rounding))
        return np.asarray(losses / share + margin)

    def exceed(self, joints: Array, needed: Array, measure: bool) -> bool:
        """Return whether all distances at ``joints`` (n,) exceed ``needed`` (pairs,) [m].

        Distances of which that is not certain are measured if ``measure``; otherwise the result is False.
        """
        bounds = self._bounds_at(joints)
        doubtful = bounds <= needed
        if not np.count_nonzero(doubtful):
            return True
        if not measure:
            return False
        self._measure(doubtful, joints)
        return not np.count_nonzero(bounds <= needed)

    def near(self, joints: Array, motion: Array, margin: float, share: float) -> list[Clearance]:
        """Return the clearances that a ``motion`` (n,) from ``joints`` (n,) may use up.

        These are the clearances of the pairs of which the motion may take more than ``share`` of what they have above
        ``margin`` [m], and of all pairs that are nearer to each other than those.
        """
        bounds, needed = self._bounds_at(joints), self.needed(motion, margin, share)
        doubtful = bounds < needed
        if not np.count_nonzero(doubtful):
            return []
        self._measure(doubtful, joints)
        if not np.count_nonzero(bounds < needed):
            return []
        chosen = bounds < needed.max()
        self._measure(chosen, joints)
        self._kinematics.place(joints)
        mujoco.mj_comPos(self.model, self._data)  # Jacobians need it
        near = (chosen & (bounds < self.reach)).nonzero()[0].tolist()
        return [Clearance(float(bounds[pair]), self._gradient(pair, float(bounds[pair]))) for pair in near]

    def smallest(self, joints: Array) -> float:
        """Return the smallest distance of all pairs [m], at most ``reach``."""
        bounds = self._bounds_at(joints)
        self._measure(bounds < self.reach, joints)
        return min(float(bounds.min(initial=np.inf)), self.reach)

    def _bounds_at(self, joints: Array) -> Array:
        """Return lower bounds of all distances at ``joints`` (n,) [m]. Measurements raise them in place."""
        if joints.tobytes() != self.joints.tobytes():
            self._bounds -= self._levers.dot(np.abs(joints - self.joints))
            self.joints[:] = joints
            self._measured.fill(False)
        return self._bounds

    def _measure(self, chosen: NDArray[np.bool_], joints: Array) -> None:
        """Raise the bounds of the ``chosen`` (pairs,) pairs to their distances at ``joints`` (n,)."""
        missing = chosen & ~self._measured
        if np.count_nonzero(missing):
            for pair in missing.nonzero()[0].tolist():
                self._bounds[pair] = self._distance(pair, joints, self._points[pair])
            self._measured |= missing

    def _distance(self, pair: int, joints: Array, points: Array) -> float:
        """Return the distance of a pair [m], at most :data:`FAR`, and write the nearest points to ``points`` (6,)."""
        self._kinematics.place(joints)
        first, second = self._pairs[pair]
        return geom_distance(self.model, self._data, first, second, FAR, points)

    def _gradient(self, pair: int, distance: float) -> Array:
        """Return the gradient of the ``distance`` of a pair, at the joint positions of its last measurement."""
        model, data, geoms = self.model, self._data, self._pairs[pair]
        first_point, second_point = self._points[pair, :3], self._points[pair, 3:]
        apart = second_point - first_point
        length = math.hypot(*apart.tolist())
        if length < 1e-9:  # they just touch: the line between their centres is the best known direction
            apart, distance = data.geom_xpos[geoms[1]] - data.geom_xpos[geoms[0]], 1.0
            length = math.hypot(*apart.tolist()) or 1.0
        normal = apart * math.copysign(1.0 / length, distance)
        change = np.zeros(model.nv)
        for direction, point, geom in ((-normal, first_point, geoms[0]), (normal, second_point, geoms[1])):
            if not self._rests[geom]:
                mujoco.mj_jac(model, data, self._jacobian, None, point, self._bodies[geom])
                change += direction.dot(self._jacobian)
        return change[self._kinematics.dofs]


NEAR = Verdict(changed=True, reasons=("barrier",))


class BarrierFilter:
    """Keeps every clearance above a margin, changing the action as little as possible.

    The barrier is in discrete time (Agrawal and Sreenath 2017): in one step a clearance may lose at most the share
    ``approach`` of what it has above the margin. That is linear in the action, and the nearest action is the solution
    of a quadratic programme. Clearances are not quite linear, and joints cannot stop at once:
    :class:`~.joint_limits.JointLimits` comes after this filter and checks the path itself, including that of braking.

    Args:
        margin: smallest clearance [m].
        approach: share of the clearance above the margin that one step may take, in (0, 1].
        clearances: clearances of the robot.
        actions: map between actions and motion.
        reader: reads the arm's part of observations.
        largest: largest joint motion (n,) that a filter after this one lets through [rad]; None if there is no such
            filter.
        shift: largest displacement of the end effector that a filter before this one lets through, as the length of its
            six elements [m, rad]; infinite if there is no such filter.

    Attributes:
        margin: as above.
        approach: as above.
        clearances: as above.
        enough: clearances (pairs,) with which no action has to be looked at [m]; None if there are none.
        measures: whether distances whose bounds are smaller are measured.
    """

    def __init__(
        self,
        margin: float,
        approach: float,
        clearances: Clearances,
        actions: ActionMap,
        reader: ArmReader,
        largest: Array | None,
        shift: float = math.inf,
    ) -> None:
        self.margin, self.approach = margin, approach
        self.clearances = clearances
        self._actions = actions
        self._reader = reader
        self.enough: Array | None = None
        self.measures = False
        if largest is not None:
            rounding = 2 * actions.resolution  # of actions that two filters before this one scale
            self.enough = clearances.enough(largest, shift, rounding, margin, approach)
            # Distances beyond FAR are never known, so measuring would never suffice.
            self.measures = math.isfinite(shift) and bool((self.enough < FAR).all())

    def reset(self) -> None:
        """Do nothing: there is no state to reset."""

    def is_clear(self, joints: Array) -> bool:
        """Return whether all clearances at ``joints`` (n,) certainly are so large that no action has to be changed."""
        return self.enough is not None and self.clearances.exceed(joints, self.enough, self.measures)

    def __call__(self, observation: Observation, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return the nearest action that keeps the clearances."""
        joints = self._reader.joint_positions(observation)
        # Values that are not finite are left to a filter after this one, which rejects them.
        if not math.isfinite(sum(joints.tolist())):
            return action, PASSED
        if self.is_clear(joints):
            return action, PASSED
        motion = self._actions.motion(observation, action).joints
        if not math.isfinite(sum(motion.tolist())):
            return action, PASSED
        near = self.clearances.near(joints, motion, self.margin, self.approach)
        if not near:
            return action, PASSED
        # A pair that is closer than the margin already must not come closer still.
        least = [-self.approach * max(clearance.distance - self.margin, 0.0) for clearance in near]
        changes = [float(clearance.gradient.dot(motion)) for clearance in near]
        if all(change >= bound - 1e-6 for change, bound in zip(changes, least, strict=True)):
            return action, PASSED
        matrix, offset = self._actions.linear(observation, action)
        gradients = np.array([clearance.gradient for clearance in near])
        wanted = action[self._actions.moves].astype(np.float64)
        ones = np.ones(len(wanted))
        point = nearest_point(wanted, gradients @ matrix, least - gradients @ offset, -ones, ones)
        if point is None:
            changed = self._actions.hold(observation, action)
        else:
            changed = self._actions.with_elements(action, point.tolist())
        return changed, NEAR
