"""The platform's backends as Gymnasium environments."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from robo_rl.core import (
    ArraySpec,
    ConfigError,
    EnvBackend,
    RewardWeights,
    Step,
    nearest,
    observe,
)

IMAGES = "images/"


class BackendEnv(gymnasium.Env[dict[str, Any], NDArray[np.float32]]):
    """An :class:`~robo_rl.core.EnvBackend` as a Gymnasium environment.

    - Observation space: Dict of ``state`` (Box), ``object`` (Box, if the task measures it) and ``images`` (Dict of
      uint8 Box (height, width, 3) by camera, if there are any).
    - Action space: Box(-1, 1).
    - Reward: weighted sum of the reward terms.
    - ``info``: ``reward_terms`` by name, and ``is_success`` if the task reports it.

    Args:
        backend: backend to step; it is closed with the environment.
        reward: weights of the reward terms; by default the term ``success`` alone, or all terms if there is no such
            term.
        render_mode: ``rgb_array`` or None.

    Raises:
        ConfigError: if a weight names no term of the task.
    """

    def __init__(
        self, backend: EnvBackend, reward: Mapping[str, float] | None = None, render_mode: str | None = None
    ) -> None:
        spec = backend.spec
        # One dict per instance, because the frame rate depends on the task.
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": max(1, round(spec.control_rate))}
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")
        self.render_mode = render_mode
        self.backend = backend
        self._reward = RewardWeights(None if reward is None else dict(reward))
        self._reward.vector(spec.reward_terms)  # checks the names
        boxes = _nested({key: _box(array) for key, array in spec.observation.items()})
        if "images" in boxes:
            boxes["images"] = spaces.Dict(boxes["images"])
        self.observation_space = spaces.Dict(boxes)
        self.action_space = spaces.Box(-1.0, 1.0, spec.action.shape, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode. Without ``seed``, a seed is drawn that follows from the last one given. Has no options."""
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        step = self.backend.reset(seed)
        return _nested(step.observation), self._info(step)

    def step(self, action: NDArray[np.float32]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        step = self.backend.step(np.asarray(action, np.float32))
        reward = self._reward.value(step.rewards)
        return _nested(step.observation), reward, step.terminated, step.truncated, self._info(step)

    def render(self) -> NDArray[np.uint8] | None:
        """Return a picture (height, width, 3), or None without a render mode."""
        return self.backend.render() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        self.backend.close()

    @staticmethod
    def _info(step: Step) -> dict[str, Any]:
        info: dict[str, Any] = {"reward_terms": dict(step.rewards)}
        if step.success is not None:
            info["is_success"] = step.success
        return info


def make_environment(
    name: str, render_mode: str | None = None, reward: Mapping[str, float] | None = None, **fields: Any
) -> BackendEnv:
    """Make a simulated task for ``gymnasium.make("robo_rl/PickCube-v0", ...)``.

    Args:
        name: name of the task, for example ``pick_cube``.
        render_mode: see :class:`BackendEnv`.
        reward: see :class:`BackendEnv`.
        fields: fields of the task's configuration, for example ``cube_size=0.05``. A dict changes fields of a nested
            part: ``observation={"cameras": ("front", "wrist")}``.

    Raises:
        ConfigError: if there is no such field, or a value is out of range.
    """
    from . import TASKS, make_backend

    defaults = TASKS[name].config_class(name=name)
    for key, value in fields.items():
        if isinstance(value, Mapping) and dataclasses.is_dataclass(part := getattr(defaults, key, None)):
            valid = [field.name for field in dataclasses.fields(part)]
            for inner in value.keys() - set(valid):
                raise ConfigError(f"task {name!r} has no field '{key}.{inner}'; {nearest(inner, valid)}")
            fields[key] = dataclasses.replace(part, **value)  # type: ignore[type-var]
    backend: EnvBackend = make_backend(name, **fields)
    backend = observe(backend, vars(fields.get("observation", defaults.observation)))
    return BackendEnv(backend, reward, render_mode)


def _box(spec: ArraySpec) -> spaces.Box:
    dtype = np.dtype(spec.dtype)
    if dtype == np.uint8:
        return spaces.Box(0, 255, spec.shape, np.uint8)
    return spaces.Box(spec.low, spec.high, spec.shape, dtype.type)


def _nested(observation: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``observation`` with the images, if there are any, in a nested dict."""
    nested = {key: value for key, value in observation.items() if not key.startswith(IMAGES)}
    images = {key.removeprefix(IMAGES): value for key, value in observation.items() if key.startswith(IMAGES)}
    return nested | {"images": images} if images else nested
