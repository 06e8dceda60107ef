"""What foreign environments return from ``step``: read as it is meant, or refused by name."""

import asyncio
import sys
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from robo_rl.core import ConfigError, DriverError, Step
from robo_rl.core.interruption import _Terminated
from robo_rl.sim.gymnasium_backend import GymnasiumBackend
from robo_rl.sim.gymnasium_options import GymnasiumConfig

from ..rigs.odd_environments import LIMIT, Odd, registered


def make(env_id: str, **fields: Any) -> GymnasiumBackend:
    return GymnasiumBackend(GymnasiumConfig(env_id=env_id, **fields))


def episode(backend: GymnasiumBackend) -> list[Step]:
    steps = [backend.reset(seed=0)]
    while not steps[-1].ended:
        steps.append(backend.step(np.zeros(2, np.float32)))
    return steps


@pytest.mark.parametrize(
    ("value", "options", "solved"),
    [
        (True, {}, True),
        (np.bool_(False), {}, False),
        ("false", {}, False),
        ("True", {}, True),
        (" no ", {}, False),
        (b"false", {}, False),
        (np.array([True]), {}, True),
        (np.array([[0.0]]), {}, False),
        (torch.tensor([True]), {}, True),
        (np.array(["false"]), {}, False),
        ([True, False], {}, False),
        ([[True], [True, False]], {}, False),
        ((np.array([True]), ["true", {"lid": 1}]), {}, True),
        (np.array([True, True]), {}, True),
        ({"door": True, "drawer": False}, {}, False),
        (1.0, {}, True),
        (np.float32(0), {}, False),
        (0.5, {"success_at_least": 0.9}, False),
        (0.95, {"success_at_least": 0.9}, True),
        (np.array([0.02]), {"success_at_most": 0.05}, True),
        (-0.1, {"success_at_least": 0.0, "success_at_most": 1.0}, False),
    ],
)
def test_values_of_success_mean_what_they_say(value: Any, options: dict[str, float], solved: bool) -> None:
    with registered(info=lambda env: {"success": value}) as env_id:
        backend = make(env_id, **options)
        step = episode(backend)[-1]
    assert (step.success, step.rewards["success"]) == (solved, float(solved))


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        (0.5, {}, r"info\['success'\] is 0.5, expected a truth value .* task.success_at_least=NUMBER"),
        ("partial", {}, r"info\['success'\] is 'partial', expected a truth value"),
        (float("nan"), {}, r"info\['success'\] is nan, expected a truth value"),
        ([], {}, r"info\['success'\] is empty"),
        (np.array([True, 2]), {}, r"info\['success'\] is 2, expected a truth value"),
        ("true", {"success_at_least": 0.5}, r"info\['success'\] is 'true', expected a number"),
        (object(), {}, r"expected a truth value"),
    ],
)
def test_values_that_are_no_truth_values_are_refused_at_once(value: Any, options: Any, message: str) -> None:
    with registered(info=lambda env: {"success": value}) as env_id, pytest.raises(ConfigError, match=message) as caught:
        make(env_id, **options)
    assert env_id in str(caught.value)


def test_such_a_value_in_mid_episode_names_the_step() -> None:
    with registered(info=lambda env: {"success": "half" if env.count == 4 else "no"}) as env_id:
        backend = make(env_id)
        with pytest.raises(DriverError, match=r"environment test/Odd-v0, step 4 of the episode: info\['success'\]"):
            episode(backend)
        with pytest.raises(RuntimeError, match="call reset"):
            backend.step(np.zeros(2, np.float32))


@pytest.mark.parametrize("key", ["is_success", "success", "succeed"])
def test_common_names_are_found(key: str) -> None:
    with registered(info=lambda env: {"other": 1, key: env.count > 3}) as env_id:
        steps = episode(make(env_id))
    assert [step.success for step in steps[:6]] == [False, False, False, False, True, True]


@pytest.mark.parametrize(
    ("key", "info"),
    [
        ("solved", {"solved": True}),
        ("task.done", {"task": {"done": 1}}),
        ("stages.1", {"stages": np.array([False, True])}),
        ("TimeLimit.solved", {"TimeLimit.solved": "true"}),
        ("log.0.ok", {"log": [{"ok": True}]}),
    ],
)
def test_a_key_may_be_named(key: str, info: dict[str, Any]) -> None:
    with registered(info=lambda env: info if env.count > 2 else {}) as env_id:
        backend = make(env_id, success_key=key)
        assert backend.spec.reports_success and backend.spec.reward_terms == ("reward", "success")
        steps = episode(backend)
    assert [step.success for step in steps[:4]] == [False, False, False, True]


def test_a_key_that_is_nearly_right_is_refused_when_that_is_seen() -> None:
    message = r"info has no 'is_success'; did you mean task\.success_key=is_succes\?"
    with registered(info=lambda env: {"is_succes": True}) as env_id, pytest.raises(ConfigError, match=message):
        make(env_id, success_key="is_success")
    with registered(info=lambda env: {"solved": True} if env.count == LIMIT else {}) as env_id:
        backend = make(env_id, success_key="is_solved")
        with pytest.raises(DriverError, match=r"did you mean task\.success_key=solved\?"):
            episode(backend)


def test_success_that_is_told_at_the_end_alone_is_known_there() -> None:
    with registered(info=lambda env: {"is_success": True} if env.count == LIMIT else {}) as env_id:
        backend = make(env_id)
        assert not backend.spec.reports_success and backend.spec.reward_terms == ("reward",)
        steps = episode(backend)
        assert [step.success for step in steps] == [None] * LIMIT + [True]
        named = make(env_id, success_key="is_success", terminate_on_success=True)
        steps = episode(named)
    assert [step.success for step in steps] == [False] * LIMIT + [True]
    assert steps[-1].terminated and steps[-1].rewards["success"] == 1


@pytest.mark.parametrize(
    "options", [{"terminate_on_success": True}, {"success_at_least": 0.9}, {"success_at_most": 0.1}]
)
def test_options_that_need_success_are_refused_without_it(options: dict[str, Any]) -> None:
    message = r"needs to know success, and info holds none of .* but distance: name the key by task.success_key=KEY"
    with registered(info=lambda env: {"distance": 1.0}) as env_id, pytest.raises(ConfigError, match=message):
        make(env_id, **options)


@pytest.mark.parametrize(
    ("reward", "number"),
    [
        *((np.array([-0.5]), -0.5), (torch.tensor(0.25), 0.25), (np.float64(2), 2.0), ([1.5], 1.5), (True, 1.0)),
        *((torch.tensor([0.5], dtype=torch.bfloat16), 0.5), (np.float16(-3), -3.0), (10**30, 1e30)),
    ],
)
def test_rewards_of_one_element_are_numbers(reward: Any, number: float) -> None:
    with registered(reward=lambda env: reward, truncated=lambda env: np.array([env.count >= 3])) as env_id:
        steps = episode(make(env_id))
    assert [step.rewards for step in steps[1:]] == [{"reward": number}] * 3
    assert steps[-1].truncated is True and steps[-1].terminated is False


@pytest.mark.parametrize(
    "reward",
    [
        *(None, float("nan"), -np.inf, np.array([1.0, 2.0]), "1", {}),
        *(1e39, np.float64(-1e300), 10**400, 10**5000, [10**5000], [10**5000] * 2),  # too large to be stored
        *(1 + 0j, np.array([1j])),
    ],
    ids=lambda reward: type(reward).__name__,  # Python does not print the longest
)
def test_other_rewards_are_refused(reward: Any) -> None:
    message = "the reward is .*expected one finite number"
    with (
        registered(reward=lambda env: reward) as env_id,
        pytest.raises(ConfigError, match=f"test/Odd-v0, first step: {message}"),
    ):
        make(env_id)
    with registered(reward=lambda env: reward if env.count == 5 else 0.0) as env_id:
        backend = make(env_id)
        with pytest.raises(DriverError, match=f"environment test/Odd-v0, step 5 .*{message}"):
            episode(backend)


@pytest.mark.parametrize("flag", ["false", None, np.array([True, False]), 0.5])
def test_ends_that_are_no_truth_values_are_refused(flag: Any) -> None:
    with registered(terminated=lambda env: flag if env.count > 1 else False) as env_id:
        backend = make(env_id)
        with pytest.raises(DriverError, match=r"step 2 of the episode: terminated is .*, expected a truth value"):
            episode(backend)


def boxed(value: Any) -> Any:
    """Return ``value`` as vector environments have it: an array of objects."""
    array = np.empty(1, object)
    array[0] = value
    return array


@pytest.mark.parametrize("key", ["final_observation", "final_obs", "terminal_observation"])
@pytest.mark.parametrize("wrap", [lambda value: value, boxed])
@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_environments_that_reset_themselves_tell_how_the_episode_ended(key: str, wrap: Any, end: str) -> None:
    """The observation that comes with the end is of the next episode, and so is ``info``."""

    def info(env: Any) -> dict[str, Any]:
        if env.count < 5:
            return {"is_success": False}
        last = env.observation()
        env.reset()
        return {"is_success": False, key: wrap(last), f"{key.split('_')[0]}_info": wrap({"is_success": True})}

    with registered(info=info, **{end: lambda env: env.count >= 5}) as env_id:
        steps = episode(make(env_id))
    assert [step.observation["state"][0] for step in steps] == [0, 1, 2, 3, 4, 5]
    assert [step.success for step in steps] == [False] * 5 + [True]
    assert getattr(steps[-1], end)


class UntoldError(Exception):
    def __str__(self) -> str:
        raise ValueError("a text that cannot be made")


def untold(env: Any) -> None:
    if env.count == 3:
        raise UntoldError


@pytest.mark.parametrize(
    ("end", "count", "success"),
    [
        # As vector environments of one have it, of an episode that goes on.
        ({"final_obs": boxed(None), "_final_obs": np.array([False]), "final_info": boxed(None)}, 0, False),
        ({"final_observation": [{"count": np.array([5])}], "final_info": [{"is_success": True}]}, 5, True),
        ({"final_obs": {"count": np.array([[5.0]])}, "final_info": {"is_success": np.array([True])}}, 5, True),
        ({"final_obs": boxed({"count": 5}), "final_info": {"episode": {"r": 1.0}}}, 5, False),
        ({"final_info": ({"is_success": "yes"},)}, 0, True),
    ],
)
def test_last_observations_and_infos_of_dictionaries(end: dict[str, Any], count: int, success: bool) -> None:
    def info(env: Any) -> dict[str, Any]:
        if env.count < 5:
            return {"is_success": False}
        env.reset()
        return {"is_success": False, **end}

    space = spaces.Dict({"count": spaces.Box(0, 99, (1,))})
    changes = {"observation": lambda env: {"count": np.array([env.count])}, "truncated": lambda env: env.count >= 5}
    with registered(space=space, info=info, **changes) as env_id:
        last = episode(make(env_id))[-1]
    assert (last.observation["state"].tolist(), last.success) == ([count], success)


def unstable(env: Any) -> None:
    if env.count == 3:
        raise RuntimeError("simulation is unstable\nsecond line")


def cancelled(env: Any) -> Any:
    if env.count == 3:
        raise asyncio.CancelledError
    return np.zeros(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": unstable}, "RuntimeError: simulation is unstable (--debug"),
        ({"step": lambda env: 1 / (3 - env.count)}, "ZeroDivisionError: division by zero"),
        ({"step": lambda env: {}["state"] if env.count == 3 else None}, "KeyError: 'state'"),
        ({"step": lambda env: env.nothing if env.count == 3 else 0}, "AttributeError"),
        ({"step": lambda env: sys.exit(4) if env.count == 3 else 0}, "SystemExit: 4"),
        ({"step": untold}, "episode: UntoldError (--debug"),
        ({"step": cancelled}, "episode: CancelledError (--debug"),
        ({"observation": cancelled}, "episode: CancelledError (--debug"),
        ({"observation": lambda env: np.zeros(4 if env.count == 3 else 3)}, "expected shape (3,) as in its space, got"),
        ({"observation": lambda env: np.array(["a"] * 3) if env.count == 3 else np.zeros(3)}, "expected numbers"),
        ({"info": lambda env: None if env.count == 3 else {}}, "expected info to be a dict"),
    ],
)
def test_what_goes_wrong_in_a_step_names_environment_and_step(change: dict[str, Any], message: str) -> None:
    with registered(**change) as env_id:
        backend = make(env_id)
        backend.reset(seed=0)
        with pytest.raises(DriverError) as caught:
            for _ in range(5):
                backend.step(np.zeros(2, np.float32))
        assert str(caught.value).startswith("environment test/Odd-v0, step 3 of the episode: ")
        assert message in str(caught.value) and "\n" not in str(caught.value)
        assert backend.reset(seed=0).observation["state"].shape == (3,), "another episode may begin"


@pytest.mark.parametrize("signal", [KeyboardInterrupt, _Terminated])
def test_signals_during_a_step_are_no_failures_of_the_environment(signal: type[BaseException]) -> None:
    def step(env: Any) -> None:
        if env.count == 3:
            raise signal

    with registered(step=step) as env_id:
        backend = make(env_id)
        with pytest.raises(signal):
            episode(backend)


def test_an_environment_that_is_cancelled_in_reset_is_named() -> None:
    def reset(env: Any) -> None:
        if env.episode == 3:
            raise asyncio.CancelledError

    with registered(reset=reset) as env_id:
        backend = make(env_id)
        with pytest.raises(DriverError, match=r"^environment test/Odd-v0, .*: CancelledError \(--debug"):
            for seed in range(3):
                backend.reset(seed)


def test_an_environment_that_exits_when_it_is_made_is_refused() -> None:
    with (
        registered(reset=lambda env: sys.exit("no licence")) as env_id,
        pytest.raises(ConfigError, match=r"does not work with task.env_kwargs=\{\} \(SystemExit: no licence"),
    ):
        make(env_id)


@pytest.mark.parametrize("first", [np.zeros(3), {"state": 1}, (np.zeros(3), {}, 0)])
def test_a_reset_of_another_interface_is_refused_when_the_environment_is_made(
    first: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Odd, "reset", lambda *_, **__: first)
    with (
        registered() as env_id,
        pytest.raises(ConfigError, match=r"expected reset\(\) to return \(observation, info\)"),
    ):
        make(env_id)


@pytest.mark.parametrize("end", [ZeroDivisionError("no"), SystemExit(1), UntoldError(), asyncio.CancelledError()])
def test_a_failure_to_close_costs_nothing(end: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def close(env: Any) -> None:
        raise end

    monkeypatch.setattr(Odd, "close", close)
    with registered() as env_id:
        backend = make(env_id)
        with pytest.warns(RuntimeWarning, match=f"environment test/Odd-v0, close: {type(end).__name__}"):
            backend.close()


@pytest.mark.parametrize(
    ("info", "keys"), [({}, "nothing"), ({"reached": 1}, "reached"), ({"a": 1, "b": 2}, "a, b"), ({"ok": None}, "ok")]
)
def test_a_key_that_the_first_step_lacks_is_said(info: dict[str, Any], keys: str) -> None:
    with (
        registered(info=lambda env: info) as env_id,
        pytest.warns(RuntimeWarning, match=f"task.success_key=solved: .* does not have this key, but {keys}. Every"),
    ):
        backend = make(env_id, success_key="solved")
        assert episode(backend)[-1].success is False


def test_what_goes_wrong_in_a_reset_names_the_environment() -> None:
    def reset(env: Any) -> None:
        if env.episode == 3:
            raise OSError("the licence server does not answer")

    with registered(reset=reset) as env_id:
        backend = make(env_id)
        backend.reset(seed=0)
        with pytest.raises(DriverError, match="environment test/Odd-v0, reset: OSError: the licence server"):
            backend.reset(seed=0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"success_key": ""}, "task.success_key must be null or a key of info, got ''"),
        ({"success_at_least": 2.0, "success_at_most": 1.0}, "task.success_at_least must be at most success_at_most=1"),
    ],
)
def test_options_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        GymnasiumConfig(**fields)
    assert message in str(caught.value)
