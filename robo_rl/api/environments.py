"""Tasks and Gymnasium environments as options of ``robo-rl train``."""

import functools
import importlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from omegaconf import DictConfig

from ..app import allow_packages, register_all_configs
from ..core import PYTHON_NAMESPACE, ConfigError, override_word, quoted

Environment = str | gymnasium.Env[Any, Any] | Callable[..., gymnasium.Env[Any, Any]]
"""Name of a task, id of a Gymnasium environment, an environment, or a class or function that makes one."""

_OWN_ENTRY_POINT = "robo_rl.sim.gymnasium_adapter:make_environment"


def environment_words(environment: Environment) -> list[str]:
    """Return the options that choose a task or environment.

    Args:
        environment: see :data:`Environment`. A class or function is called without arguments, or, if its ``metadata``
            lists the render mode ``rgb_array``, with this mode.

    Raises:
        ConfigError: if it cannot be made a second time, which evaluations require.
    """
    if isinstance(environment, gymnasium.Env):
        return _words_of_instance(environment)
    if isinstance(environment, str):
        if re.fullmatch(r"\w+", environment):
            return [f"task={environment}"]
        if environment.startswith("robo_rl/"):
            register_all_configs()  # the tasks register these ids
        registered = gymnasium.registry.get(environment)
        is_own = registered is not None and registered.entry_point == _OWN_ENTRY_POINT
        return _words_of_own(registered) if registered is not None and is_own else _words_of_id(environment)
    if not callable(environment):
        raise ConfigError(
            "expected the name of a task, the id of a Gymnasium environment, such an environment, or a class or "
            f"function that makes one, got {environment!r}"
        )
    return _words_of_id(_importable_id(environment) or _registered_id(environment))


def provide_environment(environment: Callable[..., gymnasium.Env[Any, Any]], env_id: str) -> None:
    """Register the class or function that makes the environment of a run that another program trained.

    Args:
        environment: the class or function.
        env_id: id of the environment in the run's configuration.

    Raises:
        ConfigError: if the run does not need it.
    """
    if ":" in env_id and _importable_id(environment) == env_id:
        return
    if not env_id.startswith(PYTHON_NAMESPACE):
        raise ConfigError(
            f"environment={environment!r} was not trained on, but {env_id or 'a task of robo-rl'}: leave it out"
        )
    known = gymnasium.registry.get(env_id)
    if known is not None and known.entry_point is not environment:
        raise ConfigError(
            f"{env_id} is already made by {known.entry_point!r} in this program: load this run in another one"
        )
    gymnasium.registry[env_id] = EnvSpec(env_id, entry_point=environment)


def require_reachable(config: DictConfig) -> None:
    """Check that the processes of a run can make its environment.

    Raises:
        ConfigError: if actors are separate processes, and only this program can make it.
    """
    env_id = str(config.task.get("env_id", ""))
    if config.runtime.name != "local" and env_id.startswith(PYTHON_NAMESPACE):
        raise ConfigError(
            f"runtime={config.runtime.name} makes environments in other processes, and only this program can make "
            f"{env_id}: give a class or function, without arguments, of a module that they can import, or choose "
            "runtime=local"
        )


def _words_of_instance(environment: gymnasium.Env[Any, Any]) -> list[str]:
    spec = environment.spec
    if spec is None:
        kind = type(environment.unwrapped).__name__
        raise ConfigError(
            f"this environment ({kind}) was not made by gymnasium.make, so it cannot be made a second time, which "
            f"evaluations require: give the class or a function instead, as robo_rl.train({kind}) or "
            f"robo_rl.train(lambda: {kind}(...))"
        )
    if any(wrapper.kwargs is None for wrapper in spec.additional_wrappers):
        names = ", ".join(wrapper.name for wrapper in spec.additional_wrappers if wrapper.kwargs is None)
        raise ConfigError(
            f"the wrapper {names} does not record its arguments (gymnasium.utils.RecordConstructorArgs), so the "
            "environment cannot be made a second time, which evaluations require: give a function that makes it"
        )
    registered = gymnasium.registry.get(spec.id)
    if spec.additional_wrappers or registered is None:
        modes = environment.metadata.get("render_modes", ())
        drawn: dict[str, Any] = {"render_mode": "rgb_array"} if "rgb_array" in modes else {}
        return _words_of_id(_registered_id(functools.partial(gymnasium.make, spec, **drawn)))
    if spec.entry_point == _OWN_ENTRY_POINT:
        return _words_of_own(spec)
    words = _words_of_id(spec.id)
    if spec.max_episode_steps != registered.max_episode_steps:
        words.append(f"task.max_episode_steps={spec.max_episode_steps}")
    # compared as text, because the comparison of arrays has no truth value
    defaults = {key: repr(value) for key, value in registered.kwargs.items()}
    for key, value in spec.kwargs.items():
        if key != "render_mode" and defaults.get(key) != repr(value):
            words.append(f"+task.env_kwargs.{key}={_as_text(key, value)}")
    return words


def _words_of_id(env_id: str) -> list[str]:
    return ["task=gymnasium", override_word("task.env_id", env_id)]


def _words_of_own(spec: EnvSpec) -> list[str]:
    """Return the options of a task of robo-rl that was made by ``gymnasium.make``."""
    fields = {key: value for key, value in spec.kwargs.items() if key not in ("name", "render_mode")}
    if "reward" in fields:
        raise ConfigError(
            f"{spec.id}: the weights reward={fields['reward']!r} are not used in training: leave them out, and choose "
            "a reward by overrides, as 'reward=shaped'"
        )
    return [f"task={spec.kwargs['name']}", *(f"{key}={_as_text(key, value)}" for key, value in _flat("task", fields))]


def _flat(prefix: str, fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in fields.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}.{key}", value)
        else:
            yield f"{prefix}.{key}", value


def _as_text(key: str, value: Any) -> str:
    """Return an argument of an environment in Hydra's grammar.

    Raises:
        ConfigError: if the grammar cannot express it.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(_as_text(key, element) for element in value)}]"
    if isinstance(value, Mapping) and all(re.fullmatch(r"[A-Za-z_]\w*", str(name)) for name in value):
        return f"{{{','.join(f'{name}:{_as_text(key, element)}' for name, element in value.items())}}}"
    raise ConfigError(
        f"the argument {key}={value!r} of the environment cannot be written to a configuration: give a function "
        "without arguments that makes the environment"
    )


def _importable_id(environment: Callable[..., Any]) -> str | None:
    """Return ``MODULE:NAME`` for a class or function that other processes can import, and allow it; None for others."""
    module, name = getattr(environment, "__module__", None), getattr(environment, "__qualname__", "")
    if module is None or module == "__main__" or not name.isidentifier():
        return None
    try:
        if getattr(importlib.import_module(module), name, None) is not environment:
            return None
    except ImportError:
        return None
    allow_packages([module])
    return f"{module}:{name}"


def _registered_id(environment: Callable[..., Any]) -> str:
    """Return the id under which this program alone can make an environment."""
    named = environment.func if isinstance(environment, functools.partial) else environment
    name = re.sub(r"\W", "", getattr(named, "__name__", "")) or "environment"
    for version in range(len(gymnasium.registry) + 1):
        env_id = f"{PYTHON_NAMESPACE}{name}-v{version}"
        known = gymnasium.registry.get(env_id)
        if known is None:
            gymnasium.registry[env_id] = EnvSpec(env_id, entry_point=environment)
            return env_id
        if known.entry_point is environment:
            return env_id
    raise AssertionError("one of these versions is free")
