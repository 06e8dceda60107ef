"""The robot with safety around it: what is executed, stored, refused and counted (fault cases 2 to 8)."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from robo_rl.actor import ActionChoice, Actor
from robo_rl.core import (
    ArraySpec,
    CheckpointError,
    ConfigError,
    EmergencyStop,
    EnvSpec,
    SafetyStop,
    Source,
    SpecError,
    Step,
    Verdict,
)
from robo_rl.replay import EpisodeStore, ReplayRing
from robo_rl.safety import make_safe_backend
from robo_rl.safety.config import (
    ContactConfig,
    EmergencyStopConfig,
    JointsConfig,
    ObservationsConfig,
    WorkspaceConfig,
)
from robo_rl.sim import TASKS, make_backend

from ..rigs.safety_arms import ScriptedBackend, arm

SPEC = EnvSpec(
    task="toy",
    observation={"state": ArraySpec((2,), names=("x", "v"), high=100.0), "images/a": ArraySpec((2, 2, 3), "uint8")},
    action=ArraySpec((1,), low=-1, high=1),
    action_space="toy",
    action_frame="toy",
    control_rate=10.0,
    max_episode_steps=50,
    reward_terms=("success",),
)


def steps(count: int, **changes: Step) -> list[Step]:
    """Steps 0.1 s apart with different pictures; ``changes`` replace them by number: ``n3=...``."""
    made = [
        Step(
            {"state": np.full(2, number, np.float32), "images/a": np.full((2, 2, 3), number, np.uint8)},
            {"success": 0.0},
            terminated=False,
            truncated=False,
            stamp_ns=number * 100_000_000,
        )
        for number in range(count)
    ]
    for name, step in changes.items():
        made[int(name[1:])] = step
    return made


def with_state(step: Step, state: np.ndarray) -> Step:
    return replace(step, observation=step.observation | {"state": state})


ACTION = np.array([0.5], np.float32)


# --- observations ----------------------------------------------------------------------------------------------------


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


# --- actions ---------------------------------------------------------------------------------------------------------


def test_the_executed_action_and_the_reason_are_stored(tmp_path):
    backend = make_safe_backend(arm(axes="xyz"), workspace=WorkspaceConfig(high=(0.5, 0.4, 0.4)))
    actor = Actor(backend, seed=0)
    up = np.array([0, 0, 1], np.float32)
    transitions = [actor.take_step(lambda _: ActionChoice(up, Source.POLICY)) for _ in range(8)]
    changed = [step for step in transitions if step.verdict.changed]
    assert changed
    for step in changed:
        assert step.verdict.reasons[0] == "workspace"
        np.testing.assert_array_equal(step.proposed_action, up)
        assert step.executed_action[2] < 1
    assert transitions[-1].next_observation["state"][16] < 0.41
    ring = ReplayRing(20, backend.spec)
    ring.append(transitions)
    np.testing.assert_array_equal(
        ring._columns.action[: len(transitions)], [step.executed_action for step in transitions]
    )
    with EpisodeStore.create(tmp_path / "data", backend.spec) as store:
        store.append_episode(transitions)
    read = EpisodeStore.open(tmp_path / "data").episode(0)
    assert [step.verdict for step in read] == [step.verdict for step in transitions]
    assert read[0].verdict == Verdict(), "nothing is said of a step that passed"


def test_an_action_that_is_not_finite_holds_still_and_truncates():
    backend = make_safe_backend(arm())
    before = backend.reset(0).observation["state"][14:17]
    step = backend.step(np.array([np.nan, 0, 0, 0], np.float32))
    assert step.truncated
    assert not step.terminated
    assert step.verdict.reasons == ("action_not_finite",)
    np.testing.assert_array_equal(step.executed_action[:3], 0)
    np.testing.assert_allclose(step.observation["state"][14:17], before, atol=2e-3)
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        backend.step(np.zeros(4, np.float32))


def test_an_episode_that_begins_with_no_action_leaves_the_gripper_where_it_is():
    inner = arm()
    backend = make_safe_backend(inner)
    begun = backend.reset(0)
    opening = begun.observation["state"][inner.spec.observation["state"].names.index("gripper_opening")]
    assert opening > 0.9
    step = backend.step(np.full(4, np.nan, np.float32))
    np.testing.assert_allclose(step.executed_action, [0, 0, 0, 1 - 2 * opening], atol=1e-6)
    backend.reset(0)
    backend.step(np.array([0, 0, 0, 0.75], np.float32))
    np.testing.assert_array_equal(backend.step(np.full(4, np.nan, np.float32)).executed_action, [0, 0, 0, 0.75])


def test_a_wrong_action_is_refused_by_name():
    backend = make_safe_backend(arm())
    backend.reset(0)
    with pytest.raises(SpecError, match=r"action: expected a float32 array of shape \(4,\)"):
        backend.step(np.zeros(3, np.float32))
    with pytest.raises(SpecError, match=r"action: expected values in \[-1.0, 1.0\], got 1.5"):
        backend.step(np.full(4, 1.5, np.float32))


def test_violations_in_a_row_truncate_the_episode():
    backend = make_safe_backend(arm(axes="xyz"), workspace=WorkspaceConfig(high=(0.5, 0.4, 0.36)), violation_budget=4)
    step = backend.reset(0)
    count = 0
    while not step.ended:
        step = backend.step(np.array([0, 0, 1], np.float32))
        count += 1
    assert step.truncated
    assert step.verdict.reasons[-1] == "violation_budget"
    assert count < 12


def test_what_pushes_against_the_box_brakes_before_it_and_comes_back_where_it_slipped_out():
    """Full actions held for 15 steps: 29 mm outside, and there in 44 % of them, by a look at one step."""
    box = {"low": (0.30, -0.32, 0.07), "high": (0.70, 0.32, 0.54)}
    backend = make_safe_backend(arm(axes="xyz"), workspace=WorkspaceConfig(**box), violation_budget=0)
    rng, outside = np.random.default_rng(0), []
    for seed in range(3):
        step = backend.reset(seed)
        for number in range(60):
            if number % 15 == 0:
                held = rng.choice([-1.0, 1.0], 3).astype(np.float32)
            if step.ended:
                step = backend.reset(seed)
            step = backend.step(held)
            place = step.observation["state"][14:17]
            outside.append(max(0.0, *(box["low"] - place), *(place - box["high"])))
    assert max(outside) < 0.015
    assert np.mean(np.array(outside) > 0.002) < 0.2


def test_a_collision_truncates_the_episode():
    """Pressed onto the table with a low limit: slowed, then stopped; the last step is a true one."""
    low = (0.25, -0.4, -0.05)  # else the arm brakes before it presses
    backend = make_safe_backend(
        arm(task="pick_cube", workspace_low=low), contact=ContactConfig(force=25.0), workspace=WorkspaceConfig(low=low)
    )
    step = backend.reset(0)
    reasons = []
    while not step.ended:
        step = backend.step(np.array([0.3, -0.7, -1, 1], np.float32))
        reasons += step.verdict.reasons
    assert step.truncated
    assert reasons[-1] == "contact_stop"
    backend.spec.check_observation(step.observation)


def test_a_robot_that_a_person_has_stopped_is_told_so_once(tmp_path):
    """Told again and again to stay where it is measured, an arm under a load would sink."""
    file = tmp_path / "emergency_stop"
    inner = ScriptedBackend(SPEC, steps(6))
    actor = Actor(make_safe_backend(inner, emergency_stop=EmergencyStopConfig(file=str(file))), seed=0)

    def take_step() -> None:
        actor.take_step(lambda _: ActionChoice(ACTION, Source.POLICY))

    for stops in (1, 2):
        take_step()
        EmergencyStop(file).press("a test")
        for _ in range(5):
            with pytest.raises(SafetyStop, match="a test"):
                take_step()
            assert len(inner.stops) == stops
        EmergencyStop(file).rearm()


# --- what stays as it was --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=sorted(TASKS))
def task(request) -> Iterator[str]:
    return request.param


LONGEST_WALK = 60
"""Steps of an arm at random, which lead to the edge of its box sooner or later, where the filters have to intervene."""


def test_experts_and_explorers_are_left_alone(task):
    """With safety on, a task is numerically what it is without: nothing intervenes in normal operation."""
    plain, safe = make_backend(task), make_safe_backend(make_backend(task))
    rng = np.random.default_rng(0)
    for seed in range(4):
        one, other = plain.reset(seed), safe.reset(seed)
        experts = [plain.expert(seed), safe.expert(seed)]
        for expert in experts:
            expert.reset()
        exploring, steps = seed == 3, 0
        while not one.ended:
            steps += 1
            if exploring and steps > LONGEST_WALK and task != "drive":
                break
            if exploring:
                action = rng.uniform(-1, 1, plain.spec.action.shape).astype(np.float32)
            else:
                action = experts[0].act(one.observation)
                np.testing.assert_array_equal(action, experts[1].act(other.observation))
            one, other = plain.step(action), safe.step(action)
            assert other.verdict == Verdict()
            assert other.executed_action is None
            for key in one.observation:
                np.testing.assert_array_equal(one.observation[key], other.observation[key])
        assert one.ended == other.ended
        assert one.success == other.success == (not exploring)


def test_safety_can_be_given_to_an_environment_that_tells_nothing_of_its_robot():
    from robo_rl.sim.gymnasium_config import make_gymnasium_backend

    backend = make_safe_backend(make_gymnasium_backend(env_id="Pendulum-v1"))
    backend.reset(0)
    assert backend.step(np.zeros(1, np.float32)).verdict == Verdict()
    assert backend.step(np.full(1, np.nan, np.float32)).truncated
    backend.close()


def test_the_world_is_told_and_restored_where_the_backend_can():
    robot = make_safe_backend(ScriptedBackend(make_backend("reach").spec, []))  # type: ignore[arg-type]
    assert robot.world() is None
    with pytest.raises(CheckpointError, match="the world of task 'reach' cannot be restored"):
        robot.restore({})
    car = make_safe_backend(make_backend("drive", autonomous=True))
    car.reset(0)
    car.step(np.array([0.5, 1], np.float32))
    first = car.reset()
    world = car.world()
    after = car.step(np.array([-0.5, 1], np.float32))
    np.testing.assert_array_equal(car.restore(world).observation["state"], first.observation["state"])
    again = car.step(np.array([-0.5, 1], np.float32))
    np.testing.assert_array_equal(again.observation["state"], after.observation["state"])
    car.stop("test")
    with pytest.raises(RuntimeError, match=r"call reset\(\)"):
        car.step(np.zeros(2, np.float32))


# --- configuration ---------------------------------------------------------------------------------------------------


class NeverUp:
    """A filter of a user's own."""

    def __init__(self, spec: EnvSpec, robot: object, limit: float) -> None:
        self._axis, self._limit = spec.action.names.index("z"), limit

    def reset(self) -> None: ...

    def __call__(self, observation, action, now_ns):
        if action[self._axis] <= self._limit:
            return action, Verdict()
        changed = action.copy()
        changed[self._axis] = self._limit
        return changed, Verdict(changed=True, reasons=("never_up",))


def test_a_filter_of_ones_own(monkeypatch):
    import sys
    import types

    monkeypatch.setitem(sys.modules, "my_safety", types.SimpleNamespace(NeverUp=NeverUp))
    backend = make_safe_backend(arm(), filters=[{"target": "my_safety.NeverUp", "limit": 0.25}])
    backend.reset(0)
    step = backend.step(np.array([0, 0, 1, 0], np.float32))
    np.testing.assert_array_equal(step.executed_action, [0, 0, 0.25, 0])
    assert step.verdict.reasons == ("never_up",)
    with pytest.raises(ConfigError, match=r"safety\.filters: 'my_safety.Absent' cannot be imported"):
        make_safe_backend(arm(), filters=[{"target": "my_safety.Absent"}])
    with pytest.raises(
        ConfigError, match=r"'my_safety.NeverUp' cannot be made: .* unexpected keyword argument 'limits'"
    ):
        make_safe_backend(arm(), filters=[{"target": "my_safety.NeverUp", "limits": 0.25}])
    with pytest.raises(ConfigError, match="expected mappings with the key target"):
        make_safe_backend(arm(), filters=[{"limit": 1}])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (lambda: WorkspaceConfig(low=(0.0, 0.0)), "safety.workspace.low must be null or 3 values"),
        (lambda: WorkspaceConfig(low=(1, 1, 1), high=(0, 2, 2)), "safety.workspace.low must be below"),
        (lambda: WorkspaceConfig(cone_axis=(0.0, 0.0, 0.0)), "safety.workspace.cone_axis must be a direction"),
        (lambda: JointsConfig(velocity=(-1.0,)), "safety.joints.velocity must be null or values above 0"),
        (lambda: ContactConfig(slow_from=1.0), r"safety.contact.slow_from must be in \(0, 1\)"),
        (lambda: ObservationsConfig(max_age=0.0), r"safety.observations.max_age must be null or in \(0, 604800\]"),
        (lambda: ObservationsConfig(frozen_images=1), "safety.observations.frozen_images must be 0, or 2 or more"),
        (lambda: make_safe_backend(arm(), joints=JointsConfig(velocity=(1.0,))), "safety.joints.velocity must be 7"),
        (lambda: make_safe_backend(arm(), joints=JointsConfig(margin=2.0)), "less than half of every joint's range"),
    ],
)
def test_wrong_limits_are_named(config, message):
    with pytest.raises(ConfigError, match=message):
        config()
