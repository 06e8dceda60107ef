"""Chunks executed while the next one is computed: alignment, blending, holding still, threads and what is measured."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, ConfigError, EnvSpec, Observation, SpecError
from robo_rl.residual import (
    BASE_ACTION,
    BaseActionBackend,
    BaseActions,
    BasePolicy,
    ExecutedPolicy,
    ExecutionConfig,
    FrozenPolicy,
    KnownActions,
)
from robo_rl.sim import make_backend

RATE, CHUNK = 20.0, 8
SPEC = EnvSpec(
    task="line",
    observation={"state": ArraySpec((1,))},
    action=ArraySpec((2,), low=-1, high=1, names=("x", "gripper")),
    action_space="end_effector_delta",
    action_frame="base",
    control_rate=RATE,
    max_episode_steps=100,
    reward_terms=("success",),
)


def observed(step: int) -> Observation:
    return {"state": np.array([step], np.float32)}


def clock_chunk(observation: Observation) -> NDArray[np.float32]:
    """Actions that name the step for which they are meant: x is step / 100, the gripper the step of the decision."""
    step = float(observation["state"][0])
    return np.array([[(step + each) / 100, step / 100] for each in range(CHUNK)], np.float32)


def policy(function: Callable[[Observation], NDArray[np.float32]] = clock_chunk, **options: object) -> ExecutedPolicy:
    simulated = bool(options.pop("simulated", True))
    spec = options.pop("spec", SPEC)
    assert isinstance(spec, EnvSpec)
    config = ExecutionConfig(**options)  # type: ignore[arg-type]
    return ExecutedPolicy(BasePolicy.of_function(function, "clock"), spec, config, simulated=simulated)


def actions(executed: ExecutedPolicy, steps: int, seed: int | None = 0) -> NDArray[np.float32]:
    """Return the actions (steps, A) of an episode, in hundredths: the step that each is meant for."""
    executed.begin_episode(seed)
    return np.stack([100 * executed.act(observed(step)) for step in range(steps)])


def test_without_latency_chunks_follow_one_another() -> None:
    executed = policy(latency=0.0)
    np.testing.assert_allclose(actions(executed, 20)[:, 0], range(20), atol=1e-4)
    report = executed.report()
    assert (report.decisions, report.steps, report.held_steps, report.seams) == (3, 20, 0, 2)
    assert report.latency_median == 0.0


def test_a_robot_that_waits_holds_still_and_executes_the_whole_chunk() -> None:
    executed = policy(latency=0.15)  # three periods
    moved = actions(executed, 20)
    expected = [*range(8), 0, 0, 0, *range(8, 16), 0]
    np.testing.assert_allclose(moved[:, 0], expected, atol=1e-4)
    assert (moved[8:11, 1] == moved[7, 1]).all()  # the gripper keeps its position
    report = executed.report()
    assert (report.held_steps, report.seams, report.latency_percentile_99) == (4, 3, 0.15)


@pytest.mark.parametrize("latency", [0.05, 0.12, 0.15, 0.35])
@pytest.mark.parametrize("blending", ["linear", "exponential", "none"])
def test_actions_of_the_past_are_dropped_and_nothing_is_held(latency: float, blending: str) -> None:
    executed = policy(asynchronous=True, latency=latency, blending=blending)
    moved = actions(executed, 60)
    if 2 * math.ceil(latency * RATE) <= CHUNK:
        np.testing.assert_allclose(moved[:, 0], range(60), atol=1e-3)  # each action is executed in its step
        assert executed.report().held_steps == 0
    delay = math.ceil(latency * RATE)
    decided = sorted(set(moved[:, 1].round(3)) if blending == "none" else [])
    if decided and 2 * delay <= CHUNK:
        assert decided[1] == CHUNK - delay, "the first decision to be requested while a chunk is executed"


def test_a_policy_as_slow_as_a_chunk_is_executed_chunk_by_chunk() -> None:
    executed = policy(asynchronous=True, latency=0.45)  # nine periods
    moved = actions(executed, 34)[:, 0]
    np.testing.assert_allclose(moved, [*range(8), *[0] * 9, *range(8, 16), *[0] * 9], atol=1e-4)


@pytest.mark.parametrize(
    ("blending", "shares"),
    [
        ("linear", [0.75, 0.5, 0.25]),
        ("exponential", [c * (math.exp(c) - 1) / (math.e - 1) for c in (0.75, 0.5, 0.25)]),
        ("none", [0.0, 0.0, 0.0]),
    ],
)
def test_the_overlap_is_blended(blending: str, shares: list[float]) -> None:
    heights = iter([0.8, -0.8, 0.0])
    steps = {} if blending == "none" else {"blended_steps": 3}
    executed = policy(
        lambda _: np.full((CHUNK, 2), next(heights), np.float32),
        asynchronous=True,
        latency=0.1,
        blending=blending,
        spec=replace(SPEC, action_space="joint_velocity"),
        **steps,
    )
    moved = actions(executed, CHUNK)[:, 0] / 100
    begin = CHUNK if blending == "none" else CHUNK - 3
    np.testing.assert_allclose(moved[: begin if blending != "none" else 6], 0.8, atol=1e-6)
    if blending != "none":
        np.testing.assert_allclose(moved[begin:], [0.8 * s - 0.8 * (1 - s) for s in shares], atol=1e-6)
    assert np.abs(moved).max() <= 1


@pytest.mark.parametrize(("blending", "height", "covered"), [("linear", 0.6, 0.6), ("none", 0.6, 0.0)])
def test_steps_that_fell_into_the_past_are_made_up_for(blending: str, height: float, covered: float) -> None:
    """The second chunk corrects an error with its first step, in whose place a step of the first one is executed."""

    def correcting(observation: Observation) -> NDArray[np.float32]:
        chunk = np.zeros((CHUNK, 2), np.float32)
        chunk[0] = height if 0 < observation["state"][0] < CHUNK else 0.0
        return chunk

    executed = policy(correcting, asynchronous=True, latency=0.1, blending=blending)
    moved = actions(executed, CHUNK + 1)[:, 0] / 100
    assert moved.sum() == pytest.approx(covered, abs=1e-6)
    assert np.abs(moved).max() < 0.3  # spread over several steps


def test_jerk_at_seams_is_smaller_with_blending() -> None:
    jerks = []
    for blending in ("none", "linear"):
        signs = iter([1, -1] * 50)
        executed = policy(
            lambda _, signs=signs: np.full((CHUNK, 2), 0.5 * next(signs), np.float32),  # type: ignore[misc]
            asynchronous=True,
            latency=0.1,
            blending=blending,
            spec=replace(SPEC, action_space="joint_velocity"),
        )
        actions(executed, 50)
        report = executed.report()
        assert report.jerk_in_chunks == 0.0 and report.jerk_at_seams is not None
        jerks.append(report.jerk_at_seams)
    assert jerks[0] == pytest.approx(1.0) and jerks[1] < 0.5


def test_positions_are_held_by_repeating_them_and_motion_by_zeros() -> None:
    positions = policy(latency=0.1, spec=replace(SPEC, action_space="joint_position"))
    moved = actions(positions, 11)[:, 0]
    np.testing.assert_allclose(moved, [*range(8), 7, 7, 8], atol=1e-4)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_recorded_actions_of_others_get_what_the_policy_would_have_done(asynchronous: bool) -> None:
    executed = policy(asynchronous=asynchronous, latency=0.1)
    base = BaseActions(executed, SPEC, 0.2)
    step = base.begin(observed(0), 0)
    moved = []
    for number in range(1, 12):
        moved.append(100 * step[BASE_ACTION][0])
        step = base.follow(np.array([0.9, 0.9], np.float32), observed(number))
    np.testing.assert_allclose(moved, range(11), atol=1e-4)


def test_a_robot_holds_still_where_a_person_has_left_it_until_the_next_decision() -> None:
    released = threading.Event()

    def decide(observation: Observation) -> NDArray[np.float32]:
        assert observation["state"][0] == 0 or released.wait(10)
        return clock_chunk(observation)

    spec = replace(SPEC, action_space="joint_position")
    executed = policy(decide, asynchronous=True, simulated=False, spec=spec)
    executed.begin_episode(0)
    executed.act(observed(0))
    for step in range(1, 4):  # the control loop does not wait for a decision
        executed.forget_plan(np.array([0.5, 0.7], np.float32))
        np.testing.assert_allclose(executed.act(observed(step)), [0.5, 0.7])
    released.set()
    executed.close()


def test_an_episode_repeats_from_its_seed() -> None:
    def noisy(observation: Observation, noise: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.tanh(noise).reshape(CHUNK, 2)

    config = ExecutionConfig(asynchronous=True, latency=0.15)
    executed = ExecutedPolicy(BasePolicy(noisy, "noisy", "1", None, 2 * CHUNK), SPEC, config, simulated=True)
    first, second = actions(executed, 30, seed=3), actions(executed, 30, seed=4)
    np.testing.assert_array_equal(first, actions(executed, 30, seed=3))
    assert not np.array_equal(first, second)


def test_the_measured_time_of_a_decision_passes_in_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    monkeypatch.setattr("robo_rl.residual.execution.time", SimpleNamespace(monotonic=lambda: seconds[0]))

    def slow(observation: Observation) -> NDArray[np.float32]:
        seconds[0] += 0.06
        return clock_chunk(observation)

    executed = policy(slow, asynchronous=True)
    np.testing.assert_allclose(actions(executed, 12)[:, 0], range(12), atol=1e-3)
    assert executed.report().latency_median == pytest.approx(0.06)


class Gate:
    """A policy that waits in its thread until it may decide."""

    def __init__(self) -> None:
        self.open = threading.Semaphore(0)
        self.decided: list[int] = []
        self.together = 0

    def __call__(self, observation: Observation) -> NDArray[np.float32]:
        self.together += 1
        assert self.together == 1, "one decision at a time"
        assert self.open.acquire(timeout=10)
        self.decided.append(int(observation["state"][0]))
        self.together -= 1
        return clock_chunk(observation)

    def release(self, executed: ExecutedPolicy) -> None:
        """Let the current decision be made, and wait until it has been."""
        thread = executed._request._thread if executed._request is not None else None
        self.open.release()
        if thread is not None:
            thread.join()


def test_a_late_decision_of_a_real_robot_is_held_for_and_aligned() -> None:
    gate = Gate()
    executed = policy(gate, asynchronous=True, simulated=False)
    executed.begin_episode(0)
    gate.open.release()
    moved = [100 * executed.act(observed(0))[0]]  # waits for the first chunk
    assert executed._request is None
    moved += [100 * executed.act(observed(step))[0] for step in range(1, 8)]  # requests the next one on the way
    requested = 8 - executed._length + len(executed._request.executed) if executed._request is not None else -1
    moved += [100 * executed.act(observed(step))[0] for step in (8, 9)]  # nothing is left
    gate.release(executed)
    moved += [100 * executed.act(observed(10))[0]]
    np.testing.assert_allclose(moved[:10], [*range(8), 0, 0], atol=1e-4)
    assert requested >= 0 and executed.report().held_steps == 2
    assert moved[10] == pytest.approx(8, abs=1e-3), "of the chunk the actions are dropped that others replaced"
    gate.open.release()
    executed.close()


def test_an_answer_from_the_last_episode_is_not_executed_and_the_thread_ends() -> None:
    gate, before = Gate(), set(threading.enumerate())
    executed = policy(gate, asynchronous=True, simulated=False)
    executed.begin_episode(0)
    gate.open.release()
    for step in range(7):
        executed.act(observed(step))
    assert executed._request is not None  # a decision is on its way
    executed.begin_episode(1)
    for _ in range(2):
        gate.open.release()
    assert 100 * executed.act(observed(50))[0] == pytest.approx(50, abs=1e-3)
    gate.open.release()
    executed.close()
    assert not any(thread.name == "base policy" for thread in set(threading.enumerate()) - before)


@pytest.mark.parametrize("simulated", [True, False])
def test_a_policy_that_fails_ends_the_episode_with_its_error(simulated: bool) -> None:
    def failing(observation: Observation) -> NDArray[np.float32]:
        if observation["state"][0] > 0:
            raise SpecError("no answer")
        return clock_chunk(observation)

    executed = policy(failing, asynchronous=True, simulated=simulated, **({"latency": 0.1} if simulated else {}))
    with pytest.raises(SpecError, match="no answer"):
        for step in range(50 if simulated else 10_000):
            executed.act(observed(step))
            time.sleep(0 if simulated else 0.001)
    executed.close()


def test_a_base_that_fails_stops_the_robot() -> None:
    backend = make_backend("reach")
    stops: list[str] = []
    backend.stop = stops.append  # type: ignore[method-assign]

    def failing(observation: Observation) -> NDArray[np.float32]:
        if failing.calls:  # type: ignore[attr-defined]
            raise SpecError("no answer")
        failing.calls = 1  # type: ignore[attr-defined]
        return np.zeros((4, 3), np.float32)

    failing.calls = 0  # type: ignore[attr-defined]
    config = ExecutionConfig(asynchronous=True, latency=0.1)
    base = ExecutedPolicy(BasePolicy.of_function(failing, "failing"), backend.spec, config, simulated=True)
    corrected = BaseActionBackend(backend, base, 0.2)
    corrected.reset(0)
    with pytest.raises(SpecError, match="no answer"):
        for _ in range(8):
            corrected.step(np.zeros(3, np.float32))
    assert stops == ["the base policy failed"]
    corrected.close()


def test_a_frozen_policy_begins_episodes() -> None:
    frozen = FrozenPolicy(policy(asynchronous=True, latency=0.15))
    for _ in range(2):
        frozen.forget_plan(explore=False)
        moved = [100 * frozen.act(observed(step), explore=False)[0] for step in range(5)]
        np.testing.assert_allclose(moved, range(5), atol=1e-4)


def test_with_inpainting_a_decision_continues_the_rest_of_the_current_chunk() -> None:
    received: list[KnownActions] = []

    def inpaint(observation: Observation, _: NDArray[np.float32], known: KnownActions) -> NDArray[np.float32]:
        received.append(known)
        return clock_chunk(observation)

    base = BasePolicy(lambda observation, _: clock_chunk(observation), "clock", "1", inpaint=inpaint)
    config = ExecutionConfig(asynchronous=True, blending="inpainting", blended_steps=2, latency=0.15)
    executed = ExecutedPolicy(base, SPEC, config, simulated=True)
    moved = actions(executed, 30)
    np.testing.assert_allclose(moved[:, 0], np.arange(30), atol=1e-4)  # meant for the step in which it is executed
    decisions = [0.0] * 6 + [float(3 + 3 * (step // 3)) for step in range(24)]  # a new chunk is used as it is
    np.testing.assert_allclose(moved[:, 1], decisions, atol=1e-4)
    for number, known in enumerate(received):
        first = 3 * number + 3
        np.testing.assert_allclose(100 * known.actions[:, 0], np.arange(first, first + 5), atol=1e-4)
        np.testing.assert_allclose(known.weights, [1, 1, 1, *_exponential(2)], rtol=1e-6)


def _exponential(count: int) -> list[float]:
    shares = [(count - each) / (count + 1) for each in range(count)]
    return [share * (math.exp(share) - 1) / (math.e - 1) for share in shares]


def test_options_without_effect_and_policies_of_several_observations_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"execution\.blending must be given only where execution\.asynchronous=true"):
        ExecutionConfig(blending="none")
    with pytest.raises(ConfigError, match=r"execution\.blended_steps must be given only where .* chunks are blended"):
        ExecutionConfig(asynchronous=True, blending="none", blended_steps=3)
    faded = ExecutionConfig(asynchronous=True, blending="exponential", blended_steps=3, latency=0.1)
    assert faded.changed({"latency": 0.2}) == replace(faded, latency=0.2)
    assert faded.changed({"blending": "none"}) == ExecutionConfig(asynchronous=True, blending="none", latency=0.1)
    assert faded.changed({"asynchronous": False}) == ExecutionConfig(latency=0.1)
    with pytest.raises(ConfigError, match=r"execution\.blending must be given only where execution\.asynchronous=true"):
        faded.changed({"asynchronous": False, "blending": "none"})
    base = BasePolicy.of_function(clock_chunk, "history")
    base.observed_steps = 2
    with pytest.raises(ConfigError, match="history decides on 2 consecutive observations"):
        ExecutedPolicy(base, SPEC, ExecutionConfig(asynchronous=True), simulated=True)
    with pytest.raises(ConfigError, match=r"execution\.blending=inpainting needs the policy of a run of agent=flow"):
        policy(asynchronous=True, blending="inpainting")
