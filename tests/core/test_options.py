"""Options that declare their bounds: what is valid, what errors say, and where they say it is."""

import dataclasses
import inspect
import math
import re
from functools import partial
from typing import Any

import numpy as np
import pytest

from robo_rl.agents.sac import SACConfig
from robo_rl.app import register_all_configs
from robo_rl.core import ArraySpec, ConfigError, EnvSpec, Options, SpecError, bounds_of, moved_section, option, require
from robo_rl.drivers.fake.config import FakeArmConfig
from robo_rl.replay.interchange import ForeignConfig
from robo_rl.sim import make_backend
from robo_rl.sim.config import ObservationConfig, TaskConfig
from robo_rl.sim.driving import DriveConfig
from robo_rl.sim.gymnasium_options import GymnasiumConfig


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
        ({"share": "0.5"}, "own.share must be in (0, 1], got '0.5'"),
        ({"share": None}, "own.share must be in (0, 1], got None"),
        ({"share": [0.5]}, "own.share must be in (0, 1], got [0.5]"),
        ({"share": 1j}, "own.share must be in (0, 1], got 1j"),
        ({"count": "3"}, "own.count must be null or 1 or more, got '3'"),
        ({"count": 10.5}, "own.count must be a whole number, null or 1 or more, got 10.5"),
        ({"count": math.inf}, "own.count must be a whole number, null or 1 or more, got inf"),
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


def test_numbers_of_numpy_are_numbers() -> None:
    assert Own(share=np.float32(0.5), count=np.int64(3), size=np.float64(2), open=True).count == 3


@pytest.mark.parametrize("value", ["8", [8], {}, 8.5, math.nan, object()])
@pytest.mark.parametrize("name", ["width", "frame_stack", "picture_height"])
def test_other_kinds_of_values_given_from_python_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^observation\.{name} must be "):
        ObservationConfig(**{name: value})
    with pytest.raises(ConfigError, match=r"^max_episode_steps must be "):
        make_backend("reach", max_episode_steps=value)


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


def _options(kind: type[Options]) -> set[type[Options]]:
    below = {each for each in kind.__subclasses__() if each.__module__.startswith("robo_rl.")}
    return below.union(*map(_options, below))


def _of_time(kind: type[Options]) -> list[str]:
    """Return the options of a class that its docstring gives in seconds or Hertz."""
    documented = re.finditer(r"^    (\w+): ((?:.*\n)(?:     +.*\n)*)", f"{inspect.getdoc(kind)}\n", re.MULTILINE)
    names = {name for name, text in (each.groups() for each in documented) if "[s]" in text or "[Hz]" in text}
    return sorted(names & {field.name for field in dataclasses.fields(kind) if "float" in str(field.type)})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [1e300, math.inf, math.nan])
def test_every_time_and_rate_has_an_end(value: float) -> None:
    """Clocks, timers and sleeps raise an OverflowError for what is larger than they count."""
    register_all_configs()
    required = {"topic": "t"}  # of some sections
    seen = []
    for kind in _options(Options):
        given = {name: text for name, text in required.items() if name in kind.__dataclass_fields__}  # type: ignore[attr-defined]
        for name in _of_time(kind):
            seen.append(name)
            if (kind.__name__, name) == ("RandomisationConfig", "latency") or kind.__name__ == "QoSProfile":
                continue  # the task wants the one below a period; infinity is a value of the other
            by_key = kind.__dataclass_fields__[name].default_factory is dict  # type: ignore[attr-defined]
            with pytest.raises(ConfigError, match=rf"{name}(\.state)? must be"):
                kind(**{**given, name: {"state": value} if by_key else value})
    assert {"control_rate", "timeout", "finish_seconds", "max_age"} <= set(seen)
    assert len(seen) > 30


@pytest.mark.parametrize("rate", [0.0, -1.0, 1e-300, 0.009, 10_001.0, 1e300, math.inf, math.nan])
def test_a_rate_of_actions_that_no_robot_has_is_refused_wherever_it_is_given(rate: float) -> None:
    for make in (TaskConfig, DriveConfig, FakeArmConfig, ForeignConfig, partial(GymnasiumConfig, env_id="a/b-v0")):
        with pytest.raises(ConfigError, match=r"control_rate must be (null or )?in \[0\.01, 10000\]"):
            make(control_rate=rate)
    array = ArraySpec((1,), low=-1, high=1)
    spec = EnvSpec("toy", {"state": array}, array, "joint_delta", "joint", 10.0, 5, ("success",))
    assert EnvSpec.from_json(spec.to_json()) == spec
    with pytest.raises(SpecError, match=r"a number|control_rate must be in"):
        EnvSpec.from_json({**spec.to_json(), "control_rate": rate})
