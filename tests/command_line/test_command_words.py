"""Words that people are told to paste are read again as what was meant."""

import shlex

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from robo_rl.core import override


@pytest.mark.parametrize(
    "folder", ["full dir", "it's", 'the "best"', "a,b=c", "${HOME}", "back\\", 'end\\"', "[1]", "größe"]
)
def test_any_folder(folder: str) -> None:
    (word,) = shlex.split(override("run", folder))
    (read,) = OverridesParser.create().parse_overrides([word])
    value = read.value()
    assert str(value).replace("\\${", "${") == folder


def test_a_plain_folder_is_not_quoted() -> None:
    assert override("run", "runs/2026-11-24_reach_0") == "run=runs/2026-11-24_reach_0"
