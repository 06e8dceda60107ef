"""What ``--ros-args`` says on a command line, and how it comes to all processes that open nodes."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from .errors import ConfigError

ENVIRONMENT = "ROBO_RL_ROS_ARGS"
"""Variable by which processes inherit remappings: ``-r FROM:=TO ...``."""


@dataclass(frozen=True)
class RosArguments:
    """What ``--ros-args`` said. A name for one node alone is ``node:name``.

    Attributes:
        remappings: new names of nodes (``__node``), namespaces (``__ns``), topics, services and actions.
        parameters: values by name.
        rest: the other arguments.
    """

    remappings: dict[str, str]
    parameters: dict[str, Any]
    rest: list[str]


def parse_ros_arguments(arguments: Sequence[str]) -> RosArguments:
    """Take the part between ``--ros-args`` and ``--`` out of a command line.

    ``-r FROM:=TO`` (``--remap``) and ``-p NAME:=VALUE`` (``--param``) are understood; values are YAML, as in ROS 2.

    Raises:
        ConfigError: for any other ROS argument, or one without ``:=``.
    """
    parsed = RosArguments({}, {}, [])
    inside, waiting = False, ""
    for argument in arguments:
        if not inside:
            if argument == "--ros-args":
                inside = True
            else:
                parsed.rest.append(argument)
        elif waiting:
            name, separator, value = argument.partition(":=")
            if not separator:
                raise ConfigError(f"{waiting} {argument}: expected NAME:=VALUE")
            if waiting in ("-r", "--remap"):
                parsed.remappings[name] = value
            else:
                parsed.parameters[name] = yaml.safe_load(value)
            waiting = ""
        elif argument == "--":
            inside = False
        elif argument in ("-r", "--remap", "-p", "--param"):
            waiting = argument
        elif argument != "--ros-args":
            raise ConfigError(f"ROS argument {argument!r} is not known; -r FROM:=TO and -p NAME:=VALUE are")
    if waiting:
        raise ConfigError(f"{waiting} at the end of the command line: expected NAME:=VALUE after it")
    return parsed


def pass_on(remappings: Mapping[str, str]) -> None:
    """Have every node that this process and those that it starts open remap names so."""
    words = [word for old, new in remappings.items() for word in ("-r", f"{old}:={new}")]
    os.environ[ENVIRONMENT] = shlex.join(words)


def passed_on() -> dict[str, str]:
    """Return the remappings that were passed on.

    Raises:
        ConfigError: if the variable does not say remappings.
    """
    try:
        return parse_ros_arguments(["--ros-args", *shlex.split(os.environ.get(ENVIRONMENT, ""))]).remappings
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{ENVIRONMENT}: {error}") from error
