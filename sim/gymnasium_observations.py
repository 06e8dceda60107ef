"""Conversion of observations of Gymnasium environments to this platform's format: named pictures and one vector."""

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np

from robo_rl.core import ArraySpec, ConfigError, ImageConfig, Observation, nearest

from .gymnasium_outcomes import as_array
from .gymnasium_pictures import PictureSpace, of_shape, picture_space


class ObservationReader:
    """A converter of an environment's observations.

    Args:
        space: observation space: a Box, or Box in (nested) Dict. Pictures become ``images/<name>``, and all others are
            flattened into ``state``, where an achieved goal is followed by the difference from the desired goal.
        env_id: id of the environment, for messages.
        images: how pictures are stored, by name.

    Attributes:
        specs: specs of the result of :meth:`read`, by key.
        has_goal: whether the vectors ``achieved_goal`` and ``desired_goal`` are observed.

    Raises:
        ConfigError: if the space contains other spaces, or pictures of an unclear layout, or lacks one that ``images``
            names.
    """

    def __init__(
        self, space: gymnasium.Space[Any], env_id: str, images: Mapping[str, ImageConfig] | None = None
    ) -> None:
        images = images or {}
        self._vectors: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._pictures: dict[str, tuple[tuple[str, ...], PictureSpace]] = {}
        self.specs: dict[str, ArraySpec] = {}
        names: list[str] = []
        leaves = dict(_leaves(space))
        boxes = [_name(path) for path in leaves]
        if duplicates := sorted({name for name in boxes if boxes.count(name) > 1}):
            raise ConfigError(f"task.env_id={env_id}: two observations would have the name {duplicates[0]!r}")
        for missing in images.keys() - set(boxes):
            raise ConfigError(f"task.images: there is no observation {missing!r}; {nearest(missing, boxes)}")
        for path, leaf in leaves.items():
            name = _name(path)
            if not isinstance(leaf, gymnasium.spaces.Box):
                raise ConfigError(
                    f"task.env_id={env_id}: expected observations of Box (in Dict), got {leaf} as {name!r}; "
                    "gymnasium.wrappers.FlattenObservation or an ObservationWrapper of one's own can make a Box of it"
                )
            try:
                picture = picture_space(name, leaf, images.get(name))
            except ConfigError as error:
                raise ConfigError(f"task.env_id={env_id}: {error}") from error
            if picture is not None:
                self._pictures[f"images/{name}"] = path, picture
                self.specs[f"images/{name}"] = ArraySpec(picture.layout.shape, "uint8")
            else:
                self._vectors[path] = leaf.shape
                names += [f"{name}[{index}]" for index in range(int(np.prod(leaf.shape)))]
        achieved, desired = self._vectors.get(("achieved_goal",)), self._vectors.get(("desired_goal",))
        self.has_goal = achieved is not None and achieved == desired  # goals that are pictures do not count
        if self.has_goal and achieved is not None:
            names += [f"desired_goal-achieved_goal[{index}]" for index in range(int(np.prod(achieved)))]
        if not names and not self._pictures:
            raise ConfigError(f"task.env_id={env_id}: it observes nothing, {space}")
        if names:
            self.specs["state"] = ArraySpec((len(names),), names=tuple(names))

    def read(self, observation: Any) -> Observation:
        """Return ``observation`` converted, without shared memory.

        Raises:
            ValueError: if a part of it is missing, or its shape or type differs from its space.
        """
        result: Observation = {
            key: picture.read(_at(observation, path)) for key, (path, picture) in self._pictures.items()
        }
        parts = []
        for path, shape in self._vectors.items():
            name = _name(path)
            array = as_array(_at(observation, path))
            if array.dtype.kind not in "biuf":
                raise ValueError(f"observation {name!r}: expected numbers, got {array.dtype}")
            parts.append(np.ravel(of_shape(name, array, shape)))
        if self.has_goal:
            keys = ("desired_goal", "achieved_goal")
            desired, achieved = (np.ravel(as_array(observation[key])).astype(np.float64) for key in keys)
            parts.append(desired - achieved)  # as float64, for unsigned integers and truth values
        if parts:
            with np.errstate(over="ignore"):  # values too large for float32 become infinite, which guards reject
                result["state"] = np.concatenate(parts).astype(np.float32)
        return result


def _leaves(space: gymnasium.Space[Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(space, gymnasium.spaces.Dict):
        for key, child in space.items():
            yield from _leaves(child, (*path, key))
    else:
        yield path, space


def _name(path: tuple[str, ...]) -> str:
    return ".".join(map(str, path)) or "observation"


def _at(observation: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        try:
            observation = observation[key]
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"the observation lacks {'.'.join(path)!r}") from error
    return observation
