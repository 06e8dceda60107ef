"""The physics of a simulated arm and its controller in the scene of a task."""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from robo_rl.core import State, generator

from . import native
from .arm import compiled, load_arm
from .calibrated_cameras import add_cameras, read_cameras, set_cameras
from .config import RandomisationConfig, TaskConfig
from .controller import AXIS_NAMES, Controller, EndEffectorController, logarithm
from .episode import Actions, Initialise, Simulation
from .joint_controller import JointController
from .names import rename_clashes, scene_names
from .native import NativeServo
from .observation import NOISE, ArmState, flatten
from .randomisation import ModelRandomiser
from .scene import add_keep_out, make_scene
from .world import restore_world, save_world

Array = NDArray[np.float64]


class ArmSimulation(Simulation):
    """An arm under its controller, among the objects of a task.

    Args:
        config: configuration of the task.
        build: function that adds the objects of the task to a scene.

    Attributes:
        arm: reader of the arm's state.
        controller: converts actions into torques.
        servo: runs control periods in C++; None if they run in Python.
        delay_ticks: number of controller ticks by which commands are delayed.
        late_ticks: the same of actions in this episode, with its latency.
    """

    config: TaskConfig
    remedy = "Softer controller.stiffness, more controller.damping or a higher controller.rate"

    def __init__(self, config: TaskConfig, build: Callable[[mujoco.MjSpec], None]) -> None:
        self.config = config

        def furnished(scene: mujoco.MjSpec) -> mujoco.MjSpec:
            build(scene)
            for number, box in enumerate(config.keep_out_boxes, start=1):
                add_keep_out(scene, f"keep_out{number}", box)
            return scene

        arm, timestep = load_arm(config.arm), 1.0 / config.controller.rate
        rename_clashes(arm, scene_names(furnished(make_scene(mujoco.MjSpec(), timestep))), config.arm)
        scene, cameras = furnished(make_scene(arm, timestep)), read_cameras(config.arm)
        add_cameras(scene, cameras)
        self.model: Any = compiled(scene, config.arm)
        set_cameras(self.model, cameras, config.arm.end_effector)
        self.data: Any = mujoco.MjData(self.model)
        self.arm = ArmState(self.model, config.arm)
        self.state_names = self.arm.names
        kind = EndEffectorController if config.controller.action_space == "end_effector_delta" else JointController
        self.controller: Controller = kind(self.model, config.arm, config.controller)
        self.servo: NativeServo | None = None
        if isinstance(self.controller, EndEffectorController) and native.available()[0]:
            self.servo = NativeServo(self.controller, self.model, self.data, self.arm.wrench_addresses)
        self.actions = _describe(self.controller, config)
        self.delay_ticks = self.late_ticks = round(config.arm.dynamics.delay * config.controller.rate)
        self._now = 0  # number of ticks so far
        # Commands on their way: when they arrive [ticks], and whether they move the arm.
        self._pending: deque[tuple[int, bool, Callable[[], None]]] = deque()
        self._randomiser = ModelRandomiser(self.model, config.arm, config.randomisation)
        self._noise = generator(0)
        self._home = np.array(config.arm.home)
        self._joints = np.array([self.model.joint(name).qposadr[0] for name in config.arm.joints])
        fingers = [self.model.joint(name) for name in config.arm.gripper_joints if config.arm.gripper_actuator]
        self._fingers = np.array([joint.qposadr[0] for joint in fingers], dtype=int)
        opening = config.arm.home_opening
        self._finger_home = self.arm.finger_strokes @ np.array([1 - opening, opening])

    def place(self, initialise: Initialise, rng: np.random.Generator, noise: np.random.Generator) -> None:
        """Draw the randomisation of the model, put the arm near home and the objects at their start positions.

        The controller holds that pose as if it had done so for a long time.
        """
        model, data, config = self.model, self.data, self.config
        self._noise = noise
        self.forget()
        self._randomiser.apply(data, rng)
        mujoco.mj_resetData(model, data)
        spread = config.arm.home_noise
        data.qpos[self._joints] = self._home + rng.uniform(-spread, spread, self._home.size)
        data.qpos[self._fingers] = self._finger_home
        mujoco.mj_forward(model, data)
        initialise(model, data, rng)
        mujoco.mj_forward(model, data)
        self.controller.reset(data)
        self.controller.tick(data)
        mujoco.mj_forward(model, data)
        latency = rng.uniform(0, config.randomisation.latency)
        self.late_ticks = round(latency * config.controller.rate) + self.delay_ticks

    def hold(self) -> None:
        """Begin an episode in the current state. The arm holds its pose."""
        data = self.data
        data.time = 0.0
        self.forget()
        data.qacc_warmstart[:] = 0.0  # a restored state has no warm start of the last step
        mujoco.mj_forward(self.model, data)
        self.controller.hold(data)

    def forget(self, *, motion_alone: bool = False) -> None:
        """Drop the commands that are on their way, or only those that move the arm."""
        kept = [each for each in self._pending if motion_alone and not each[1]]
        self._pending = deque(kept)

    def schedule(self, command: Callable[[], None], ticks: int, *, moves: bool = True) -> None:
        """Call ``command`` after ``ticks`` controller ticks of time. Commands arrive in the order of these calls.

        Args:
            command: function that gives the command to the controller.
            ticks: time on the way.
            moves: whether it moves the arm, and not the gripper alone.
        """
        self._pending.append((self._now + ticks, moves, command))

    def execute(self, action: NDArray[np.float32]) -> None:
        self.advance(self.config.ticks, action)

    def advance(self, ticks: int, action: NDArray[np.float32] | None = None) -> None:
        """Let ``ticks`` controller ticks of time pass.

        ``mj_forward`` at the end makes forces and sensor readings those of the observed state. The wrist's sensor is an
        exception: like a real sensor behind its low-pass filter, it reads the mean over this time, not one instant of
        an impact.

        Args:
            ticks: number of ticks.
            action: action for the controller, given after the episode's latency; None to keep the controller's
                reference.
        """
        model, data = self.model, self.data
        if action is not None:
            self.schedule(partial(self.controller.command, data, action), self.late_ticks)
        wrist, end = np.zeros(self.arm.wrench_addresses.size), self._now + ticks
        while self._pending and self._pending[0][0] < end:
            due, _, command = self._pending.popleft()
            if due > self._now:
                wrist += self._run(due - self._now)
                self._now = due
                mujoco.mj_step1(model, data)
            command()
        wrist += self._run(end - self._now)
        self._now = end
        mujoco.mj_forward(model, data)
        data.sensordata[self.arm.wrench_addresses] = wrist / ticks

    def action_towards(
        self, position: ArrayLike, *, rotation: Array | None = None, gripper: float = -1.0
    ) -> NDArray[np.float32]:
        """Return the end-effector action that leads from the current pose towards another, as fast as actions allow.

        A translation that is too long for one step is shortened in the same direction, and so is a rotation. Axes that
        actions do not move are left out.

        Args:
            position: desired position (3,) of the end effector in the base frame [m].
            rotation: desired rotation matrix (3, 3) in the base frame; None to turn no further.
            gripper: -1 open to 1 closed.
        """
        controller = self.config.controller
        delta = np.zeros(6)
        delta[:3] = (np.asarray(position) - self.arm.position(self.data)) / controller.translation_scale
        measured = self.arm.rotation(self.data)
        if rotation is not None:
            delta[3:] = logarithm(rotation @ measured.T) / controller.rotation_scale
        if controller.action_frame == "end_effector":
            delta[:3], delta[3:] = measured.T @ delta[:3], measured.T @ delta[3:]
        moved = np.zeros(6, dtype=bool)
        moved[list(controller.moved_axes())] = True
        delta[~moved] = 0.0
        for part in (delta[:3], delta[3:]):
            part /= max(1.0, float(np.abs(part).max()))
        action = delta[list(controller.moved_axes())]
        if self.actions.names[-1] == "gripper":
            action = np.append(action, gripper)
        return action.astype(np.float32)

    def measure_state(self) -> Array:
        state, scale = self.arm.read(self.data), self.config.randomisation.observation_noise
        if scale > 0:
            deviation = np.repeat([NOISE[group] for group in self.arm.groups], list(self.arm.groups.values()))
            state += scale * deviation * self._noise.standard_normal(state.size)
        return state

    def measure_objects(self, objects: Mapping[str, Array]) -> Array:
        measured, scale = flatten(objects), self.config.randomisation.observation_noise
        if scale > 0:
            measured += scale * NOISE["object"] * self._noise.standard_normal(measured.size)
        return measured

    def world(self) -> State | None:
        """Return what the next step depends on; None with domain randomisation, or with commands on their way, as
        neither is stored."""
        if self.config.randomisation != RandomisationConfig() or self._pending:
            return None
        return save_world(self.model, self.data, controller=self.controller.state())

    def restore(self, world: State) -> None:
        self.controller.load(restore_world(self.model, self.data, world, "controller"))

    def _run(self, ticks: int) -> Array:
        """Take ``ticks`` physics steps, with the controller between the halves of each; return summed wrist readings.
        ``mj_step1`` computes positions and velocities of the current state, which the controller reads; ``mj_step2``
        applies the controller's torques. ``mj_step1`` of the first step must already have run.
        """
        if self.servo is not None:
            return self.servo.run(ticks)
        model, data = self.model, self.data
        wrist = np.zeros(self.arm.wrench_addresses.size)
        for number in range(ticks):
            if number > 0:
                mujoco.mj_step1(model, data)
            self.controller.tick(data)
            mujoco.mj_step2(model, data)
            wrist += data.sensordata[self.arm.wrench_addresses]
        return wrist


def _describe(controller: Controller, config: TaskConfig) -> Actions:
    """Return the description of a controller's actions, with the scales of the axes that they have."""
    options, names = config.controller, controller.action_names
    extra: dict[str, Any] = {"action_names": list(names)}
    if options.action_space == "end_effector_delta":
        scales = {"translation_scale": AXIS_NAMES[:3], "rotation_scale": AXIS_NAMES[3:]}
        extra |= {key: getattr(options, key) for key, axes in scales.items() if set(axes) & set(names)}
        return Actions(names, options.action_space, options.action_frame, extra)
    if options.action_space == "joint_delta":
        extra["joint_scale"] = options.joint_scale
    return Actions(names, options.action_space, "joint", extra)
