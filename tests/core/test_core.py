"""Specs, errors, clocks, seeds, reward weights and configuration nodes."""

import sys
from dataclasses import dataclass, field

import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from robo_rl.core import (
    ArraySpec,
    ConfigError,
    EnvSpec,
    ManualClock,
    MonotonicClock,
    RewardWeights,
    SpecError,
    config_node,
    derive_seed,
    generator,
    nearest,
    own_command,
    require,
)

SPEC = EnvSpec(
    task="toy",
    observation={"state": ArraySpec((2,), names=("x", "v")), "images/front": ArraySpec((4, 4, 3), "uint8", 0, 255)},
    action=ArraySpec((1,), low=-1, high=1),
    action_space="joint_delta",
    action_frame="joint",
    control_rate=10.0,
    max_episode_steps=5,
    reward_terms=("success", "distance"),
    extra={"scale": 0.05},
)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros(3, np.float32), "state: expected a float32 array of shape (2,), got a float32 array of shape (3,)"),
        (np.zeros(2), "state: expected a float32 array of shape (2,), got a float64 array of shape (2,)"),
        ([0.0, 0.0], "state: expected a float32 array of shape (2,), got a list"),
        (np.array([0, np.nan], np.float32), "state: expected finite values, got nan at index [1] (v)"),
        (np.array([0, 9], np.float32), "state: expected values in [-1, 1], got 9.0 at index [1] (v)"),
    ],
)
def test_array_spec_names_the_fault(value: object, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        ArraySpec((2,), low=-1, high=1, names=("x", "v")).check("state", value)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_env_spec_survives_json() -> None:
    import json

    assert EnvSpec.from_json(json.loads(json.dumps(SPEC.to_json()))) == SPEC


def test_env_spec_differences_name_both_shapes() -> None:
    import dataclasses

    other = dataclasses.replace(
        SPEC,
        observation={"state": ArraySpec((3,))},
        action=ArraySpec((7,)),
        control_rate=20.0,
        extra={"scale": 0.1},
        max_episode_steps=9,
    )
    assert SPEC.differences(SPEC) == []
    assert SPEC.differences(other) == [
        "observation 'images/front': shape (4, 4, 3) present, but not found",
        "observation 'state': expected float32 (2,), found float32 (3,)",
        "action: expected shape (1,), found (7,)",
        "control_rate: expected 10.0, found 20.0",
        "scale: expected 0.05, found 0.1",
    ]


def test_observation_keys_are_checked() -> None:
    with pytest.raises(SpecError, match=r"expected keys \['images/front', 'state'\], got \['state'\]"):
        SPEC.check_observation({"state": np.zeros(2, np.float32)})


def test_nearest_names_choices_and_guess() -> None:
    assert nearest("rech", ["reach", "pick"]) == "did you mean 'reach'? Valid: pick, reach"
    assert nearest("zzz", ["reach", "pick"]) == "Valid: pick, reach"


def test_seeds_differ_by_every_element_of_the_path() -> None:
    seeds = {derive_seed(s, *p) for s in (0, 1) for p in [("a",), ("b",), ("a", 1), ("a", "1", 2)]}
    assert len(seeds) == 8
    assert derive_seed(0, "a") == derive_seed(0, "a")
    assert generator(3, "x").random() == generator(3, "x").random()


def test_manual_clock_never_goes_back() -> None:
    clock = ManualClock(5)
    clock.sleep_until_ns(3)
    assert clock.now_ns() == 5
    clock.sleep_until_ns(9)
    assert clock.now_ns() == 9
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance_ns(-1)


def test_monotonic_clock_sleeps_until() -> None:
    clock = MonotonicClock()
    deadline = clock.now_ns() + 2_000_000
    clock.sleep_until_ns(deadline)
    assert clock.now_ns() >= deadline


def test_reward_weights() -> None:
    weights = RewardWeights({"success": 2.0}, others=0.5, offset=-1.0)
    np.testing.assert_array_equal(weights.vector(["distance", "success"]), np.array([0.5, 2.0], np.float32))
    assert weights.value({"success": 1.0, "distance": 0.25}) == pytest.approx(2 + 0.125 - 1)
    with pytest.raises(ConfigError, match="this task has no term 'sucess': did you mean 'success'"):
        RewardWeights({"sucess": 1.0}).vector(["success"])
    with pytest.raises(ConfigError, match="must be finite"):
        RewardWeights(offset=float("nan"))


@dataclass(frozen=True)
class Inner:
    rate: float = 2.0

    def __post_init__(self) -> None:
        require(self.rate > 0, "inner.rate", "above 0", self.rate)


@dataclass(frozen=True)
class Outer:
    """A configuration."""

    sizes: tuple[int, ...] = (1, 2)
    inner: Inner = field(default_factory=Inner)


def keep(**fields: object) -> dict[str, object]:
    return fields


def test_config_node_is_typed_writable_and_makes_its_target() -> None:
    node = config_node(keep, Outer)
    node.inner.rate = 3.0
    node.sizes = [4]
    made = instantiate(node, _convert_="object")
    assert made == {"sizes": [4], "inner": Inner(3.0)}
    with pytest.raises(Exception, match="not in"):
        node.inner.speed = 1
    assert OmegaConf.to_object(config_node(None, Outer)) == Outer([1, 2])  # type: ignore[arg-type]


def test_config_values_out_of_range_are_named() -> None:
    with pytest.raises(ConfigError, match=r"inner\.rate must be above 0, got -1"):
        Inner(-1)


def test_other_processes_find_modules_where_this_one_does(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["/bin", *filter(None, sys.path)])
    assert own_command() == [sys.executable, "-P", "-m", "robo_rl.cli"], "the installed program"
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert own_command() == [sys.executable, "-m", "robo_rl.cli"], "python -m"
