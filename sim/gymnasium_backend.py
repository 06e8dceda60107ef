"""Any Gymnasium environment with Box actions as a backend."""

import contextlib
import difflib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium
import mujoco
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.utils import seeding
from numpy.typing import NDArray

from robo_rl.core import (
    ArraySpec,
    ConfigError,
    EnvSpec,
    ManualClock,
    Observation,
    RenderingError,
    ScriptedExpert,
    Step,
    nearest,
)

from .gymnasium_config import GymnasiumConfig

META_WORLD = "Meta-World/MT1"
"""Id of all of Meta-World's single tasks; ``env_name`` says which."""
PICTURE = "images/view"
SUCCESS_KEYS = ("is_success", "success")


class _Package(NamedTuple):
    """A package that registers environments when it is imported.

    Attributes:
        module: what to import.
        pip: what to install.
        prefixes: how the ids of its environments begin.
        defaults: arguments that its environments get unless the configuration gives others.
    """

    module: str
    pip: str
    prefixes: tuple[str, ...]
    defaults: Mapping[str, Any] = {}


PACKAGES = (
    _Package(
        "gymnasium_robotics",
        "gymnasium-robotics",
        ("Fetch", "HandReach", "HandManipulate", "AdroitHand", "FrankaKitchen", "PointMaze", "AntMaze"),
    ),
    # Meta-World draws its 50 goals when the environment is made; without a seed each process would get others.
    # It asks for one old MuJoCo, and does not need it.
    _Package("metaworld", "--no-deps metaworld imageio", ("Meta-World/",), {"seed": 0, "render_mode": "rgb_array"}),
)


class GymnasiumBackend:
    """A Gymnasium environment behind :class:`~robo_rl.core.EnvBackend`.

    - Observation: every Box of a (nested) Dict is flattened into ``state``; an achieved goal is joined by the way to
      the desired one. A uint8 Box of shape (height, width, 3) becomes ``images/<name>``,
      and with ``picture`` what the environment draws ``images/view``.
    - Action: [-1, 1] is mapped linearly onto the environment's Box.
    - Reward terms: ``reward`` as the environment gives it and, where it reports success, ``success``.
    - The environment's time limit is a truncation. Nothing resets by itself. ``Step.stamp_ns`` is simulated time since
      the reset, control periods counted, so that the same seed gives the same data.

    Raises:
        ConfigError: if the id is unknown, the package that has it is not installed, the environment does not work with
            its arguments, or the spaces are not supported.
    """

    def __init__(self, config: GymnasiumConfig) -> None:
        self._config = config
        self._env = _make(config)
        self._mujoco_state = _mujoco_state(self._env)
        space = self._env.action_space
        if not isinstance(space, gymnasium.spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            raise ConfigError(f"task.env_id={config.env_id}: expected continuous actions (a Box), got {space}")
        if not space.is_bounded():
            raise ConfigError(f"task.env_id={config.env_id}: expected bounded actions, got {space}")
        self._action_centre = (space.high.astype(np.float64) + space.low) / 2
        self._action_half_range = (space.high.astype(np.float64) - space.low) / 2
        self._action_space = space
        self._read, observation = _observation_reader(self._env.observation_space, config.env_id)
        self._success_key = self._find_success_key()
        if config.picture:
            self._env.reset(seed=0)
            observation[PICTURE] = ArraySpec(self.render().shape, "uint8")
        self.clock = ManualClock()
        self._running = False
        self._steps = 0
        self._spec = EnvSpec(
            task=_task_name(config),
            observation=observation,
            action=ArraySpec((self._action_centre.size,), low=-1.0, high=1.0),
            action_space="gymnasium",
            action_frame="environment",
            control_rate=config.control_rate or _control_rate(self._env, config.env_id),
            max_episode_steps=self._env.spec.max_episode_steps if self._env.spec is not None else None,
            reward_terms=("reward",) if self._success_key is None else ("reward", "success"),
            reports_success=self._success_key is not None,
            extra={"action_low": space.low.ravel().tolist(), "action_high": space.high.ravel().tolist()},
        )

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    @property
    def robot(self) -> None:
        """Gymnasium tells nothing of limits and kinematics."""
        return None

    def reset(self, seed: int | None = None) -> Step:
        """Begin an episode. The environment places everything anew, and ``Step.info["placed"]`` says so."""
        if self._mujoco_state is not None:
            _set_mujoco_state(self._env, self._mujoco_state)
        if seed is not None:
            # Gymnasium's reset does the same, but some environments (Meta-World's) ignore its seed.
            self._env.unwrapped.np_random, _ = seeding.np_random(seed)
        observation, info = self._env.reset(seed=seed)
        self._running = True
        self.clock.restart()
        self._steps = 0
        rewards = dict.fromkeys(self._spec.reward_terms, 0.0)
        success = None if self._success_key is None else bool(info.get(self._success_key, False))
        return Step(self._observe(observation), rewards, False, False, 0, success, info={**info, "placed": True})

    def step(self, action: NDArray[np.float32]) -> Step:
        if not self._running:
            raise RuntimeError("the episode has ended or none was begun: call reset() before step()")
        self._spec.action.check("action", action)
        observation, reward, terminated, truncated, info = self._env.step(self._physical(action))
        rewards = {"reward": float(reward)}
        success = None
        if self._success_key is not None:
            success = bool(info.get(self._success_key, False))
            rewards["success"] = float(success)
        terminated = bool(terminated) or (self._config.terminate_on_success and bool(success))
        truncated = bool(truncated) and not terminated
        self._running = not (terminated or truncated)
        self._steps += 1
        stamp = round(self._steps / self._spec.control_rate * 1e9)
        self.clock.sleep_until_ns(stamp)
        return Step(self._observe(observation), rewards, terminated, truncated, stamp, success, info=info)

    def render(self) -> NDArray[np.uint8]:
        name = self._config.env_id
        if self._env.render_mode != "rgb_array":
            raise RenderingError(f"{name} offers no pictures (render mode rgb_array)")
        try:
            frame = self._env.render()
        except Exception as error:  # each environment fails in its own way
            raise RenderingError(f"{name} cannot render on this machine ({error}); see robo-rl doctor") from error
        if not isinstance(frame, np.ndarray):
            raise RenderingError(f"{name}: expected a picture from render(), got {type(frame).__name__}")
        return frame.astype(np.uint8, copy=False)

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
        """End the episode: a simulation is at rest when nobody steps it."""
        self._running = False

    def close(self) -> None:
        self._running = False
        self._env.close()

    def _observe(self, observation: Any) -> Observation:
        result = self._read(observation)
        if self._config.picture:
            result[PICTURE] = self.render()
        return result

    def _physical(self, action: NDArray[np.float32]) -> NDArray[Any]:
        space = self._action_space
        scaled = self._action_centre + self._action_half_range * action.reshape(space.shape)
        clipped: NDArray[Any] = np.clip(scaled.astype(space.dtype), space.low, space.high)
        return clipped

    def _find_success_key(self) -> str | None:
        """Return the key under which the environment reports success, seen by taking one step."""
        with _arguments_named(self._config):
            self._env.reset(seed=0)
            *_, info = self._env.step(self._physical(np.zeros(self._action_centre.size, np.float32)))
        return next((key for key in SUCCESS_KEYS if key in info), None)


class _MetaWorldExpert:
    """One of Meta-World's scripted policies. They look at observations alone, and remember nothing.

    Args:
        policy: has ``get_action``, which makes an action (4,) of a state (39,).
    """

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def reset(self) -> None:
        """Nothing to forget."""

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return the policy's action (4,), cut to [-1, 1], which is what its environments do with it."""
        action = self._policy.get_action(observation["state"].astype(np.float64))
        clipped: NDArray[np.float32] = np.clip(action, -1, 1).astype(np.float32)
        return clipped


def _make(config: GymnasiumConfig) -> gymnasium.Env[Any, Any]:
    env_id = config.env_id
    package = next((package for package in PACKAGES if env_id.startswith(package.prefixes)), None)
    if package is not None:
        try:
            importlib.import_module(package.module)
        except ImportError as error:
            raise ConfigError(
                f"task.env_id={env_id} needs a package that is not installed ({error}): pip install {package.pip}"
            ) from error
    module, _, name = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        spec = gymnasium.spec(name)
    except ImportError as error:
        raise ConfigError(f"task.env_id={env_id}: cannot import {module} ({error})") from error
    except gymnasium.error.Error as error:
        raise ConfigError(f"unknown task.env_id {env_id!r}: {_suggestions(name)}") from error
    with _arguments_named(config):
        creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
        modes = getattr(creator, "metadata", {}).get("render_modes", ())
        kwargs: dict[str, Any] = {"render_mode": "rgb_array"} if "rgb_array" in modes else {}
        kwargs |= {**(package.defaults if package is not None else {}), **config.env_kwargs}
        return gymnasium.make(name, max_episode_steps=config.max_episode_steps, disable_env_checker=True, **kwargs)


@contextlib.contextmanager
def _arguments_named(config: GymnasiumConfig) -> Iterator[None]:
    """Make whatever an environment raises when it is made and tried a ConfigError that names its arguments."""
    try:
        yield
    except gymnasium.error.DependencyNotInstalled as error:
        raise ConfigError(f"task.env_id={config.env_id} needs a package that is not installed: {error}") from error
    except Exception as error:  # each environment fails in its own way
        raise ConfigError(
            f"task.env_id={config.env_id} does not work with task.env_kwargs={config.env_kwargs} "
            f"({type(error).__name__}: {str(error).partition(chr(10))[0]})"
        ) from error


def _task_name(config: GymnasiumConfig) -> str:
    name = config.env_kwargs.get("env_name")
    return f"Meta-World/{name}" if config.env_id == META_WORLD and name else config.env_id


def _suggestions(env_id: str) -> str:
    """Return the nearest registered ids (there are hundreds), those of installed packages among them."""
    for package in PACKAGES:
        with contextlib.suppress(ImportError):
            importlib.import_module(package.module)
    close = difflib.get_close_matches(env_id, gymnasium.registry, n=5, cutoff=0.5)
    return nearest(env_id, close) if close else "gymnasium.pprint_registry() lists those that are registered"


def _control_rate(env: gymnasium.Env[Any, Any], env_id: str) -> float:
    period = getattr(env.unwrapped, "dt", None)
    rate = 1 / period if period else env.metadata.get("render_fps")
    if not rate:
        raise ConfigError(f"{env_id} does not tell its control rate: give task.control_rate=<Hz>")
    return round(float(rate), 6)


def _leaves(space: gymnasium.Space[Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(space, gymnasium.spaces.Dict):
        for key, child in space.items():
            yield from _leaves(child, (*path, key))
    else:
        yield path, space


def _observation_reader(
    space: gymnasium.Space[Any], env_id: str
) -> tuple[Callable[[Any], Observation], dict[str, ArraySpec]]:
    """Return a function that makes an environment's observation ours, and the specification of the result."""
    vectors: list[tuple[str, ...]] = []
    images: dict[str, tuple[str, ...]] = {}
    specs: dict[str, ArraySpec] = {}
    names: list[str] = []
    for path, leaf in _leaves(space):
        if not isinstance(leaf, gymnasium.spaces.Box):
            raise ConfigError(f"task.env_id={env_id}: expected observations of Box (in Dict), got {leaf}")
        name = ".".join(path) or "observation"
        if leaf.dtype == np.uint8 and len(leaf.shape) == 3 and leaf.shape[2] == 3:
            images[f"images/{name}"] = path
            specs[f"images/{name}"] = ArraySpec(leaf.shape, "uint8")
        else:
            vectors.append(path)
            names += [f"{name}[{index}]" for index in range(int(np.prod(leaf.shape)))]
    achieved = space.get("achieved_goal") if isinstance(space, gymnasium.spaces.Dict) else None
    goal = isinstance(achieved, gymnasium.spaces.Box)
    if isinstance(achieved, gymnasium.spaces.Box):
        names += [f"desired_goal-achieved_goal[{index}]" for index in range(int(np.prod(achieved.shape)))]
    if names:
        specs["state"] = ArraySpec((len(names),), names=tuple(names))

    def read(observation: Any) -> Observation:
        result = {key: np.array(_at(observation, path)) for key, path in images.items()}
        parts = [np.ravel(_at(observation, path)) for path in vectors]
        if goal:
            parts.append(np.ravel(observation["desired_goal"]) - np.ravel(observation["achieved_goal"]))
        if parts:
            result["state"] = np.concatenate(parts).astype(np.float32)
        return result

    return read, specs


def _at(observation: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        observation = observation[key]
    return observation


def _mujoco_state(env: gymnasium.Env[Any, Any]) -> NDArray[np.float64] | None:
    """Return the whole state of a MuJoCo environment just made, None for any other.

    Environments put positions and velocities back when they are reset, but not all of them the solver's warm start
    and the mocap bodies; then the same seed would not give the same episode, bit for bit.
    """
    model, data = getattr(env.unwrapped, "model", None), getattr(env.unwrapped, "data", None)
    if not isinstance(model, mujoco.MjModel) or not isinstance(data, mujoco.MjData):
        return None
    state = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    return state


def _set_mujoco_state(env: gymnasium.Env[Any, Any], state: NDArray[np.float64]) -> None:
    unwrapped: Any = env.unwrapped
    mujoco.mj_setState(unwrapped.model, unwrapped.data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
