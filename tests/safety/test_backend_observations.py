"""Observations of the robot with safety around it: false, old, frozen and impossible ones."""

from dataclasses import replace

import numpy as np
import pytest

from robo_rl.actor import ActionChoice, Actor
from robo_rl.core import (
    SafetyStop,
    Source,
    Step,
    Verdict,
)
from robo_rl.replay import ReplayRing
from robo_rl.safety import make_safe_backend
from robo_rl.safety.config import (
    JointsConfig,
    ObservationsConfig,
)

from ..rigs.safety_arms import ACTION, SPEC, ScriptedBackend, arm, steps, with_state


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (np.array([1, np.nan], np.float32), r"'state': expected finite values, got nan at index \[1\] \(v\)"),
        (np.array([np.inf, 0], np.float32), r"expected finite values, got inf at index \[0\] \(x\)"),
        (np.array([1, 101], np.float32), r"expected values in \[-inf, 100.0\], got 101.0"),
        (np.zeros(3, np.float32), r"expected a float32 array of shape \(2,\), got a float32 array of shape \(3,\)"),
        (np.zeros(2), "got a float64 array"),
    ],
)
def test_a_false_observation_stops_the_robot_and_is_never_stored(state, message):
    good = steps(4)
    inner = ScriptedBackend(SPEC, steps(4, n2=with_state(good[2], state)))
    actor = Actor(make_safe_backend(inner), seed=0)
    ring = ReplayRing(10, SPEC)
    ring.append([actor.take_step(lambda _: ActionChoice(ACTION, Source.POLICY))])
    with pytest.raises(SafetyStop, match=message) as caught:
        actor.take_step(lambda _: ActionChoice(ACTION, Source.POLICY))
    assert caught.value.reason == "observation_invalid"
    assert len(inner.stops) == 1
    assert len(ring) == 1, "produced is stored plus rejected: one, and one that never was a step"


def test_after_a_stop_the_actor_begins_another_episode():
    bad = with_state(steps(3)[1], np.full(2, np.nan, np.float32))
    inner = ScriptedBackend(SPEC, steps(3, n1=bad))
    actor = Actor(make_safe_backend(inner), seed=0)
    with pytest.raises(SafetyStop):
        actor.take_step(lambda _: ActionChoice(ACTION, Source.POLICY))
    transition = actor.take_step(lambda _: ActionChoice(ACTION, Source.POLICY))
    assert (transition.episode, transition.sequence) == (1, 0)


def test_an_old_observation_is_answered_by_holding_still_then_by_stopping():
    inner = ScriptedBackend(SPEC, steps(6), delays_ns={1: 101_000_000, 2: 150_000_000, 3: 100_000_000})
    # Stamps are 0.1 s apart, so step 3 comes at 0.3 s + 0.1 s, exactly the age that is allowed.
    backend = make_safe_backend(inner, observations=ObservationsConfig(stale_steps=3))
    backend.reset()
    done = [backend.step(ACTION) for _ in range(4)]
    assert [step.verdict.reasons for step in done] == [(), ("observation_stale",), ("observation_stale",), ()]
    assert [float(action[0]) for action in inner.actions] == [0.5, 0.0, 0.0, 0.5]
    assert done[1].verdict.message == "the observation is 0.101 s old, 0.1 s are allowed"
    np.testing.assert_array_equal(done[1].executed_action, [0.0])

    inner = ScriptedBackend(SPEC, steps(6), delays_ns=dict.fromkeys(range(6), 200_000_000))
    backend = make_safe_backend(inner, observations=ObservationsConfig(stale_steps=3))
    backend.reset()
    backend.step(ACTION)
    backend.step(ACTION)
    with pytest.raises(SafetyStop, match="for 3 steps in a row"):
        backend.step(ACTION)
    assert inner.stops
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        backend.step(ACTION)


def test_a_robot_that_says_how_old_an_observation_may_be_is_believed_unless_safety_says_otherwise():
    made = [replace(step, expires_ns=step.stamp_ns + (50 if n == 2 else 300) * 1_000_000) for n, step in
            enumerate(steps(4))]  # fmt: skip
    delays = {1: 250_000_000, 2: 60_000_000}
    expected = {None: [(), (), ("observation_stale",)], 0.1: [(), ("observation_stale",), ()], 1.0: [(), (), ()]}
    for max_age, reasons in expected.items():
        backend = make_safe_backend(
            ScriptedBackend(SPEC, made, delays_ns=delays), observations=ObservationsConfig(max_age=max_age)
        )
        backend.reset()
        done = [backend.step(ACTION) for _ in range(3)]
        assert [step.verdict.reasons for step in done] == reasons
        if max_age is None:
            assert done[2].verdict.message == "the observation is 0.060 s old, 0.05 s are allowed"


def test_holding_still_on_an_old_observation_keeps_the_joint_limits():
    """Joints brake into it and speed up out of it no faster than they may."""
    inner = arm("joint_delta")
    now_ns, late_ns = inner.clock.now_ns, [0]
    inner.clock.now_ns = lambda: now_ns() + late_ns[0]  # type: ignore[method-assign]
    backend = make_safe_backend(inner, joints=JointsConfig(acceleration=(2.0,) * 7))
    backend.reset(0)
    action = np.zeros(inner.spec.action.shape, np.float32)
    action[0] = 1
    velocities = []
    for number in range(10):
        late_ns[0] = 200_000_000 if number == 6 else 0
        step = backend.step(action)
        executed = action if step.executed_action is None else step.executed_action
        velocities.append(executed[0] * inner.robot.joint_delta * inner.spec.control_rate)
        assert ("observation_stale" in step.verdict.reasons) == (number == 6)
    assert max(velocities) == pytest.approx(1.0)
    assert velocities[6] < velocities[5]
    assert np.abs(np.diff(velocities)).max() * inner.spec.control_rate <= 2.0 * 1.001


def test_any_age_will_do_where_observations_are_not_watched():
    made = [replace(step, expires_ns=step.stamp_ns) for step in steps(3)]
    inner = ScriptedBackend(SPEC, made, delays_ns={0: 10**12})
    backend = make_safe_backend(inner, observations=ObservationsConfig(enabled=False))
    backend.reset()
    assert backend.step(ACTION).verdict == Verdict()


def test_a_frozen_camera_is_a_fault():
    made = steps(8)
    frozen = {f"n{n}": replace(made[n], observation=made[n].observation | {"images/a": made[3].observation["images/a"]})
              for n in (4, 5, 6)}  # fmt: skip
    backend = make_safe_backend(
        ScriptedBackend(SPEC, steps(8, **frozen)), observations=ObservationsConfig(frozen_images=4)
    )
    backend.reset()
    for _ in range(5):
        backend.step(ACTION)
    with pytest.raises(SafetyStop, match="images/a: 4 pictures in a row are equal in every pixel") as caught:
        backend.step(ACTION)
    assert caught.value.reason == "camera_frozen"


def poisoned(name: str, value: float):
    """A simulated arm whose observation has another value under ``name`` from the second step on."""
    inner = arm()
    take, index, count = inner.step, inner.spec.observation["state"].names.index(name), [0]

    def step(action: np.ndarray) -> Step:
        done = take(action)
        count[0] += 1
        if count[0] >= 2:
            done.observation["state"][index] = value
        return done

    inner.step = step  # type: ignore[method-assign]
    return make_safe_backend(inner)


@pytest.mark.parametrize(
    ("name", "value", "reason", "message"),
    [
        ("joint2_position", 1.9, "observation_range", r"joint 2 is measured at 1.900 rad, beyond .* \(-1.863 to 1.863"),
        ("joint1_velocity", -9.0, "observation_range", r"joint 1 is measured at -9.00 rad/s, beyond .* \(8.70 rad/s\)"),
        ("joint1_position", 0.8, "observation_jump", "joint 1 jumped from .* to 0.800 rad in 0.100 s"),
    ],
)
def test_impossible_joints_are_not_believed(name, value, reason, message):
    backend = poisoned(name, value)
    backend.reset(0)
    backend.step(np.zeros(4, np.float32))
    with pytest.raises(SafetyStop, match=message) as caught:
        backend.step(np.zeros(4, np.float32))
    assert caught.value.reason == reason
