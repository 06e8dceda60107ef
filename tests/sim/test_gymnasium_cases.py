"""Environments from public reports that are refused by name, or work in spite of what is odd about them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from robo_rl.core import ConfigError, DriverError
from robo_rl.sim.gymnasium_backend import GymnasiumBackend
from robo_rl.sim.gymnasium_options import GymnasiumConfig

from ..rigs.odd_environments import Odd

TWO = np.zeros(2, np.float32)


class NoFrameRate(Odd):
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012


class OldStep(Odd):
    def step(self, action: Any) -> Any:
        return self.observation(), 0.0, False, {}


class OldReset(Odd):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class NoRenderMode(Odd):
    def __init__(self, size: int = 1) -> None:
        super().__init__()


class OwnModel(Odd):
    def __init__(self, model: str) -> None:
        super().__init__()


class NeedsSize(Odd):
    def __init__(self, size: int, render_mode: str | None = None) -> None:
        super().__init__(render_mode)


class Spaceless(gymnasium.Env[Any, Any]):
    pass


class OddPeriod(Odd):
    dt = "0.1 s"


class Reused(Odd):
    """The same array and the same info at every step, written in place."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.buffer, self.shared = np.zeros(3, np.float32), {"is_success": False}

    def observation(self) -> Any:
        self.buffer[:] = self.count
        return self.buffer

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, _ = super().step(action)
        self.shared["is_success"] = self.count > 2
        return observation, reward, terminated, truncated, self.shared


def acting(space: spaces.Space[Any]) -> Callable[..., Odd]:
    def make(**arguments: Any) -> Odd:
        environment = Odd(**arguments)
        environment.action_space = space
        return environment

    make.metadata = Odd.metadata  # type: ignore[attr-defined]
    return make


def seeing(space: spaces.Space[Any]) -> Callable[..., Odd]:
    def make(**arguments: Any) -> Odd:
        return Odd(space=space, **arguments)

    make.metadata = Odd.metadata  # type: ignore[attr-defined]
    return make


def backend(entry_point: Callable[..., Odd], **fields: Any) -> GymnasiumBackend:
    gymnasium.register("test/Case-v0", entry_point, max_episode_steps=12)
    try:
        return GymnasiumBackend(GymnasiumConfig(env_id="test/Case-v0", **fields))
    finally:
        del gymnasium.registry["test/Case-v0"]


@pytest.mark.parametrize(
    ("entry_point", "message"),
    [
        (NoFrameRate, "does not report its control rate: set task.control_rate=<Hz>"),
        (OldStep, "does not work with task.env_kwargs={} (ValueError: not enough values to unpack (expected 5, got 4)"),
        (OldReset, "does not work with task.env_kwargs={} (TypeError: "),
        (NeedsSize, "'size' was raised from the environment creator"),
        (NeedsSize, "+task.env_kwargs.NAME=VALUE gives it an argument"),
        (Spaceless, "(AttributeError: 'Spaceless' object has no attribute 'action_space'"),
        (OddPeriod, "does not work with task.env_kwargs={} (TypeError: "),
        (lambda: gymnasium.vector.SyncVectorEnv([Odd]), "must inherit from the gymnasium.Env class"),
        (acting(spaces.Box(-1, 1, (0,))), "expected bounded actions of at least one element"),
        (acting(spaces.Box(0, 10, (2,), np.int64)), "expected continuous actions (a Box), got Box(0, 10, (2,), int64)"),
        (acting(spaces.MultiDiscrete([2, 3])), "expected continuous actions (a Box), got MultiDiscrete([2 3])"),
        (acting(spaces.Dict({"arm": spaces.Box(-1, 1, (2,))})), "expected continuous actions (a Box), got Dict("),
        (acting(spaces.Box(np.array([-1, -np.inf], np.float32), 1)), "expected bounded actions"),
        (seeing(spaces.Tuple((spaces.Box(-1, 1, (2,)),))), "expected observations of Box (in Dict), got Tuple("),
        (seeing(spaces.Dict({"arm": spaces.Dict({"stage": spaces.Discrete(3)})})), "got Discrete(3) as 'arm.stage'; "),
        (seeing(spaces.MultiBinary(4)), "got MultiBinary(4) as 'observation'; gymnasium.wrappers.FlattenObservation"),
        (seeing(spaces.MultiDiscrete([2, 3])), "got MultiDiscrete([2 3]) as 'observation'"),
        (seeing(spaces.Sequence(spaces.Box(-1, 1, (2,)))), "got Sequence("),
        (seeing(spaces.Box(-1, 1, (0,))), "it observes nothing"),
        (seeing(spaces.Text(5)), "expected observations of Box (in Dict), got Text("),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(entry_point: Callable[..., Odd], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        backend(entry_point)
    assert "test/Case-v0" in str(caught.value) and message in str(caught.value)


def test_a_control_rate_may_be_given() -> None:
    assert backend(NoFrameRate, control_rate=20.0).spec.control_rate == 20


def test_arrays_that_an_environment_writes_again_are_copied() -> None:
    reused = backend(Reused)
    steps = [reused.reset(seed=0), *(reused.step(TWO) for _ in range(4))]
    assert [step.observation["state"][0] for step in steps] == [0, 1, 2, 3, 4]
    assert [step.info.get("is_success") for step in steps[1:]] == [False, False, True, True]


def test_an_element_of_actions_that_cannot_move_stays() -> None:
    locked = backend(acting(spaces.Box(np.array([-1, 0.5], np.float32), np.array([1, 0.5], np.float32))))
    locked.reset(seed=0)
    assert np.isfinite(locked.step(np.ones(2, np.float32)).observation["state"]).all()


def test_the_widest_box_has_finite_actions() -> None:
    wide = backend(acting(spaces.Box(-1.5e308, 1.5e308, (2,), np.float64)))
    actions = [wide.translation.action(np.full(2, value, np.float32)) for value in (-1, 0, 1)]
    np.testing.assert_array_equal([action[0] for action in actions], [-1.5e308, 0, 1.5e308])


def test_an_environment_without_the_argument_render_mode_works_without_pictures() -> None:
    assert backend(NoRenderMode).spec.observation.keys() == {"state"}
    assert backend(NoRenderMode, env_kwargs={"size": 2}).spec.max_episode_steps == 12
    with pytest.raises(ConfigError, match="unexpected keyword argument 'width'"):
        backend(NoRenderMode, env_kwargs={"width": 2})


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-5, 5, (2,), np.float32),
        spaces.Box(-1, 1, (3,), np.float32),
        spaces.Box(np.array([-1, -1], np.float32), np.array([1, 2], np.float32)),
        spaces.Discrete(2),
    ],
)
def test_actions_that_change_their_meaning_end_the_run(space: spaces.Space[Any]) -> None:
    class Changing(Odd):
        def reset(self, **arguments: Any) -> Any:
            if self.episode == 2:  # one to try it, one to train
                self.action_space = space
            return super().reset(**arguments)

    changing = backend(Changing)
    changing.reset(seed=0)
    with pytest.raises(
        DriverError, match=r"test/Case-v0, reset: its actions were Box\(-1\.0, 1\.0, .*, and are .* now"
    ):
        changing.reset(seed=1)


@pytest.mark.parametrize("content", [b"PK\x03\x04\0\0<weights>", b'{"hidden": [256, 256]}', b"", b"scale: 2\n"])
def test_a_model_that_is_not_one_of_mujoco_is_left_to_its_environment(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "dynamics").write_bytes(content)
    assert backend(OwnModel, env_kwargs={"model": str(tmp_path / "dynamics")}).spec.max_episode_steps == 12


@pytest.mark.parametrize("before", ["", "\ufeff", "MuJoCo ignores this text\n"])
def test_a_model_of_mujoco_is_checked_whatever_its_name(tmp_path: Path, before: str) -> None:
    (tmp_path / "dynamics").write_text(f'{before}<mujoco><worldbody><replicate count="1e9"/></worldbody></mujoco>')
    with pytest.raises(ConfigError, match=r"task\.env_kwargs\.model"):
        backend(OwnModel, env_kwargs={"model": str(tmp_path / "dynamics")})
