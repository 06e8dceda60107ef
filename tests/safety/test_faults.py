"""Where an episode may not begin, and filters of the user's own that fail: the robot is held, and people are told."""

import asyncio
from typing import Any

import numpy as np
import pytest

from robo_rl.core import PASSED, ConfigError, SafetyStop, StopButton, Verdict
from robo_rl.safety import make_safe_backend
from robo_rl.safety.chain import FilterChain
from robo_rl.safety.config import BarrierConfig, ContactConfig, WorkspaceConfig
from robo_rl.sim import make_backend

from ..rigs.safety_arms import arm

ACTION = np.array([0.5, -0.5, 0.25, 0.0], np.float32)


def raises(_: Any, action: Any) -> Any:
    raise KeyError("speed\x1b[2J")


def exits(_: Any, action: Any) -> Any:
    raise StopIteration


def is_cancelled(_: Any, action: Any) -> Any:
    raise asyncio.CancelledError


class Odd:
    """A filter that returns what is given, or does it where that is a function."""

    def __init__(self, does: Any) -> None:
        self.does = does

    def reset(self) -> None: ...

    def __call__(self, observation: Any, action: Any, now_ns: int) -> Any:
        return self.does(observation, action) if callable(self.does) else self.does


class Overwrites(Odd):
    """One that writes to the action, and then fails."""

    def __call__(self, observation: Any, action: Any, now_ns: int) -> Any:
        action[:] = np.nan
        raise ValueError("too late")


FAULTS = [
    raises,
    exits,
    is_cancelled,
    None,
    (),
    lambda _, action: action,
    lambda _, action: (action, None),
    lambda _, action: (None, PASSED),
    lambda _, action: (action.tolist(), PASSED),
    lambda _, action: (action.astype(object), PASSED),
    lambda _, action: (action.astype(np.float64), PASSED),
    lambda _, action: (action[None], PASSED),
    lambda _, action: (action, PASSED, "more"),
    lambda _, action: (action, Verdict(changed=True, reasons=None)),  # type: ignore[arg-type]
    lambda _, action: (action, Verdict(changed=True, reasons="half")),  # type: ignore[arg-type]
    lambda _, action: (action, {"changed": False}),
    lambda _, action: (np.full_like(action, np.nan), PASSED),
    lambda _, action: (np.full_like(action, 1.5), Verdict(changed=True)),
    lambda _, action: (np.ma.array(action / 2, mask=True), PASSED),
    lambda _, action: (action / 2, Verdict(changed=[True])),  # type: ignore[arg-type]
    lambda _, action: (action, Verdict(changed=True, stop=np.zeros(2, bool))),  # type: ignore[arg-type]
    lambda _, action: (action, Verdict(changed=True, message=5)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("does", FAULTS)
def test_a_filter_that_fails_holds_and_stops(does: Any) -> None:
    seen = []

    def later(_: Any, action: Any) -> Any:
        seen.append(action.tolist())
        return action, PASSED

    action = ACTION.copy()
    chain = FilterChain([Odd(does), Odd(later)], lambda _, action: np.zeros_like(action), 0)
    executed, verdict = chain({}, action, 0)
    assert executed.tolist() == [0, 0, 0, 0] == seen[0], "the filters after it see the robot held still"
    assert verdict.stop and verdict.changed and verdict.reasons[-1] == "filter_fault"
    assert verdict.message.startswith("the filter Odd ") and verdict.message.isprintable()
    np.testing.assert_array_equal(action, ACTION)


def test_a_filter_that_writes_and_fails_changes_nothing() -> None:
    action = ACTION.copy()
    chain = FilterChain([Overwrites(None)], lambda _, action: np.zeros_like(action), 0)
    executed, verdict = chain({}, action, 0)
    assert verdict.reasons == ("filter_fault",) and executed.tolist() == [0, 0, 0, 0]
    np.testing.assert_array_equal(action, ACTION)


@pytest.mark.parametrize("request_to_end", [KeyboardInterrupt, SystemExit])
def test_a_request_to_end_passes_a_filter(request_to_end: type[BaseException]) -> None:
    def ends(*_: Any) -> Any:
        raise request_to_end

    with pytest.raises(request_to_end):
        FilterChain([Odd(ends)], lambda _, action: np.zeros_like(action), 0)({}, ACTION.copy(), 0)


def test_a_filter_that_is_cancelled_in_reset_stops() -> None:
    class Cancelled(Odd):
        def reset(self) -> None:
            raise asyncio.CancelledError

    with pytest.raises(SafetyStop, match="Cancelled failed in reset: CancelledError"):
        FilterChain([Cancelled(None)], lambda _, action: np.zeros_like(action), 0)


MODE = {"fails": "", "resets": False}


class Mine:
    """As a user's package would have it."""

    def __init__(self, spec: Any, robot: Any) -> None: ...

    def reset(self) -> None:
        if MODE["fails"] == "reset":
            raise RuntimeError("no calibration")

    def __call__(self, observation: Any, action: Any, now_ns: int) -> Any:
        if MODE["fails"] == "call":
            raise RuntimeError("no calibration")
        return action, PASSED


def test_an_episode_ends_held_and_stopped_and_the_next_may_begin() -> None:
    backend = make_safe_backend(arm(), filters=[{"target": f"{__name__}.Mine"}])
    try:
        for fails in ("call", "", "reset"):
            MODE["fails"] = fails
            if fails == "reset":
                with pytest.raises(SafetyStop, match="Mine failed in reset: RuntimeError: no calibration") as caught:
                    backend.reset(0)
                assert caught.value.reason == "filter_fault"
                continue
            backend.reset(0)
            step = backend.step(ACTION)
            assert step.truncated is (fails == "call")
            if fails:
                assert step.verdict.reasons[0] == "filter_fault"
                assert step.executed_action is not None and not step.executed_action[:3].any()
    finally:
        MODE["fails"] = ""


def standardises(observation: Any, action: Any) -> Any:
    state = observation["state"]
    state -= state.mean()
    state /= 10.0
    return action, PASSED


def loses(observation: Any, action: Any) -> Any:
    observation.clear()
    return action, PASSED


def invalidates(observation: Any, action: Any) -> Any:
    observation["state"][:] = np.nan
    return action, PASSED


def locks(observation: Any, action: Any) -> Any:
    action.flags.writeable = False
    return action, PASSED


DOES: list[Any] = []


class Yours(Odd):
    def __init__(self, spec: Any, robot: Any) -> None:
        super().__init__(DOES[-1])


def own(does: Any) -> list[dict[str, Any]]:
    """Return the configuration of a filter that does it."""
    DOES.append(does)
    return [{"target": f"{__name__}.Yours"}]


@pytest.mark.parametrize("does", [standardises, loses, invalidates, locks])
def test_a_filter_that_writes_to_its_input_falsifies_nothing(does: Any) -> None:
    """Otherwise the limits of the joints would be kept at a posture where the arm is not."""
    backend, other = make_safe_backend(arm(), filters=own(does)), make_safe_backend(arm())
    first = backend.reset(0)
    other.reset(0)
    for _ in range(3):
        first_state = first.observation["state"].copy()
        step, reference = backend.step(ACTION), other.step(ACTION)
        np.testing.assert_array_equal(first.observation["state"], first_state)
        np.testing.assert_array_equal(step.observation["state"], reference.observation["state"])
        assert step.verdict == reference.verdict
        first = step


def test_a_filter_that_returns_the_same_array_changes_no_earlier_action() -> None:
    buffer = np.zeros(4, np.float32)

    def halves(_: Any, action: Any) -> Any:
        buffer[:] = action / 2
        return buffer, Verdict(changed=True, reasons=("half",))

    backend = make_safe_backend(arm(), filters=own(halves))
    backend.reset(0)
    steps = [backend.step(share * ACTION) for share in np.float32([0.1, 0.2, 0.3])]
    for step, share in zip(steps, (0.1, 0.2, 0.3), strict=True):
        np.testing.assert_allclose(step.executed_action, share * ACTION / 2, rtol=1e-6)
        assert step.verdict.reasons == ("half",)


@pytest.mark.parametrize(
    "error", [ValueError("height"), FileNotFoundError(2, "No such file", "map.npy"), KeyError("a")]
)
def test_a_filter_that_cannot_be_made_is_named(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(Yours, "__init__", fails)
    with pytest.raises(ConfigError, match=rf"Yours' cannot be made: {type(error).__name__}: "):
        make_safe_backend(arm(), filters=own(None))


HOME = make_backend("reach").reset(0).observation["state"]
NAMES = make_backend("reach").spec.observation["state"].names
PLACE = [float(HOME[NAMES.index(f"end_effector_{axis}")]) for axis in "xyz"]


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ((5.0, -1.0, 0.0), (6.0, 1.0, 1.0)),
        ((-1.0, PLACE[1] + 0.06, 0.0), (2.0, 1.0, 1.0)),
        ((-1.0, -1.0, 0.0), (2.0, 1.0, PLACE[2] - 0.06)),
        ((-1.0, -1.0, 0.0), (PLACE[0] - 0.3, PLACE[1] - 0.3, 1.0)),
    ],
)
def test_no_episode_begins_far_outside_the_box(low: tuple[float, ...], high: tuple[float, ...]) -> None:
    inner = arm()
    backend = make_safe_backend(inner, button=StopButton(None), workspace=WorkspaceConfig(low=low, high=high))
    for _ in range(2):
        with pytest.raises(SafetyStop, match=r"end effector at \(.*\) m, \d\.\d\d m outside its box") as caught:
            backend.reset(0)
        assert caught.value.reason == "start_unsafe" and not caught.value.waits
    with pytest.raises(RuntimeError, match=r"no episode is running"):
        backend.step(ACTION)
    make_safe_backend(inner, workspace=WorkspaceConfig(enabled=False)).reset(0)


def test_an_arm_that_slipped_out_a_little_may_begin() -> None:
    box = WorkspaceConfig(low=(PLACE[0] + 0.03, -1.0, 0.0), high=(2.0, 1.0, 2.0))
    make_safe_backend(arm(), workspace=box).reset(0)


@pytest.mark.parametrize(
    "limits", [{"force": 1.0}, {"torque": 0.01}, {"force": 1.5, "torque": 5.0, "slow_from": 0.5}], ids=str
)
def test_no_episode_begins_with_a_load_that_slows_every_action(limits: dict[str, float]) -> None:
    """The sensor measures 1.4 N and 0.09 Nm at home."""
    inner = make_backend("reach")
    backend = make_safe_backend(inner, contact=ContactConfig(**limits))
    with pytest.raises(SafetyStop, match=r"measures 1 N and 0\.1 Nm at rest, but .*robot\.tare\.seconds") as caught:
        backend.reset(0)
    assert caught.value.reason == "start_unsafe"
    backend.reset()  # a reset controller begins its way home so, and relieves an arm that presses on something
    make_safe_backend(inner, contact=ContactConfig(**limits, enabled=False)).reset(0)
    make_safe_backend(inner, contact=ContactConfig(force=1.9, torque=0.2)).reset(0)


@pytest.mark.parametrize("half", [0.02, 0.05, 0.2])
@pytest.mark.parametrize("lower", [0.0, 0.15])
def test_no_episode_begins_inside_a_keep_out_volume(half: float, lower: float) -> None:
    """About the hand, and about the forearm above it."""
    x, y, z = PLACE
    inner = make_backend("reach", keep_out=(x, y, z + lower, half, half, half))
    backend = make_safe_backend(inner)
    with pytest.raises(SafetyStop, match=r"with the arm \d+\.\d cm inside itself or a keep-out volume") as caught:
        backend.reset(0)
    assert caught.value.reason == "start_unsafe"
    make_safe_backend(inner, barrier=BarrierConfig(enabled=False)).reset(0)


@pytest.mark.parametrize(
    "task", ["reach", "pick_cube", "peg_insert", "open_door", "cable_route", "bin_relocate", "plug_insert"]
)
def test_every_task_begins_where_an_episode_may(task: str) -> None:
    backend = make_safe_backend(make_backend(task))
    for seed in range(3):
        backend.reset(seed)
