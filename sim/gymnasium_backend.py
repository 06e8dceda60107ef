"""Any Gymnasium environment with Box actions as a backend."""

import contextlib
import os
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium.utils import seeding
from numpy.typing import NDArray

from robo_rl.core import (
    ArraySpec,
    ConfigError,
    DriverError,
    EnvSpec,
    ManualClock,
    Observation,
    RenderingError,
    ScriptedExpert,
    Step,
)

from .gymnasium_goals import goal_relabelling
from .gymnasium_making import (
    META_WORLD,
    arguments_named,
    find_control_rate,
    find_step_limit,
    first_line,
    legacy_random,
    make_environment,
    reraise_signal,
    task_name,
)
from .gymnasium_observations import ObservationReader
from .gymnasium_options import GymnasiumConfig
from .gymnasium_outcomes import FINAL_OBSERVATIONS, SuccessReader, final, read_flag, read_number
from .gymnasium_pictures import rendered_picture
from .gymnasium_translation import SpaceTranslation
from .rendering import begin_drawing
from .world import PHYSICS, physics_state

PICTURE = "images/view"


class GymnasiumBackend:
    """A Gymnasium environment behind :class:`~robo_rl.core.EnvBackend`.

    - Observation: see :class:`ObservationReader`; with ``picture`` the rendered environment is ``images/view``.
    - Action: [-1, 1] is mapped linearly onto the environment's Box.
    - Reward terms: ``reward`` as the environment gives it and, if its first step or the configuration shows that it
      reports success, ``success``. Otherwise success is looked up when an episode ends.
    - The environment's time limit is a truncation. The backend never resets automatically. If the environment does, the
      last observation of an episode is in ``info``, see :data:`FINAL_OBSERVATIONS`. ``Step.stamp_ns`` is simulated time
      since the reset, counted in control periods, so that the same seed gives the same data.

    Attributes:
        relabel: see :class:`~robo_rl.core.GoalTask`.
        translation: see :class:`~robo_rl.core.TranslatingBackend`.

    Raises:
        ConfigError: if the id is unknown, the package that provides it is not installed, the environment does not work
            with its arguments, or the spaces are not supported.
    """

    def __init__(self, config: GymnasiumConfig) -> None:
        self._config = config
        with arguments_named(config):
            self._open()

    def _open(self) -> None:
        config = self._config
        self._env = make_environment(config)
        self._legacy_random = legacy_random(config.env_id)
        self._mujoco_state = _mujoco_state(self._env)
        space = self._env.action_space
        if not isinstance(space, gymnasium.spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            raise ConfigError(f"task.env_id={config.env_id}: expected continuous actions (a Box), got {space}")
        if not space.is_bounded() or not np.prod(space.shape):
            raise ConfigError(
                f"task.env_id={config.env_id}: expected bounded actions of at least one element, got {space}"
            )
        self._action_space = space
        self._reader = ObservationReader(self._env.observation_space, config.env_id, config.images)
        self.translation = SpaceTranslation(self._reader, space)
        self._success = SuccessReader(config)
        self._drawn_in: int | None = None
        self._reports_success = self._try_step()
        observation = dict(self._reader.specs)
        if config.picture:
            if PICTURE in observation:
                raise ConfigError(f"task.picture=true: {config.env_id} observes an image 'view' itself")
            self._env.reset(seed=0)
            observation[PICTURE] = ArraySpec(self.render().shape, "uint8")
        self.clock = ManualClock()
        self._running = False
        self._steps = 0
        self._spec = EnvSpec(
            task=task_name(config),
            observation=observation,
            action=ArraySpec((self.translation.action_size,), low=-1.0, high=1.0),
            action_space="gymnasium",
            action_frame="environment",
            control_rate=config.control_rate or find_control_rate(self._env, config.env_id) / config.action_repeat,
            max_episode_steps=find_step_limit(self._env, config.action_repeat),
            reward_terms=("reward", "success") if self._reports_success else ("reward",),
            reports_success=self._reports_success,
            extra={"action_low": space.low.ravel().tolist(), "action_high": space.high.ravel().tolist()},
        )
        self.relabel = goal_relabelling(self._env, self._reader, config)

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    @property
    def robot(self) -> None:
        """None: Gymnasium has no description of limits and kinematics."""
        return None

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode. The environment draws a new one, and ``Step.info["placed"]`` is true.

        Raises:
            DriverError: if the environment fails, or returns an unexpected value.
        """
        self._running = False
        if self._mujoco_state is not None:
            unwrapped: Any = self._env.unwrapped
            mujoco.mj_setState(unwrapped.model, unwrapped.data, self._mujoco_state, PHYSICS)
        if seed is not None:
            # Gymnasium's reset does the same, but some environments (Meta-World's) ignore its seed.
            self._env.unwrapped.np_random, _ = seeding.np_random(seed)
            if self._legacy_random:
                seed %= 2**32
                np.random.seed(seed)  # noqa: NPY002 - nothing else in this project uses this generator
        with self._failures_named("reset"):
            observation, info = self._env.reset(seed=seed)
            if self._env.action_space != self._action_space:
                raise ValueError(f"its actions were {self._action_space}, and are {self._env.action_space} now")
            success = self._success.read(info)
            observed = self._observe(observation)
        self._running = True
        self.clock.restart()
        self._steps = 0
        rewards = dict.fromkeys(self._spec.reward_terms, 0.0)
        solved = bool(success) if self._reports_success else success
        return Step(observed, rewards, False, False, 0, solved, info={**info, "placed": True})

    def step(self, action: NDArray[np.float32]) -> Step:
        """Execute ``action`` for one control period.

        Raises:
            SpecError: if the action does not match the spec.
            RuntimeError: if no episode is running.
            DriverError: if the environment fails, or returns an unexpected value. The episode is then over.
        """
        if not self._running:
            raise RuntimeError("the episode has ended or none was begun: call reset() before step()")
        self._spec.action.check("action", action)
        self._running = False  # unless all of this succeeds
        with self._failures_named(f"step {self._steps + 1} of the episode"):
            observation, reward, terminated, truncated, info = self._env.step(self.translation.action(action))
            rewards = {"reward": read_number("the reward", reward)}
            terminated, truncated = read_flag("terminated", terminated), read_flag("truncated", truncated)
            success = self._read_success(info, terminated or truncated)
            if terminated or truncated:
                last = final(info, FINAL_OBSERVATIONS)
                observation = observation if last is None else last
            observed = self._observe(observation)
        if self._reports_success:
            rewards["success"] = float(bool(success))
        terminated = terminated or (self._config.terminate_on_success and bool(success))
        truncated = truncated and not terminated
        self._running = not (terminated or truncated)
        self._steps += 1
        stamp = round(self._steps / self._spec.control_rate * 1e9)
        self.clock.sleep_until_ns(stamp)
        return Step(observed, rewards, terminated, truncated, stamp, success, info=dict(info))

    def render(self) -> NDArray[np.uint8]:
        """Return a picture (height, width, 3) of the environment.

        Raises:
            RenderingError: if the environment renders nothing, or this process is a fork of the one in which it has
                rendered.
        """
        name = self._config.env_id
        if self._env.render_mode != "rgb_array":
            raise RenderingError(f"{name} offers no pictures (render mode rgb_array)")
        if self._mujoco_state is not None:  # such an environment shares the graphics of all simulations in this process
            begin_drawing()
        if self._drawn_in not in (None, os.getpid()):
            raise RenderingError(
                f"{name} has drawn in process {self._drawn_in}, and this one ({os.getpid()}) was forked from it: "
                "graphics do not outlive a fork. Start processes by the method spawn, or make the environment in each"
            )
        self._drawn_in = os.getpid()
        try:
            frame = self._env.render()
        except BaseException as error:  # each environment fails in its own way
            reraise_signal(error)
            raise RenderingError(
                f"{name} cannot render on this machine ({first_line(error)}); see robo-rl doctor"
            ) from error
        try:
            return rendered_picture(frame)
        except ValueError as error:
            raise RenderingError(f"{name}: {error}") from error

    def expert(self, seed: int) -> ScriptedExpert:
        if self._config.env_id == META_WORLD:
            from metaworld.policies import ENV_POLICY_MAP

            make_policy: Any = ENV_POLICY_MAP[self._config.env_kwargs["env_name"]]
            return _MetaWorldExpert(make_policy())
        raise ConfigError(
            f"task {self._config.env_id} has no scripted expert: train with demonstrations.episodes=0 or "
            "demonstrations.path=FOLDER, record with record.source=keyboard"
        )

    def stop(self, reason: str) -> None:
        """End the episode: a simulation is at rest between steps."""
        self._running = False

    def close(self) -> None:
        """Close the environment. A failure is only a warning, as nothing is lost."""
        self._running = False
        try:
            self._env.close()
        except BaseException as error:
            reraise_signal(error)
            warnings.warn(
                f"environment {self._config.env_id}, close: {first_line(error)}", RuntimeWarning, stacklevel=2
            )

    def _observe(self, observation: Any) -> Observation:
        result = self._reader.read(observation)
        if self._config.picture:
            result[PICTURE] = picture = self.render()
            if picture.shape != self._spec.observation[PICTURE].shape:
                raise ValueError(
                    f"render() gave a picture of {picture.shape}, expected {self._spec.observation[PICTURE].shape} as "
                    "the first one was"
                )
        return result

    def _read_success(self, info: dict[str, Any], ends: bool) -> bool | None:
        """Return whether the task is solved; None if that is unknown."""
        success = self._success.read(info, ends)
        if success is not None or not self._reports_success:
            return success
        if ends and self._config.success_key is not None and (hint := self._success.hint(info)):
            raise ValueError(hint)
        return False

    def _try_step(self) -> bool:
        """Take one step and read all of it as later steps are read; return whether it reports success.

        Raises:
            ConfigError: if the environment does not work, or its first step does not report success although the
                options need it.
        """
        config = self._config
        first: Any = self._env.reset(seed=0)
        if not isinstance(first, tuple) or len(first) != 2:
            raise ConfigError(
                f"task.env_id={config.env_id}: expected reset() to return (observation, info), got "
                f"{type(first).__name__}; the interface of Gym before 0.26 is not supported"
            )
        observation, reward, terminated, truncated, info = self._env.step(
            self.translation.action(np.zeros(self.translation.action_size, np.float32))
        )
        try:
            self._reader.read(observation)
            read_number("the reward", reward)
            ends = [read_flag("terminated", terminated), read_flag("truncated", truncated)]
            has_success = self._success.read(info, any(ends)) is not None
        except ValueError as error:
            raise ConfigError(f"task.env_id={config.env_id}, first step: {error}") from error
        keys = ", ".join(map(str, info)) or "nothing"
        if not has_success and config.success_key is not None:
            if hint := self._success.hint(info):
                raise ConfigError(f"task.env_id={config.env_id}: {hint}")
            # Some environments have the key only when an episode ends.
            warnings.warn(
                f"task.success_key={config.success_key}: after the first step info does not have this key, but {keys}. "
                "Every episode that ends without it counts as not solved",
                RuntimeWarning,
                stacklevel=2,
            )
        if not has_success and config.success_key is None and config.needs_success:
            raise ConfigError(
                f"task.env_id={config.env_id}: {config.needs_success} needs to know success, and info holds none of "
                f"{', '.join(self._success.keys)} after the first step but {keys}: name the key by task.success_key=KEY"
            )
        return has_success or config.success_key is not None

    @contextlib.contextmanager
    def _failures_named(self, doing: str) -> Iterator[None]:
        """Turn any exception of the environment into a DriverError that names it."""
        try:
            yield
        except RenderingError as error:
            raise DriverError(f"environment {self._config.env_id}, {doing}: {error}") from error
        except ValueError as error:
            raise DriverError(f"environment {self._config.env_id}, {doing}: {error} (--debug shows where)") from error
        except BaseException as error:  # each environment fails in its own way
            reraise_signal(error)
            raise DriverError(
                f"environment {self._config.env_id}, {doing}: {first_line(error)} (--debug shows where)"
            ) from error


class _MetaWorldExpert:
    """A scripted policy of Meta-World, which depends on the current observation alone.

    Args:
        policy: object whose ``get_action`` returns an action (4,) for a state (39,).
    """

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def reset(self) -> None:
        """Do nothing: there is no memory."""

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return the policy's action (4,), clipped to [-1, 1] as its environments do."""
        action = self._policy.get_action(observation["state"].astype(np.float64))
        clipped: NDArray[np.float32] = np.clip(action, -1, 1).astype(np.float32)
        return clipped


def _mujoco_state(env: gymnasium.Env[Any, Any]) -> NDArray[np.float64] | None:
    """Return the whole state of a newly made MuJoCo environment; None for any other environment.

    Environments restore positions and velocities when they are reset, but not all of them restore the solver's warm
    start and the mocap bodies; then the same seed would not give the same episode, bit for bit.
    """
    try:
        model, data = getattr(env.unwrapped, "model", None), getattr(env.unwrapped, "data", None)
    except ValueError:  # OGBench builds its models in the first reset, and then sets the whole state in each
        return None
    if not isinstance(model, mujoco.MjModel) or not isinstance(data, mujoco.MjData):
        return None
    return physics_state(model, data)
