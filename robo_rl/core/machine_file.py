"""Files of reward machines, and their check against the quantities that an environment provides."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import ConfigError, DataError, nearest
from .machine import Edge, RewardMachine, distances
from .readers import finite_number, load_options
from .temporal import Formula
from .temporal_text import parse_specification

MOST_STATES = 64
"""Largest number of states: each is an element of the observation."""
MOST_EDGES = 256
"""Largest number of edges of one state."""
_NAME = re.compile(r"[A-Za-z]\w{0,39}")
_KEYS = ("states", "success", "failure")
_EDGE_KEYS = ("when", "to", "reward")


def read_machine(
    path: Path, units: Mapping[str, str | None], simulated: Mapping[str, str | None] | None = None
) -> RewardMachine:
    """Read a machine from a YAML file.

    Args:
        path: the file; docs/reference/rewards.md describes it.
        units: unit of each available quantity by name, or None.
        simulated: units of quantities that exist only in simulation, for messages.

    Raises:
        ConfigError: if the file cannot be read, or the machine cannot be used; the message lists all problems.
    """
    try:
        values = load_options(path)
    except (OSError, DataError) as error:
        raise ConfigError(f"task.machine: {path} cannot be read: {error}") from error
    reader = _Reader(values, units, simulated or {})
    machine = reader.machine()
    if reader.problems:
        lines = "".join(f"\n  {problem}" for problem in reader.problems)
        raise ConfigError(f"task.machine: {path} is not a machine for this task:{lines}")
    return machine


class _Reader:
    """Reader of one file.

    Attributes:
        problems: all problems of the file, a sentence each.
    """

    def __init__(
        self, values: Mapping[Any, Any], units: Mapping[str, str | None], simulated: Mapping[str, str | None]
    ) -> None:
        self._units, self._simulated = units, simulated
        self._signals: set[str] = set()
        self.problems: list[str] = []
        for key in values:
            if key not in _KEYS:
                self.problems.append(f"unknown key {key!r}: {nearest(str(key), _KEYS)}")
        edges = values.get("states")
        if not isinstance(edges, dict):
            self.problems.append("'states' must be the edges of each state by its name")
            edges = {}
        success, failure = (self._list(values, key) for key in ("success", "failure"))
        self._edges: dict[str, Any] = {str(name): edges[name] for name in edges}
        self._success, self._failure = success, failure
        self._states = tuple(dict.fromkeys((*self._edges, *success, *failure)))
        self._check_states()

    def machine(self) -> RewardMachine:
        """Return the machine; it is not valid if there are problems."""
        edges = {name: self._read_edges(name) for name in self._states}
        success, failure = (frozenset(map(self._states.index, names)) for names in (self._success, self._failure))
        definition = [self._states, sorted(success), sorted(failure), [self._edges.get(name) for name in self._states]]
        digest = hashlib.sha256(json.dumps(definition, default=str).encode()).hexdigest()[:12]
        machine = RewardMachine(self._states, tuple(edges.values()), success, failure, frozenset(self._signals), digest)
        if not self.problems:
            self._check_ways(machine)
        return machine

    def _list(self, values: Mapping[Any, Any], key: str) -> list[str]:
        names = values.get(key, [])
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return names
        self.problems.append(f"{key!r} must be a list of names of states, got {names!r}")
        return []

    def _check_states(self) -> None:
        if len(self._states) > MOST_STATES:
            self.problems.append(f"there are {len(self._states)} states, {MOST_STATES} at most are possible")
        for name in self._states:
            if not _NAME.fullmatch(name):
                self.problems.append(f"{name!r} is no name of a state: use up to 40 letters, digits and _")
        if not self._success:
            self.problems.append("no state is a success: name one in 'success', for example success: [done]")
        for name in sorted(set(self._success) & set(self._failure)):
            self.problems.append(f"state {name!r} is a success and a failure")
        for name in dict.fromkeys((*self._success, *self._failure)):
            if self._edges.get(name):
                self.problems.append(f"state {name!r} ends the task and has edges: remove them")

    def _read_edges(self, state: str) -> tuple[Edge, ...]:
        listed = self._edges.get(state) or []
        if not isinstance(listed, list) or len(listed) > MOST_EDGES:
            self.problems.append(f"state {state!r}: expected a list of up to {MOST_EDGES} edges")
            return ()
        if not listed and state not in (*self._success, *self._failure):
            self.problems.append(f"state {state!r} has no edges and is neither a success nor a failure")
        return tuple(
            edge for number, each in enumerate(listed, 1) if (edge := self._read_edge(state, number, each)) is not None
        )

    def _read_edge(self, state: str, number: int, values: Any) -> Edge | None:
        """Return an edge; None, after noting all of its problems, if it is not valid."""
        place, known = f"state {state!r}, edge {number}", len(self.problems)
        if not isinstance(values, dict) or not {"when", "to"} <= values.keys():
            self.problems.append(f"{place}: expected {{when: CONDITION, to: STATE, reward: NUMBER}}, got {values!r}")
            return None
        for key in values:
            if key not in _EDGE_KEYS:
                self.problems.append(f"{place}: unknown key {key!r}: {nearest(str(key), _EDGE_KEYS)}")
        target = values["to"]
        if target not in self._states:
            self.problems.append(f"{place}: there is no state {target!r}: {nearest(str(target), self._states)}")
        reward = values.get("reward", float(target in self._success))
        try:
            reward = finite_number(reward)
        except ValueError as error:
            self.problems.append(f"{place}, reward: {error}")
        formula = self._read_formula(place, values["when"])
        if formula is None or len(self.problems) > known:
            return None
        return Edge(formula, self._states.index(target), reward)

    def _read_formula(self, place: str, text: Any) -> Formula | None:
        if not isinstance(text, str):
            self.problems.append(f"{place}, when: expected a text such as 'force > 5 N', got {text!r}")
            return None
        try:
            formula = parse_specification(text)
        except ConfigError as error:
            self.problems.append(f"{place}: {error}")
            return None
        if not formula.is_momentary:
            self.problems.append(f"{place}: {text!r} refers to several moments; states are the memory of a machine")
            return None
        everything = {**self._simulated, **self._units}
        try:
            names = formula.check(everything)
        except ConfigError as error:
            self.problems.append(f"{place}: {error}")
            return None
        for name in sorted(names - self._units.keys()):
            self.problems.append(
                f"{place}: {name!r} exists only in simulation: no source of this robot gives it. Add a source, or use "
                f"one of {', '.join(sorted(self._units))}"
            )
        self._signals |= names
        return formula

    def _check_ways(self, machine: RewardMachine) -> None:
        reached, waiting = {0}, [0]
        while waiting:
            targets = {edge.target for edge in machine.edges[waiting.pop()]} - reached
            reached |= targets
            waiting += targets
        for state, name in enumerate(machine.states):
            if state not in reached:
                self.problems.append(f"state {name!r} cannot be reached from {machine.states[0]!r}")
        ways = distances(machine)
        for state, name in enumerate(machine.states):
            if state in reached and state not in ways and state not in machine.failure:
                self.problems.append(f"no way leads from state {name!r} to a success: name it in 'failure'")
