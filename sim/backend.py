"""An arm in simulation as an ``EnvBackend``."""

import math
import secrets
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from robo_rl.core import (
    ArraySpec,
    ConfigError,
    DriverError,
    EnvSpec,
    ManualClock,
    Observation,
    RobotDescription,
    ScriptedExpert,
    State,
    Step,
    generator,
)

from . import native
from .arm import compiled, load_arm
from .arm_model import ArmModel
from .cameras import Cameras
from .config import RandomisationConfig, TaskConfig
from .controller import AXIS_NAMES, EndEffectorController, logarithm, make_controller
from .names import rename_clashes, scene_names
from .native import NativeServo
from .observation import NOISE, ArmState, flatten, object_spec
from .randomisation import ModelRandomiser
from .scene import add_keep_out, make_scene
from .simulated_robot import SimulatedRobot
from .world import restore_world, save_world

if TYPE_CHECKING:
    from .tasks.base import Task

Array = NDArray[np.float64]


class ArmBackend:
    """A simulated arm before a task.

    The same seed gives the same episode, bit for bit, whatever went before.

    Args:
        task: world around the arm, made from its configuration.

    Attributes:
        model: compiled model. Experts and tests may read it.
        data: its state.
        arm: reads the arm's state.
        controller: turns actions into torques.
        clock: simulated time since the last reset.
    """

    def __init__(self, task: "Task") -> None:
        config = task.config
        self.config: TaskConfig = config
        self.task = task
        arm, timestep = load_arm(config.arm), 1.0 / config.controller.rate
        rename_clashes(arm, scene_names(self._build(make_scene(mujoco.MjSpec(), timestep))), config.arm)
        self.model: Any = compiled(self._build(make_scene(arm, timestep)), config.arm)
        self.data: Any = mujoco.MjData(self.model)
        self._cameras = Cameras(self.model, config.observation)
        task.bind(self.model)
        self.arm = ArmState(self.model, config.arm)
        self.controller = make_controller(self.model, config.arm, config.controller)
        self._servo: NativeServo | None = None
        if isinstance(self.controller, EndEffectorController) and native.available()[0]:
            self._servo = NativeServo(self.controller, self.model, self.data, self.arm.wrench_addresses)
        self._randomiser = ModelRandomiser(self.model, config.randomisation)
        self._home = np.array(config.arm.home)
        self._joints = np.array([self.model.joint(name).qposadr[0] for name in config.arm.joints])
        fingers = [self.model.joint(name) for name in config.arm.gripper_joints if config.arm.gripper_actuator]
        self._fingers = np.array([joint.qposadr[0] for joint in fingers], dtype=int)
        opening = config.arm.home_opening
        self._finger_home = self.arm.finger_strokes @ np.array([1 - opening, opening])
        self.clock = ManualClock()
        self._steps = 0
        self._running = self._placed = False
        self._rng = generator(0)
        self._late_ticks = 0

        self._begin(generator(0))
        self._spec = self._make_spec()

    def _build(self, scene: mujoco.MjSpec) -> mujoco.MjSpec:
        """Return ``scene`` with the task's objects and the volumes to keep out of."""
        self.task.build(scene)
        for number, box in enumerate(self.config.keep_out_boxes, start=1):
            add_keep_out(scene, f"keep_out{number}", box)
        return scene

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    @property
    def robot(self) -> RobotDescription:
        arm, controller = self.config.arm, self.config.controller
        joints = [self.model.joint(name) for name in arm.joints]
        ranges = [joint.range if joint.limited[0] else (-math.inf, math.inf) for joint in joints]
        return RobotDescription(
            model=self.model,
            joints=tuple(arm.joints),
            home=tuple(arm.home),
            end_effector=arm.end_effector,
            position_lower=tuple(float(low) for low, _ in ranges),
            position_upper=tuple(float(high) for _, high in ranges),
            command_lower=tuple(self.controller.lower.tolist()),
            command_upper=tuple(self.controller.upper.tolist()),
            speed=tuple(arm.velocity_limits),
            velocity=tuple(arm.command_velocity * limit for limit in arm.velocity_limits),
            acceleration=(arm.command_acceleration,) * len(arm.joints),
            jerk=(arm.command_jerk,) * len(arm.joints),
            joint_delta=controller.joint_scale,
            workspace_low=tuple(controller.workspace_low),
            workspace_high=tuple(controller.workspace_high),
            controller_holds_workspace=controller.action_space == "end_effector_delta",
            linear_speed=arm.speed_limit,
            angular_speed=arm.rotation_speed_limit,
            force=arm.force_limit,
            torque=arm.torque_limit,
        )

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode: the arm near home, the gripper open, the objects where ``seed`` puts them.

        ``Step.info["placed"]`` says so. Without ``seed`` arm and objects stay as they are once they were placed, and
        the arm holds its pose; the first time they are placed in a new way.
        """
        if seed is None and self._placed:
            self._begin_here()
            return self._first_step({})
        if seed is None:
            seed = secrets.randbits(63)
        self._begin(generator(seed, "episode"))
        self._rng = generator(seed, "observation")
        self._placed = True
        return self._first_step({"placed": True})

    def world(self) -> State | None:
        """Return everything that the next episode depends on if it begins where arm and objects are.

        None with domain randomisation, whose draws are not kept.
        """
        if self.config.randomisation != RandomisationConfig():
            return None
        return save_world(self.model, self.data, controller=self.controller.memory())

    def restore(self, world: State) -> Step:
        """Begin an episode in the world as it was when :meth:`world` returned it, bit for bit.

        Raises:
            CheckpointError: if it is another simulator's.
        """
        self.controller.remember(restore_world(self.model, self.data, world, "controller"))
        self._placed = True
        self._begin_here()
        return self._first_step({})

    def step(self, action: NDArray[np.float32]) -> Step:
        """Execute ``action`` for one control period. ``stamp_ns`` of the result is simulated time since the reset.

        Raises:
            SpecError: if the action does not fit the spec.
            RuntimeError: if no episode is running.
            DriverError: if the simulation became unstable.
        """
        if not self._running:
            raise RuntimeError("no episode is running; call reset() first")
        self._spec.action.check("action", action)
        self.advance(self.config.ticks, action)
        self.clock.sleep_until_ns(round(self.data.time * 1e9))
        self._steps += 1
        if not np.isfinite(self.data.qpos).all():
            self._running = self._placed = False
            raise DriverError(
                f"the simulation became unstable in step {self._steps} of the episode; reset() begins another. Softer "
                "controller.stiffness, more controller.damping or a higher controller.rate helps"
            )
        rewards = self.rewards()
        success = rewards["success"] > 0
        terminated = success and self.config.terminate_on_success
        truncated = not terminated and self._steps >= self.config.max_episode_steps
        self._running = not (terminated or truncated)
        return Step(
            observation=self._observe(),
            rewards=rewards,
            terminated=terminated,
            truncated=truncated,
            stamp_ns=round(self.data.time * 1e9),
            success=success,
        )

    def render(self, camera: str = "view") -> NDArray[np.uint8]:
        """Return a picture (picture_height, picture_width, 3) from ``camera``.

        Raises:
            RenderingError: if this machine cannot render.
            ConfigError: if there is no such camera.
        """
        return self._cameras.picture(self.data, camera)

    def captions(self) -> dict[str, bool]:
        """Return sentences about what a picture of the present state shows, and whether each is true."""
        return self.task.captions(self.data)

    def expert(self, seed: int) -> ScriptedExpert:
        space = self.config.controller.action_space
        if space != "end_effector_delta":
            raise ConfigError(f"the scripted expert needs controller.action_space=end_effector_delta, not {space}")
        return self.task.expert(self, generator(seed, "expert"))

    def stop(self, reason: str) -> None:
        """End the episode; a simulated arm needs no braking."""
        self._running = False

    def close(self) -> None:
        self._running = False
        self._cameras.close()

    def action_towards(
        self, position: ArrayLike, *, rotation: Array | None = None, gripper: float = -1.0
    ) -> NDArray[np.float32]:
        """Return the end-effector action that leads from here towards a pose, as fast as actions allow.

        A translation too long for one step is shortened without a change of direction; so is a rotation. Axes that
        actions do not move are left out.

        Args:
            position: wanted position (3,) of the end effector in the base frame [m].
            rotation: wanted rotation matrix (3, 3) in the base frame; None: turn no further.
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
        if self._spec.action.names[-1] == "gripper":
            action = np.append(action, gripper)
        return action.astype(np.float32)

    def advance(self, ticks: int, action: NDArray[np.float32] | None = None) -> None:
        """Let ``ticks`` controller ticks of time pass.

        ``mj_forward`` at the end makes forces and sensors those of the state that is observed, but for the wrist's:
        like a real one behind its low-pass filter it reads the mean of this time, not one instant of an impact.

        Args:
            ticks: how many.
            action: given to the controller after the episode's latency; None: its reference stays.
        """
        model, data, late = self.model, self.data, self._late_ticks if action is not None else 0
        wrist = np.zeros(self.arm.wrench_addresses.size)
        if late > 0:
            wrist += self._run(late)
            mujoco.mj_step1(model, data)
        if action is not None:
            self.controller.command(data, action)
        wrist += self._run(ticks - late)
        mujoco.mj_forward(model, data)
        data.sensordata[self.arm.wrench_addresses] = wrist / ticks

    def measure_state(self) -> Array:
        """Return the elements (n,) of ``state`` with the sensors' noise."""
        state, scale = self.arm.read(self.data), self.config.randomisation.observation_noise
        if scale > 0:
            deviation = np.repeat([NOISE[group] for group in self.arm.groups], list(self.arm.groups.values()))
            state += scale * deviation * self._rng.standard_normal(state.size)
        return state

    def measure_objects(self) -> Array:
        """Return the elements of ``object`` with the sensors' noise."""
        objects, scale = flatten(self.task.object_state(self.data)), self.config.randomisation.observation_noise
        if scale > 0:
            objects += scale * NOISE["object"] * self._rng.standard_normal(objects.size)
        return objects

    def rewards(self) -> dict[str, float]:
        """Return the reward terms of the present state."""
        return {"success": float(self.task.success(self.data)), **self.task.reward_terms(self.data)}

    def as_robot(self) -> SimulatedRobot:
        """Return this arm as a robot that time moves on, instead of steps."""
        return SimulatedRobot(self)

    def as_model(self) -> ArmModel:
        """Return this arm's kinematics and the meaning of its actions, for the driver of a robot like it."""
        return ArmModel(self)

    def _begin(self, rng: np.random.Generator) -> None:
        config, data = self.config, self.data
        self._randomiser.apply(data, rng)
        mujoco.mj_resetData(self.model, data)
        noise = config.arm.home_noise
        data.qpos[self._joints] = self._home + rng.uniform(-noise, noise, self._home.size)
        data.qpos[self._fingers] = self._finger_home
        mujoco.mj_forward(self.model, data)
        self.task.initialise(self.model, data, rng)
        mujoco.mj_forward(self.model, data)
        self.controller.reset(data)
        self.controller.tick(data)
        mujoco.mj_forward(self.model, data)
        self._late_ticks = round(rng.uniform(0, config.randomisation.latency) * config.controller.rate)

    def _begin_here(self) -> None:
        """Leave arm and objects where they are; the arm holds its pose. Twice is as good as once, bit for bit."""
        data = self.data
        data.time = 0.0
        data.qacc_warmstart[:] = 0.0  # a restored world has none of the last step's
        self.task.begin_here(data)
        mujoco.mj_forward(self.model, data)
        self.controller.hold(data)

    def _first_step(self, info: dict[str, Any]) -> Step:
        self._cameras.begin()
        self.clock.restart()
        self._steps = 0
        self._running = True
        return Step(
            observation=self._observe(),
            rewards=dict.fromkeys(self._spec.reward_terms, 0.0),
            terminated=False,
            truncated=False,
            stamp_ns=0,
            success=self.task.success(self.data),
            info=info,
        )

    def _run(self, ticks: int) -> Array:
        """Take ``ticks`` physics steps, the controller between the two halves of each; return what the wrist felt.

        ``mj_step1`` leaves positions and velocities of the present state, which the controller reads; ``mj_step2``
        applies its torques. The first step's ``mj_step1`` was done before.
        """
        if self._servo is not None:
            return self._servo.run(ticks)
        model, data = self.model, self.data
        wrist = np.zeros(self.arm.wrench_addresses.size)
        for number in range(ticks):
            if number > 0:
                mujoco.mj_step1(model, data)
            self.controller.tick(data)
            mujoco.mj_step2(model, data)
            wrist += data.sensordata[self.arm.wrench_addresses]
        return wrist

    def _observe(self) -> Observation:
        observation: Observation = {"state": self.measure_state().astype(np.float32)}
        if self.config.observation.object:
            observation["object"] = self.measure_objects().astype(np.float32)
        return observation | self._cameras.observe(self.data)

    def _make_spec(self) -> EnvSpec:
        config = self.config
        controller = config.controller
        observation = {"state": ArraySpec(shape=(len(self.arm.names),), names=self.arm.names)}
        if config.observation.object:
            observation["object"] = object_spec(self.task.object_state(self.data))
        observation |= self._cameras.specs()
        names = self.controller.action_names
        if controller.action_space == "end_effector_delta":
            scales = {"translation_scale": controller.translation_scale, "rotation_scale": controller.rotation_scale}
            used = {key: value for key, value in scales.items() if _moves(names, rotation=key == "rotation_scale")}
        else:
            used = {"joint_scale": controller.joint_scale} if controller.action_space == "joint_delta" else {}
        return EnvSpec(
            task=config.name,
            observation=observation,
            action=ArraySpec(shape=(len(names),), low=-1.0, high=1.0, names=names),
            action_space=controller.action_space,
            action_frame=controller.action_frame if isinstance(self.controller, EndEffectorController) else "joint",
            control_rate=config.control_rate,
            max_episode_steps=config.max_episode_steps,
            reward_terms=("success", *self.task.shaped_terms),
            extra={"action_names": list(names), **used},
        )


def _moves(names: tuple[str, ...], *, rotation: bool) -> bool:
    return any(name in (AXIS_NAMES[3:] if rotation else AXIS_NAMES[:3]) for name in names)
