"""Construction of registered Gymnasium environments, and errors that name missing packages and arguments."""

import contextlib
import difflib
import importlib
import inspect
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from robo_rl.core import (
    MAX_RATE,
    MIN_RATE,
    PYTHON_NAMESPACE,
    ConfigError,
    DataError,
    RoboRLError,
    check_mjcf,
    nearest,
    open_regular,
)

from .gymnasium_options import GymnasiumConfig

_HEAD_BYTES = 1 << 16
"""Bytes in which an element of XML begins, if there is one."""

META_WORLD = "Meta-World/MT1"
"""Id of all single tasks of Meta-World; ``env_name`` selects one."""


class _Package(NamedTuple):
    """A package that registers environments when it is imported.

    Attributes:
        module: name of the module to import.
        pip: arguments of ``pip install``.
        prefixes: prefixes of the ids of its environments.
        defaults: arguments that its environments get unless the configuration sets others.
        legacy_random: whether its environments draw from NumPy's legacy generators: the global one, which ``reset``
            does not seed, or one of their own. Seeds of these have 32 bits.
        always_renders: whether its environments render pictures although they do not declare it.
    """

    module: str
    pip: str
    prefixes: tuple[str, ...]
    defaults: Mapping[str, Any] = {}
    legacy_random: bool = False
    always_renders: bool = False


PACKAGES = (
    _Package(
        "gymnasium_robotics",
        "gymnasium-robotics",
        ("Fetch", "HandReach", "HandManipulate", "AdroitHand", "FrankaKitchen", "PointMaze", "AntMaze"),
    ),
    # Meta-World draws its 50 goals when the environment is made; without a seed, each process would get different ones.
    # It requires one old version of MuJoCo, but does not need it.
    _Package("metaworld", "--no-deps metaworld imageio", ("Meta-World/",), {"seed": 0, "render_mode": "rgb_array"}),
    # OGBench needs dm_control; later versions than 1.0.44 need another version of MuJoCo than the other packages.
    _Package(
        "ogbench",
        "ogbench dm_control==1.0.44",
        (
            *("cube-", "scene-", "puzzle-", "visual-cube-", "visual-scene-", "visual-puzzle-"),
            *("pointmaze-", "antmaze-", "humanoidmaze-", "antsoccer-", "visual-antmaze-", "visual-humanoidmaze-"),
        ),
        legacy_random=True,
        always_renders=True,
    ),
    _Package("shimmy", "shimmy dm_control==1.0.44", ("dm_control/",), {"render_mode": "rgb_array"}, legacy_random=True),
)


class RepeatedActions(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment in which every action is executed several times, as in the published results of dm_control.

    The reward is the sum of the repetitions. An episode that ends in between ends the step.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], repeat: int) -> None:
        super().__init__(env)
        self._repeat = repeat

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        total: Any = 0.0
        for _ in range(self._repeat):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total = total + reward
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info


def make_environment(config: GymnasiumConfig) -> gymnasium.Env[Any, Any]:
    """Return the environment that ``config`` names, with rendered pictures if it offers any.

    Raises:
        ConfigError: if the id is unknown, its package is missing, or it does not work with its arguments.
    """
    env_id = config.env_id
    package = _package_of(env_id)
    if package is not None:
        try:
            importlib.import_module(package.module)
        except ImportError as error:
            raise ConfigError(
                f"task.env_id={env_id} needs a package that is not installed ({error}): pip install {package.pip}"
            ) from error
    spec = _spec(env_id)
    _check_models(config)
    with arguments_named(config):
        creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
        modes = getattr(creator, "metadata", {}).get("render_modes", ())
        renders = "rgb_array" in modes and _accepts(creator, "render_mode")
        kwargs: dict[str, Any] = {"render_mode": "rgb_array"} if renders else {}
        kwargs |= {**(package.defaults if package is not None else {}), **config.env_kwargs}
        limit = None if config.max_episode_steps is None else config.max_episode_steps * config.action_repeat
        known = spec.id if spec.id in gymnasium.registry else spec
        env = gymnasium.make(known, max_episode_steps=limit, disable_env_checker=True, **kwargs)
        if package is not None and package.always_renders:
            env.unwrapped.render_mode = "rgb_array"
        return env if config.action_repeat == 1 else RepeatedActions(env, config.action_repeat)


def _accepts(creator: Any, argument: str) -> bool:
    """Return whether ``creator`` has an argument of this name, as far as Python knows."""
    try:
        parameters = inspect.signature(creator).parameters
    except (TypeError, ValueError):
        return True
    return argument in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def _spec(env_id: str) -> EnvSpec:
    """Return the registration that an id names, or one of the class or function that ``MODULE:NAME`` names.

    Raises:
        ConfigError: if there is neither.
    """
    module, _, name = env_id.rpartition(":")
    imported = None
    try:
        if module:
            imported = importlib.import_module(module)
        return gymnasium.spec(name)
    except ImportError as error:
        raise ConfigError(f"task.env_id={env_id}: cannot import {module} ({error})") from error
    except gymnasium.error.Error as error:
        if imported is not None and callable(creator := getattr(imported, name, None)):
            return EnvSpec(name, entry_point=creator)
        if name.startswith(PYTHON_NAMESPACE):
            raise ConfigError(
                f"task.env_id={env_id} was made by a function of a Python program, and can be made again only by it: "
                "robo_rl.load(RUN, environment=FUNCTION)"
            ) from error
        raise ConfigError(f"unknown task.env_id {env_id!r}: {_suggestions(name)}") from error


def _check_models(config: GymnasiumConfig) -> None:
    """Check the models of MuJoCo that arguments name: a saved configuration may come from anyone.

    Raises:
        ConfigError: if one is not a regular file, or requests more than any robot needs.
    """
    for name, value in config.env_kwargs.items():
        if not isinstance(value, str) or not (value.endswith(".xml") or "xml" in name or "model" in name):
            continue
        path = Path(value).expanduser()  # as Gymnasium's environments do
        if os.path.lexists(path) and not path.is_dir() and (value.endswith(".xml") or _may_be_xml(path)):
            check_mjcf(path, f"task.env_kwargs.{name}")


def _may_be_xml(path: Path) -> bool:
    """Return whether MuJoCo may find an element in a file: it ignores text before it, and ends at a zero byte.

    The file may as well contain the weights of a network.
    """
    try:
        with open_regular(path) as file:
            head = os.read(file, _HEAD_BYTES)
    except (DataError, OSError):
        return True  # the check of the model names the reason
    before, element, _ = head.partition(b"<")
    return b"\0" not in before and (bool(element) or len(head) == _HEAD_BYTES)


def legacy_random(env_id: str) -> bool:
    """Return whether the environment ``env_id`` draws from NumPy's legacy generators."""
    package = _package_of(env_id)
    return package is not None and package.legacy_random


def _package_of(env_id: str) -> _Package | None:
    return next((package for package in PACKAGES if env_id.startswith(package.prefixes)), None)


@contextlib.contextmanager
def arguments_named(config: GymnasiumConfig) -> Iterator[None]:
    """Turn any exception while an environment is made and tried into a ConfigError that names its arguments."""
    try:
        yield
    except RoboRLError:
        raise
    except gymnasium.error.DependencyNotInstalled as error:
        raise ConfigError(f"task.env_id={config.env_id} needs a package that is not installed: {error}") from error
    except BaseException as error:  # each environment fails in its own way
        reraise_signal(error)
        advice = "; +task.env_kwargs.NAME=VALUE gives it an argument" if "required" in first_line(error) else ""
        raise ConfigError(
            f"task.env_id={config.env_id} does not work with task.env_kwargs={config.env_kwargs} "
            f"({first_line(error)}; --debug shows where){advice}"
        ) from error


def reraise_signal(error: BaseException) -> None:
    """Raise ``error`` again if it is a request to end this process: KeyboardInterrupt or a subclass of SystemExit.

    SystemExit itself comes from an environment that calls ``exit()``. All other exceptions are failures of the
    environment, including those that are not an Exception, such as ``asyncio.CancelledError``.
    """
    if isinstance(error, KeyboardInterrupt) or (isinstance(error, SystemExit) and type(error) is not SystemExit):
        raise error


def first_line(error: BaseException) -> str:
    """Return the type of ``error`` and the first line of its text, if it has any."""
    try:
        text = str(error).partition("\n")[0]
    except Exception:  # the text is computed by foreign code
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def task_name(config: GymnasiumConfig) -> str:
    """Return the name of the task; for Meta-World the name of the single task."""
    name = config.env_kwargs.get("env_name")
    return f"Meta-World/{name}" if config.env_id == META_WORLD and name else config.env_id


def find_step_limit(env: gymnasium.Env[Any, Any], repeat: int) -> int | None:
    """Return the number of steps after which an episode is truncated, each of ``repeat`` steps of ``env``; or None."""
    limit = env.spec.max_episode_steps if env.spec is not None else None
    return None if limit is None else math.ceil(limit / repeat)


def find_control_rate(env: gymnasium.Env[Any, Any], env_id: str) -> float:
    """Return the control rate of ``env`` [Hz].

    Raises:
        ConfigError: if ``env`` has none, or one that is out of range for a task.
    """
    unwrapped: Any = env.unwrapped
    period = getattr(unwrapped, "dt", None)
    if period is None and callable(control_timestep := getattr(unwrapped, "control_timestep", None)):  # OGBench
        period = control_timestep()
    rate = 1 / period if period else env.metadata.get("render_fps")
    if not rate:
        raise ConfigError(f"{env_id} does not report its control rate: set task.control_rate=<Hz>")
    if not MIN_RATE <= float(rate) <= MAX_RATE:
        between = f"between {MIN_RATE:g} and {MAX_RATE:g}"
        raise ConfigError(f"{env_id} reports a control rate of {rate:g} Hz: set task.control_rate=<Hz> {between}")
    return round(float(rate), 6)


def _suggestions(env_id: str) -> str:
    """Return the nearest registered ids (there are hundreds), including those of installed packages."""
    for package in PACKAGES:
        with contextlib.suppress(ImportError):
            importlib.import_module(package.module)
    close = difflib.get_close_matches(env_id, gymnasium.registry, n=5, cutoff=0.5)
    return nearest(env_id, close) if close else "gymnasium.pprint_registry() lists those that are registered"
