"""A specification that is watched: stopped once it is broken for good, held still near to it; and as a reward."""

import numpy as np
import pytest

from robo_rl.core import ConfigError, ObservationSignals
from robo_rl.rewards.modules.specification import SpecificationConfig as SpecificationRewardConfig
from robo_rl.safety import make_safe_backend
from robo_rl.safety.compose import make_filter_chain
from robo_rl.safety.config import SafetyConfig, SpecificationConfig
from robo_rl.sim import make_backend

DOWN = np.array([0, 0, -1, 1], np.float32)


def named(spec, observation) -> dict[str, float]:
    return {name: float(value) for key in spec for name, value in zip(spec[key].names, observation[key], strict=True)}


def test_signals_are_elements_and_magnitudes_with_units():
    backend = make_backend("pick_cube")
    signals = ObservationSignals(backend.spec)
    step = backend.reset(0)
    values = named(backend.spec.observation, step.observation)
    for name, unit in (
        ("force", "N"), ("torque", "Nm"), ("speed", "m/s"), ("end_effector_z", "m"), ("end_effector_vz", "m/s"),
        ("end_effector_wx", "rad/s"), ("wrist_force_x", "N"), ("wrist_torque_y", "Nm"), ("joint3_position", "rad"),
        ("joint3_velocity", "rad/s"), ("gripper_opening", None), ("cube_z", None), ("end_effector_r11", None),
    ):  # fmt: skip
        assert signals.units[name] == unit, name
        if name in values:
            assert signals.values(name, step.observation) == values[name]
    force = np.linalg.norm([values[f"wrist_force_{axis}"] for axis in "xyz"])
    assert signals.values("force", step.observation) == pytest.approx(force)
    rows = {key: np.stack([value, 2 * value]) for key, value in step.observation.items()}
    np.testing.assert_allclose(signals.values("force", rows), [force, 2 * force], rtol=1e-6)


def test_a_run_of_the_arm_stops_when_the_specification_cannot_be_kept_any_more():
    # Down it goes, below 12 cm, where it must not be.
    backend = make_safe_backend(
        make_backend("pick_cube"), specification=SpecificationConfig("always end_effector_z > 12 cm")
    )
    step, heights = backend.reset(0), []
    while not step.ended:
        heights.append(named(backend.spec.observation, step.observation)["end_effector_z"])
        step = backend.step(DOWN)
    assert min(heights[:-1]) > 0.12 > heights[-1]
    assert step.truncated
    assert step.verdict.stop
    assert step.verdict.reasons[0] == "specification"
    assert "'always end_effector_z > 12 cm' is broken, by 0." in step.verdict.message


def test_a_goal_that_is_not_reached_in_time_stops_the_episode():
    backend = make_safe_backend(
        make_backend("pick_cube"), specification=SpecificationConfig("eventually[0, 1 s] cube_z > 0.05")
    )
    step, steps = backend.reset(0), 0
    while not step.ended:
        step = backend.step(np.array([0, 0, 0, -1], np.float32))
        steps += 1
    assert steps == 11, "the eleventh sample is the last within 1 s"
    assert step.verdict.reasons[0] == "specification"


def test_near_the_edge_the_arm_holds_still():
    backend = make_safe_backend(
        make_backend("pick_cube"), specification=SpecificationConfig("always end_effector_z > 8 cm", backup=0.06)
    )
    step = backend.reset(0)
    for _ in range(20):
        step = backend.step(DOWN)
        assert not step.ended
    assert step.verdict.changed
    assert "specification_backup" in step.verdict.reasons
    assert named(backend.spec.observation, step.observation)["end_effector_z"] > 0.08
    np.testing.assert_allclose(step.executed_action, [0, 0, 0, 1], atol=1e-6)


def test_a_new_episode_begins_anew():
    backend = make_backend("pick_cube")
    config = SafetyConfig(specification=SpecificationConfig("always end_effector_z > 17 cm"))
    chain = make_filter_chain(backend.spec, backend.robot, config)
    step = backend.reset(0)
    low = {key: value.copy() for key, value in step.observation.items()}
    low["state"][backend.spec.observation["state"].names.index("end_effector_z")] = 0.1
    still = np.array([0, 0, 0, -1], np.float32)
    assert chain(low, still, 0)[1].stop
    assert chain(step.observation, still, 0)[1].stop, "always is over"
    chain.reset()
    assert not chain(step.observation, still, 0)[1].stop


def test_environments_without_a_description_are_watched_too():
    car = make_backend("drive")
    config = SafetyConfig(specification=SpecificationConfig("always velocity_x < 1 m/s"))
    chain = make_filter_chain(car.spec, None, config)
    observation = car.reset(0).observation
    action = np.array([0, 1], np.float32)
    assert not chain(observation, action, 0)[1].stop
    observation["state"][car.spec.observation["state"].names.index("velocity_x")] = 2.0
    executed, verdict = chain(observation, action, 0)
    assert verdict.stop
    np.testing.assert_array_equal(executed, [0, 0])


@pytest.mark.parametrize(
    ("formula", "message"),
    [("always forse < 30", "did you mean 'force'"), ("always force < 3 m", r"'force' \[N\] and a number \[m\]")],
)
def test_what_does_not_fit_the_robot_is_refused_at_once(formula, message):
    for make in (
        lambda: make_safe_backend(make_backend("reach"), specification=SpecificationConfig(formula)),
        lambda: SpecificationRewardConfig(formula).make("kept", make_backend("reach").spec, 0),
    ):
        with pytest.raises(ConfigError, match=message):
            make()
    with pytest.raises(ConfigError, match=r"safety\.specification\.backup must be null or above 0"):
        SpecificationConfig(backup=0.0)


def test_the_reward_is_the_robustness_of_the_whole_episode():
    backend = make_backend("pick_cube")
    formula = "always (end_effector_z > 5 mm) and eventually[0, 2 s] grasped"
    module = SpecificationRewardConfig(formula).make("kept", backend.spec, 0)

    def episode(act) -> tuple[dict[str, np.ndarray], float]:
        steps = [backend.reset(0)]
        while not steps[-1].ended:
            steps.append(backend.step(act(steps[-1].observation)))
        batch = {
            f"{prefix}/{key}": np.stack([step.observation[key] for step in part])
            for prefix, part in (("observation", steps[:-1]), ("next_observation", steps[1:]))
            for key in backend.spec.observation
        }
        batch["action"] = np.zeros((len(steps) - 1, 4), np.float32)
        for term in backend.spec.reward_terms:
            batch[f"term/{term}"] = np.array([step.rewards[term] for step in steps[1:]], np.float32)
        heights = [named(backend.spec.observation, step.observation)["end_effector_z"] for step in steps]
        grasped = max(step.rewards["grasped"] for step in steps[:21])
        return batch, min(min(heights) - 0.005, grasped - 0.5)

    expert = backend.expert(0)
    for act, sign in ((expert.act, 1), (lambda _: np.array([0, 0, 0, -1], np.float32), -1)):
        batch, expected = episode(act)
        rewards = module(batch)
        assert not rewards[:-1].any()
        assert rewards[-1] == pytest.approx(np.clip(expected / 0.5, -1, 1), abs=1e-6)
        assert np.sign(rewards[-1]) == sign
