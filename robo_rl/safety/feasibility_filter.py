"""A filter that allows actions after which, by a learned feasibility value, a constraint can be kept indefinitely."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from robo_rl.core import (
    PASSED,
    ConfigError,
    DataError,
    EnvSpec,
    Observation,
    SpecError,
    TurningState,
    Verdict,
    generator,
    networks_within,
    parse_json,
    read_bytes,
    whole_number,
    write_durably,
)

from .feasibility import FeasibilityModel
from .motion import Action

Floats = NDArray[np.float32]

SHRUNK = (0.75, 0.5, 0.25)
"""Shares of a proposed action that are tried in its place."""
CARD_BYTES = 4 << 20
WEIGHTS_BYTES = 1 << 30
WEIGHTS, CARD = "model.safetensors", "card.json"
"""Files of a model's folder."""


def state_keys(spec: EnvSpec) -> tuple[str, ...]:
    """Return the observation keys that make up a state: all except images."""
    return tuple(key for key in spec.observation if not key.startswith("images/"))


def stacked(observations: Mapping[str, NDArray[Any]], keys: tuple[str, ...]) -> Floats:
    """Return states (..., S) from observations by key (..., elements)."""
    return np.concatenate([observations[key] for key in keys], axis=-1).astype(np.float32, copy=False)


def save_model(
    folder: Path, model: FeasibilityModel, spec: EnvSpec, hidden: tuple[int, ...], facts: dict[str, Any]
) -> None:
    """Write a model and its card into a new folder.

    Args:
        folder: folder to create.
        model: learned model.
        spec: spec of the environment that its data come from.
        hidden: units of its hidden layers.
        facts: further JSON values of the card, for readers.
    """
    folder.mkdir(parents=True)
    write_durably(folder / WEIGHTS, save(model.state()))
    card = {"spec": _without_images(spec).to_json(), "hidden": list(hidden), **facts}
    write_durably(folder / CARD, json.dumps(card, indent=2).encode())


def load_model(folder: Path, spec: EnvSpec) -> FeasibilityModel:
    """Return the model stored in a folder, for an environment of ``spec``.

    Raises:
        ConfigError: if the model was learned for other observations or actions.
        DataError: if the folder cannot be read.
    """
    try:
        card = parse_json(read_bytes(folder / CARD, CARD_BYTES), CARD, finite=False)
        learned = EnvSpec.from_json(card["spec"])
        hidden = tuple(whole_number(size, 1, 1 << 16) for size in card["hidden"])
        numbers = load(read_bytes(folder / WEIGHTS, WEIGHTS_BYTES))
    except (DataError, SpecError, OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise DataError(f"safety.feasibility.model: {folder} is no model of robo-rl safety learn: {error}") from error
    if differences := learned.differences(_without_images(spec)):
        raise ConfigError(f"safety.feasibility.model: {folder} was learned elsewhere: {'; '.join(differences)}")
    size = sum(spec.observation[key].shape[0] for key in state_keys(spec))
    stored = sum(array.size for array in numbers.values())
    try:
        with networks_within(stored, WEIGHTS, DataError):
            model = FeasibilityModel(size, spec.action.shape[0], hidden)
        model.load(numbers)
    except DataError as error:
        raise DataError(f"safety.feasibility.model: {folder}: {error}") from error
    return model


def _without_images(spec: EnvSpec) -> EnvSpec:
    return replace(spec, observation={key: spec.observation[key] for key in state_keys(spec)})


class FeasibilityFilter:
    """Replaces an action after which the constraint could not be kept, according to the model.

    The replacement is the nearest of several candidates after which the constraint can be kept: the action that holds
    still, the action shrunk, and random actions. If there is no such candidate, it is the one that breaks the
    constraint least. The gripper's element, if there is one, is the last and is kept.

    Args:
        model: learned model.
        state: conversion of observations to those of its data.
        candidates: number of random actions that are tried.
        margin: by how much the constraint has to be kept on the way, in its units.
        hold: returns the action that holds still, with the gripper as in the given action.
        scaled: returns the action with its motion times a factor, with the gripper as in the given action.
    """

    def __init__(
        self,
        model: FeasibilityModel,
        state: TurningState,
        candidates: int,
        margin: float,
        hold: Callable[[Observation, Action], Action],
        scaled: Callable[[Observation, Action, float], Action],
    ) -> None:
        self._model = model
        self._state = state
        self._keys = state_keys(state.spec)
        self._candidates = candidates
        self._margin = margin
        self._hold = hold
        self._scaled = scaled
        self._has_gripper = state.spec.action.names[-1:] == ("gripper",)
        self.reset()

    def reset(self) -> None:
        """Restart the random stream, so that every episode draws the same actions."""
        self._rng = generator(0, "feasibility")

    def __call__(self, observation: Observation, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return ``action``, or its replacement."""
        state = stacked(self._state.convert(observation), self._keys)
        if self._model.quality(state, action[None])[0] <= -self._margin:
            return action, PASSED
        drawn = self._rng.uniform(-1, 1, (self._candidates, len(action))).astype(np.float32)
        if self._has_gripper:
            drawn[:, -1] = action[-1]
        shrunk = [self._scaled(observation, action, share) for share in SHRUNK]
        options = np.stack([self._hold(observation, action), *shrunk, *drawn])
        quality = self._model.quality(state, options)
        feasible = options[quality <= -self._margin]
        if len(feasible):
            chosen = feasible[np.linalg.norm(feasible - action, axis=1).argmin()]
        else:
            chosen = options[quality.argmin()]
        return chosen, Verdict(changed=True, reasons=("feasibility",))
