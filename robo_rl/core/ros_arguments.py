"""Parsing of ``--ros-args`` on a command line, and passing of remappings to all processes that open nodes."""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .errors import ConfigError, DataError
from .foreign import check_yaml, read_bytes

_FILE_BYTES = 1 << 20
ENVIRONMENT = "ROBO_RL_ROS_ARGS"
"""Environment variable by which processes inherit remappings: ``-r FROM:=TO ...``."""


@dataclass(frozen=True)
class RosArguments:
    """The parsed ``--ros-args``. A name for one node alone is written ``node:name``.

    Attributes:
        remappings: new names of nodes (``__node``), namespaces (``__ns``), topics, services and actions.
        parameters: values by name.
        rest: the other arguments.
        files: contents of parameter files, in order: the pattern of a node's full name (``/arm/driver``, ``/**``), and
            values by name.
    """

    remappings: dict[str, str]
    parameters: dict[str, Any]
    rest: list[str]
    files: list[tuple[str, dict[str, Any]]]

    def of_node(self, node: str) -> dict[str, Any]:
        """Return the values in parameter files for the node that is called ``node`` before remapping."""
        name, namespace = (self.remappings.get(rule, default) for rule, default in (("__node", node), ("__ns", "")))
        full = f"/{namespace.strip('/')}/{name}".replace("//", "/")
        parameters: dict[str, Any] = {}
        for pattern, values in self.files:
            if _matches(pattern, full):
                parameters |= values
        return parameters


def parse_ros_arguments(arguments: Sequence[str]) -> RosArguments:
    """Extract the part between ``--ros-args`` and ``--`` from a command line.

    ``-r FROM:=TO`` (``--remap``), ``-p NAME:=VALUE`` (``--param``) and ``--params-file FILE`` are supported; values
    are YAML, as in ROS 2.

    Raises:
        ConfigError: for any other ROS argument, one without ``:=``, or an invalid parameter file.
    """
    parsed = RosArguments({}, {}, [], [])
    inside, waiting = False, ""
    for argument in arguments:
        if not inside:
            if argument == "--ros-args":
                inside = True
            else:
                parsed.rest.append(argument)
        elif waiting == "--params-file":
            parsed.files.extend(_read_parameters(Path(argument)))
            waiting = ""
        elif waiting:
            name, separator, value = argument.partition(":=")
            if not separator:
                raise ConfigError(f"{waiting} {argument}: expected NAME:=VALUE")
            if waiting in ("-r", "--remap"):
                parsed.remappings[name] = value
            else:
                parsed.parameters[name] = _value(name, value)
            waiting = ""
        elif argument == "--":
            inside = False
        elif argument in ("-r", "--remap", "-p", "--param", "--params-file"):
            waiting = argument
        elif argument != "--ros-args":
            supported = "supported are -r FROM:=TO, -p NAME:=VALUE and --params-file FILE"
            raise ConfigError(f"unknown ROS argument {argument!r}; {supported}")
    if waiting:
        expected = "FILE" if waiting == "--params-file" else "NAME:=VALUE"
        raise ConfigError(f"{waiting} at the end of the command line: expected {expected} after it")
    return parsed


def _value(name: str, text: str) -> Any:
    try:
        check_yaml(text, f"-p {name}:={text}")
        return yaml.safe_load(text)
    except (DataError, ValueError) as error:  # an invalid date raises ValueError
        raise ConfigError(f"{error}; a value is YAML, for example 5.0 or [1, 2]") from error


def _read_parameters(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the values by name for each pattern of nodes in a ROS 2 parameter file."""
    try:
        text = read_bytes(path, _FILE_BYTES).decode()
        check_yaml(text, str(path))
        content = yaml.safe_load(text)
    except (DataError, OSError, ValueError) as error:
        raise ConfigError(f"--params-file {path} cannot be read: {error}") from error
    sections = list(_sections("", content))
    if not sections:
        raise ConfigError(f"--params-file {path}: expected NODE: {{ros__parameters: {{NAME: VALUE}}}}")
    return sections


def _sections(name: str, content: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the sections of namespaces and nodes, which may be written as one key or nested."""
    for key, value in content.items() if isinstance(content, dict) else ():
        if name and key == "ros__parameters":
            yield name, dict(_values("", value))
        else:
            yield from _sections(f"{name}/{str(key).strip('/')}", value)


def _values(name: str, content: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(content, dict):
        yield name, content
        return
    for key, value in content.items():
        yield from _values(f"{name}.{key}" if name else str(key), value)


def _matches(pattern: str, full: str) -> bool:
    """Return whether a pattern matches a node: ``*`` is any one part of its full name, ``**`` any number of them."""
    parts = [
        "(/[^/]+)*" if part == "**" else f"/{re.escape(part)}".replace(r"\*", "[^/]+")
        for part in pattern[1:].split("/")
    ]
    return re.fullmatch("".join(parts), full) is not None


def pass_on(remappings: Mapping[str, str]) -> None:
    """Make every node that this process and its child processes open apply these remappings."""
    words = [word for old, new in remappings.items() for word in ("-r", f"{old}:={new}")]
    os.environ[ENVIRONMENT] = shlex.join(words)


def passed_on() -> dict[str, str]:
    """Return the remappings inherited by :func:`pass_on`.

    Raises:
        ConfigError: if the variable does not hold remappings.
    """
    try:
        return parse_ros_arguments(["--ros-args", *shlex.split(os.environ.get(ENVIRONMENT, ""))]).remappings
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{ENVIRONMENT}: {error}") from error
