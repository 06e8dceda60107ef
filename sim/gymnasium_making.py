"""Construction of registered Gymnasium environments, and errors that name missing packages and arguments."""

import contextlib
import difflib
import importlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium
from gymnasium.envs.registration import load_env_creator

from robo_rl.core import MAX_RATE, MIN_RATE, ConfigError, RoboRLError, nearest

from .gymnasium_options import GymnasiumConfig

META_WORLD = "Meta-World/MT1"
"""Id of all single tasks of Meta-World; ``env_name`` selects one."""


class _Package(NamedTuple):
    """A package that registers environments when it is imported.

    Attributes:
        module: name of the module to import.
        pip: arguments of ``pip install``.
        prefixes: prefixes of the ids of its environments.
        defaults: arguments that its environments get unless the configuration sets others.
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
    # Meta-World draws its 50 goals when the environment is made; without a seed, each process would get different ones.
    # It requires one old version of MuJoCo, but does not need it.
    _Package("metaworld", "--no-deps metaworld imageio", ("Meta-World/",), {"seed": 0, "render_mode": "rgb_array"}),
)


def make_environment(config: GymnasiumConfig) -> gymnasium.Env[Any, Any]:
    """Return the environment that ``config`` names, with rendered pictures if it offers any.

    Raises:
        ConfigError: if the id is unknown, its package is missing, or it does not work with its arguments.
    """
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
    with arguments_named(config):
        creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
        modes = getattr(creator, "metadata", {}).get("render_modes", ())
        kwargs: dict[str, Any] = {"render_mode": "rgb_array"} if "rgb_array" in modes else {}
        kwargs |= {**(package.defaults if package is not None else {}), **config.env_kwargs}
        return gymnasium.make(name, max_episode_steps=config.max_episode_steps, disable_env_checker=True, **kwargs)


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
        raise ConfigError(
            f"task.env_id={config.env_id} does not work with task.env_kwargs={config.env_kwargs} "
            f"({first_line(error)}; --debug shows where)"
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


def find_control_rate(env: gymnasium.Env[Any, Any], env_id: str) -> float:
    """Return the control rate of ``env`` [Hz].

    Raises:
        ConfigError: if ``env`` has none, or one that is out of range for a task.
    """
    period = getattr(env.unwrapped, "dt", None)
    rate = 1 / period if period else env.metadata.get("render_fps")
    if not rate:
        raise ConfigError(f"{env_id} does not tell its control rate: give task.control_rate=<Hz>")
    if not MIN_RATE <= float(rate) <= MAX_RATE:
        between = f"between {MIN_RATE:g} and {MAX_RATE:g}"
        raise ConfigError(f"{env_id} tells a control rate of {rate:g} Hz: give task.control_rate=<Hz> {between}")
    return round(float(rate), 6)


def _suggestions(env_id: str) -> str:
    """Return the nearest registered ids (there are hundreds), including those of installed packages."""
    for package in PACKAGES:
        with contextlib.suppress(ImportError):
            importlib.import_module(package.module)
    close = difflib.get_close_matches(env_id, gymnasium.registry, n=5, cutoff=0.5)
    return nearest(env_id, close) if close else "gymnasium.pprint_registry() lists those that are registered"
