"""The options of a command with their values and meanings, from docstrings and configs/*.yaml."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import resources
from typing import Any, NamedTuple, cast

import yaml
from omegaconf import DictConfig, OmegaConf

from ..core import bounds_of

INDENT = 2


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


def options(config: DictConfig, config_name: str) -> list[Option]:
    """Return the options and sections of a command, each section before its options.

    Args:
        config: composed configuration, without Hydra's own part.
        config_name: name of the command's file in configs, without its extension.
    """
    return list(_options(config, "", _comments(resources.files("robo_rl.configs").joinpath(f"{config_name}.yaml"))))


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


def _comments(file: Any) -> dict[str, str]:
    """Return the first sentence of the comment above each option of a YAML file, by the option's full name."""
    notes: dict[str, str] = {}
    comment: list[str] = []
    sections: list[str] = []
    for line in file.read_text().splitlines():
        if match := re.match(r"( *)(\w+):", line):
            sections = [*sections[: len(match[1]) // INDENT], match[2]]
            if comment:
                notes[".".join(sections)] = _first_sentence(" ".join(comment))
        comment = [*comment, line.strip(" #")] if line.lstrip().startswith("#") else []
    return notes


def _first_sentence(text: str) -> str:
    # Lower case does not begin another sentence: "et al. 2024", or "null: none", which belongs to the first one.
    return re.split(r"\.(?:\s(?=[^a-z\d])|$)", " ".join(text.split()), maxsplit=1)[0].replace("``", "")
