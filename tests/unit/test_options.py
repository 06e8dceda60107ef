"""Options that declare their bounds: what is valid, what errors say, and where they say it is."""

import dataclasses
import math
from typing import Any

import pytest

from robo_rl.agents.sac import SACConfig
from robo_rl.core import ConfigError, Options, bounds_of, moved_section, option, require


@dataclasses.dataclass(frozen=True)
class Shared(Options, section="shared"):
    share: float = option(0.5, above=0, high=1)
    count: int | None = option(None, low=1)


@dataclasses.dataclass(frozen=True)
class Own(Shared, section="own"):
    kind: str = option("a", choices=("a", "b"))
    open: float = option(1.0, below=2)
    size: float = option(1.0, above=0, below=math.inf)
    text: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.text != self.kind, "own.text", "another than kind", self.text)


@dataclasses.dataclass(frozen=True)
class OtherDefault(Own):
    share: float = 0.25


@pytest.mark.parametrize(
    "fields",
    [{}, {"share": 1}, {"count": 1}, {"count": None}, {"kind": "b"}, {"open": -math.inf}, {"open": 1.999}],
)
def test_values_within_bounds_are_valid(fields: dict[str, Any]) -> None:
    assert dataclasses.asdict(Own(**fields)) == {**dataclasses.asdict(Own()), **fields}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"share": 0}, "own.share must be in (0, 1], got 0"),
        ({"share": 1.1}, "own.share must be in (0, 1], got 1.1"),
        ({"share": math.nan}, "own.share must be in (0, 1], got nan"),
        ({"count": 0}, "own.count must be null or 1 or more, got 0"),
        ({"kind": "c"}, "own.kind must be one of a, b, got 'c'"),
        ({"open": 2.0}, "own.open must be below 2, got 2.0"),
        ({"size": math.inf}, "own.size must be above 0, and finite, got inf"),
        ({"text": "a"}, "own.text must be another than kind, got 'a'"),
    ],
)
def test_an_error_names_the_option_its_bounds_and_the_value(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Own(**fields)
    assert str(caught.value) == message


def test_bounds_stay_where_a_class_has_another_default() -> None:
    assert OtherDefault().share == 0.25 and bounds_of(OtherDefault, "share") == bounds_of(Own, "share")
    with pytest.raises(ConfigError, match=r"^own\.share must be in \(0, 1\], got 2"):
        OtherDefault(share=2)


def test_an_error_names_the_section_where_it_stands() -> None:
    with pytest.raises(ConfigError, match=r"^shared\.share must be"):
        Shared(share=2)
    with moved_section("agent", "reset.agent"), pytest.raises(ConfigError, match=r"^reset\.agent\.gamma must be in \["):
        SACConfig(gamma=2)
    with moved_section("agent", "reset.agent"), pytest.raises(ConfigError, match=r"^agents\.x must be"):
        require(False, "agents.x", "valid", 0)
    with pytest.raises(ConfigError, match=r"^agent\.gamma must be in \[0, 1\], got 2"):
        SACConfig(gamma=2)


def test_what_is_no_option_with_bounds_has_none() -> None:
    assert str(bounds_of(Own, "share")) == "in (0, 1]"
    assert bounds_of(Own, "text") is None and bounds_of(Own, "missing") is None
