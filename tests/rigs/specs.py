"""Specs of environments that are not there."""

from collections.abc import Mapping
from typing import Any

from robo_rl.core import ArraySpec, EnvSpec

COMMON = {"control_rate": 10.0, "max_episode_steps": None, "reward_terms": ("success",)}


def toy_spec(observation: Mapping[str, ArraySpec], actions: int, **others: Any) -> EnvSpec:
    """What agents are made for: ``actions`` joint positions in [-1, 1]; ``others`` are fields of the spec."""
    fields = {"task": "toy", "action_space": "joint_position", "action_frame": "joint"}
    action = ArraySpec((actions,), low=-1, high=1)
    return EnvSpec(observation=observation, action=action, **(COMMON | fields | others))


def joint_spec(observation: Mapping[str, ArraySpec], **others: Any) -> EnvSpec:
    """A robot that moves one joint; ``others`` are fields of the spec."""
    fields = {"task": "test", "action": ArraySpec((1,)), "action_space": "joint_delta", "action_frame": "joint"}
    return EnvSpec(observation=observation, **(COMMON | fields | others))


def steered_spec(names: tuple[str, ...], **others: Any) -> EnvSpec:
    """What people steer: increments of an end effector's pose, by the names of the action's elements."""
    fields = {"task": "test", "action_space": "end_effector_delta", "action_frame": "base"}
    arrays = {
        "observation": {"state": ArraySpec((1,))},
        "action": ArraySpec((len(names),), low=-1, high=1, names=names),
    }
    return EnvSpec(**(COMMON | fields | arrays | others))
