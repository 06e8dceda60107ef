"""Help of a command: its options with their values and meanings, from docstrings and configs/*.yaml."""

import inspect
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from importlib import resources
from typing import Any, NamedTuple, cast

import yaml
from omegaconf import DictConfig, OmegaConf

from ..core import bounds_of

INDENT = 2

FIRST = {
    "actor": (
        "run", "actor.name", "actor.spool", "transport.address", "transport.certificates", "transport.token_file",
        "teleop.device",
    ),
    "identify": (
        "output", "name", "path", "episodes", "held_out", "rate", "fit", "seed", "excitation.seconds",
        "excitation.amplitude", "excitation.highest_frequency", "excitation.speed",
    ),
    "learner": (
        "run.dir", "run.env_steps", "run.stop_at_success_rate", "resume", "seed", "demonstrations.path",
        "demonstrations.episodes", "runtime.transport.address", "runtime.transport.certificates", "agent.device",
    ),
    "record": (
        "record.source", "record.output", "record.episodes", "record.if_exists", "record.only_successful",
        "record.max_episode_steps", "teleop.device", "seed",
    ),
    "setup": (
        "output", "listen", "resets", "joint_motion", "translation", "seconds", "exercise", "ask", "device",
        "reference", "largest_shift", "seed",
    ),
    "train": (
        "run.dir", "run.env_steps", "run.stop_at_success_rate", "resume", "start.run", "base.run", "seed",
        "demonstrations.path", "demonstrations.episodes", "teleop.device", "agent.update_to_data", "agent.device",
    ),
}  # fmt: skip
"""The most common options, for commands that have too many options to list."""


class Option(NamedTuple):
    """An option of a command, or a section of options.

    Attributes:
        name: full name, with the names of its sections, separated by dots.
        value: value as YAML; None for a section.
        note: first sentence of its documentation; empty if there is none.
    """

    name: str
    value: str | None
    note: str

    @property
    def nested(self) -> str:
        """The line in a listing of options below their sections."""
        *parents, name = self.name.split(".")
        return f"{' ' * INDENT * len(parents)}{self._line(name)}"

    @property
    def full(self) -> str:
        """The line in a listing of single options."""
        return self._line(self.name)

    def _line(self, name: str) -> str:
        return f"{name}:{'' if self.value is None else f' {self.value}'}{f'  # {self.note}' if self.note else ''}"


def help_page(command: str, groups: Sequence[str], entries: Sequence[Option], everything: bool) -> str:
    """Return the help of a command.

    Args:
        command: words of the command.
        groups: a line for each group that it chooses from.
        entries: its options and sections.
        everything: whether all options are listed; if not, and there are too many, only the most common ones.
    """
    lines = [f"robo-rl {command} [KEY=VALUE ...]"]
    if groups:
        lines += ["", "== Groups (GROUP=CHOICE) ==", *groups]
    if everything or command not in FIRST:
        lines += ["", "== Options (KEY=VALUE; within a section SECTION.KEY=VALUE; ??? is required) =="]
        lines += [option.nested for option in entries]
    else:
        first = {option.name: option.full for option in entries if option.name in FIRST[command]}
        lines += ["", "== Most common options (KEY=VALUE) =="]
        lines += [first[name] for name in FIRST[command] if name in first]
        lines += ["", f"== All options by section (robo-rl {command} --help SECTION ...; --help-all lists all) =="]
        lines += _section_counts(entries)
    lines += [
        "",
        "-m sweeps over comma-separated values; --cfg job prints the configuration; --debug shows tracebacks.",
        f'Tab completion: eval "$(robo-rl {command} -sc install=bash)"',
    ]
    return "\n".join(lines)


def _section_counts(entries: Sequence[Option]) -> list[str]:
    """Return a line with the number of options for each section at the top level."""
    counts = Counter(option.name.partition(".")[0] for option in entries if option.value is not None)
    notes = {option.name: option.note for option in entries if option.value is None and "." not in option.name}
    width = max(map(len, notes), default=0)
    lines = [
        f"{name:<{width}}  {counts[name]:>3} options{f'  # {note}' if note else ''}" for name, note in notes.items()
    ]
    top_level = [option.name for option in entries if option.value is not None and "." not in option.name]
    return [*lines, f"{'':<{width}}  and {', '.join(top_level)}"] if top_level else lines


def options(config: DictConfig, config_name: str) -> list[Option]:
    """Return the options and sections of a command, each section before its options.

    Args:
        config: composed configuration, without Hydra's own part.
        config_name: name of the command's file in configs, without its extension.
    """
    return list(_options(config, "", _comments(config_name)))


def _options(config: DictConfig, path: str, comments: dict[str, str]) -> Iterator[Option]:
    kind = OmegaConf.get_type(config)
    attributes = _attributes(kind)
    for key, value in cast(dict[str, Any], OmegaConf.to_container(config)).items():
        if key == "_target_":
            continue
        note = comments.get(f"{path}{key}") or attributes.get(key, "")
        if isinstance(value, dict) and value:
            yield Option(f"{path}{key}", None, note or _summary(OmegaConf.get_type(config[key])))
            yield from _options(config[key], f"{path}{key}.", comments)
        else:
            yield Option(f"{path}{key}", _flow(value), _with_bounds(note, kind, key))


def _flow(value: Any) -> str:
    """Return a value as YAML in one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True)
    return text.removesuffix("...\n").rstrip()


def _with_bounds(note: str, kind: Any, key: str) -> str:
    """Return ``note`` with the bounds of an option of a dataclass, unless it already contains them."""
    bounds = bounds_of(kind, key) if is_dataclass(kind) and isinstance(kind, type) else None
    if bounds is None or bounds.choices is not None or str(bounds) in note:
        return note
    return f"{note} ({bounds})" if note else str(bounds)


def _summary(kind: Any) -> str:
    """Return the first sentence of a dataclass's docstring."""
    docstring = is_dataclass(kind) and isinstance(kind, type) and inspect.cleandoc(kind.__doc__ or "")
    return _first_sentence(docstring.partition("\n\n")[0]) if docstring else ""


def _attributes(kind: Any) -> dict[str, str]:
    """Return the first sentence about each attribute of a dataclass."""
    if not isinstance(kind, type):
        return {}
    notes: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        section = re.split(r"^Attributes.*:\n", inspect.cleandoc(base.__doc__ or ""), flags=re.MULTILINE)[1:]
        for match in re.finditer(r"^    (\w+): (.+(?:\n {5,}.+)*)", "".join(section), re.MULTILINE):
            notes[match[1]] = _first_sentence(match[2])
    return notes


def _comments(config_name: str) -> dict[str, str]:
    """Return the first sentence of the comment above each option of a command, by the option's full name.

    They are in the command's file, and in the file of a command whose options it shares.
    """
    file = resources.files("robo_rl.configs").joinpath(f"{config_name}.yaml")
    if not file.is_file():  # the name of a section, which a class documents
        return {}
    notes: dict[str, str] = {}
    comment: list[str] = []
    sections: list[str] = []
    for line in file.read_text().splitlines():
        if match := re.match(r"( *)(\w+):", line):
            sections = [*sections[: len(match[1]) // INDENT], match[2]]
            if comment:
                notes[".".join(sections)] = _first_sentence(" ".join(comment))
        elif sections == ["defaults"] and (match := re.fullmatch(r"  - (\w+)", line)):
            notes |= _comments(match[1])
        comment = [*comment, line.strip(" #")] if line.lstrip().startswith("#") else []
    return notes


def _first_sentence(text: str) -> str:
    # Lower case does not begin another sentence: "et al. 2024", or "null: none", which belongs to the first one.
    return re.split(r"\.(?:\s(?=[^a-z\d])|$)", " ".join(text.split()), maxsplit=1)[0].replace("``", "")
