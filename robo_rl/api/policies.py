"""Trained policies in Python: decisions, evaluations, videos and files."""

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..app import (
    TrainedPolicy,
    acting_config,
    build,
    change_task,
    evaluated_policy,
    load_policy,
    write_deployed,
)
from ..command_line.destination import output_file
from ..core import EnvSpec, Observation, RenderingError, SpaceTranslation, SpecError, TranslatingBackend, require
from ..deployment import Verification, check_name, check_weights
from ..evaluation import EvaluationResult


class Policy:
    """Policy of a run, for one environment at a time.

    It decides without exploration, as in evaluations, and remembers the rest of an action chunk within an episode:
    call :meth:`reset` when an episode begins.

    ::

        observation, _ = env.reset()
        policy.reset()
        while not done:
            observation, _, terminated, truncated, _ = env.step(policy(observation))

    Args:
        folder: run folder.
        checkpoint: ``best``, ``newest`` or the number of a step.

    Raises:
        CheckpointError: if there is no such checkpoint, or it is damaged.
        ConfigError: if the folder is not a run, or its configuration names code that is not allowed.
    """

    def __init__(self, folder: Path, checkpoint: str = "best") -> None:
        self._folder, self._checkpoint = folder, checkpoint
        self._trained = self._load()

    def __repr__(self) -> str:
        return f"Policy({str(self._folder)!r}: task {self.spec.task}, step {self.step:,})"

    @property
    def spec(self) -> EnvSpec:
        """Observations and actions: shapes, ranges, names, units and rate."""
        return self._trained.spec

    @property
    def step(self) -> int:
        """Number of environment steps after which the policy was saved."""
        return self._trained.step

    def reset(self) -> None:
        """Begin an episode: forget the rest of an action chunk."""
        for explore in (False, True):
            self._trained.policy.forget_plan(explore=explore)

    def __call__(self, observation: Any) -> NDArray[Any]:
        """Return the action for an observation.

        Args:
            observation: observation of the environment that the policy was trained in, as its ``reset`` and ``step``
                return it, or a mapping with the keys of ``spec.observation``.

        Returns:
            The action for the environment's ``step``: (A,) in [-1, 1] for tasks of robo-rl, otherwise in the
            environment's own action space.

        Raises:
            SpecError: if this is not an observation of the environment.
        """
        return self.predict(observation)[0]

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[Any], Any]:
        """Return the action for an observation, and ``state``, as policies of Stable-Baselines3 do.

        Args:
            observation: see :meth:`__call__`.
            state: returned unchanged, because the policy keeps its own state.
            episode_start: whether an episode begins with this observation; it replaces :meth:`reset`.
            deterministic: whether to decide without exploration.

        Raises:
            SpecError: if this is not an observation of the environment.
        """
        if episode_start is not None and np.any(episode_start):
            self.reset()
        action = self._trained.policy.act(self._observed(observation), explore=not deterministic)
        return (action if self._translation is None else self._translation.action(action)), state

    def evaluate(
        self,
        episodes: int = 100,
        *,
        seed: int = 1000,
        video: str | os.PathLike[str] | None = None,
        video_episodes: int = 5,
        task: Mapping[str, Any] | None = None,
        on_robot: bool = False,
    ) -> EvaluationResult:
        """Run episodes in an environment of the run, as ``robo-rl eval`` does, and return their outcome.

        Args:
            episodes: number of episodes.
            seed: seed of the start states.
            video: MP4 file to write; None: no video.
            video_episodes: number of episodes that the video shows, from the first.
            task: options of the task to change: ``{"clearance": 0.0005}``.
            on_robot: whether a person has confirmed the limits in the run's configuration, if it drives a robot.

        Raises:
            ConfigError: if an argument is invalid, or the run drives a robot and ``on_robot`` is false.
            RenderingError: if the video cannot be made.
        """
        for name, number in (("episodes", episodes), ("video_episodes", video_episodes)):
            require(number >= 1, name, "1 or more", number)
        require(seed >= 0, "seed", "0 or more", seed)
        file = None if video is None else output_file("video", Path(video))
        config = acting_config(self._folder, on_robot)
        change_task(config, task or {})
        with evaluated_policy(
            self._folder, config, checkpoint=self._checkpoint, episodes=episodes, seed=seed
        ) as evaluated:
            result = evaluated.measure(evaluated.trained.policy, video=file, video_episodes=video_episodes)
        if result.video_problem:
            raise RenderingError(f"no video: {result.video_problem}")
        return result

    def video(self, path: str | os.PathLike[str], *, episodes: int = 5, seed: int = 1000) -> Path:
        """Film episodes and write an MP4 file; return its path. See :meth:`evaluate`."""
        self.evaluate(episodes, seed=seed, video=path, video_episodes=episodes)
        return Path(path)

    def deploy(self, path: str | os.PathLike[str], *, weights: str = "float32") -> Verification | None:
        """Write the policy to an ONNX file or a C99 header, for use without PyTorch, as ``robo-rl deploy`` does.

        Args:
            path: a file ``NAME.onnx`` or ``NAME.h``, which is replaced if it exists.
            weights: type of the weights in the file: ``float32``, or ``int8``, which takes a quarter of the memory.

        Returns:
            Comparison of the file with PyTorch; None for a header if there is no compiler.

        Raises:
            ConfigError: if the policy cannot be written in this format, or packages are missing.
            DataError: if the file differs from the policy. Nothing is written then.
        """
        check_name(Path(path))
        check_weights(weights)
        return write_deployed(self._load(), output_file("path", Path(path)), weights=weights)

    def _load(self) -> TrainedPolicy:
        return load_policy(self._folder, None, self._checkpoint)

    @cached_property
    def _translation(self) -> SpaceTranslation | None:
        """Translation between the environment's spaces and those of the policy; None if they are the same."""
        if self.spec.action_space != "gymnasium":
            return None
        backend = build(self._trained.config.task)
        try:
            return backend.translation if isinstance(backend, TranslatingBackend) else None
        finally:
            backend.close()

    def _observed(self, observation: Any) -> Observation:
        """Return an observation in the format of the policy."""
        specs = self.spec.observation
        arrays = dict(_flat(observation)) if isinstance(observation, Mapping) else {}
        if specs.keys() <= arrays.keys():
            observed = {key: _as_array(arrays[key], spec.dtype) for key, spec in specs.items()}
        elif self._translation is not None:
            try:
                observed = self._translation.observation(observation)
            except ValueError as error:
                raise SpecError(f"observation: {error}") from error
        else:
            got = sorted(arrays) if isinstance(observation, Mapping) else type(observation).__name__
            raise SpecError(f"observation: expected a mapping with keys {sorted(specs)}, got {got}")
        self.spec.check_observation(observed)
        return observed


def _flat(observation: Mapping[str, Any], prefix: str = "") -> Any:
    """Yield the arrays of nested mappings, with names as ``images/front``."""
    for key, value in observation.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


def _as_array(value: Any, dtype: str) -> NDArray[Any]:
    """Return an array, a tensor on the CPU or a list as an array; integers and floats of any size are accepted."""
    array = np.asarray(value)
    return array.astype(dtype) if dtype == "float32" and array.dtype.kind in "fiu" else array
