"""The words of ``robo-rl train`` that a form of ``robo-rl web`` stands for."""

import re
from collections.abc import Mapping
from typing import Any

from ..core import ConfigError, override_word

MOST_OPTIONS = 32
MOST_CHARACTERS = 500
"""Largest number of characters of a value in the form."""

FIELDS = {
    "task": "task",
    "agent": "agent",
    "seed": "seed",
    "steps": "run.env_steps",
    "demonstrations": "demonstrations.episodes",
    "data": "demonstrations.path",
}
"""Options of the fields of the form."""

REFUSED = {
    "robot": "a page starts no robot",
    "teleop": "nobody could intervene in a run that a page starts",
    "steering": "nobody could steer a run that a page starts",
    "web": "a run that a page starts serves no page of its own",
    "allow": "a page allows no code",
    "resume": "a page starts new runs only",
    "hydra": "a page does not change how the command starts",
    "run.dir": "a page starts runs in its own folder of runs",
    "run.overwrite": "a page replaces no run",
    "safety": "a page changes no safety filter, and does not move the emergency stop",
    "base.server": "a page names no server that a run contacts",
    "logging.wandb": "a page names no server that a run contacts",
}
"""Options, or sections of them, that the form refuses, and why."""

_OPTION = re.compile(r"[A-Za-z]\w*(?:[./]\w+)*(?:@[A-Za-z][\w.]*)?", re.ASCII)
_RESERVED = re.compile(r"(?<!\w)_[A-Za-z]+_(?!\w)")
"""Keys with a special meaning in Hydra, such as ``_target_``."""


def training_words(form: Mapping[str, Any]) -> list[str]:
    """Return the words after ``robo-rl train``, each an option; the last is ``-m`` for a sweep.

    Only what does not need the configuration is checked here. An option among ``options`` replaces the field of its
    name.

    Args:
        form: texts by the names in :data:`FIELDS`, of which an empty one stands for the default; ``options``, a text
            with one ``name=value`` in each line; and ``sweep``, whether commas separate values of a sweep.

    Raises:
        ConfigError: if a text is not an option, or an option is refused.
    """
    lines = [line.strip() for line in _text(form, "options", MOST_OPTIONS * MOST_CHARACTERS).splitlines()]
    options = dict(_option(line) for line in lines if line)
    if len(options) > MOST_OPTIONS:
        raise ConfigError(f"at most {MOST_OPTIONS} further options are accepted, got {len(options)}")
    words = []
    for field, name in FIELDS.items():
        text = _text(form, field, MOST_CHARACTERS).strip()
        if text and name not in options:
            if field == "data":  # a path, whose commas separate nothing
                text = override_word(name, text).partition("=")[2]
            words.append("=".join(_option(f"{name}={text}")))
    words += ["=".join(option) for option in options.items()]
    return [*words, "-m"] if form.get("sweep") is True else words


def _text(form: Mapping[str, Any], field: str, most: int) -> str:
    text = form.get(field, "")
    if not isinstance(text, str) or len(text) > most:
        raise ConfigError(f"{field} must be a text of at most {most:,} characters")
    return text


def _option(line: str) -> tuple[str, str]:
    """Return name and value of an option; raise ConfigError if it is none, or is refused."""
    name, equals, value = (part.strip() for part in line.partition("="))
    if not equals or not _OPTION.fullmatch(name) or not line.isprintable() or len(line) > 2 * MOST_CHARACTERS:
        raise ConfigError(f"{line[:80]!r}: expected an option, name=value, for example agent.gamma=0.98")
    dotted = name.partition("@")[0].replace("/", ".")
    for refused, reason in REFUSED.items():
        sets_inside = "{" in value and f"{refused}.".startswith(f"{dotted}.")  # run={dir: x} sets run.dir
        if sets_inside or f"{dotted}.".startswith(f"{refused}."):
            raise ConfigError(f"{name}: {reason}; start this run in a terminal")
    if "." not in name.partition("@")[0] and ".." in value:  # Hydra would look for the choice of a group there
        raise ConfigError(f"{line[:80]!r}: a page chooses none of the files outside the folders of configurations")
    if _RESERVED.search(line):
        raise ConfigError(f"{line[:80]!r}: a page names no code; start this run in a terminal")
    if "${" in value:
        raise ConfigError(f"{line[:80]!r}: a page accepts no interpolation; write the value instead")
    return name, value
