"""``--ros-args`` on the command lines of commands that open ROS 2 nodes."""

import json

from ..core import ConfigError, parse_ros_arguments, pass_on

NODES = {
    "robot": "virtual_robot",
    "guard": "safety_guard",
    "reward publish": "reward",
    "train": "robo_rl",
    "actor": "robo_rl",
    "record": "robo_rl",
    "identify": "robo_rl",
    "setup": "robo_rl",
    "eval": "robo_rl",
    "launch": "",
}
"""Commands that open nodes, or start processes that do, and the node whose parameters are their settings."""


def without_ros_arguments(command: str, words: list[str]) -> list[str]:
    """Replace ``--ros-args`` in a command's words by options, and return the words.

    Names are remapped for every node of the command and of the processes that it starts. A parameter becomes the
    option of its name: ``-p publish.rate:=5.0`` is ``publish.rate=5.0``. So do the node's parameters in a file.

    Raises:
        ConfigError: if the command opens no node, or an argument is unknown.
    """
    if command not in NODES:
        raise ConfigError(f"robo-rl {command} opens no ROS 2 node; --ros-args are for {', '.join(NODES)}")
    arguments = parse_ros_arguments(words)
    pass_on(arguments.remappings)
    parameters = arguments.of_node(NODES[command] or command) | arguments.parameters
    return [word for entry in parameters.items() for word in _setting(command, *entry)] + arguments.rest


def _setting(command: str, parameter: str, value: object) -> list[str]:
    """Return the option for a parameter; none for ``use_sim_time`` if it is false, which robo-rl always assumes."""
    if parameter == "use_sim_time":
        if value is not False:
            raise ConfigError("use_sim_time: robo-rl keeps time by the machine's clock; leave it out, or false")
        return []
    node_name = NODES[command]
    node, _, name = parameter.rpartition(":")
    if not node_name or node not in ("", node_name):
        hint = f"{node_name}:{name}, or {name} alone" if node_name else "give them to the commands, or as options=..."
        raise ConfigError(f"robo-rl {command} cannot set the parameter {parameter!r}: {hint}")
    return [f"{'virtual.' if command == 'robot' else ''}{name}={json.dumps(value)}"]
