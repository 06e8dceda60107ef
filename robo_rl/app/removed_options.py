"""Options of agents that saved configurations contain although they no longer exist."""

from typing import Any

from ..core import ConfigError

_ACTOR_CRITICS = ("make_sac", "make_drq")


def drop_removed_options(agent: dict[str, Any], place: str) -> None:
    """Delete the options that no longer exist from the node of an agent. They improved no result that was measured.

    Args:
        agent: the node.
        place: file and section of the node, for messages.

    Raises:
        ConfigError: if the agent used one of them.
    """
    if str(agent.get("_target_")).rpartition(".")[2] not in _ACTOR_CRITICS:
        return
    dormancy = agent.pop("dormancy", None)
    used = {"dormancy.interval": dormancy["interval"]} if isinstance(dormancy, dict) and dormancy["interval"] else {}
    for option, value in used.items():
        raise ConfigError(
            f"{place}.{option}={value}: this option no longer exists. Use the version of robo-rl that trained this "
            "agent, or train another one without it"
        )
