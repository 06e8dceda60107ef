"""The start of an agent from what another agent of its kind has learned."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from robo_rl.core import Agent, ConfigError

POLICY_OPTIONS = (
    "network",
    "hidden",
    "activation",
    "actor_layer_norm",
    "action_chunk",
    "flow_steps",
    "encoder",
    "image_keys",
    "critic_keys",
)
"""Options on which two agents must agree if one takes over the policy of the other; not every agent has all of them."""

CRITIC_OPTIONS = ("critic_hidden", "ensemble_size", "layer_norm", "value_bins", "gamma")
"""The further options for the critics."""

_WITH_POLICY = ("flow/", "critic_normaliser/")
_WITH_CRITICS = (
    "critic/",
    "noise_critic/",
    "critic_statistics/",
    "target_critic/",
    "averaged/critic/",
    "temperature/",
    "returns",
)


def check_class(start: object, own: object) -> None:
    """Check that two agents are of the same class.

    Raises:
        ConfigError: if they are not.
    """
    if type(start) is not type(own):
        kinds = f"expected agent {type(start).__name__}, found {type(own).__name__}"
        raise ConfigError(f"{kinds}: an agent can start only from one of the same class")


def check_policy(start: Agent, config: Any, observed: tuple[str, ...], options: tuple[str, ...] = ()) -> None:
    """Check that an agent can take over the policy of another one, and what depends on further ``options``.

    Args:
        start: the other agent.
        config: configuration of the agent that starts from it.
        observed: observation keys of the agent that starts from it.
        options: names of options in which both must agree besides those of the policy.

    Raises:
        ConfigError: naming each difference.
    """
    lines = _option_differences(start.config, config, POLICY_OPTIONS + options)
    if start.observed != observed:
        expected, found = ", ".join(start.observed), ", ".join(observed)
        lines.insert(0, f"observations: expected {expected}, found {found}")
    if lines:
        raise ConfigError("; ".join(lines))


def _option_differences(start: Any, own: Any, names: tuple[str, ...]) -> list[str]:
    """Return one line for each of the options ``names`` in which two configurations of an agent differ.

    Args:
        start: configuration of the agent that was trained.
        own: configuration of the agent that starts from it.
        names: names of options; a configuration without one counts as None.
    """
    lines = []
    for name in names:
        expected, found = getattr(start, name, None), getattr(own, name, None)
        if expected != found:
            lines.append(f"agent.{name}: expected {_plain(expected)}, found {_plain(found)}")
    return lines


def _plain(value: Any) -> Any:
    """Return a value as it is written on the command line."""
    return list(value) if isinstance(value, tuple) else value


def transferred(slots: Mapping[str, Tensor], policy: Mapping[str, Tensor], critics: bool) -> dict[str, Tensor]:
    """Return those of an agent's ``slots`` that it takes over.

    Args:
        slots: all tensors of the agent.
        policy: the tensors of its policy.
        critics: whether critics, target critics, temperature and scale of the rewards are taken over too.
    """
    prefixes = _WITH_POLICY + (_WITH_CRITICS if critics else ())
    return {name: tensor for name, tensor in slots.items() if name in policy or name.startswith(prefixes)}


def has_critics(slots: Mapping[str, Tensor]) -> bool:
    """Return whether there are critics among the tensors of an agent or a policy."""
    return any(name.startswith("critic/") for name in slots)
