"""Usage of a command: its help, and one line for an invalid override."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import MISSING, DictConfig, OmegaConf, open_dict
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from ..core import ConfigError, all_problems, nearest
from ..core.search_path import folder_hint
from .option_help import Option, help_page, options

FLAGS = (
    "--cfg", "--config-dir", "--config-name", "--config-path", "--experimental-rerun", "--hydra-help", "--info",
    "--multirun", "--package", "--resolve", "--run", "--shell-completion", "--version",
)  # fmt: skip
"""Flags of Hydra."""

UNREAD = {
    "actor": ("reward", "runtime"),
    "guard": ("agent", "reset", "reward", "runtime"),
    "identify": ("agent", "reset", "reward", "runtime"),
    "record": ("agent", "reset", "reward", "runtime"),
    "setup": ("agent", "reset", "reward", "runtime"),
    "reward benchmark": ("agent", "reset"),
    "reward publish": ("agent", "reset", "runtime"),
    "reward write": ("agent", "reset"),
    "robot": ("agent", "reset", "reward"),
}
"""Groups that commands do not read, and have only because tasks and robots choose them."""


@contextmanager
def _hydra() -> Iterator[None]:
    GlobalHydra.instance().clear()
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        yield


def composed(config_name: str, overrides: Sequence[str]) -> DictConfig:
    """Return the configuration of a command, with ``overrides``.

    Raises:
        HydraException: if the overrides are not valid.
        OmegaConfBaseException: likewise.
    """
    with _hydra():
        return compose(config_name, overrides=list(overrides))


def help_text(
    command: str, config_name: str, overrides: Sequence[str], sections: Sequence[str] = (), everything: bool = False
) -> str:
    """Return the groups and options of a command, with the choices and values of ``overrides``.

    Args:
        command: words of the command.
        config_name: name of the command's file in configs, without its extension.
        overrides: overrides of its configuration.
        sections: if any are given, only their options are listed.
        everything: whether all options are listed; if not, and there are too many, only the most common ones.

    Raises:
        ConfigError: if a section does not exist.
        HydraException: if the overrides are not valid.
        OmegaConfBaseException: likewise.
    """
    config, groups, chosen = composed_choices(config_name, overrides)
    entries = options(config, config_name)
    if sections:
        return "\n".join(line for section in sections for line in _section_lines(section, entries))
    current = {group: f"  (now {choice})" for group, choice in chosen.items()}
    listed = [f"{group}: {', '.join(valid)}{current.get(group, '')}" for group, valid in groups.items() if valid]
    return help_page(command, listed, entries, everything)


class Choices(NamedTuple):
    """Choices of the configuration groups of a command.

    Attributes:
        config: its configuration, with the current choices.
        groups: the choices of each group.
        chosen: the current choice of each group that has one.
    """

    config: DictConfig
    groups: dict[str, list[str]]
    chosen: dict[str, str]


def composed_choices(config_name: str, overrides: Sequence[str]) -> Choices:
    """Return the choices of a command, and its configuration.

    Raises:
        HydraException: if the overrides are not valid.
        OmegaConfBaseException: likewise.
    """
    with _hydra():
        config = compose(config_name, overrides=list(overrides), return_hydra_config=True)
        loader = GlobalHydra.instance().config_loader()
        chosen = {str(group): choice for group, choice in config.hydra.runtime.choices.items()}
        names = {key.partition("@")[0] for key in chosen if not key.startswith("hydra/")}
        names |= {f"{group}/{name}" for group in names for name in loader.get_group_options(group, ObjectType.GROUP)}
        groups = {group: _choices(group) for group in sorted(names)}
    with open_dict(config):
        del config["hydra"]
    return Choices(config, groups, {group: choice for group, choice in chosen.items() if choice})


def _section_lines(section: str, entries: Sequence[Option]) -> list[str]:
    """Return the lines of a section, or of a single option.

    Raises:
        ConfigError: if neither exists.
    """
    lines = [option.nested for option in entries if f"{option.name}.".startswith(f"{section}.")]
    if not lines:
        names = [option.name for option in entries if option.value is None]
        raise ConfigError(f"--help {section}: there is no such section: {nearest(section, names)}")
    *parents, _ = section.split(".")
    return [f"{' ' * 2 * level}{name}:" for level, name in enumerate(parents)] + lines


def require_known(config: DictConfig, path: str = "") -> None:
    """Check that sections with fixed options contain no others: a plus can add options that nothing reads.

    Raises:
        ConfigError: naming the option and the valid ones.
    """
    kind = OmegaConf.get_type(config)
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        options = [name for name in names if not name.startswith("_")]
        for key in map(str, config):
            if key not in names and not key.startswith("_"):  # _target_ and similar keys belong to Hydra
                valid = nearest(key, options) if options else "there are none here"
                raise ConfigError(f"{path}{key}: there is no such option: {valid}")
    for name in config:
        if not OmegaConf.is_missing(config, name) and not OmegaConf.is_interpolation(config, str(name)):
            child = config[name]
            if isinstance(child, DictConfig):
                require_known(child, f"{path}{name!s}.")


def require_valid(config: DictConfig) -> None:
    """Check the values of all sections, before the command's module is imported, which takes seconds.

    Sections with missing values are left to the command.

    Raises:
        ConfigError: names all values that are out of range.
    """
    with all_problems():
        for name in config:
            if OmegaConf.is_missing(config, name) or OmegaConf.is_interpolation(config, str(name)):
                continue
            if dataclasses.is_dataclass(OmegaConf.get_type(config, str(name))):
                with suppress(MissingMandatoryValue):
                    OmegaConf.to_object(config[name])


def require_flags(command: str, words: Sequence[str]) -> None:
    """Check that words with two dashes are flags of Hydra, not options: options have no dashes.

    Raises:
        ConfigError: naming the word.
    """
    for word in words:
        if word.startswith("--") and word.partition("=")[0] not in FLAGS:
            raise ConfigError(
                f"there is no flag {word!r}: options have the form KEY=VALUE, without dashes, for example task=reach; "
                f"robo-rl {command} --help lists them"
            )


def require_read(command: str, overrides: Sequence[str]) -> None:
    """Check that no override belongs to a group that the command does not read.

    Raises:
        ConfigError: naming the override.
    """
    for word in overrides:
        group = re.split(r"[.=]", word.lstrip("+~"))[0]
        if group in UNREAD.get(command, ()):
            raise ConfigError(f"robo-rl {command} does not read {group}: leave out {word!r}")


def require_known_additions(config_name: str, overrides: Sequence[str]) -> None:
    """Check that an addition at the top level, such as ``+seeds=1``, is a group or an option of the command.

    A name that another override refers to, as in ``+width=64 agent.hidden=[${width}]``, may be added.

    Raises:
        ConfigError: naming the option and the valid ones.
    """
    added = [match[1] for word in overrides if (match := re.match(r"\+{1,2}(\w+)=", word))]
    if not added:
        return
    with _hydra():
        try:
            words = [word for word in overrides if "=" in word and word[0] not in "+-"]
            config = compose(config_name, overrides=words, return_hydra_config=True)
        except (HydraException, OmegaConfBaseException):
            return  # the command itself reports the error
        groups = GlobalHydra.instance().config_loader().list_groups("")
    for name in added:
        if name not in config and name not in groups and not any(f"${{{name}}}" in word for word in overrides):
            raise ConfigError(f"{name}: there is no such option: {nearest(name, _first_names(config, config_name))}")


def require_options(config_name: str, overrides: Sequence[str]) -> None:
    """Check that no override replaces a whole section by a value, such as ``run=runs/a``.

    Raises:
        ConfigError: naming the section and how its options are given.
    """
    assignments = [
        (match[1], match[2]) for word in overrides if (match := re.match(r"\+{0,2}(\w+)=(.*)", word, re.DOTALL))
    ]
    if not assignments:
        return
    with _hydra():
        loader: Any = GlobalHydra.instance().config_loader()
        groups = loader.list_groups("")
        # What the command's own file gives a value is an option: composition, which takes time, need not tell.
        own: Any = OmegaConf.to_container(loader.repository.load_config(config_name).config)
        known = {key for key, value in own.items() if not isinstance(value, dict)}.union(groups)
        keys = [key for key, value in assignments if key not in known and not value.startswith("{")]
        config = compose(config_name) if keys else OmegaConf.create()
    for key in keys:
        if isinstance(section := config.get(key), DictConfig):
            raise ConfigError(_not_a_value(key, next(map(str, section), "OPTION"), config_name))


def explain(error: Exception, config_name: str, overrides: Sequence[str]) -> str:
    """Return one line about an error of Hydra or OmegaConf: the problem, the valid choices, the nearest match."""
    text = str(error)
    if match := re.search(r"Could not find '([\w-]+)/([^']*)'", text):
        group, name = match.groups()
        listed = text.partition("Available options in")[2].partition("Config search path")[0].splitlines()[1:]
        options = [option.strip() for option in listed if option.strip() and not option.endswith("_schema")]
        return f"unknown {group} {name!r}: {nearest(name, options)}{folder_hint(group, name)}"
    if match := re.search(r"Could not override '([^']+)'", text):
        return _explain_key(match[1], config_name, overrides)
    if "override_grammar" in text and (word := _unreadable(overrides)) is not None:
        if re.fullmatch(r"[\w./-]*\w[\w./-]*", word):
            return f"cannot read {word!r}: an override is KEY=VALUE, for example {_example(word, config_name)}"
        return f"cannot read {word!r}: put a value with punctuation in quotes, as 'KEY=\"VALUE\"'"
    if "Config group override must be a string" in text and (line := _explain_choice(config_name, overrides)):
        return line
    if match := re.search(r"Error merging override (\S+)", text):
        key, _, value = match[1].partition("=")
        if "is not a ListConfig, list or tuple" in str(error.__cause__):
            return f"{key}: expected a list, as {key}=[{value}]"
        if "is not a subclass of" in str(error.__cause__):
            return _not_a_value(key, "OPTION", config_name)
        return f"{match[1]}: {_reason(str(error.__cause__).splitlines()[0])}"
    if match := re.search(r"[Mm]issing mandatory value: (\S+)", text):
        full = re.search(r"full_key: (\S+)", text)  # an error within a section names the option alone
        key = full[1] if full else match[1]
        return f"{key} is required: set it as {key}=VALUE"
    if text.startswith(("Unexpected type for root: NoneType", "'NoneType' object")):
        match = re.search(r"full_key: (\S+)", text)
        words = ", ".join(word for word in overrides if "." in word.partition("=")[0])
        return f"{match[1] if match else f'what holds {words}'} is null with these choices: choose others that have it"
    if match := re.search(r"is not a ListConfig, list or tuple\.\s*full_key: (\S+)", text):
        return f"{match[1]}: expected a list, as {match[1]}=[a,b]"
    if match := re.match(r"(.+)\n\s*full_key: (\S+)", text):
        return f"{match[2]}: {_reason(match[1])}"
    return re.sub(r"\s*\n\s*", "; ", text.strip()) or type(error).__name__


def _reason(text: str) -> str:
    """Return an error of OmegaConf about a value, in the words of the command line."""
    if match := re.match(r"Value '(.*)' of type '\w+' could not be converted to Integer", text):
        return f"expected a whole number, such as 10000, 10_000 or 1e4, got {match[1]}"
    return f"{text[:1].lower()}{text[1:]}"


def _example(word: str, config_name: str) -> str:
    """Return the probable meaning of a word without a key: a value of the first mandatory option."""
    missing = next(_missing(OmegaConf.to_container(composed(config_name, ()))), None)
    return f"{missing}={word}" if missing else "task=reach"


def _missing(values: Any, section: str = "") -> Iterator[str]:
    """Yield the mandatory options."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _missing(value, f"{section}{key}.")
        elif value == MISSING:
            yield f"{section}{key}"


def _unreadable(overrides: Sequence[str]) -> str | None:
    """Return the first override that does not match Hydra's grammar."""
    parser = OverridesParser.create()
    for word in overrides:
        try:
            parser.parse_override(word)
        except HydraException:
            return word
    return None


def _not_a_value(section: str, option: str, config_name: str) -> str:
    return (
        f"{section}: a section of options, not a value; set them one by one, as {section}.{option}=VALUE "
        f"(robo-rl {_command(config_name)} --help lists them)"
    )


def _command(config_name: str) -> str:
    return config_name.replace("_", " ")


def _first_names(config: DictConfig, config_name: str) -> set[str]:
    """Return the names that overrides may begin with: options, sections and groups, including those without a choice.

    Args:
        config: composed configuration, with Hydra's own part.
        config_name: name of the command's file in configs, without its extension.
    """
    groups = {group for group in map(str, config.hydra.runtime.choices) if re.fullmatch(r"\w+", group)}
    return ({str(name) for name in config} | groups) - {"hydra", *UNREAD.get(_command(config_name), ())}


def _choices(group: str) -> list[str]:
    """Return the choices of a group; call this within :func:`_hydra`."""
    options = GlobalHydra.instance().config_loader().get_group_options(group, ObjectType.CONFIG)
    return [option for option in options if not option.endswith("_schema")]


def _explain_choice(config_name: str, overrides: Sequence[str]) -> str | None:
    """Return which override chooses something that is not a name, as in ``task=null``, and the valid choices."""
    parser = OverridesParser.create()
    with _hydra():
        chosen = compose(config_name, return_hydra_config=True).hydra.runtime.choices
        for override in parser.parse_overrides([word for word in overrides if "=" in word and word[0] != "-"]):
            options = _choices(override.key_or_group)
            if options and not isinstance(override.value(), str | list):
                hint = "; leave it out to have none" if chosen.get(override.key_or_group) is None else ""
                return f"{override.input_line}: expected one of {', '.join(options)}{hint}"
    return None


def _explain_key(key: str, config_name: str, overrides: Sequence[str]) -> str:
    """Return an explanation of a key that a configuration does not have."""
    # The other choices determine which keys exist; one of those words may be wrong, too.
    other_words = [word for word in overrides if _may_choose(word) and word.partition("=")[0].lstrip("+~") != key]
    for words in (other_words, []):
        try:
            with _hydra():
                node = compose(config_name, overrides=words, return_hydra_config=True)
                names = _first_names(node, config_name)
                chosen = node.hydra.runtime.choices
                choices = {name: _choices(name) for name in names if name in chosen and chosen[name] is None}
            break
        except (HydraException, OmegaConfBaseException):
            continue
    else:
        return f"unknown option {key!r}"
    *parents, last = key.lstrip("+~").split("=")[0].replace("/", ".").split(".")
    if parents and parents[0] in choices:
        options = ", ".join(choices[parents[0]])
        return f"{key}: the group {parents[0]} has no choice yet: add {parents[0]}=NAME. Valid: {options}"
    valid = names
    for parent in parents:
        child = OmegaConf.select(node, parent)
        if not isinstance(child, DictConfig):
            last = parent
            break
        node = child
        valid = {str(name) for name in node if name != "_target_"}
    if last in valid:
        return f"{key!r} is not a choice of this command: set its options one by one, as +{key}.OPTION=VALUE"
    if not valid:
        return f"unknown option {key!r}; a new one is given as +{key}=VALUE"
    return f"unknown option {key!r}: {nearest(last, valid)}"


def _may_choose(word: str) -> bool:
    """Return whether a word may choose from a group: ``task=reach``, ``+reward/module@reward.modules.mine=vice``."""
    key, is_override, value = word.partition("=")
    return bool(is_override) and "." not in key.partition("@")[0] and "," not in value
