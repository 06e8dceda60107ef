"""Options of agents that saved configurations contain although they no longer exist."""

from typing import Any

from ..core import ConfigError

_ACTOR_CRITICS = ("make_sac", "make_drq")
_UNUSED = {"network": "mlp", "value_bins": 0, "pretrain_critics": "none"}
"""Options, and the values with which they had no effect."""
_DETAILS = ("value_range", "offline_steps", "conservative_weight", "expectile")
"""Options that only mattered together with those."""


def drop_removed_options(agent: dict[str, Any], place: str) -> None:
    """Delete options that no longer exist from the node of an agent, if they had no effect.

    Args:
        agent: the node.
        place: file and section of the node, for messages.

    Raises:
        ConfigError: if the agent used one of them.
    """
    if str(agent.get("_target_")).rpartition(".")[2] not in _ACTOR_CRITICS:
        return
    values = {option: agent.pop(option, unused) for option, unused in _UNUSED.items()}
    used = {option: value for option, value in values.items() if value != _UNUSED[option]}
    dormancy = agent.pop("dormancy", None)
    if isinstance(dormancy, dict) and dormancy.get("interval"):
        used["dormancy.interval"] = dormancy["interval"]
    for option in _DETAILS:
        agent.pop(option, None)
    if used:
        option, value = next(iter(used.items()))
        raise ConfigError(
            f"{place}.{option}={value}: this option no longer exists. Use the version of robo-rl that trained this "
            "agent, or train another one without it"
        )
