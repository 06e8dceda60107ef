"""YAML is read as OmegaConf reads it, although another parser does it."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from robo_rl.core import DataError, load_config, load_options
from robo_rl.core.fast_yaml import _own_loader, plain_yaml, yaml_loader

TEXTS = (
    "a: 1e3\nb: 1_000\nc: 0o17\nd: 017\ne: 0x1f\nf: .5\ng: 1.\nh: 1e-3\ni: -.inf\nj: .nan\n",
    "k: 1:30\nl: 1:30.5\nm: +1.5e3\n",
    "a: yes\nb: off\nc: ~\nd:\ne: null\nf: 'no'\ng: True\n",
    "a: 2026-01-01\nb: 2026-01-01 10:00:00\n",
    "1: a\n1.5: b\ntrue: c\n'1': d\n",
    "a: ${b}\nb: ${oc.env:HOME}\nc: '${'\n",
    "a: &a {b: [1, 2]}\nc: *a\nd: {<<: *a, e: 1}\n",
    "a: |\n  one\n  two\nb: >\n  one\n  two\nc: 'it''s'\nd: \"\\u00e9\\x41\\n\"\ne: é\n",
    "a: [1, [2, {b: 3}], []]\nb: {}\n",
    "a: !!float 1\nb: !!str 1\nc: !!int '3'\n",
    "a: !!python/object/apply:pathlib.PosixPath [x, y]\n",
    "",
    "# nothing\n",
    "word",
    "a: b: c",
    "a: !!python/object/apply:os.system [ls]\n",
    "a: !ruby/object x\n",
    "? [a, b]\n: c\n",
    "a: 1\na: 2\n",
    "a: 1\n'a': 2\n",
    "a: *b\n",
    "[1, 2\n",
    "a: %b\n",
    "a: @b\n",
    "a: 'b\n",
    "--- a\n--- b\n",
)


def outcome(text: str, loader: Any) -> tuple[str, str]:
    try:
        return "read", repr(yaml.load(text, Loader=loader))
    except yaml.YAMLError as error:
        return "refused", type(error).__name__


@pytest.mark.parametrize("text", TEXTS)
def test_the_parser_changes_nothing(text: str) -> None:
    assert outcome(text, yaml_loader()) == outcome(text, _own_loader())


def test_a_tab_before_a_value_is_read_as_yaml_allows() -> None:
    assert outcome("a: \t1\n", yaml_loader()) == ("read", "{'a': 1}")


@pytest.mark.parametrize("levels", [65, 100_000])
def test_texts_that_nest_too_deeply_are_refused(levels: int) -> None:
    for text in ("[" * levels + "]" * levels, "- " * levels, "{a: " * levels):
        with pytest.raises(yaml.YAMLError, match=r"nested deeper than 64 levels|while parsing"):
            yaml.load(text, Loader=yaml_loader())
    text = "[" * 64 + "]" * 64
    assert outcome(text, yaml_loader()) == outcome(text, _own_loader())


def test_it_is_the_parser_of_libyaml() -> None:
    assert issubclass(yaml_loader(), yaml.cyaml.CParser)


def test_configurations_are_read_and_written_alike() -> None:
    names = [entry for entry in files("robo_rl.configs").iterdir() if entry.name.endswith(".yaml")]
    assert len(names) > 20
    for text in (name.read_text() for name in names):
        assert outcome(text, yaml_loader()) == outcome(text, _own_loader())
        values = yaml.load(text, Loader=_own_loader())
        assert plain_yaml(values) == OmegaConf.to_yaml(OmegaConf.create(values))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: !!set {b, c}", "cannot be a value of type set"),
        ("a: [!!timestamp 2026-01-01]", "cannot be a value of type date"),
        ("a: !!python/object/apply:pathlib.PosixPath [x]", "cannot be a value of type PosixPath"),
        ("a: !!binary aGk=", "cannot be a value of type bytes"),
        ("a: {~: 1}", "cannot be named by a value of type NoneType"),
        ("a: {!!timestamp 2026-01-01: 1}", "cannot be named by a value of type date"),
        ("[1, 2]", "expected options by name, found list"),
        ("1.5", "expected options by name, found float"),
        ("a: 1" + 60_000 * ":59", "a number of more than 1,000 characters"),
        ("a: !!int '1" + 60_000 * ":59" + "'", "a number of more than 1,000 characters"),
    ],
)
def test_options_of_other_types_are_refused(text: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    for read in (load_options, load_config):
        with pytest.raises(DataError, match=reason):
            read(file)


def test_an_interpolation_without_a_valid_form_is_a_text_and_no_configuration(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("a: ${b\nc: ${d}\n")
    assert load_options(file) == {"a": "${b", "c": "${d}"}
    with pytest.raises(DataError, match="restore it from a copy"):
        load_config(file)
